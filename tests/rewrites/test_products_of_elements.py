"""Products element by element in fixed point: of all pairs of bytes at most one step apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import onnx
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from nets.measured import LEVELS, offload, same_results, steps
from pass_checks import run_on
from rewrite_nets import Net, assert_same_bits, evaluate, located, op_names, run_passes

import byocir
from byocir.dialects.graph import DivOp, MulOp, ReluOp
from byocir.patterns import Composite, composite, constant, op, wildcard
from byocir.rewrites.fix_point import FixPointPass
from byocir.runtime.report_text import explain

KINDS = (np.int8, np.uint8)
GRIDS = st.tuples(st.sampled_from(KINDS), st.sampled_from([0.004, 0.25, 1.3]), st.integers(0, 127))
ACTIVATIONS = st.sampled_from([None, "relu", "clip"])
DIVISORS = st.lists(st.floats(0.0625, 900, width=32), min_size=2, max_size=2)


def every_pair(first: type, second: type) -> list[np.ndarray]:
    numbers = np.arange(256, dtype=np.uint8)
    pairs = np.meshgrid(numbers, numbers)
    return [x.view(kind)[None] for x, kind in zip(pairs, (first, second), strict=True)]


def check(net: Net, value, after, activation: str | None, inputs: list[np.ndarray]) -> None:
    if activation == "relu":
        value = net.add(ReluOp.make(value))
    if activation == "clip":
        value = net.clip(value, -0.5, 3)
    module = net.returning(net.quantize(value, *after[1:], to=after[0]))
    fixed = run_passes(module, FixPointPass())
    assert {"quantize", "dequantize"}.isdisjoint(op_names(fixed))
    assert located(fixed) == located(module)
    (found,), (expected,) = evaluate(fixed, *inputs), evaluate(module, *inputs)
    assert np.abs(found.astype(int) - expected.astype(int)).max() <= 1
    assert_same_bits(evaluate(run_on(fixed, "convert-graph-to-tir"), *inputs), [found])


@settings(max_examples=max(settings.default.max_examples // 5, 1))
@given(GRIDS, GRIDS, GRIDS, ACTIVATIONS)
@example((np.int8, 1.3, 127), (np.uint8, 1.3, 0), (np.int8, 0.004, 0), None)
def test_every_pair_of_bytes_is_within_a_step(first, second, after, activation):
    inputs = every_pair(first[0], second[0])
    net = Net(*inputs)
    factors = [
        net.dequantize(x, *grid[1:], of=grid[0])
        for x, grid in zip(net.arguments, (first, second), strict=True)
    ]
    check(net, net.add(MulOp.make(*factors)), after, activation, inputs)


@settings(max_examples=max(settings.default.max_examples // 5, 1))
@given(GRIDS, GRIDS, st.lists(st.integers(-128, 127), min_size=2, max_size=2), st.booleans())
@example((np.uint8, 0.25, 3), (np.uint8, 0.25, 9), [12, 100], False)
def test_every_byte_times_constants_is_within_a_step(before, after, numbers, swapped):
    """Those above their zero point join the scale."""
    x = np.stack([np.arange(256, dtype=np.uint8).view(before[0])] * 2)[None]
    net = Net(x)
    known = net.dequantize(net.constant([[number] for number in numbers], np.int8), 0.02, 10)
    factors = [net.dequantize(net.arguments[0], *before[1:], of=before[0]), known]
    value = net.add(MulOp.make(*(factors[::-1] if swapped else factors)))
    check(net, value, after, None, [x])


@settings(max_examples=max(settings.default.max_examples // 5, 1))
@given(GRIDS, GRIDS, ACTIVATIONS, DIVISORS)
def test_every_byte_over_constants_is_within_a_step(before, after, activation, divisors):
    x = np.stack([np.arange(256, dtype=np.uint8).view(before[0])] * 2)[None]
    net = Net(x)
    value = net.dequantize(net.arguments[0], *before[1:], of=before[0])
    divisor = net.constant([[number] for number in divisors], np.float32)
    check(net, net.add(DivOp.make(value, divisor)), after, activation, [x])


@pytest.mark.parametrize("divisor", [-2.0, 0.0, float("inf"), float("nan")])
def test_divisors_that_are_no_scale_stay_in_float(divisor):
    net = Net(np.zeros((1, 4), np.int8))
    value = net.dequantize(net.arguments[0], 0.5)
    value = net.add(DivOp.make(value, net.constant(divisor, np.float32)))
    assert "div" in op_names(run_passes(net.returning(net.quantize(value, 0.5)), FixPointPass()))


def model(body: str, second: str = "float[1, 20, 3, 5] b") -> onnx.ModelProto:
    return onnx.parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 21]>
net (float[1, 20, 3, 5] a, {second}) => (float[1, 20, 3, 5] y)
<float s = {{0.05}}, float t = {{0.03}}, uint8 z = {{100}}, uint8 o = {{7}}> {{
  aq = QuantizeLinear (a, s, z)
  af = DequantizeLinear (aq, s, z)
  bq = QuantizeLinear (b, t, o)
  bf = DequantizeLinear (bq, t, o)
  h = Mul ({body})
  hq = QuantizeLinear (h, t, z)
  y = DequantizeLinear (hq, t, z)
}}"""
    )


@pytest.mark.parametrize("body", ["af, bf", "af, af"], ids=["of two", "squared"])
def test_vta_takes_them_at_both_levels(body: str):
    made = model(body).SerializeToString()
    random = np.random.default_rng(0)
    feeds = [
        {name: random.normal(0, spread, (1, 20, 3, 5)).astype(np.float32) for name in "ab"}
        for spread in (1, 1000)
    ]
    ways = [offload(made, feeds, levels) for levels in LEVELS]
    assert same_results(ways)
    for way in ways:
        assert way.report.places["Mul_4"] == "vta"
    assert max(steps(made, [feed]).largest for feed in feeds) <= 1


def test_vta_says_that_it_does_not_spread_a_factor():
    report = byocir.partition(byocir.import_onnx(model("af, bf", "float[20, 1, 1] b")), ["vta"])
    text = explain(report, "Mul_4")
    assert "vta.multiply" in text
    assert "rule fails: Both operands have the same shape" in text


QLINEAR = """<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]>
net (uint8[1, 20, 3, 5] a, uint8[1, 20, 3, 5] b) => (uint8[1, 20, 3, 5] y)
<float s = {0.05}, float t = {0.03}, uint8 z = {100}, uint8 o = {7}> {
  y = com.microsoft.QLinearMul (a, s, z, b, t, o, s, o)
}"""


@composite("npu.mul", zero_points=True)
def mul():
    """Integers, scaled without rounding, multiplied and requantised."""
    terms = (op("graph.requantize", wildcard(name), constant()) for name in "ab")
    return op("graph.requantize", op("graph.mul", *terms), constant("scale"))


@dataclass(frozen=True)
class Npu(byocir.Target):
    name: ClassVar[str] = "npu"
    patterns: ClassVar[tuple[Composite, ...]] = (mul,)
    fixed_point: ClassVar[Literal["half_up"]] = "half_up"


@pytest.mark.parametrize("target", [Npu(), "vta"], ids=["a toy", "vta"])
def test_targets_in_fixed_point_take_qlinear_mul(target):
    model = onnx.parser.parse_model(QLINEAR)
    package = byocir.compile(model, targets=[target])
    assert package.report.places["QLinearMul_0"] == package.report.regions[0].target
    a, b = (
        x.reshape(-1)[: 300 * 200 : 200].reshape(1, 20, 3, 5)
        for x in every_pair(np.uint8, np.uint8)
    )
    (found,) = package.run({"a": a, "b": b}).values()
    product = (a.astype(float) - 100) * 0.05 * (b.astype(float) - 7) * 0.03
    expected = np.clip(np.rint(product / 0.05) + 7, 0, 255)
    assert np.abs(found - expected).max() <= 1
