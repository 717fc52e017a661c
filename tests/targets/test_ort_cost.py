"""ONNX Runtime competes with VTA by what each tells of its costs."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from quantised_nets import Net

import byocir
from byocir.dialects.context import load_context
from byocir.evaluate.module import evaluate
from byocir.rewrites.pipeline import run_passes
from byocir.targets.hand_off_passes import meaning_pipeline
from byocir.targets.ort import Ort

SIZE = 24


def thin_and_thick() -> onnx.ModelProto:
    """A convolution of three channels, which fill few of VTA's lanes, and one that fills them."""
    net = Net((1, 3, SIZE, SIZE))
    thin = net.conv(net.value, (3, 32), 1)
    return net.of(net.conv(thin, (32, 64), 3), (1, 64, SIZE, SIZE))


@pytest.mark.parametrize("target", ["vta", "vta{rounding=half_even}"])
def test_each_of_two_targets_wins_the_convolution_that_suits_it(target: str):
    model = thin_and_thick()
    package = byocir.compile(model, targets=[target, "ort"], objective="latency")
    convs = [node.name for node in package.report.nodes if node.op_type == "Conv"]
    assert [package.report.placement[name].split("_")[0] for name in convs] == ["ort", "vta"]
    reasons = [d.reason for d in package.report.reasons[convs[0]] if d.taken]
    assert reasons
    assert all("on ort" in reason and "on vta" in reason for reason in reasons)
    module = byocir.import_onnx(model)
    run_passes(module, load_context(), meaning_pipeline(module, target))
    (name,) = package.inputs
    x = np.random.default_rng(0).normal(size=(1, 3, SIZE, SIZE)).astype(np.float32)
    for output, wanted in evaluate(module, {name: x}).items():
        np.testing.assert_array_equal(package.run({name: x})[output], wanted)


def test_costs_grow_with_the_work_and_fall_with_threads():
    model = byocir.import_onnx(thin_and_thick())
    convs = [op for op in model.walk() if op.name == "graph.conv"]
    thin, thick = (Ort().cost("ort.conv", [op]) for op in convs)
    assert all(0 < thin[key] < thick[key] for key in ("latency", "energy", "bytes"))
    threaded = Ort(threads=4).cost("ort.conv", [convs[1]])
    assert threaded["latency"] < thick["latency"] < 4 * threaded["latency"]
    assert threaded["energy"] == thick["energy"]
    weights = 3 * 32 + 32  # which are dequantised here, no constants
    assert thin["bytes"] == 4 * ((3 + 32) * SIZE * SIZE + weights)
