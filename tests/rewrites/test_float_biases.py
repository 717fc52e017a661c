"""Biases in float or on grids of their own, and batch norms behind quantised layers: fix-point
makes integers of them that are at most one step apart.
"""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nets.measured import LEVELS, offload, same_results, steps
from pass_checks import run_on
from rewrite_nets import Net, assert_same_bits, evaluate, located, op_names, run_passes
from xdsl.dialects.builtin import ModuleOp

from byocir.dialects.byoc import TrailOp
from byocir.dialects.graph import AddOp, BatchNormOp, ConvOp, ConvTransposeOp, MatmulOp, ReluOp
from byocir.rewrites.fix_point import FixPointPass
from byocir.rewrites.qdq_to_integer import QdqToIntegerPass

OUTPUTS, INPUTS = 4, 3
BIASES = ["float", "byte", "i32"]
X_SCALE, W_SCALE = 0.05, np.array([0.01, 0.02, 0.007, 0.015])


def bias(net: Net, random: np.random.Generator, kind: str, outputs: int = OUTPUTS):
    """A bias of about 1, as floats or on a grid that is not that of the sums."""
    if kind == "float":
        return net.constant(random.normal(size=outputs), np.float32)
    dtype = np.int8 if kind == "byte" else np.int32
    integers = net.constant(random.integers(-90, 90, outputs), dtype)
    return net.dequantize(integers, 0.0123, 7 if kind == "byte" else 0, of=dtype)


def conv(net: Net, random: np.random.Generator, kind: str, per_channel: bool, zero: int):
    """A convolution with a bias, of an image with this zero point."""
    w = random.integers(-127, 128, (OUTPUTS, INPUTS, 3, 3))
    scale = W_SCALE if per_channel else W_SCALE[1]
    window = {"pads": [1] * 4, "strides": [1, 1], "dilations": [1, 1], "group": 1}
    weight = net.dequantize(net.constant(w, np.int8), scale, axis=0 if per_channel else 1)
    given = net.dequantize(net.arguments[0], X_SCALE, zero)
    return net.add(ConvOp.make(given, weight, bias(net, random, kind), **window))


def normalised(net: Net, random: np.random.Generator, value, signs: bool):
    factors = random.normal(size=OUTPUTS) if signs else random.uniform(0.5, 2, OUTPUTS)
    numbers = (factors, *random.normal(size=(2, OUTPUTS)), random.uniform(0.5, 2, OUTPUTS))
    operands = (net.constant(each, np.float32) for each in numbers)
    return net.add(BatchNormOp.make(value, *operands, epsilon=1e-5))


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(BIASES),
    st.sampled_from([None, False, True]),
    st.booleans(),
    st.sampled_from([0, -128, 17]),
)
def test_convolutions_are_within_a_step(seed, kind, norm, per_channel, zero):
    random = np.random.default_rng(seed)
    x = random.integers(-128, 128, (1, INPUTS, 5, 4)).astype(np.int8)
    net = Net(x)
    value = conv(net, random, kind, per_channel, zero)
    if norm is not None:
        value = normalised(net, random, value, signs=norm)
    value = net.add(ReluOp.make(value)) if seed % 2 else value
    module = net.returning(net.quantize(value, 0.25, zero))
    fixed = run_passes(module, FixPointPass())
    assert {"quantize", "dequantize", "batch_norm"}.isdisjoint(op_names(fixed))
    assert located(fixed) == located(module)
    (found,), (expected,) = evaluate(fixed, x), evaluate(module, x)
    assert np.abs(found.astype(int) - expected.astype(int)).max() <= 1
    assert_same_bits(evaluate(run_on(fixed, "convert-graph-to-tir"), x), [found])


@given(st.integers(0, 2**32 - 1), st.sampled_from(BIASES), st.sampled_from([1, 3]))
def test_transposed_convolutions_are_within_a_step(seed, kind, group):
    random = np.random.default_rng(seed)
    x = random.integers(-128, 128, (1, INPUTS, 3, 4)).astype(np.int8)
    net, outputs = Net(x), OUTPUTS if group == 1 else 1
    w = random.integers(-127, 128, (INPUTS, outputs, 2, 2))
    weight = net.dequantize(net.constant(w, np.int8), W_SCALE[:outputs], axis=1)
    given = net.dequantize(net.arguments[0], X_SCALE, 5)
    window = {"pads": [0] * 4, "strides": [2, 2], "dilations": [1, 1], "output_padding": [0, 0]}
    added = bias(net, random, kind, outputs * group)
    value = net.add(ConvTransposeOp.make(given, weight, added, group=group, **window))
    module = net.returning(net.quantize(value, 0.25, -9))
    fixed = run_passes(module, FixPointPass())
    assert {"quantize", "dequantize"}.isdisjoint(op_names(fixed))
    (found,), (expected,) = evaluate(fixed, x), evaluate(module, x)
    assert np.abs(found.astype(int) - expected.astype(int)).max() <= 1


@given(st.integers(0, 2**32 - 1), st.sampled_from(BIASES), st.booleans())
def test_products_are_within_a_step(seed, kind, per_channel):
    random = np.random.default_rng(seed)
    x = random.integers(-128, 128, (2, 5, 8)).astype(np.int8)
    net = Net(x)
    scale, axis = (W_SCALE, 1) if per_channel else (W_SCALE[0], 1)
    w = net.constant(random.integers(-127, 128, (8, OUTPUTS)), np.int8)
    given = net.dequantize(net.arguments[0], X_SCALE, 9)
    product = net.add(MatmulOp.make(given, net.dequantize(w, scale, axis=axis)))
    total = net.add(AddOp.make(product, bias(net, random, kind)))
    module = net.returning(net.quantize(total, 0.1, -5))
    fixed = run_passes(module, FixPointPass())
    assert {"quantize", "dequantize"}.isdisjoint(op_names(fixed))
    (found,), (expected,) = evaluate(fixed, x), evaluate(module, x)
    assert np.abs(found.astype(int) - expected.astype(int)).max() <= 1


def test_a_bias_stays_where_steps_of_sums_are_coarser_than_those_of_the_result():
    x, random = np.zeros((1, INPUTS, 5, 4), np.int8), np.random.default_rng(0)
    net = Net(x)
    value = conv(net, random, "float", False, 0)
    module = net.returning(net.quantize(value, X_SCALE * W_SCALE[1] / 2))
    fixed = run_passes(module, FixPointPass())
    assert evaluate(fixed, x)[0].tolist() == evaluate(module, x)[0].tolist()
    assert "dequantize" in op_names(fixed)


def test_a_bias_stays_where_floats_are_the_result():
    x, random = np.zeros((1, INPUTS, 5, 4), np.int8), np.random.default_rng(0)
    net = Net(x)
    module = net.returning(conv(net, random, "float", False, 0))
    assert op_names(run_passes(module, FixPointPass())) == op_names(module)


@pytest.mark.parametrize("least", [-128, -127])
def test_a_weight_with_another_sign_stays_a_byte(least):
    """A weight of -128 has no byte of the other sign."""
    x = np.arange(-4, 5, dtype=np.int8).reshape(1, 1, 3, 3)
    net = Net(x)
    w = net.dequantize(net.constant(np.full((OUTPUTS, 1, 1, 1), least), np.int8), 0.01)
    window = {"pads": [0] * 4, "strides": [1, 1], "dilations": [1, 1], "group": 1}
    value = net.add(ConvOp.make(net.dequantize(net.arguments[0], 0.05), w, **window))
    parameters = np.full((4, OUTPUTS), [[-1], [0], [0], [1]])
    operands = (net.constant(each, np.float32) for each in parameters)
    normed = net.add(BatchNormOp.make(value, *operands, epsilon=1e-5))
    module = net.returning(net.quantize(normed, 0.25))
    fixed = run_passes(module, QdqToIntegerPass(), FixPointPass())
    assert ("batch_norm" in op_names(fixed)) == (least == -128)
    assert evaluate(fixed, x)[0].tolist() == evaluate(module, x)[0].tolist()


def told(module: ModuleOp) -> list[str]:
    """The rewrites that the trail says left something in float."""
    trails = [op for op in module.walk() if isinstance(op, TrailOp)]
    return [each.plain.pattern for trail in trails for each in trail.decisions]


def test_why_a_layer_stayed_in_float_is_told_no_more_once_it_became_integers():
    net = Net(np.zeros((1, INPUTS, 5, 4), np.int8))
    value = conv(net, np.random.default_rng(0), "float", False, 0)
    module = net.returning(net.quantize(value, 0.25))
    before = run_passes(module, QdqToIntegerPass())
    assert told(before) == ["qdq-to-integer.quantized_conv"]
    assert told(run_passes(before, FixPointPass())) == []


AS_TRAINED = """<ir_version: 10, opset_import: ["" : 21]>
net (float[1, 2, 5, 5] x) => (float[1, 3, 3, 3] y)
<float s = {0.05}, float t = {0.1}, uint8 z = {100}, uint8 o = {3},
 float[3, 2, 3, 3] w, float[3] v = {0.01, 0.02, 0.015}, int8[3] n = {0, 0, 0},
 float[3] b = {0.5, -0.25, 1.1}, float[3] g = {1.5, 0.7, -1}, float[3] m = {0.1, 0, -0.1}> {
  xq = QuantizeLinear (x, s, z)
  xf = DequantizeLinear (xq, s, z)
  wq = QuantizeLinear <axis = 0> (w, v, n)
  wf = DequantizeLinear <axis = 0> (wq, v, n)
  c = Conv (xf, wf, b)
  h = BatchNormalization (c, g, b, m, v)
  r = Relu (h)
  q = QuantizeLinear (r, t, o)
  y = DequantizeLinear (q, t, o)
}"""


def test_vta_takes_layers_as_training_tools_write_them():
    """Weights of floats that the model quantises, a bias in float, a batch norm."""
    model = onnx.parser.parse_model(AS_TRAINED)
    random = np.random.default_rng(0)
    weight = random.normal(0, 0.5, (3, 2, 3, 3)).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    text, x = model.SerializeToString(), random.normal(0, 3, (1, 2, 5, 5)).astype(np.float32)
    ways = [offload(text, [{"x": x}], levels) for levels in LEVELS]
    assert same_results(ways)
    assert all(way.report.macs["host"] == 0 for way in ways)
    assert steps(text, [{"x": x}]).largest <= 1
