"""Leaky relus and prelus of bytes in fixed point, of every byte: at most one step apart."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from nets.measured import LEVELS, offload, same_results, steps
from pass_checks import run_on
from rewrite_nets import Net, assert_same_bits, evaluate, located, op_names, run_passes

import byocir
from byocir.dialects.graph import LeakyReluOp, PreluOp
from byocir.rewrites.fix_point import FixPointPass
from byocir.runtime.explain import explain

KINDS = (np.int8, np.uint8)
GRIDS = st.tuples(st.sampled_from(KINDS), st.sampled_from([0.04, 0.25, 1.3]), st.integers(0, 127))


@settings(max_examples=max(settings.default.max_examples // 2, 1))
@given(GRIDS, GRIDS, st.sampled_from([0.01, 0.2, 1.0, 3.0]), st.sampled_from("lpd"))
@example((np.int8, 0.25, 0), (np.int8, 0.25, 0), 0.5, "l")
def test_every_byte_is_within_a_step(before, after, alpha, kind):
    x = np.arange(256, dtype=np.uint8).view(before[0]).reshape(1, 2, 8, 16)
    net = Net(x)
    value = net.dequantize(net.arguments[0], *before[1:], of=before[0])
    if kind == "l":
        value = net.add(LeakyReluOp.make(value, alpha=alpha))
    else:
        slope = net.constant([[[alpha]]], np.float32)
        if kind == "d":
            slope = net.dequantize(net.constant([[[100]]], np.int8), alpha / 90, 10)
        value = net.add(PreluOp.make(value, slope))
    module = net.returning(net.quantize(value, *after[1:], to=after[0]))
    fixed = run_passes(module, FixPointPass())
    assert {"leaky_relu", "prelu", "quantize", "dequantize"}.isdisjoint(op_names(fixed))
    assert located(fixed) == located(module)
    (found,), (expected,) = evaluate(fixed, x), evaluate(module, x)
    assert np.abs(found.astype(int) - expected.astype(int)).max() <= 1
    assert_same_bits(evaluate(run_on(fixed, "convert-graph-to-tir"), x), [found])


NET = """<ir_version: 10, opset_import: ["" : 21]>
net (float[1, 16, 4, 4] x) => (float[1, 16, 4, 4] y)
<float s = {0.05}, float t = {0.03}, uint8 z = {100}, uint8 o = {7}> {
  xq = QuantizeLinear (x, s, z)
  xf = DequantizeLinear (xq, s, z)
  h = LeakyRelu <alpha = 0.1> (xf)
  hq = QuantizeLinear (h, t, o)
  y = DequantizeLinear (hq, t, o)
}"""


def test_vta_takes_them_at_both_levels():
    model = onnx.parser.parse_model(NET)
    x = np.random.default_rng(0).normal(0, 5, (1, 16, 4, 4)).astype(np.float32)
    ways = [offload(model.SerializeToString(), [{"x": x}], levels) for levels in LEVELS]
    assert same_results(ways)
    for way in ways:
        assert way.report.places["LeakyRelu_2"] == "vta"
    assert steps(model.SerializeToString(), [{"x": x}]).largest <= 1


@pytest.mark.parametrize("alpha", [-0.5])
def test_a_slope_below_0_stays_in_float_and_is_told(alpha):
    model = onnx.parser.parse_model(NET.replace("0.1", str(alpha)))
    report = byocir.partition(byocir.import_onnx(model), ["vta"])
    text = explain(report, "LeakyRelu_2")
    assert "stays float: fix-point.leaky_relu_to_sum" in text
    assert "rule fails: The slope is one number above 0" in text
    assert "to fix it: use one slope for all channels" in text
