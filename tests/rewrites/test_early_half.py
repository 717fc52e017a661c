"""The half that rounds up, added before the multiplier: by example, and at most one step off."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rewrite_nets import evaluate, run_passes

from byocir.dialects.graph import ClipOp, RequantizeOp
from byocir.dialects.graph.fixed_point import rescale
from byocir.dialects.text import parse_module
from byocir.rewrites.early_half import NEAR, early_half
from byocir.rewrites.fix_point import FixPointPass

multipliers = st.lists(st.integers(1, 2**15), min_size=1, max_size=4)


@given(multipliers, st.integers(0, 23), st.integers(-128, 127), st.integers(0, 2**32 - 1))
def test_sums_with_the_half_are_rounded_as_behind_the_multiplier(factors, shift, zero, seed):
    """But for as many of them as it is off by."""
    factors = np.array(factors, np.int64)
    added = early_half(factors, shift, zero)
    if added is None:
        return
    x = np.random.default_rng(seed).integers(-(2**20), 2**20, (1000, len(factors)))
    wanted = rescale(x, factors, shift, "half_up") + zero
    found = rescale(x + added, factors, shift, "floor")
    assert np.abs(found - wanted).max() <= 1
    off = np.abs(added * factors - (1 << shift >> 1) - (zero << shift)) / 2.0**shift
    assert np.mean(off) <= NEAR
    exact = off == 0
    np.testing.assert_array_equal(found[:, exact], wanted[:, exact])


@pytest.mark.parametrize("factors", [[1, 1], [0, 3], [3]])
def test_it_stays_behind_where_that_is_as_good_or_better(factors):
    """All factors 1; one of 0, which no number before it makes up for; a step of 3/8."""
    assert early_half(np.array(factors), 3, 0) is None


LAYER = """
func.func @main(%x: tensor<1x2x3x3xi8>) -> tensor<1x2x3x3xi8> {{
  %w = graph.constant #graph.array<[7, -9, 5, 101] : tensor<2x2x1x1xi8>>
  %b = graph.constant #graph.array<[100, -30] : tensor<2xi32>>
  %s = graph.constant #graph.array<[0.0011, 0.0007] : tensor<2x1x1xf32>>
  %one = graph.constant #graph.array<[1.0] : tensor<f32>>
  %c = graph.conv %x, %w, %b {{strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>,
    dilations = array<i64: 1, 1>, group = 1 : i64}} :
    (tensor<1x2x3x3xi8>, tensor<2x2x1x1xi8>, tensor<2xi32>) -> tensor<1x2x3x3xi32>
  %r = graph.relu %c : (tensor<1x2x3x3xi32>) -> tensor<1x2x3x3xi32>
  %y = graph.requantize %r, %s, %one {{rounding = #graph.float_half_even, to = i8,
    zero_point = {zero} : i64}} :
    (tensor<1x2x3x3xi32>, tensor<2x1x1xf32>, tensor<f32>) -> tensor<1x2x3x3xi8>
  func.return %y : tensor<1x2x3x3xi8>
}}
"""


@pytest.mark.parametrize(("zero", "lows"), [(0, [0]), (5, [5]), (-128, [])])
def test_a_bias_takes_it_along_and_a_relu_comes_after(zero, lows):
    """The relu is the zero point as a bound, and nothing where bytes end there."""
    module = parse_module(LAYER.format(zero=zero))
    fixed = run_passes(module, FixPointPass("floor"))
    (made,) = (op for op in fixed.walk() if isinstance(op, RequantizeOp))
    assert (made.rounding.ties.data, made.zero_point.value.data) == ("floor", 0)
    clips = [op for op in fixed.walk() if isinstance(op, ClipOp)]
    assert [op.min.data.values().item() for op in clips] == lows
    assert not [op for op in fixed.walk() if op.name in ("graph.relu", "graph.add")]
    x = np.random.default_rng(0).integers(-128, 128, (1, 2, 3, 3)).astype(np.int8)
    (found,), (exact,) = evaluate(fixed, x), evaluate(module, x)
    assert np.abs(found.astype(int) - exact.astype(int)).max() <= 1
