"""split-groups: the same numbers, from convolutions without groups."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pass_checks import run_on, same
from quantised_nets import Net
from xdsl.dialects.builtin import ModuleOp

import byocir
from byocir.dialects.context import load_context
from byocir.dialects.graph import ConvOp
from byocir.dialects.text import parse_module
from byocir.dialects.types import shape_of
from byocir.errors import ByocirError
from byocir.evaluate.module import evaluate, evaluate_function, random_feeds
from byocir.rewrites.pipeline import run_passes
from byocir.rewrites.split_groups import SplitGroupsPass
from byocir.targets.hand_off_passes import meaning_pipeline, rewrites_pipeline


def convs(module: ModuleOp) -> list[ConvOp]:
    return [op for op in module.walk() if isinstance(op, ConvOp)]


@settings(max_examples=max(settings.default.max_examples // 4, 1))
@given(st.data())
def test_groups_of_bytes_give_the_same_integers(data: st.DataObject) -> None:
    """Behind a convolution and before a residual sum, with zero points or without."""
    groups, inputs, outputs = (data.draw(st.integers(1, 5)) for _ in range(3))
    channels = groups * inputs, groups * outputs
    zero = data.draw(st.sampled_from([np.int8(0), np.int8(-7), np.uint8(121)]))
    dimensions = data.draw(st.integers(1, 2))
    net = Net((2, 3, *[6] * dimensions), per_channel=data.draw(st.booleans()), zero=zero)
    value = net.conv(net.value, (3, channels[0]), 1)
    relu = data.draw(st.booleans())
    value = net.conv(value, channels, 3, data.draw(st.integers(1, 2)), group=groups, relu=relu)
    module = byocir.import_onnx(net.of(net.add(value, value), (2, channels[1], *"hw"[:dimensions])))
    target = data.draw(st.sampled_from(["vta", "examples/float_npu.py"]))
    run_passes(module, load_context(), meaning_pipeline(module, [target]))
    made, most = module.clone(), data.draw(st.integers(1, 9))
    run_passes(made, load_context(), [SplitGroupsPass(most)])
    feeds = random_feeds(module)
    expected = evaluate(module, feeds)
    for name, found in evaluate(made, feeds).items():
        np.testing.assert_array_equal(found, expected[name])
    if (inputs, outputs) != (1, 1):
        assert {op.group.value.data for op in convs(made)} == {1}
        sizes = [size for op in convs(made)[1:] for size in shape_of(op.weight.type)[:2]]
        assert max(sizes) <= max(most, inputs, outputs)


IN_FLOATS = """
func.func @main(%x: tensor<1x4x3xf32>) -> tensor<1x4x3xf32> {
  %w = graph.constant #graph.array<[1.5, 2, -3, 4, 5, -6, 7, 8] : tensor<4x2x1xf32>>
  %y = graph.conv %x, %w {strides = array<i64: 1>, pads = array<i64: 0, 0>,
    dilations = array<i64: 1>, group = 2 : i64}
    : (tensor<1x4x3xf32>, tensor<4x2x1xf32>) -> tensor<1x4x3xf32>
  func.return %y : tensor<1x4x3xf32>
}
"""


def test_groups_of_floats_are_not_joined() -> None:
    """A weight of 0 would make infinities of one group no numbers in the other."""
    module = parse_module(IN_FLOATS)
    x = np.array([[[1, np.inf, -0.0], [2, 3, -0.0], [4, 5, 6], [7, 8, np.nan]]], np.float32)
    expected = evaluate_function(module, "main", [x])
    run_on(module, "split-groups{channels=16}")
    same(evaluate_function(module, "main", [x]), expected)
    assert [shape_of(op.weight.type) for op in convs(module)] == [(2, 2, 1)] * 2


@pytest.mark.parametrize(("target", "count"), [("gemmini", 1), ("float_npu", 2)])
def test_groups_of_floats_stay_where_no_machine_computes_floats(target: str, count: int) -> None:
    """The host would do them one by one."""
    module = parse_module(IN_FLOATS)
    pipeline = rewrites_pipeline(module, [f"examples/{target}.py"])
    run_passes(module, load_context(), pipeline)
    assert len(convs(module)) == count


def test_a_pass_has_a_number_of_channels_above_0() -> None:
    with pytest.raises(
        ByocirError, match="expected a number of channels above 0, found 0"
    ) as caught:
        SplitGroupsPass(0).apply(load_context(), ModuleOp([]))
    assert caught.value.code == "B291"
