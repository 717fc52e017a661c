"""An NPU whose instructions convolve, add a bias, rectify and scale in one go takes nets whole, and
a model of its instruction set runs its words."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fused_isa import FusedNpu
from host_arrays import arrays_of
from hypothesis import given, settings
from hypothesis import strategies as st
from quantised_nets import Net, mobilenet, resnet18
from xdsl.dialects.builtin import ModuleOp

import byocir
from byocir.dialects.context import load_context
from byocir.evaluate.module import evaluate, random_feeds
from byocir.rewrites.pipeline import run_passes
from byocir.targets.described import runner
from byocir.targets.hand_off_passes import meaning_pipeline
from byocir.vendor.user_code import import_file

EXAMPLES = Path(__file__).parents[2] / "examples"
example = import_file(EXAMPLES / "fused_npu.py", "B217")
COMMANDS = [each.name.partition(".")[2] for each in example.npu.instructions]
Runner = Callable[[str, Sequence[np.ndarray]], list[np.ndarray]]


class OnWords(example.Fused):
    """The target whose programs a model of the instruction set runs or, with `check`, the simulator
    of the description, which looks for hazards."""

    def load(self, blobs: Mapping[str, bytes]) -> Runner:
        def run(symbol: str, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
            outputs, arrays = arrays_of(blobs, symbol, inputs)
            device = FusedNpu(example.REGISTERS, COMMANDS, arrays)
            for words in json.loads(blobs[f"{symbol}.json"]):
                device.run(words)
            return outputs

        return run

    def load_checked(self, blobs: Mapping[str, bytes]) -> Runner:
        return runner(example.npu, blobs, check=True)


def expect_equal(module: ModuleOp) -> byocir.Package:
    """Holds what both compute against the evaluator. The target takes all that multiplies."""
    meaning, feeds = module.clone(), random_feeds(module)
    run_passes(meaning, load_context(), meaning_pipeline(meaning, [OnWords()]))
    package = byocir.compile(module, targets=[OnWords()], levels=("tensor",))
    for name, expected in evaluate(meaning, feeds).items():
        for check in (False, True):
            np.testing.assert_array_equal(package.run(feeds, check=check)[name], expected)
    assert package.report.macs["host"] == 0
    return package


def patterns_of(package: byocir.Package) -> set[str]:
    return {decision.pattern for decision in package.report.decisions if decision.taken}


def test_it_runs_trained_digits() -> None:
    path = EXAMPLES / "digits" / "digits_int8.onnx"
    expect_equal(byocir.import_onnx(path, shapes={"image": (1, 1, 8, 8)}))


def test_it_runs_residual_blocks() -> None:
    package = expect_equal(byocir.import_onnx(resnet18(8, (16,), 1)))
    assert patterns_of(package) == {"fused.conv", "fused.dense", "fused.pool", "fused.sum"}


def test_it_runs_layers_with_zero_points() -> None:
    """Images are padded with these, and numbers added to terms of sums."""
    net = Net((1, 16, 6, 6), zero=np.uint8(117))
    value = net.conv(net.value, (16, 16), 3)
    net.scale *= 1.3
    value = net.add(value, net.conv(value, (16, 16), 3, relu=False), relu=True)
    package = expect_equal(byocir.import_onnx(net.pooled(value, 16, 10)))
    assert patterns_of(package) == {"fused.conv", "fused.dense", "fused.pool", "fused.sum"}


def test_it_runs_inverted_residuals() -> None:
    expect_equal(byocir.import_onnx(mobilenet(8, (8, 12, 12))))


@pytest.mark.slow
def test_it_runs_nets_of_several_stages() -> None:
    for model in (resnet18(32), mobilenet(32)):
        expect_equal(byocir.import_onnx(model))


LAYER = st.fixed_dictionaries(
    {
        "kernel": st.sampled_from([1, 2, 3, 5]),
        "stride": st.integers(1, 3),
        "dilation": st.integers(1, 2),
        "relu": st.booleans(),
        "zero": st.sampled_from([np.int8(0), np.uint8(117)]),
        "bias": st.booleans(),
    }
)


@settings(max_examples=4 if settings.default.max_examples < 100 else 100, deadline=None)
@given(LAYER, st.integers(1, 40), st.integers(0, 40), st.integers(5, 12), st.booleans())
def test_it_runs_any_convolution(
    layer: dict[str, Any], inputs: int, outputs: int, side: int, per_channel: bool
) -> None:
    """A depthwise one where no number of outputs is drawn."""
    zero, layer = layer["zero"], {name: n for name, n in layer.items() if name != "zero"}
    net = Net((1, inputs, side, side), per_channel=per_channel, zero=zero)
    channels, group = (inputs, outputs or inputs), 1 if outputs else inputs
    value = net.conv(net.value, channels, **layer, group=group)
    pads, apart = 2 * (layer["kernel"] // 2), layer["dilation"] * (layer["kernel"] - 1)
    size = (side + pads - apart - 1) // layer["stride"] + 1
    expect_equal(byocir.import_onnx(net.of(value, (1, channels[1], size, size))))
