"""pad-channels: the same integers, from contractions with whole blocks of channels."""

from __future__ import annotations

import io
from itertools import pairwise
from typing import cast

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from quantised_nets import Net, encoder, mobilenet, resnet18
from rewrite_nets import op_names
from xdsl.dialects.builtin import ArrayAttr, ModuleOp
from xdsl.printer import Printer

import byocir
from byocir.dialects.byoc import PADDED, PaddedAttr
from byocir.dialects.context import load_context
from byocir.dialects.graph import AddOp, ConvOp, MatmulOp, PadOp, SliceOp
from byocir.dialects.graph.base import macs
from byocir.dialects.text import parse_module
from byocir.dialects.types import shape_of
from byocir.errors import ByocirError
from byocir.evaluate.module import evaluate, random_feeds
from byocir.rewrites.pad_channels import PadChannelsPass
from byocir.rewrites.pipeline import run_passes
from byocir.targets.hand_off_passes import meaning_pipeline


def integers(model: onnx.ModelProto, target: str = "vta") -> ModuleOp:
    module = byocir.import_onnx(model)
    run_passes(module, load_context(), meaning_pipeline(module, [target]))
    return module


def padded(module: ModuleOp, multiple: int) -> ModuleOp:
    made = module.clone()
    run_passes(made, load_context(), [PadChannelsPass(multiple)])
    return made


def odd_channels(module: ModuleOp, multiple: int) -> list[tuple[int, ...]]:
    """The weights of dense contractions that have no whole blocks."""
    convs = (op for op in module.walk() if isinstance(op, ConvOp) and op.group.value.data == 1)
    weights = [shape_of(op.weight.type)[:2] for op in convs]
    weights += [shape_of(op.rhs.type)[-2:] for op in module.walk() if isinstance(op, MatmulOp)]
    return [shape for shape in weights if any(size % multiple for size in shape)]


def cuts_and_pads(module: ModuleOp) -> list[str]:
    """The ops that make channels more or fewer."""
    found = [op for op in module.walk() if isinstance(op, SliceOp | PadOp)]
    return [
        op.name for op in found if shape_of(op.input.type)[1] != shape_of(op.results[0].type)[1]
    ]


def expect_the_same(module: ModuleOp, other: ModuleOp) -> None:
    feeds = random_feeds(module)
    expected = evaluate(module, feeds)
    for name, found in evaluate(other, feeds).items():
        np.testing.assert_array_equal(found, expected[name])


@st.composite
def nets(draw: st.DrawFn) -> onnx.ModelProto:
    """A chain of layers of any channels, some depthwise, with pools and residual sums."""
    channels = [draw(st.integers(1, 9)) for _ in range(draw(st.integers(2, 4)))]
    net = Net((draw(st.integers(1, 2)), channels[0], 6, 6), per_channel=draw(st.booleans()))
    value = net.value
    if draw(st.booleans()):
        value = net.conv(value, (channels[0],) * 2, 3, group=channels[0])
    for before, after in pairwise(channels):
        kernel = draw(st.integers(1, 3))
        value = net.conv(value, (before, after), kernel, relu=draw(st.booleans()))
        kind = draw(st.sampled_from(["", "depthwise", "pool", "sum"]))
        if kind == "depthwise":
            value = net.conv(value, (after, after), 3, group=after)
        elif kind == "pool":
            ways = {"kernel_shape": [3, 3], "pads": [1] * 4}
            value = net.requantize(net.node("MaxPool", [value], **ways), net.scale)
        elif kind == "sum":
            scale = net.scale
            inner = net.conv(value, (after, after), 1, relu=False)
            net.scale = max(net.scale, scale)
            value = net.add(inner, value)
    return net.pooled(value, channels[-1], draw(st.integers(1, 9)))


@settings(max_examples=max(settings.default.max_examples // 3, 1))
@given(nets(), st.sampled_from([2, 4, 16]), st.sampled_from(["vta", "examples/gemmini.py"]))
def test_nets_compute_the_same_integers(model: onnx.ModelProto, multiple: int, target: str) -> None:
    module = integers(model, target)
    made = padded(module, multiple)
    expect_the_same(module, made)
    assert odd_channels(made, multiple) == []


@settings(max_examples=max(settings.default.max_examples // 5, 1))
@given(st.data())
def test_attention_over_any_number_of_tokens_gives_the_same_integers(data: st.DataObject) -> None:
    """Scores are cut before the softmax, and its chances padded after it."""
    tokens, heads, inner = (data.draw(st.integers(1, 7)) for _ in range(3))
    module = integers(encoder(1, tokens, heads * inner, heads))
    made = padded(module, data.draw(st.sampled_from([2, 4, 16])))
    expect_the_same(module, made)


@settings(max_examples=max(settings.default.max_examples // 5, 1))
@given(st.data())
def test_products_of_computed_arrays_give_the_same_integers(data: st.DataObject) -> None:
    """The channels that the first one has behind its own meet zeros, also behind another product:
    these are any numbers."""
    zero = data.draw(st.sampled_from([np.int8(0), np.int8(-7), np.uint8(121)]))
    size = data.draw(st.integers(1, 9))
    net = Net((data.draw(st.integers(1, 2)), size, size), zero=zero)
    first = net.dense(net.value, (size, size), relu=data.draw(st.booleans()))
    second = data.draw(st.sampled_from([first, net.value]))
    value = net.requantize(net.node("MatMul", [first, second]), net.scale * 3)
    value = net.requantize(net.node("MatMul", [value, first]), net.scale * 3)
    module = integers(net.of(value, (*net.first[:1], size, size)))
    made = padded(module, multiple := data.draw(st.sampled_from([2, 4, 16])))
    expect_the_same(module, made)
    assert odd_channels(made, multiple) == []


@pytest.mark.parametrize("model", [resnet18(widths=(6, 10)), mobilenet()], ids=["ResNet", "Mobile"])
def test_arrays_change_at_the_ends_of_a_net_alone(model: onnx.ModelProto) -> None:
    module = integers(model)
    made = padded(module, 16)
    assert cuts_and_pads(module) == []
    assert sorted(cuts_and_pads(made)) == ["graph.pad", "graph.slice"]
    assert odd_channels(module, 16)
    assert odd_channels(made, 16) == []
    expect_the_same(module, made)


def test_residual_sums_are_of_whole_blocks_when_their_terms_are_cast() -> None:
    """As terms that are scaled by floats are, before they are added."""
    net = Net((1, 5, 6, 6), per_channel=False)
    value = net.conv(net.value, (5, 12))
    scale = net.scale
    inner = net.conv(value, (12, 12), relu=False)
    net.scale = max(net.scale, scale)
    module = integers(net.of(net.add(inner, value), (1, 12, 6, 6)), "examples/gemmini.py")
    made = padded(module, 8)
    expect_the_same(module, made)
    (total,) = (op for op in made.walk() if isinstance(op, AddOp))
    assert shape_of(total.result.type) == (1, 16, 6, 6)
    assert sorted(cuts_and_pads(made)) == ["graph.pad", "graph.slice"]


def test_the_module_records_what_was_padded() -> None:
    """In its text, too, from which reports are made again."""
    module = padded(integers(mobilenet()), 16)
    text = io.StringIO()
    Printer(text).print_op(module)
    read = parse_module(text.getvalue(), load_context())
    listed = cast("ArrayAttr[PaddedAttr]", read.attributes[PADDED])
    found = [each.plain for each in listed]
    before, after = (sum(map(macs, net.walk())) for net in (integers(mobilenet()), module))
    assert sum(each.macs[1] - each.macs[0] for each in found) == after - before > 0
    assert PADDED not in padded(integers(mobilenet()), 1).attributes


def test_floats_stay() -> None:
    """A channel of infinities times a weight of 0 is no number."""
    x = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 3, 4, 4])
    y = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, 5, 4, 4])
    weights = onnx.numpy_helper.from_array(np.ones((5, 3, 1, 1), np.float32), "w")
    node = onnx.helper.make_node("Conv", ["x", "w"], ["y"])
    graph = onnx.helper.make_graph([node], "g", [x], [y], [weights])
    opsets = [onnx.helper.make_opsetid("", 17)]
    module = byocir.import_onnx(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9))
    assert op_names(padded(module, 4)) == op_names(module)


@pytest.mark.parametrize(
    ("name", "least", "number"),
    [("channel_multiple", 1, each) for each in (0, "16", True)] + [("split_groups", 0, -1)],
)
def test_a_target_names_a_number(name: str, least: int, number: object) -> None:
    target = type("Odd", (byocir.Target,), {"name": "odd", name: number})()
    told = f"{name} of target 'odd' to give a number of at least {least}, found {number!r}"
    with pytest.raises(ByocirError, match=told):
        byocir.partition(byocir.import_onnx("examples/digits/digits_int8.onnx"), targets=[target])


def test_a_pass_has_a_multiple_above_0() -> None:
    with pytest.raises(ByocirError, match="expected a multiple above 0, found 0") as caught:
        PadChannelsPass(0).apply(load_context(), ModuleOp([]))
    assert caught.value.code == "B291"


SLICES = """
func.func @main(%a: tensor<2x4x4xi32>, %b: tensor<1x4xi32>) -> (tensor<2x1x4xi32>, tensor<2x3x4xi32>) {
  %0 = graph.slice %a {starts = array<i64: 0, 0, 0>, sizes = array<i64: 2, 1, 4>, steps = array<i64: 1, 1, 1>} : (tensor<2x4x4xi32>) -> tensor<2x1x4xi32>
  %1 = graph.slice %b {starts = array<i64: 0, 0>, sizes = array<i64: 1, 1>, steps = array<i64: 1, 1>} : (tensor<1x4xi32>) -> tensor<1x1xi32>
  %2 = graph.add %0, %1 : (tensor<2x1x4xi32>, tensor<1x1xi32>) -> tensor<2x1x4xi32>
  %3 = graph.slice %a {starts = array<i64: 0, 0, 0>, sizes = array<i64: 2, 3, 4>, steps = array<i64: 1, 1, 1>} : (tensor<2x4x4xi32>) -> tensor<2x3x4xi32>
  %4 = graph.relu %3 : (tensor<2x3x4xi32>) -> tensor<2x3x4xi32>
  func.return %2, %4 : tensor<2x1x4xi32>, tensor<2x3x4xi32>
}
"""  # noqa: E501


def test_slices_of_the_model_itself_stay() -> None:
    """Moved, they would have ops compute what they leave out, and operands broadcast otherwise."""
    module = parse_module(SLICES)
    assert str(padded(module, 4)) == str(module)


def test_sums_of_arrays_with_fewer_dimensions_stay_aligned() -> None:
    """Products give rows of channels that are added to each place of a sequence."""
    net = Net((1, 3, 5), per_channel=False)
    value, scale = net.dense(net.value, (5, 6)), net.scale
    row = net.array(np.ones((1, 5), np.float32))
    row = net.dense(net.requantize(row, 0.01), (5, 6))
    net.scale = max(scale, net.scale)
    module = integers(net.of(net.add(value, row), (1, 3, 6)))
    made = padded(module, 4)
    expect_the_same(module, made)
