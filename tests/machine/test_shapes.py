"""Layers of other shapes than those of most image nets run on each machine, equal to the evaluator:
convolutions of one dimension, in groups and of few channels, attention over tokens that fill no
block, pools alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from quantised_nets import Net, encoder
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

import byocir
from byocir.evaluate.module import evaluate, random_feeds

EXAMPLES = Path(__file__).parents[2] / "examples"
TARGETS = {
    "vta": "vta",
    **{name: str(EXAMPLES / f"{name}.py") for name in ("vta_machine", "gemmini", "float_npu")},
}


def macs_on_the_host(model: onnx.ModelProto, target: str) -> int:
    """Compiles a model, runs it with its checks, and compares; those of floats may be added in
    another order. Counts the multiply-accumulates that the host is left with."""
    meanings: list[ModuleOp] = []

    def keep(pass_: ModulePass, module: ModuleOp, seconds: float) -> None:
        if pass_.name in ("qdq-to-integer", "fix-point"):
            meanings.append(module.clone())

    module = byocir.import_onnx(model)
    package = byocir.compile(module, targets=[TARGETS[target]], after_pass=keep)
    feeds = random_feeds(meanings[-1])
    expected = evaluate(meanings[-1], feeds)
    for name, found in package.run(feeds, check=True).items():
        near = 2e-5 * np.abs(expected[name]).max() if target == "float_npu" else 0
        np.testing.assert_allclose(found, expected[name], rtol=0, atol=near)
    return package.report.macs["host"]


def sequence(zero: np.int8 | np.uint8) -> onnx.ModelProto:
    """A net for a sound: convolutions of one dimension, strided, dilated, residual, depthwise, and
    pools."""
    net = Net((1, 2, 32), zero=zero)
    value = net.conv(net.value, (2, 16), 5, 2)
    pool = net.node("MaxPool", [value], kernel_shape=[3], strides=[2], pads=[1, 1])
    value, scale = net.requantize(pool, net.scale), net.scale
    inner = net.conv(value, (16, 16), 3, dilation=2, pads=[2, 2], relu=False)
    net.scale = max(scale, net.scale)
    value = net.add(inner, value, relu=True)
    return net.pooled(net.conv(value, (16, 16), 3, group=16), 16, 5)


ON_GEMMINI = 16 * 8 * 3
"""Its description takes no depthwise convolution."""


@pytest.mark.parametrize(
    ("target", "zero", "left"),
    [
        ("vta", np.int8(0), 0),
        pytest.param("vta_machine", np.int8(0), 0, marks=pytest.mark.slow),
        ("vta_machine", np.uint8(121), 0),
        ("gemmini", np.int8(0), ON_GEMMINI),
    ],
)
def test_convolutions_of_one_dimension_are_taken(
    target: str, zero: np.int8 | np.uint8, left: int
) -> None:
    assert macs_on_the_host(sequence(zero), target) == left


def test_convolutions_of_one_dimension_are_taken_in_f32() -> None:
    w, v = (", ".join(f"{n % 7 - 3}.5" for n in range(count)) for count in (45, 50))
    numbers = f"float[5,3,3] w = {{{w}}}, float[5,5,2] v = {{{v}}}"
    nodes = "a = Conv <pads = [1, 1], strides = [2]> (x, w) b = Relu (a) z = Conv (b, v)"
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 21]> net '
        f"(float[2,3,20] x) => (float[2,5,9] z) <{numbers}> {{ {nodes} }}"
    )
    assert macs_on_the_host(model, "float_npu") == 0


def test_attention_over_tokens_that_fill_no_block_is_taken() -> None:
    assert macs_on_the_host(encoder(1, 6, 16), "vta_machine") == 0


def bottleneck(groups: int, zero: np.int8 | np.uint8) -> onnx.ModelProto:
    """A block of a ResNeXt: a convolution in groups of 4 channels between two pointwise ones, and
    a residual sum."""
    channels = 4 * groups
    net = Net((1, 16, 5, 5), zero=zero)
    value, scale = net.conv(net.value, (16, channels), 1), net.scale
    value = net.conv(value, (channels, channels), 3, group=groups)
    value = net.conv(value, (channels, 16), 1, relu=False)
    net.scale = max(scale, net.scale)
    return net.of(net.add(value, net.value, relu=True), (1, 16, 5, 5))


@pytest.mark.parametrize(
    ("target", "groups", "zero"),
    [
        ("vta", 5, np.int8(0)),
        ("vta_machine", 5, np.uint8(121)),
        pytest.param("vta_machine", 4, np.int8(0), marks=pytest.mark.slow),
        ("gemmini", 5, np.int8(0)),
    ],
)
def test_convolutions_in_groups_are_taken(
    target: str, groups: int, zero: np.int8 | np.uint8
) -> None:
    assert macs_on_the_host(bottleneck(groups, zero), target) == 0


def test_convolutions_in_groups_are_taken_in_f32() -> None:
    numbers = ", ".join(f"{n % 7 - 3}.5" for n in range(8 * 4 * 9))
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 21]> net (float[1,8,5,5] x) => (float[1,8,5,5] z) '
        f"<float[8,4,3,3] w = {{{numbers}}}> "
        "{ y = Conv <group = 2, pads = [1, 1, 1, 1]> (x, w) z = Relu (y) }"
    )
    assert macs_on_the_host(model, "float_npu") == 0


@pytest.mark.parametrize("channels", [5, 24])
def test_depthwise_convolutions_in_front_of_a_net_are_taken(channels: int) -> None:
    net = Net((1, channels, 5, 5))
    value = net.conv(net.value, (channels, channels), 3, group=channels)
    assert macs_on_the_host(net.of(value, (1, channels, 5, 5)), "vta_machine") == 0


@pytest.mark.parametrize("op_type", ["MaxPool", "AveragePool"])
def test_a_pool_of_the_models_input_is_taken(op_type: str) -> None:
    net = Net((1, 16, 8, 8))
    pool = net.node(op_type, [net.value], kernel_shape=[2, 2], strides=[2, 2])
    model = net.of(net.requantize(pool, net.scale), (1, 16, 4, 4))
    report = byocir.compile(byocir.import_onnx(model), targets=[TARGETS["vta_machine"]]).report
    assert all(report.placement[n.name] != "host" for n in report.nodes if n.op_type == op_type)
