"""Quantised layers whose results stay floats: fix-point makes dequantised sums of integers."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from quantized_layers import Layer
from rewrite_nets import Net, evaluate, located, op_names, run_passes
from xdsl.dialects.builtin import ModuleOp

from byocir.dialects.graph import AddOp, ConvOp, MatmulOp
from byocir.dialects.text import parse_module, print_module
from byocir.dialects.types import element_type_of, i32
from byocir.rewrites.fix_point import FixPointPass


def layer(draw: Layer, x: np.ndarray, zero: int, bias: str) -> ModuleOp:
    """A convolution of an image, a product of a matrix with weights; a bias is on the grid of the
    sums, or a float."""
    net, outputs = Net(x), 4
    is_conv = x.ndim == 4
    shape = (outputs, x.shape[1], 3, 3) if is_conv else (x.shape[1], outputs)
    axis = 0 if is_conv else 1
    values, scale = draw.weight(shape, axis)
    given, weight = net.dequantize(net.arguments[0], 0.05, zero), net.constant(values, np.int8)
    weight = net.dequantize(weight, scale, axis=axis if scale.ndim else 1)
    added = []
    if bias == "float":
        added = [net.constant(draw.random.normal(size=outputs), np.float32)]
    elif bias:
        integers = net.constant(draw.random.integers(-999, 999, outputs), np.int32)
        sums = np.float32(0.05) * scale
        added = [net.dequantize(integers, sums, axis=0 if scale.ndim else 1, of=np.int32)]
    if is_conv:
        window = {"pads": [1] * 4, "strides": [1, 1], "dilations": [1, 1], "group": 1}
        return net.returning(net.add(ConvOp.make(given, weight, *added, **window)))
    product = net.add(MatmulOp.make(given, weight))
    return net.returning(net.add(AddOp.make(product, *added)) if added else product)


@given(
    st.builds(Layer, st.integers(0, 2**32 - 1), per_channel=st.booleans()),
    st.sampled_from([(1, 3, 5, 4), (6, 8)]),
    st.sampled_from([0, -128, 17]),
    st.sampled_from(["", "i32", "float"]),
)
def test_sums_are_the_floats_without_what_floats_round(draw, shape, zero, bias):
    x = draw.data(shape)
    module = layer(draw, x, zero, bias)
    fixed = run_passes(module, FixPointPass(sums=True))
    made = [op for op in fixed.walk() if isinstance(op, ConvOp | MatmulOp)]
    assert [element_type_of(op.results[0].type) for op in made] == [i32]
    assert located(fixed) == located(module)
    (found,), (expected,) = evaluate(fixed, x), evaluate(module, x)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("kind", ["a machine that stores bytes", "computed weights"])
def test_floats_stay_where_no_sums_are_stored_or_zero_points_not_known(kind):
    x = np.zeros((6, 8), np.int8)
    if kind == "a machine that stores bytes":
        module, pass_ = layer(Layer(0), x, 0, "i32"), FixPointPass()
    else:
        net = Net(x, x.T.copy())
        factors = [net.dequantize(each, 0.05, 3) for each in net.arguments]
        module, pass_ = net.returning(net.add(MatmulOp.make(*factors))), FixPointPass(sums=True)
    assert op_names(run_passes(module, pass_)) == op_names(module)


def test_floats_stay_where_the_numbers_of_a_bias_were_not_supplied():
    """As in modules that hold shapes alone."""
    text = print_module(layer(Layer(0), np.zeros((1, 3, 5, 4), np.int8), 0, "float"))
    bias = next(
        line for line in text.splitlines() if "constant" in line and "tensor<4xf32>" in line
    )
    absent = re.sub(r"\[[^]]*\]", f'"{"0" * 32}"', bias)
    module = parse_module(text.replace(bias, absent))
    assert op_names(run_passes(module, FixPointPass(sums=True))) == op_names(module)
