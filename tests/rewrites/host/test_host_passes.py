"""split-phases, flatten-windows, fuse-blocks and pack-weights keep every bit of blocks."""

import pytest
from family_checks import each_family
from hypothesis import given, settings
from hypothesis.strategies import data, integers
from pass_checks import EXACT, numbers, run_on, same

from byocir.dialects import tir
from byocir.dialects.locations import names
from byocir.dialects.text import parse_module
from byocir.evaluate.module import evaluate_function

few = settings(max_examples=settings.default.max_examples // 3)


@pytest.mark.hypothesis
@each_family
def test_passes_keep_every_bit(cases):
    @settings(max_examples=settings.default.max_examples // 8)
    @given(cases())
    def check(case):
        module = run_on(case.module(), "convert-graph-to-tir")
        before = evaluate_function(module, "main", case.arrays)
        same(evaluate_function(run_on(module, EXACT), "main", case.arrays), before)
        for op in module.walk():
            if op.name.startswith("tir."):
                assert names(op.location) == ("node",)

    check()


CHAIN = """
func.func @main(%x: tensor<1x2x6x7xf32>, %w: tensor<3x2x3x3xf32>) -> tensor<1x3x3x4xf32> {
  %b = graph.constant #graph.array<[0.5, -0.5, 0.25] : tensor<3xf32>>
  %s = graph.constant #graph.array<[0.75] : tensor<f32>>
  %0 = graph.conv %x, %w, %b {strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>,
    dilations = array<i64: 1, 1>, group = 1 : i64}
    : (tensor<1x2x6x7xf32>, tensor<3x2x3x3xf32>, tensor<3xf32>) -> tensor<1x3x3x4xf32>
  %1 = graph.relu %0 : (tensor<1x3x3x4xf32>) -> tensor<1x3x3x4xf32>
  %2 = graph.mul %1, %s : (tensor<1x3x3x4xf32>, tensor<f32>) -> tensor<1x3x3x4xf32>
  func.return %2 : tensor<1x3x3x4xf32>
}
"""


def test_an_epilogue_is_one_block():
    arrays = [numbers(0, 1, 2, 6, 7), numbers(1, 3, 2, 3, 3)]
    module = run_on(parse_module(CHAIN), "convert-graph-to-tir")
    expected = evaluate_function(module, "main", arrays)
    blocks = [op for op in run_on(module, EXACT).walk() if isinstance(op, tir.BlockOp)]
    # Four phases of the input, the contraction, and all that follows.
    assert len(blocks) == 6
    assert blocks[-2].results[0] in blocks[-1].ins
    same(evaluate_function(module, "main", arrays), expected)


@pytest.mark.hypothesis
@few
@given(data())
def test_phases_compute_the_transposed_convolution(data):
    """Also with sums in any order, dilations, groups, and phases that nothing meets."""
    kernel, stride, dilation, group = (data.draw(integers(1, most)) for most in (4, 3, 2, 2))
    reach = (kernel - 1) * dilation + 1
    begin, end = data.draw(integers(0, reach // 2)), data.draw(integers(0, reach // 2))
    extra = data.draw(integers(0, stride - 1))
    size = 3 * stride + reach + extra - begin - end
    module = parse_module(f"""
    func.func @main(%x: tensor<1x{2 * group}x4xf32>, %w: tensor<{2 * group}x3x{kernel}xf32>)
        -> tensor<1x{3 * group}x{size}xf32> {{
      %0 = graph.conv_transpose %x, %w {{strides = array<i64: {stride}>,
        pads = array<i64: {begin}, {end}>, dilations = array<i64: {dilation}>,
        group = {group} : i64, output_padding = array<i64: {extra}>}}
        : (tensor<1x{2 * group}x4xf32>, tensor<{2 * group}x3x{kernel}xf32>)
        -> tensor<1x{3 * group}x{size}xf32>
      func.return %0 : tensor<1x{3 * group}x{size}xf32>
    }}""")
    module = run_on(module, "convert-graph-to-tir")
    arrays = [numbers(0, 1, 2 * group, 4), numbers(1, 2 * group, 3, kernel)]
    expected = evaluate_function(module, "main", arrays)
    for passes in ("split-phases", "relax-contractions,split-phases"):
        split = run_on(module.clone(), passes)
        guards = [op.where for op in split.walk() if isinstance(op, tir.BlockOp)]
        assert stride == 1 or not any(guards)
        rtol = 0 if passes == "split-phases" else 1e-6
        same(evaluate_function(split, "main", arrays), expected, rtol)


def test_what_is_read_at_several_places_is_not_fused():
    text = """
    func.func @main(%x: tensor<4xf32>, %y: tensor<3x4xf32>) -> (tensor<3x4xf32>, tensor<4xf32>) {
      %0 = graph.exp %x : (tensor<4xf32>) -> tensor<4xf32>
      %1 = graph.add %y, %0 : (tensor<3x4xf32>, tensor<4xf32>) -> tensor<3x4xf32>
      %2 = graph.neg %x : (tensor<4xf32>) -> tensor<4xf32>
      %3 = graph.abs %2 : (tensor<4xf32>) -> tensor<4xf32>
      %4 = graph.add %2, %3 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      func.return %1, %4 : tensor<3x4xf32>, tensor<4xf32>
    }"""
    module = run_on(parse_module(text), "convert-graph-to-tir,fuse-blocks")
    blocks = [op for op in module.walk() if isinstance(op, tir.BlockOp)]
    assert len(blocks) == 3  # neg and abs are in the block that adds both
