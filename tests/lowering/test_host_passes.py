"""flatten-windows, fuse-blocks and tiles keep every bit of what blocks compute."""

import numpy as np
import pytest
from c_host import run_c
from graph_families import FAMILIES
from graph_ops import Case, sizes
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.context import Context

from byocir.dialects import graph, tir
from byocir.dialects.context import load_context
from byocir.dialects.locations import names
from byocir.dialects.text import parse_module
from byocir.evaluate.module import evaluate_function
from byocir.lowering.graph_to_tir import ConvertGraphToTirPass
from byocir.rewrites.pipeline import parse_pipeline, run_passes

FEW = settings.default.max_examples // 20
FLAGS = {
    "native": ("-std=c99", "-O2", "-march=native", "-ffp-contract=off", "-Werror", "-lm"),
    "generic": ("-std=c99", "-O1", "-ffp-contract=off", "-Werror", "-fsanitize=undefined", "-lm"),
}


def lowered(case):
    module = case.module()
    ConvertGraphToTirPass().apply(Context(), module)
    return module


def run_on(
    module,
    pipeline="assign-layouts,flatten-windows,fuse-blocks,pack-weights{cpu=x86-64-v3},fold-copies",
):
    run_passes(module, load_context(), parse_pipeline(pipeline))
    return module


def same(found, expected):
    for left, right in zip(found, expected, strict=True):
        assert (left.dtype, left.shape) == (right.dtype, right.shape)
        np.testing.assert_array_equal(left, right)


@pytest.mark.hypothesis
@pytest.mark.parametrize("cases", FAMILIES, ids=lambda c: c.__name__)
def test_passes_keep_every_bit(cases):
    @settings(max_examples=settings.default.max_examples // 4)
    @given(cases())
    def check(case):
        module = lowered(case)
        before = evaluate_function(module, "main", case.arrays)
        same(evaluate_function(run_on(module), "main", case.arrays), before)
        for op in module.walk():
            if op.name.startswith("tir."):
                assert names(op.location) == ("node",)

    check()


def numbers(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@st.composite
def wide_conv(draw):
    """Long enough for vectors."""
    group = draw(st.sampled_from([1, 1, 3]))
    inputs, outputs = sizes(draw, 2, 5)
    kernel = [draw(st.sampled_from([1, 2, 3])) for _ in range(2)]
    spatial = [draw(st.integers(3, 9)), draw(st.integers(3, 20))]
    window = {
        "strides": sizes(draw, 2, 3),
        "pads": [draw(st.integers(0, k - 1)) for k in [*kernel, *kernel]],
        "dilations": [draw(st.integers(1, 1 if k == 3 else 2)) for k in kernel],
    }
    seed = draw(st.integers(0, 99))
    x = numbers(seed, draw(st.integers(1, 2)), inputs * group, *spatial)
    w = numbers(seed + 1, outputs * group, inputs, *kernel)
    return Case(graph.ConvOp, [x, w, numbers(seed, len(w))], group=group, **window)


@st.composite
def wide_matmul(draw):
    m, k, seed = draw(st.integers(1, 9)), draw(st.integers(1, 6)), draw(st.integers(0, 99))
    n = draw(st.sampled_from([3, 4, 5, 16, 17, 31, 48, 49, 97]))
    batch = draw(st.sampled_from([[], [2], [3, 1]]))
    return Case(graph.MatmulOp, [numbers(seed, *batch, m, k), numbers(seed + 1, *batch, k, n)])


@pytest.mark.hypothesis
@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize("cases", [wide_conv, wide_matmul], ids=lambda c: c.__name__)
def test_tiles_keep_every_bit(cases, flags):
    @settings(max_examples=3 * FEW, deadline=None)
    @given(cases())
    def check(case):
        module = lowered(case)
        expected = evaluate_function(module, "main", case.arrays)
        same(run_c(module, case.arrays, FLAGS[flags])[1], expected)
        same(run_c(run_on(module), case.arrays, FLAGS[flags])[1], expected)

    check()


def test_tiles_are_there():
    case = Case(graph.MatmulOp, [numbers(0, 8, 8), numbers(1, 8, 64)])
    code, _ = run_c(lowered(case), case.arrays)
    assert "a3_1 += p3_ * q_1" in code.source


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
    blocks = [op for op in run_on(module).walk() if isinstance(op, tir.BlockOp)]
    # Four phases of the input, the contraction, and all that follows.
    assert len(blocks) == 6
    assert blocks[-2].results[0] in blocks[-1].ins
    same(evaluate_function(module, "main", arrays), expected)


def test_what_is_read_more_than_once_is_not_fused():
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
    assert len(blocks) == 4  # only abs is in the block that adds
