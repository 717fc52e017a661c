"""Building and verifying graph ops."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects import test
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, SSAValue
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError, VerifyException

from byocir.dialects.array import ArrayAttr
from byocir.dialects.context import BASE_DIALECTS, OWN_DIALECTS, load_context
from byocir.dialects.graph import (
    AddOp,
    AveragePoolOp,
    ClipOp,
    ConcatOp,
    ConstantOp,
    ConvOp,
    FixedAttr,
    FloatHalfEvenAttr,
    Graph,
    MatmulOp,
    MaxPoolOp,
    ReduceMeanOp,
    ReluOp,
    RequantizeOp,
    ReshapeOp,
    SoftmaxOp,
    SqueezeOp,
    SumPoolOp,
    TransposeOp,
    UnsqueezeOp,
)
from byocir.dialects.graph.base import broadcast, int_tuple
from byocir.dialects.graph.nn import window_shape
from byocir.dialects.locations import named, names
from byocir.dialects.types import f32, i1, i8, i32, tensor, ui8


def value(element: Attribute, *shape: int) -> SSAValue:
    return test.TestOp(result_types=[tensor(element, shape)]).results[0]


CONV = {"strides": [1, 1], "pads": [1, 1, 1, 1], "dilations": [1, 1], "group": 1}
POOL = {
    "kernel_shape": [2, 2],
    "strides": [2, 2],
    "pads": [0, 0, 0, 0],
    "dilations": [1, 1],
    "ceil_mode": 0,
}


def test_make_infers_and_keeps_the_location() -> None:
    x, w, b = value(i8, 1, 4, 8, 8), value(i8, 6, 4, 3, 3), value(i32, 6)
    conv = ConvOp.make(x, w, b, location=named("conv_1"), **CONV)
    assert conv.result.type == tensor(i32, (1, 6, 8, 8))
    assert names(conv.location) == ("conv_1",)
    assert conv.group == IntegerAttr(1, i64)
    assert conv.strides == DenseArrayBase.from_list(i64, [1, 1])
    assert int_tuple(conv.pads) == (1, 1, 1, 1)
    assert ConvOp.make(x, w, None, **CONV).bias is None
    conv.verify()


def test_make_leaves_no_uses_behind() -> None:
    x = value(f32, 2)
    relu = ReluOp.make(x)
    with pytest.raises(VerifyException):
        SoftmaxOp.make(x, axis=5)
    assert [use.operation for use in x.uses] == [relu]


def test_make_fills_in_defaults() -> None:
    x, m = value(i32, 2), value(i32)
    assert RequantizeOp.make(x, m, rounding=FixedAttr.of(3)).properties["to"] == i8


@pytest.mark.parametrize(
    ("lhs", "rhs", "result"),
    [
        ((2, 3), (3, 4), (2, 4)),
        ((5, 2, 3), (3, 4), (5, 2, 4)),
        ((1, 2, 3), (7, 3, 4), (7, 2, 4)),
        ((3,), (3, 4), (4,)),
        ((3,), (7, 3, 4), (7, 4)),
        ((2, 3), (3,), (2,)),
        ((3,), (3,), ()),
    ],
)
def test_matmul_shapes(lhs: tuple[int, ...], rhs: tuple[int, ...], result: tuple[int, ...]) -> None:
    assert np.matmul(np.ones(lhs), np.ones(rhs)).shape == result
    made = MatmulOp.make(value(i8, *lhs), value(ui8, *rhs))
    assert made.result.type == tensor(i32, result)


def test_window_shape() -> None:
    assert window_shape([8], [3], [2], [1, 1], [1]) == (4,)
    assert window_shape([8], [3], [2], [1, 1], [1], ceil=True) == (5,)
    assert window_shape([8], [2], [1], [0, 0], [3]) == (5,)
    # The third window would start at 6, beyond the 5 elements.
    assert window_shape([5], [1], [3], [0, 0], [1], ceil=True) == (2,)


def test_result_types() -> None:
    x = value(f32, 2, 1, 6)
    image = value(i8, 1, 4, 9, 9)
    made = {
        MaxPoolOp.make(image, **POOL): tensor(i8, (1, 4, 4, 4)),
        SumPoolOp.make(image, **{**POOL, "ceil_mode": 1}): tensor(i32, (1, 4, 5, 5)),
        ReduceMeanOp.make(x, axes=[1, 2], keepdims=0): tensor(f32, (2,)),
        ReduceMeanOp.make(x, axes=[2], keepdims=1): tensor(f32, (2, 1, 1)),
        ReshapeOp.make(x, shape=[12]): tensor(f32, (12,)),
        SqueezeOp.make(x, axes=[1]): tensor(f32, (2, 6)),
        UnsqueezeOp.make(x, axes=[0, 4]): tensor(f32, (1, 2, 1, 6, 1)),
        TransposeOp.make(x, perm=[2, 0, 1]): tensor(f32, (6, 2, 1)),
        ConcatOp.make(x, x, axis=1): tensor(f32, (2, 2, 6)),
        AddOp.make(x, value(f32, 5, 1)): tensor(f32, (2, 5, 6)),
        ClipOp.make(x, max=ArrayAttr.of(np.array(6, np.float32))): x.type,
    }
    for op, type_ in made.items():
        assert op.results[0].type == type_
        op.verify()


def test_wrong_result_type() -> None:
    x = value(f32, 2)
    relu = ReluOp.create(operands=[x], result_types=[tensor(f32, (3,))])
    with pytest.raises(VerifyException, match="expected result type tensor<2xf32> to match"):
        relu.verify()


def test_verifier_messages() -> None:
    image = value(f32, 1, 4, 9, 9)
    with pytest.raises(VerifyException, match="expected count_include_pad 0 or 1, found 2"):
        AveragePoolOp.make(image, **POOL, count_include_pad=2)
    with pytest.raises(VerifyException, match="expected a floating-point or 8-bit input"):
        MaxPoolOp.make(value(i32, 1, 4, 9, 9), **POOL)
    with pytest.raises(VerifyException, match="expected operands of numbers, found i1"):
        AddOp.make(value(i1, 2), value(i1, 2))
    with pytest.raises(VerifyException, match="expected at least one input, found none"):
        ConcatOp.make(axis=0)
    with pytest.raises(VerifyException, match="expected rising axes from 0 to 3, found \\[\\]"):
        ReduceMeanOp.make(image, axes=[], keepdims=1)
    with pytest.raises(VerifyException, match="expected an input of 8-bit or 32-bit, found f32"):
        RequantizeOp.make(image, value(i32), rounding=FixedAttr.of(1))


def test_broadcast() -> None:
    assert broadcast((2, 1), (3,)) == (2, 3)
    assert broadcast((0,), (1,)) == (0,)
    assert broadcast() == ()
    with pytest.raises(VerifyException, match="found 2 and 3"):
        broadcast((2,), (3,))


def test_fixed() -> None:
    attribute = FixedAttr.of(23, "half_even")
    assert str(attribute) == "#graph.fixed<shift = 23, half_even>"
    assert Parser(load_context(), str(attribute)).parse_attribute() == attribute
    assert str(FloatHalfEvenAttr()) == "#graph.float_half_even"


def test_equal_constants_are_equal_attributes() -> None:
    a, b = ConstantOp.of(np.arange(99)), ConstantOp.of(np.arange(99))
    assert a.value == b.value
    assert a.value != ConstantOp.of(np.arange(98)).value
    assert a.result.type == b.value.data.type


def test_context_imports_dialects_on_demand() -> None:
    context = load_context()
    assert set(context.registered_dialect_names) >= {*OWN_DIALECTS, *BASE_DIALECTS}
    assert not list(context.loaded_dialects)
    for name, dialect in OWN_DIALECTS.items():
        assert dialect().name == name
    relu = "%0 = graph.relu %x : (tensor<2xf32>) -> tensor<2xf32>"
    text = f"func.func @f(%x: tensor<2xf32>) {{ {relu} func.return }}"
    function = Parser(context, text).parse_module().body.block.first_op
    assert isinstance(function, FuncOp)
    assert isinstance(function.body.block.first_op, ReluOp)


def test_every_op_documents_itself() -> None:
    for op in Graph.operations:
        assert op.__doc__
        assert op.name in op.__doc__


def test_constant_parse_error() -> None:
    with pytest.raises(ParseError, match="expected an array"):
        Parser(load_context(), "%0 = graph.constant 3 : i32").parse_module()
