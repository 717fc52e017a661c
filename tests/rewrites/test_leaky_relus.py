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
from byocir.runtime.report_text import explain

KINDS = (np.int8, np.uint8)
GRIDS = st.tuples(st.sampled_from(KINDS), st.sampled_from([0.04, 0.25, 1.3]), st.integers(0, 127))


SLOPES = [0.01, 0.2, 1.0, 3.0, -0.5, [0.3, -1.7], [0.0, 25.0]]


@settings(max_examples=max(settings.default.max_examples // 2, 1))
@given(GRIDS, GRIDS, st.sampled_from(SLOPES), st.sampled_from("lpd"))
@example((np.int8, 0.25, 0), (np.int8, 0.25, 0), 0.5, "l")
@example((np.uint8, 0.04, 127), (np.int8, 1.3, 3), [0.3, -1.7], "d")
def test_every_byte_is_within_a_step(before, after, slope, kind):
    """As an attribute, as numbers and quantised, which alone have several."""
    x = np.stack([np.arange(256, dtype=np.uint8).view(before[0]).reshape(16, 16)] * 2)[None]
    net = Net(x)
    value = net.dequantize(net.arguments[0], *before[1:], of=before[0])
    slopes = np.atleast_1d(slope).reshape(-1, 1, 1)
    if kind == "l" and slopes.size == 1:
        value = net.add(LeakyReluOp.make(value, alpha=slope))
    else:
        operand = net.constant(slopes.tolist(), np.float32)
        if kind == "d":
            steps = np.rint(slopes / np.abs(slopes).max() * 90).astype(int) + 10
            steps = net.constant(steps.tolist(), np.int8)
            operand = net.dequantize(steps, np.abs(slopes).max() / 90, 10)
        value = net.add(PreluOp.make(value, operand))
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


PRELU = """<ir_version: 10, opset_import: ["" : 21]>
net (float[1, 16, 4, 4] x) => (float[1, 16, 4, 4] y)
<float s = {0.05}, float t = {0.03}, uint8 z = {100}, uint8 o = {7}, float[16, 1, 1] slopes = {
   0.1, -0.2, 0.3, 0, 1, 2, -3, 0.5, 0.6, 0.7, 0.8, 0.9, 1.1, 1.2, 1.3, -0.01}> {
  xq = QuantizeLinear (x, s, z)
  xf = DequantizeLinear (xq, s, z)
  h = PRelu (xf, slopes)
  hq = QuantizeLinear (h, t, o)
  y = DequantizeLinear (hq, t, o)
}"""


@pytest.mark.parametrize("text", [NET, PRELU], ids=["leaky relu", "prelu per channel"])
def test_vta_takes_them_at_both_levels(text):
    model = onnx.parser.parse_model(text)
    x = np.random.default_rng(0).normal(0, 5, (1, 16, 4, 4)).astype(np.float32)
    ways = [offload(model.SerializeToString(), [{"x": x}], levels) for levels in LEVELS]
    assert same_results(ways)
    for way in ways:
        assert way.report.places[f"{model.graph.node[2].op_type}_2"] == "vta"
        (region,) = way.report.regions
        assert len(region.composites) == 1
    assert steps(model.SerializeToString(), [{"x": x}]).largest <= 1


def test_slopes_that_are_computed_stay_in_float_and_are_told():
    model = onnx.parser.parse_model(
        PRELU.replace(
            "float[1, 16, 4, 4] x)", "float[1, 16, 4, 4] x, float[16, 1, 1] given)"
        ).replace("PRelu (xf, slopes)", "PRelu (xf, given)")
    )
    text = explain(byocir.partition(byocir.import_onnx(model), ["vta"]), "PRelu_2")
    assert "stays float: fix-point.leaky_relu_to_sum" in text
    assert "expected constant slope, found an input of the function" in text
