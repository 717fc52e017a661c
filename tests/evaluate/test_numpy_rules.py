"""Our own rules for graph ops agree with the ONNX forms that the table gives, and with the plain
definition where there is none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects import test
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Region

from byocir.dialects.array import Array
from byocir.dialects.context import load_context
from byocir.dialects.graph import (
    AddOp,
    AveragePoolOp,
    ConstantOp,
    ConvOp,
    FixedAttr,
    FloatHalfEvenAttr,
    GatherNdOp,
    GlobalAveragePoolOp,
    Graph,
    GraphOp,
    MatmulOp,
    MaxPoolOp,
    QuantizeOp,
    ReduceMeanOp,
    ReluOp,
    RequantizeOp,
    ReshapeOp,
    ResizeOp,
    SumPoolOp,
)
from byocir.dialects.graph.base import is_defined
from byocir.dialects.graph.fixed_point import rescale
from byocir.dialects.graph.foreign import ForeignOp, YieldOp
from byocir.dialects.graph.resize import numbers
from byocir.dialects.types import element_of, i8, i32, tensor, ui8
from byocir.errors import ByocirError
from byocir.evaluate.graph_ops import evaluate_graph_op
from byocir.evaluate.module import evaluate_function
from byocir.evaluate.numpy_rules import NUMPY_RULES
from byocir.frontend.onnx import export_onnx
from byocir.frontend.onnx.reference import Reference
from byocir.rewrites.pipeline import run_passes

seeds = st.integers(0, 2**32 - 1)
Constants = dict[int, np.ndarray]


def function_of(
    kind: type[GraphOp],
    operands: Sequence[np.ndarray],
    constant: Sequence[int] = (),
    **properties: Any,
) -> FuncOp:
    """A function of one op; the operands with these indices are constants in it."""
    types = [
        tensor(element_of(array.dtype), array.shape)
        for index, array in enumerate(operands)
        if index not in constant
    ]
    block = Block(arg_types=types)
    arguments = iter(block.args)
    values = []
    for index, array in enumerate(operands):
        if index in constant:
            block.add_op(made := ConstantOp.of(array))
            values.append(made.result)
        else:
            values.append(next(arguments))
    op = kind.make(*values, **properties)
    block.add_ops([op, ReturnOp(op.results[0])])
    return FuncOp("main", (types, [op.results[0].type]), Region(block))


def results(
    kind: type[GraphOp],
    operands: Sequence[np.ndarray],
    constant: Sequence[int] = (),
    reference: bool = True,
    **properties: Any,
) -> np.ndarray:
    """The op's result by our evaluator, which its ONNX form must equal in ONNX Runtime and, if
    `reference`, in onnx's reference."""
    function = function_of(kind, operands, constant, **properties)
    model = export_onnx(function)
    onnx.checker.check_model(model, full_check=True)
    fed = [array for index, array in enumerate(operands) if index not in constant]
    (found,) = evaluate_function(ModuleOp([function]), "main", fed)
    feeds = dict(zip((value.name for value in model.graph.input), fed, strict=True))
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    forms = [session.run(None, feeds)[0]]
    if reference:
        forms.append(Reference(model).run(feeds)[0])
    for form in forms:
        assert form.dtype == found.dtype
        np.testing.assert_array_equal(form, found)
    return found


def accumulators(seed: int, *shape: int) -> np.ndarray:
    """int32 of all sizes, the extremes and halves of powers of two among them."""
    rng = np.random.default_rng(seed)
    size = rng.integers(0, 32, shape)
    values = rng.integers(-(2**31), 2**31, shape) >> size
    special = rng.choice([-(2**31), 2**31 - 1, 0, 4, -4, 12, -12, 2**22], shape)
    return np.where(rng.random(shape) < 0.3, special, values).astype(np.int32)


# -- requantize


@given(
    seeds,
    st.sampled_from([(), (1,), (3, 1, 1), (4, 5), (1, 3, 4, 5)]),
    st.sampled_from([(), (3, 1, 1)]),
    st.sampled_from([i8, ui8]),
)
def test_requantize_as_onnx(
    seed: int, before: tuple[int, ...], after: tuple[int, ...], to: Attribute
) -> None:
    rng = np.random.default_rng(seed)
    x = accumulators(seed, 1, 3, 4, 5)
    scales = [
        np.asarray(rng.choice([0.5, 0.25, 0.0123, 1e-4], shape), np.float32)
        for shape in (before, after)
    ]
    # onnx's reference does not saturate beyond int32.
    properties = {"rounding": FloatHalfEvenAttr(), "to": to}
    results(RequantizeOp, [x, *scales], (1, 2), reference=False, **properties)


def test_requantize_with_computed_scales() -> None:
    x, scale = accumulators(0, 2, 3), np.array([0.5, 0.25, 1.0], np.float32)
    results(RequantizeOp, [x, scale, scale], rounding=FloatHalfEvenAttr())


@given(
    seeds,
    st.sampled_from([(), (3, 1, 1), (4, 5)]),
    st.integers(0, 40),
    st.sampled_from(["floor", "half_up", "half_even"]),
    st.sampled_from([i8, ui8, i32]),
)
def test_fixed_is_exact(
    seed: int, shape: tuple[int, ...], shift: int, ties: Any, to: Attribute
) -> None:
    rng = np.random.default_rng(seed)
    x = accumulators(seed, 1, 3, 4, 5)
    multiplier = np.asarray(rng.integers(0, 2**31, shape) >> rng.integers(0, 31), np.int32)
    rounding = FixedAttr.of(shift, ties)
    found = results(RequantizeOp, [x, multiplier], (1,), rounding=rounding, to=to)
    low, high = np.iinfo(found.dtype).min, np.iinfo(found.dtype).max
    pairs = zip(x.flat, np.broadcast_to(multiplier, x.shape).flat, strict=True)
    exact = [min(max(rescale(int(a), int(m), shift, ties), low), high) for a, m in pairs]
    assert found.ravel().tolist() == exact


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16])
def test_quantize_saturates(dtype: Any) -> None:
    """Also what overflows; NaN is the least number, as ONNX Runtime has it."""
    x = np.array([1e38, -1e38, np.inf, -np.inf, np.nan, 3e9, -3e9, 0.25, 0.75], np.float32)
    operands = [x, np.array(1e-2, np.float32), np.array(3, dtype)]
    results(QuantizeOp, operands, (1, 2), reference=False, axis=1)


def test_fixed_rescales_bytes() -> None:
    x = np.arange(-128, 128, dtype=np.int8)
    multiplier = np.array(5000, np.int32)
    found = results(RequantizeOp, [x, multiplier], (1,), rounding=FixedAttr.of(0), to=i32)
    np.testing.assert_array_equal(found, x.astype(np.int32) * 5000)


# -- contractions and windows


@given(st.data(), seeds, st.integers(1, 3), st.integers(1, 2), st.booleans())
def test_integer_conv(
    data: st.DataObject, seed: int, group: int, per_group: int, biased: bool
) -> None:
    rng = np.random.default_rng(seed)
    kernel = data.draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    x = rng.integers(-128, 128, (2, group * per_group, 7, 6)).astype(np.int8)
    w = rng.integers(-128, 128, (group * 2, per_group, *kernel)).astype(np.int8)
    operands = [x, w]
    if biased:
        operands.append(accumulators(seed, group * 2))
    window: dict[str, Any] = {
        "strides": data.draw(st.tuples(st.integers(1, 3), st.integers(1, 3))),
        "pads": data.draw(st.tuples(*[st.integers(0, 2)] * 4)),
        "dilations": data.draw(st.tuples(st.integers(1, 2), st.integers(1, 2))),
    }
    results(ConvOp, operands, group=group, **window)


@pytest.mark.parametrize("dilation", [1, 3])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_no_tap_touches_does_not_spread(dilation: int, bad: float) -> None:
    """A dilated kernel is no dense one with zeros between its taps."""
    x = np.arange(1, 13, dtype=np.float32).reshape(1, 1, 12)
    x[0, 0, 5] = bad
    operands = [x, np.array([[[2, 1]]], np.float32)]
    window = {"strides": [1], "pads": [0, 0], "dilations": [dilation]}
    function = function_of(ConvOp, operands, (), group=1, **window)
    (found,) = evaluate_function(ModuleOp([function]), "main", operands)
    np.testing.assert_array_equal(found[0, 0], 2 * x[0, 0, :-dilation] + x[0, 0, dilation:])


@pytest.mark.parametrize("count", [2, 0])
def test_gather_nd_in_batches_and_in_none(count: int) -> None:
    """onnx's reference cannot tell the sizes of nothing."""
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)[:count]
    indices = np.array([[[0], [-1], [2]], [[1], [1], [0]]])[:count]
    rows, pairs = np.zeros((count, 3, 4), np.float32), np.zeros((count, 3), np.float32)
    for i, j in np.ndindex(count, 3):
        rows[i, j], pairs[i, j] = x[i, indices[i, j, 0]], x[i, j, indices[i, j, 0]]
    for batch, expected in [(1, rows), (2, pairs)]:
        function = function_of(GatherNdOp, [x, indices], (), batch_dims=batch)
        (found,) = evaluate_function(ModuleOp([function]), "main", [x, indices])
        np.testing.assert_array_equal(found, expected)


def test_the_nearest_of_a_part_is_copied() -> None:
    """Whatever it is; onnx's reference multiplies its neighbours by 0."""
    x = np.array([[1, np.nan, 3, np.inf]], np.float32)
    properties = {
        "sizes": [1, 4],
        "roi": numbers([0, 0.5, 1, 1.5]),
        "mode": "nearest",
        "coordinate_transformation_mode": "tf_crop_and_resize",
        "nearest_mode": "floor",
        "cubic_coeff_a": -0.75,
        "exclude_outside": 0,
        "extrapolation_value": 7.0,
        "antialias": 0,
    }
    function = function_of(ResizeOp, [x], (), **properties)
    (found,) = evaluate_function(ModuleOp([function]), "main", [x])
    np.testing.assert_array_equal(found, np.array([[np.nan, 3, 7, 7]], np.float32))


@pytest.mark.parametrize("passes", ["", "convert-graph-to-tir"])
def test_elements_that_weigh_nothing_do_not_spread(passes: str) -> None:
    """Every second element of seven, as the rule takes them and as the definition does."""
    x = np.array([[1, np.inf, 3, np.nan, 5, -np.inf, 7]], np.float32)
    properties = {
        "sizes": [1, 4],
        "mode": "cubic",
        "coordinate_transformation_mode": "align_corners",
        "nearest_mode": "floor",
        "cubic_coeff_a": -0.75,
        "exclude_outside": 0,
        "extrapolation_value": 0.0,
        "antialias": 0,
    }
    module = ModuleOp([function_of(ResizeOp, [x], (), **properties)])
    run_passes(module, load_context(), passes)
    (found,) = evaluate_function(module, "main", [x])
    np.testing.assert_array_equal(found, x[:, ::2])


@pytest.mark.parametrize("sizes", [(0, 2, 3), (1, 0, 3), (1, 2, 0)])
def test_integer_conv_of_nothing(sizes: tuple[int, int, int]) -> None:
    """No images, no channels to sum over, none to compute."""
    images, channels, out = sizes
    x, w = np.ones((images, channels, 4), np.int8), np.ones((out, channels, 2), np.int8)
    window = {"strides": [1], "pads": [0, 0], "dilations": [1]}
    operands = [x, w, np.full(out, 7, np.int32)]
    # Not held against ONNX Runtime, which leaves memory unwritten where there is nothing to sum.
    function = function_of(ConvOp, operands, (), group=1, **window)
    (found,) = evaluate_function(ModuleOp([function]), "main", operands)
    np.testing.assert_array_equal(found, np.full((images, out, 3), 7 + 2 * channels))


@pytest.mark.parametrize(
    ("kind", "properties"),
    [(GlobalAveragePoolOp, {}), (ReduceMeanOp, {"axes": [2, 3], "keepdims": 1})],
)
def test_means_add_one_element_after_another(kind: type[GraphOp], properties: Any) -> None:
    """As blocks do; numpy adds in pairs, which rounds elsewhere."""
    x = np.random.default_rng(0).random((2, 8, 9, 9)).astype(np.float32)
    total = np.zeros((2, 8), np.float32)
    for element in x.reshape(2, 8, 81).transpose(2, 0, 1):
        total += element
    function = function_of(kind, [x], (), **properties)
    (found,) = evaluate_function(ModuleOp([function]), "main", [x])
    np.testing.assert_array_equal(found.reshape(2, 8), total / np.float32(81))
    assert not np.array_equal(found, x.mean((2, 3), keepdims=True))


def test_integer_sums_wrap() -> None:
    x = np.full((1, 1, 1, 1), 127, np.int8)
    bias = np.array([2**31 - 1], np.int32)
    window = {"strides": [1, 1], "pads": [0] * 4, "dilations": [1, 1]}
    found = results(ConvOp, [x, x, bias], group=1, **window)
    assert found.item() == 2**31 - 1 + 127 * 127 - 2**32
    assert results(AddOp, [bias, bias]).item() == -2


@pytest.mark.parametrize("shapes", [((2, 3), (3, 4)), ((3,), (3,)), ((2, 1, 2, 3), (5, 3, 4))])
def test_integer_matmul(shapes: Sequence[tuple[int, ...]]) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-128, 128, shape).astype(np.int8) for shape in shapes)
    found = results(MatmulOp, [a, b])
    np.testing.assert_array_equal(found, np.matmul(a.astype(np.int32), b.astype(np.int32)))


@given(st.data(), seeds, st.integers(0, 1), st.booleans())
def test_sum_pool(data: st.DataObject, seed: int, ceil: int, unsigned: bool) -> None:
    rng = np.random.default_rng(seed)
    x = rng.integers(-128, 128, (2, 3, 7, 6)).astype(np.int8)
    kernel = data.draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    properties: dict[str, Any] = {
        "kernel_shape": kernel,
        "strides": data.draw(st.tuples(st.integers(1, 3), st.integers(1, 3))),
        "pads": [data.draw(st.integers(0, k - 1)) for k in kernel * 2],
        "dilations": data.draw(st.tuples(st.integers(1, 2), st.integers(1, 2))),
        "ceil_mode": ceil,
    }
    results(SumPoolOp, [x.view(np.uint8) if unsigned else x], **properties)


POOL = {
    "kernel_shape": [3, 3],
    "strides": [2, 2],
    "pads": [1, 1, 1, 1],
    "dilations": [1, 1],
    "ceil_mode": 0,
}


def test_padding_never_wins_in_max_pool() -> None:
    """onnx's reference cannot pool padded 8-bit integers, so only the definition is checked."""
    x = np.arange(-128, -128 + 25, dtype=np.int8).reshape(1, 1, 5, 5)
    (found,) = evaluate_function(ModuleOp([function_of(MaxPoolOp, [x], **POOL)]), "main", [x])
    padded = np.pad(x[0, 0], 1, constant_values=-128)
    expected = [
        [padded[i : i + 3, j : j + 3].max() for j in range(0, 5, 2)] for i in range(0, 5, 2)
    ]
    assert found[0, 0].tolist() == np.array(expected).tolist()


@pytest.mark.parametrize("include_pad", [0, 1])
def test_average_pool_counts(include_pad: int) -> None:
    x = np.ones((1, 1, 5, 5), np.float32)
    function = function_of(AveragePoolOp, [x], **POOL, count_include_pad=include_pad)
    (found,) = evaluate_function(ModuleOp([function]), "main", [x])
    assert found[0, 0, 0, 0] == np.float32(4 / 9 if include_pad else 1)
    assert found[0, 0, 1, 1] == 1


# -- functions


def test_every_op_has_a_meaning() -> None:
    for op in set(Graph.operations) - {ForeignOp, YieldOp}:
        assert op in NUMPY_RULES or is_defined(op), op.name


def test_the_definition_of_a_repeated_op_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made, define = list[ReluOp](), ReluOp.define
    monkeypatch.setattr(ReluOp, "define", lambda op, emit: (made.append(op), define(op, emit))[1])
    x = np.ones((1, 2, 1, 17, 1), np.float32)  # a shape that no other test has
    for _ in range(2):
        op = function_of(ReluOp, [x]).body.block.first_op
        assert op is not None
        evaluate_graph_op(op, [x])
    assert len(made) == 1


def test_zero_sized_reshape() -> None:
    """A size 0 is not "as in the input" here."""
    x = np.ones((0, 3), np.float32)
    assert results(ReshapeOp, [x], shape=[3, 0]).shape == (3, 0)


def test_absent_constants() -> None:
    constant = ConstantOp.of(Array("00" * 16, np.dtype(np.int8), (64, 64)))
    with pytest.raises(ByocirError) as caught:
        evaluate_graph_op(constant, [])
    assert caught.value.code == "B107"


def test_ops_without_onnx_form() -> None:
    op = test.TestOp(result_types=[tensor(i8, (2,))])
    block = Block()
    block.add_ops([op, ReturnOp(op.results[0])])
    function = FuncOp("main", ((), [op.results[0].type]), Region(block))
    for source in (function, ModuleOp([function])):
        with pytest.raises(ByocirError) as caught:
            export_onnx(source)
        assert caught.value.code == "B109"
        assert "found test.op" in caught.value.message
    with pytest.raises(ByocirError) as caught:
        export_onnx(ModuleOp([]))
    assert "expected one function to export, found 0" in caught.value.message
