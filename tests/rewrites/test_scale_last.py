"""Zero points among the sums, which are scaled last: how far that is from exact numbers."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rewrite_nets import Net, evaluate, op_names, run_passes
from zero_point_layers import zero_point_convs, zero_point_matmuls

from byocir.dialects.graph import (
    AddOp,
    ClipOp,
    FloatHalfEvenAttr,
    MatmulOp,
    ReluOp,
    RequantizeOp,
    SubOp,
)
from byocir.dialects.graph.fixed_point import FLOAT_SCALES
from byocir.dialects.types import i8
from byocir.rewrites.early_zero import early_zero
from byocir.rewrites.fix_point import FixPointPass
from byocir.rewrites.qdq_to_integer import QdqToIntegerPass

ROUNDED = Fraction(1, 2)
NEAR_F32 = Fraction(1, 10_000)
"""What f32 adds to the distance of a byte from the exact number: three roundings of 2^-24."""

zeros = st.integers(-128, 127)
ratios = st.floats(-12, 1).map(lambda exponent: float(np.float32(2**exponent)))


def requantizes(module) -> list[RequantizeOp]:
    return [op for op in module.walk() if isinstance(op, RequantizeOp)]


def product(x: np.ndarray, w: np.ndarray, scale: float, zero: int, *, relu: bool = False):
    """A module of `requantize(x @ w)`."""
    net = Net(x)
    sums = net.add(MatmulOp.make(net.arguments[0], net.constant(w)))
    sums = net.add(ReluOp.make(sums)) if relu else sums
    scales = net.constant(np.float32(scale)), net.constant(np.float32(1))
    rounding = FloatHalfEvenAttr()
    made = RequantizeOp.make(sums, *scales, rounding=rounding, to=i8, zero_point=zero)
    return net.returning(net.add(made))


@given(ratios, zeros, st.booleans(), st.integers(0, 2**32 - 1))
def test_sums_are_off_by_half_of_the_scale(scale, zero, relu, seed):
    """From the exact number, before they are rounded, and from zero points behind by one step."""
    random = np.random.default_rng(seed)
    x, w = (random.integers(-128, 128, size, np.int8) for size in ((40, 30), (30, 4)))
    module = product(x, w, scale, zero, relu=relu)
    fixed = run_passes(module, FixPointPass("float_scale_last"))
    (found,), (behind,) = evaluate(fixed, x), evaluate(module, x)
    assert np.abs(found.astype(int) - behind).max() <= 1
    (made,) = requantizes(fixed)
    is_early = made.zero_point.value.data == 0
    assert is_early or (early_zero(np.array(scale), zero) is None and op_names(fixed)[-1] != "clip")
    added = round(Fraction(zero) / Fraction(scale)) * Fraction(scale) - zero
    off = abs(added) if is_early else 0
    assert off <= Fraction(scale) / 2
    sums = np.maximum(x.astype(int) @ w, 0 if relu else -(2**31))
    for total, byte in zip(sums.reshape(-1).tolist(), found.reshape(-1).tolist(), strict=True):
        exact = min(max(total * Fraction(scale) + zero, -128), 127)
        assert abs(byte - exact) <= ROUNDED + off + NEAR_F32


@given(st.one_of(zero_point_convs(), zero_point_matmuls()))
def test_layers_are_a_step_off_at_most(layer):
    integer = run_passes(layer.module, QdqToIntegerPass())
    fixed = run_passes(integer, FixPointPass("float_scale_last"))
    for x in (layer.x, np.zeros_like(layer.x)):
        (found,), (wanted,) = evaluate(fixed, x), evaluate(integer, x)
        assert np.abs(found.astype(int) - wanted.astype(int)).max() <= 1


@pytest.mark.parametrize(
    ("scale", "zero"), [(0.7, 3), (2.0**-29, 100)], ids=["off by a fifth", "beyond i32"]
)
def test_zero_points_stay_behind_scales_that_are_too_large_or_too_small(scale, zero):
    module = product(np.zeros((2, 3), np.int8), np.ones((3, 2), np.int8), scale, zero)
    (made,) = requantizes(run_passes(module, FixPointPass("float_scale_last")))
    assert made.zero_point.value.data == zero


def test_zero_points_of_sums_with_another_reader_stay_behind():
    """That would read them with the zero point."""
    net = Net(np.zeros((2, 3), np.int8))
    sums = net.add(MatmulOp.make(net.arguments[0], net.constant(np.ones((3, 2), np.int8))))
    scales = net.constant(np.float32(0.01)), net.constant(np.float32(1))
    made = RequantizeOp.make(sums, *scales, rounding=FloatHalfEvenAttr(), to=i8, zero_point=9)
    module = net.returning(net.add(made), sums)
    (made,) = requantizes(run_passes(module, FixPointPass("float_scale_last")))
    assert made.zero_point.value.data == 9


@pytest.mark.parametrize(("zero", "lows"), [(0, []), (5, [5]), (-128, [])])
def test_a_relu_is_the_zero_point_as_a_bound(zero, lows):
    """Nothing where bytes end there; in front of the scale where it is 0."""
    x = np.random.default_rng(0).integers(-128, 128, (9, 3)).astype(np.int8)
    module = product(x, np.array([[5], [-9], [70]], np.int8), 0.0123, zero, relu=True)
    fixed = run_passes(module, FixPointPass("float_scale_last"))
    clips = [op for op in fixed.walk() if isinstance(op, ClipOp)]
    assert [op.min.data.values().item() for op in clips] == lows
    assert ("relu" in op_names(fixed)) == (zero == 0)


grids = st.tuples(st.floats(-2, 2).map(lambda exponent: np.float32(2**exponent)), zeros)


def sum_of(terms, result, kind, *, relu: bool):
    """A module of `quantize(dequantize(a) ± dequantize(b))`, and all pairs of bytes."""
    values = np.arange(-128, 128, dtype=np.int8)
    pairs = [values.reshape(256, 1).repeat(256, 1), values.reshape(1, 256).repeat(256, 0)]
    net = Net(*pairs)
    floats = [net.dequantize(x, *grid) for x, grid in zip(net.arguments, terms, strict=True)]
    total = net.add(kind.make(*floats))
    total = net.add(ReluOp.make(total)) if relu else total
    return net.returning(net.quantize(total, *result)), pairs


@given(grids, grids, grids, st.sampled_from([AddOp, SubOp]), st.booleans())
def test_sums_of_two_terms_are_a_step_off_at_most(a, b, result, kind, relu):
    """From the exact sum, on any grids, or they stay in float."""
    module, pairs = sum_of((a, b), result, kind, relu=relu)
    fixed = run_passes(module, FixPointPass("float_scale_last"))
    if "quantize" in op_names(fixed):
        return
    (found,), (floats,) = evaluate(fixed, *pairs), evaluate(module, *pairs)
    assert np.abs(found.astype(int) - floats).max() <= 1
    x, y = (p.astype(float) - zero for p, (_, zero) in zip(pairs, (a, b), strict=True))
    exact = x * float(a[0]) + (y if kind is AddOp else -y) * float(b[0])
    exact = (np.maximum(exact, 0) if relu else exact) / float(result[0]) + result[1]
    assert np.abs(found - np.clip(exact, -128, 127)).max() < 1.5


@pytest.mark.parametrize(
    ("scales", "is_integer"),
    [
        ((1.0, 0.5, 0.9), True),
        ((1.6, 1.6, 1.0), True),
        ((1.6, 0.9, 1.0), True),
        ((2.5, 1, 1), False),
    ],
)
def test_terms_may_have_a_larger_scale_than_the_sum(scales, is_integer):
    """On the coarser grid of the two only one of them is rounded, if that."""
    zeros = (0, 0, 0)
    a, b, result = zip(scales, zeros, strict=True)
    module, _ = sum_of((a, b), result, AddOp, relu=False)
    names = op_names(run_passes(module, FixPointPass("float_scale_last")))
    assert ("quantize" not in names) == is_integer


@pytest.mark.parametrize("shape", [(), (1, 100)])
@pytest.mark.parametrize("way", FLOAT_SCALES)
@given(st.floats(0.2, 4), st.integers(0, 2**32 - 1))
def test_constants_that_are_added_to_many_are_not_rounded(way, shape, scale, seed):
    """As the three of a hard swish: a rounded one would move the mean of what it is added to."""
    random = np.random.default_rng(seed)
    x, three = (random.integers(-128, 128, s, np.int8) for s in ((50, 100), shape))
    net = Net(x)
    a, b = (net.dequantize(each, scale, 0) for each in (net.arguments[0], net.constant(three)))
    module = net.returning(net.quantize(net.add(AddOp.make(a, b)), 1.0, 0))
    (found,), (exact,) = evaluate(run_passes(module, FixPointPass(way)), x), evaluate(module, x)
    np.testing.assert_array_equal(found, exact)
