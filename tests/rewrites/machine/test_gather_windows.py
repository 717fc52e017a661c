"""gather-windows: the same results, from windows that the host gathers as channels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from quantised_nets import Net
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

import byocir
from byocir.compiler import partition
from byocir.dialects.byoc import CallOp
from byocir.dialects.locations import names
from byocir.dialects.text import parse_module
from byocir.dialects.tir import BlockOp
from byocir.dialects.types import shape_of
from byocir.errors import ByocirError
from byocir.evaluate.module import evaluate, random_feeds
from byocir.rewrites.gather_windows import gather_windows
from byocir.rewrites.machine import machines_in
from byocir.vendor.user_code import import_file

EXAMPLES = Path(__file__).parents[3] / "examples"


def keeping(example: str, name: str) -> byocir.Target:
    """A target of an example that takes images as they are."""
    described = getattr(import_file(EXAMPLES / f"{example}.py", "B217"), name)
    return type(name, (described,), {"gathers_windows": False})()


TARGETS = [keeping("gemmini_pools", "Gemmini"), keeping("vta_machine", "Vta16")]


def layer(
    image: tuple[int, ...],
    outputs: int,
    kernel: int,
    stride: int = 1,
    pad: int = 0,
    dilation: int = 1,
) -> onnx.ModelProto:
    """A quantised convolution with a relu."""
    net = Net(image, per_channel=False)
    reach = dilation * (kernel - 1) + 1
    ways = dict(relu=True, pads=[pad] * 4, dilation=dilation)
    made = net.conv(net.value, (image[1], outputs), kernel, stride, **ways)
    sides = ((side + 2 * pad - reach) // stride + 1 for side in image[2:])
    return net.of(made, (image[0], outputs, *sides))


def handed_over(model: onnx.ModelProto, target: byocir.Target) -> ModuleOp:
    module = byocir.import_onnx(model)
    partition(module, targets=[target], levels=("tensor",))
    return module


def crossing(module: ModuleOp) -> list[tuple[int, ...]]:
    """The shapes of the images that calls pass in."""
    return [shape_of(op.inputs[0].type) for op in module.walk() if isinstance(op, CallOp)]


@st.composite
def convolutions(draw: st.DrawFn) -> onnx.ModelProto:
    """Any convolution; one of the targets gets channels without weights behind those of the net."""
    channels = st.integers(1, 18)
    dilation, kernel = draw(st.integers(1, 2)), draw(st.integers(1, 3))
    side = st.integers(dilation * (kernel - 1) + 1, 9)
    image = (1, draw(channels), draw(side), draw(side))
    ways = draw(st.integers(1, 3)), draw(st.integers(0, 2))
    return layer(image, draw(channels), kernel, *ways, dilation)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@settings(max_examples=max(settings.default.max_examples // 10, 1))
@given(st.data())
def test_gathered_windows_give_the_same(target: byocir.Target, data: st.DataObject) -> None:
    multiple = data.draw(st.sampled_from([1, 4, 16]))
    module = handed_over(data.draw(convolutions()), target)
    feeds, before = random_feeds(module), crossing(module)
    expected = evaluate(module, feeds)
    functions = [function for function, _ in machines_in(module, in_memory=False)]
    gather_windows(module, [(f, lambda read: replace(read, multiple=multiple)) for f in functions])
    module.verify()
    for name, found in evaluate(module, feeds).items():
        np.testing.assert_array_equal(found, expected[name])
    assert len(before) == len(functions)


def gathers(model: onnx.ModelProto) -> list[tuple[int, ...]]:
    target = import_file(EXAMPLES / "gemmini_pools.py", "B217").Gemmini()
    return crossing(handed_over(model, target))


def test_a_stem_reads_its_windows_as_channels() -> None:
    assert gathers(layer((1, 3, 32, 32), 16, 7, 2, 3)) == [(1, 16, 16, 147)]


def test_windows_are_gathered_for_the_node_that_reads_them() -> None:
    """Not for all nodes of the region: these would be told to be partly on the host."""
    net = Net((1, 3, 32, 32), per_channel=False)
    made = net.conv(net.value, (3, 16), 7, 2, relu=True, pads=[3] * 4)
    made = net.conv(made, (16, 16), 3, 1, relu=True, pads=[1] * 4)
    target = import_file(EXAMPLES / "fused_npu.py", "B217").Fused()
    module = handed_over(net.of(made, (1, 16, 16, 16)), target)
    (call,) = (op for op in module.walk() if isinstance(op, CallOp))
    gathered = call.inputs[0].owner
    assert isinstance(gathered, BlockOp)
    assert {*names(gathered.location)} < {*names(call.location)}
    first, second = (node.name for node in net.nodes if node.op_type == "Conv")
    assert first in names(gathered.location)
    assert second not in names(gathered.location)


@pytest.mark.parametrize(
    "model",
    [layer((1, 32, 8, 8), 16, 3), layer((1, 3, 8, 8), 16, 1)],
    ids=["whole blocks", "no window"],
)
def test_what_gains_nothing_stays(model: onnx.ModelProto) -> None:
    image = model.graph.input[0].type.tensor_type.shape.dim
    n, c, h, w = (each.dim_value for each in image)
    assert gathers(model) == [(n, h, w, c)]


def test_what_the_device_computed_stays_there() -> None:
    """The second convolution reads three channels, too, in zeros around them."""
    net = Net((1, 3, 16, 16), per_channel=False)
    made = net.conv(net.value, (3, 3), 3, 1, relu=True, pads=[1] * 4)
    made = net.conv(made, (3, 16), 3, 1, relu=True, pads=[1] * 4)
    assert gathers(net.of(made, (1, 16, 16, 16))) == [(1, 16, 16, 27), (1, 18, 18, 3)]


def test_an_image_with_two_readers_stays() -> None:
    net = Net((1, 3, 16, 16), per_channel=False)
    x, scale = net.value, net.scale
    some = net.conv(x, (3, 16), 3, 1, relu=True)
    net.scale = scale
    more = net.conv(x, (3, 16), 3, 1, relu=True)
    assert gathers(net.of(net.add(some, more), (1, 16, 16, 16))) == [(1, 18, 18, 3)]


WINDOWS = EXAMPLES.parent / "tests" / "filecheck" / "rewrites" / "machine" / "windows.mlir"


@pytest.mark.parametrize(
    ("old", "new"), [("arith.muli", "arith.subi"), ("byoc.call @gemmini_0(%x, %w)", "other")]
)
def test_what_adds_no_products_stays_and_what_nobody_calls(old: str, new: str) -> None:
    """Weights of 0 add something to sums of differences."""
    keeping("gemmini", "Gemmini")
    text = WINDOWS.read_text()
    if new == "other":
        start, end = text.index("func.func @main"), text.index("// CHECK-LABEL: func.func @gemmini")
        text = text[:start] + text[end:]
    else:
        text = text.replace(old, new)
    module = parse_module(text)
    before = str(module)
    functions = [op for op in module.ops if isinstance(op, FuncOp)]
    gather_windows(module, [(f, lambda read: replace(read, multiple=16)) for f in functions])
    assert str(module) == before


def test_calls_of_one_function_have_weights_of_their_own() -> None:
    """All gather as many channels: the last one has weights in one call alone."""
    keeping("gemmini", "Gemmini")
    text = WINDOWS.read_text()
    call = next(line for line in text.splitlines() if line.strip().startswith("%y = byoc.call"))
    first = [0 if n // 4 % 2 else n + 1 for n in range(32)]
    given = f"%v = tir.constant <{first} : tensor<2x2x2x4xi8>> : tensor<2x2x2x4xi8>"
    other = call.replace("%y =", "%z =").replace("%w)", "%v)")
    text = text.replace(call, "\n".join([given, call, other]))
    text = text.replace("func.return %y", "func.return %y, %z", 1)
    text = text.replace(
        "func.return %y, %z : tensor<1x16x16x4xi32>",
        "func.return %y, %z : tensor<1x16x16x4xi32>, tensor<1x16x16x4xi32>",
    )
    text = text.replace(
        ") -> tensor<1x16x16x4xi32> {", ") -> (tensor<1x16x16x4xi32>, tensor<1x16x16x4xi32>) {", 1
    )
    module = parse_module(text)
    feeds = random_feeds(module)
    expected = evaluate(module, feeds)
    functions = [op for op in module.ops if isinstance(op, FuncOp)]
    gather_windows(module, [(f, lambda read: replace(read, multiple=5)) for f in functions])
    module.verify()
    assert crossing(module) == [(1, 16, 16, 10)] * 2
    for name, found in evaluate(module, feeds).items():
        np.testing.assert_array_equal(found, expected[name])


def test_a_target_says_whether_windows_are_gathered() -> None:
    target = keeping("gemmini", "Gemmini")
    odd = type("Odd", (type(target),), {"gathers_windows": "no"})()
    with pytest.raises(ByocirError, match="expected gathers_windows of target 'gemmini' to give"):
        handed_over(layer((1, 3, 8, 8), 16, 3), odd)
