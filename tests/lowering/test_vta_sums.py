"""Requantises of sums with few values: the same results for all values, in fewer steps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from xdsl.dialects.builtin import UNKNOWN_LOC

from byocir.dialects.graph.fixed_point import fixed_parameters, rescale, span_of
from byocir.dialects.intervals import Interval
from byocir.dialects.types import i8
from byocir.lowering.tir_to_vta.legalise_lanes import (
    I8_RANGE,
    I32_RANGE,
    Constant,
    Lane,
    Requantised,
    Step,
    count_uses,
    cycles,
    is_immediate,
    step,
)
from byocir.lowering.tir_to_vta.legalise_requantise import NeedsMoreBits, expand, expand_all
from byocir.lowering.tir_to_vta.legalise_sums import gathered
from byocir.rewrites.grid import Grid
from byocir.rewrites.residual_sums import byte_parameters, sum_parameters

Values = dict[Lane, np.ndarray]


def value_of(lane: Lane, leaves: Values) -> np.ndarray:
    """What a lane is in i32, which must lie where the lane says. What is added to a product may
    bring back what that loses."""
    if lane in leaves:
        return leaves[lane]
    if isinstance(lane, Requantised):
        x, factor = value_of(lane.operand, leaves), lane.multiplier.number
        found = rescale(x, factor, lane.shift, lane.rounding) + lane.zero
        return np.clip(found, *lane.range)
    assert isinstance(lane, Step)
    left = value_of(lane.lhs, leaves)
    right = lane.rhs.number if isinstance(lane.rhs, Constant) else value_of(lane.rhs, leaves)
    made = {
        "add": lambda: wrapped(left + right),
        "mul": lambda: wrapped(left * right),
        "max": lambda: np.maximum(left, right),
        "min": lambda: np.minimum(left, right),
        "shr": lambda: left >> right,
        "shl": lambda: wrapped(left << right),
    }[lane.name]()
    assert made.min() >= lane.range.low
    assert made.max() <= lane.range.high
    return made


def wrapped(exact: np.ndarray) -> np.ndarray:
    return (exact + 2**31) % 2**32 - 2**31


def all_values(*leaves: Lane) -> Values:
    """Each leaf with each of its values, beside each of the others'."""
    numbers = [np.arange(leaf.range.low, leaf.range.high + 1) for leaf in leaves]
    return dict(zip(leaves, np.meshgrid(*numbers), strict=True))


def leaf(values: Interval = I8_RANGE) -> Lane:
    return Lane(values, UNKNOWN_LOC)


def product(operand: Lane, factor: int, zero: int) -> Requantised:
    """`operand * factor + zero`."""
    found = operand.range.scaled(factor)
    found = Interval(found.low + zero, found.high + zero)
    return Requantised(found, UNKNOWN_LOC, operand, number(factor), 0, "half_up", zero)


def number(value: int) -> Constant:
    return Constant.uniform(value, 4)


def total(lhs: Lane, rhs: Lane | int) -> Step:
    return step("add", lhs, number(rhs) if isinstance(rhs, int) else rhs, UNKNOWN_LOC)


ZEROS = st.sampled_from([-128, 127, 0, -1, 5, -77])
ROUNDINGS = st.sampled_from(["floor", "half_up", "half_even"])
RANGES = st.sampled_from([I8_RANGE, Interval(0, 127), Interval(-128, 127), Interval(-9, 30)])


def residual(
    scales,
    zeros,
    rounding,
    clamp=I8_RANGE,
    ranges=(I8_RANGE, I8_RANGE),
    signs=(1, 1),
    *,
    as_bytes=False,
):
    """A residual sum as fix-point makes it, and its leaves; scales are over that of the result."""
    grid = Grid(np.float32(1), np.int8(zeros[2]), None, i8)
    farthest = [max(127 - zero, zero + 128) for zero in zeros[:2]]
    factors, shift = sum_parameters(np.array(scales), farthest, grid)
    multiplier = 1
    if as_bytes and (short := byte_parameters(np.array(scales), farthest)) is not None:
        factors, multiplier, shift = short
    leaves = [leaf(range_) for range_ in ranges]
    terms = [
        product(lane, int(factor) * sign, -int(factor) * sign * zero)
        for lane, factor, sign, zero in zip(leaves, factors, signs, zeros, strict=False)
    ]
    sums = total(*terms)
    back = number(int(multiplier))
    return Requantised(clamp, UNKNOWN_LOC, sums, back, shift, rounding, zeros[2]), leaves


@given(
    st.tuples(*[st.sampled_from([1e-4, 0.03, 0.3, 0.5, 1.0, 1.7, 20.0]) | st.floats(1e-6, 30)] * 2),
    st.tuples(ZEROS, ZEROS, ZEROS),
    ROUNDINGS,
    st.sampled_from([I8_RANGE, Interval(-128, 5), Interval(-77, 127)]),
    st.tuples(RANGES, RANGES),
    st.sampled_from([(1, 1), (1, -1)]),
    st.booleans(),
)
@example((1.0, 0.5), (3, -128, 7), "half_even", I8_RANGE, (I8_RANGE, I8_RANGE), (1, 1), False)
def test_residual_sums_of_all_bytes_are_exact(
    scales, zeros, rounding, clamp, ranges, signs, as_bytes
):
    """Ties, saturation at both ends and zero points at the ends of their type included."""
    lane, leaves = residual(scales, zeros, rounding, clamp, ranges, signs, as_bytes=as_bytes)
    (made,) = expand_all([lane])
    values = all_values(*leaves)
    np.testing.assert_array_equal(value_of(made, values), value_of(lane, values))
    assert cycles(made) <= cycles(expand(replace(lane, operand=expand_all([lane.operand])[0])))


@given(
    st.integers(1, 200), ZEROS, ZEROS, st.floats(1e-3, 20), ROUNDINGS, st.sampled_from([1, 2, 3])
)
def test_averages_of_all_sums_are_exact(points, zero, result, ratio, rounding, scale):
    """A sum over a window, its zero points taken off, by a scale."""
    factors, shift = fixed_parameters(np.array(ratio / points), span_of(I8_RANGE, result))
    sums = leaf(Interval(-128 * points, 127 * points))
    lane = Requantised(
        I8_RANGE,
        UNKNOWN_LOC,
        total(sums, -zero * points),
        number(int(factors) * scale),
        shift,
        rounding,
        result,
    )
    (made,) = expand_all([lane])
    values = all_values(sums)
    np.testing.assert_array_equal(value_of(made, values), value_of(lane, values))


def steps_of(lane: Lane) -> list[str]:
    """The operations, each behind those of its operands; "i" where the second is an immediate."""
    if not isinstance(lane, Step):
        return []
    constant = isinstance(lane.rhs, Constant)
    name = f"{lane.name} i" if constant and is_immediate(lane.rhs) else lane.name
    return [*steps_of(lane.lhs), *([] if constant else steps_of(lane.rhs)), name]


SYMMETRIC = ["mul", "mul", "add", "shr i", "add i", "shr i"]
CLAMPS = ["max i", "min i"]


@pytest.mark.parametrize("rounding", ["half_up", "half_even"])
def test_zero_points_of_sums_take_no_steps_where_no_value_meets_what_is_lost(rounding):
    lane, _ = residual((0.44, 0.11), (7, -3, 0), rounding)
    assert steps_of(expand_all([lane])[0]) == SYMMETRIC


def test_zero_points_of_sums_are_added_whole_where_some_does():
    """In one step of two cycles, as the immediate and the second shift are."""
    lane, _ = residual((1.53, 0.39), (1, -128, -128), "half_up")
    (made,) = expand_all([lane])
    assert steps_of(made) == [*SYMMETRIC[:3], "add", "shr i", *CLAMPS]
    symmetric, _ = residual((1.53, 0.39), (0, 0, 0), "half_up")
    assert cycles(made) == cycles(expand_all([symmetric])[0])


@pytest.mark.parametrize("zeros", [(0, 0, 0), (7, -3, 0)])
def test_terms_are_multiplied_by_bytes_and_their_sum_by_a_number(zeros):
    lane, _ = residual((0.44, 0.11), zeros, "half_up", as_bytes=True)
    (made,) = expand_all([lane])
    assert steps_of(made) == ["mul i", "mul i", "add", "mul i", "shr i", "add i", "shr i"]


def test_an_average_on_one_grid_only_rounds():
    sums = leaf(Interval(-512, 508))
    lane = Requantised(I8_RANGE, UNKNOWN_LOC, total(sums, 512), number(1), 2, "half_up", -128)
    assert steps_of(expand_all([lane])[0]) == ["add i", "shr i"]


def test_terms_that_are_read_elsewhere_stay():
    """What is added to them is made anyway."""
    lane, _ = residual((0.37, 0.61), (7, -3, 0), "half_up")
    term = lane.operand.lhs
    made, other = expand_all([lane, term])
    assert other in list(count_uses([made]))


def test_a_sum_of_one_array_with_itself_is_one_product():
    x = leaf()
    lane = Requantised(
        I8_RANGE,
        UNKNOWN_LOC,
        total(product(x, 3, -6), product(x, 4, -8)),
        number(1),
        4,
        "half_up",
        3,
    )
    (made,) = expand_all([lane])
    assert steps_of(made) == ["mul i", "add i", "shr i"]
    values = all_values(x)
    np.testing.assert_array_equal(value_of(made, values), value_of(lane, values))


def test_sums_that_may_wrap_are_left_alone():
    x, y = leaf(Interval(0, 2)), leaf(Interval(0, 1))
    sums = total(product(x, 2**30, 5), product(y, 2**30, 5))
    assert sums.range == I32_RANGE
    lane = Requantised(I8_RANGE, UNKNOWN_LOC, sums, number(1), 23, "half_up", 1)
    assert gathered(lane, count_uses([lane])) is None


def test_few_points_load_few_operands():
    """A bias behind the product saves a cycle for each point, and its clamp at 0 is an operand."""
    x = leaf(Interval(-(2**23), 2**23))
    lane = Requantised(
        Interval(0, 127), UNKNOWN_LOC, total(x, -40000), number(2000), 20, "half_up", 0
    )
    early = ["add", "max i", "min", "mul i", "shr i", "add i", "shr i"]
    assert steps_of(expand_all([lane], points=1)[0]) == early
    assert steps_of(expand_all([lane])[0]) == ["max", "min", "mul i", "add", "shr i"]


@pytest.mark.parametrize("shift", [56, 64])
def test_zero_points_that_64_bits_do_not_hold_before_the_shift_are_refused(shift):
    x = total(leaf(I8_RANGE), 1)
    lane = Requantised(Interval(63, 64), UNKNOWN_LOC, x, number(1), shift, "half_up", 64)
    with pytest.raises(NeedsMoreBits):
        expand_all([lane])


def sum_behind_a_product(
    inner: tuple[int, int, int, str],
    factors: tuple[int, int],
    outer: tuple[int, int, str],
    clamp: Interval,
    y: Interval = I8_RANGE,
) -> tuple[Requantised, list[Lane]]:
    """A sum of bytes and of what is requantised of `x` (by a bias, a multiplier, a shift and its
    rounding), each times a factor, requantised by a multiplier and a shift."""
    bias, multiplier, shift, rounding = inner
    leaves = [leaf(Interval(-700, 650)), leaf(y)]
    biased = total(leaves[0], bias)
    term = Requantised(I8_RANGE, UNKNOWN_LOC, biased, number(multiplier), shift, rounding)
    sums = total(product(term, factors[0], 0), product(leaves[1], factors[1], 0))
    by, last, rounds = outer
    return Requantised(clamp, UNKNOWN_LOC, sums, number(by), last, rounds), leaves


@given(
    st.tuples(st.integers(-40, 40), st.sampled_from([1, 1, 2, 5]), st.integers(0, 4), ROUNDINGS),
    st.tuples(st.sampled_from([1, 1, 2, 4, 77, -3]), st.sampled_from([1, 1, 2, 53, -1])),
    st.tuples(st.sampled_from([1, 1, 3]), st.integers(0, 8), ROUNDINGS),
    st.sampled_from([I8_RANGE, Interval(0, 127), Interval(0, 6), Interval(-3, 127)]),
    RANGES,
)
@example((3, 1, 4, "floor"), (1, 1), (1, 1, "half_up"), Interval(0, 127), Interval(0, 127))
@example((3, 1, 1, "half_even"), (1, 1), (1, 1, "half_up"), I8_RANGE, I8_RANGE)
def test_sums_behind_products_are_exact(inner, factors, outer, clamp, y):
    """For all values, also where clamps of the term are left out and its bias brings the half."""
    lane, leaves = sum_behind_a_product(inner, factors, outer, clamp, y)
    (made,) = expand_all([lane])
    values = all_values(*leaves)
    np.testing.assert_array_equal(value_of(made, values), value_of(lane, values))


def test_a_term_is_clamped_where_the_sum_is_not_clamped_anyway():
    """A term below -128 gives 0 whatever it is added to; one above 127 gives 127 only with bytes
    from 0 on. Its bias brings the half of the sum."""
    inner, relu = (3, 1, 2, "floor"), Interval(0, 127)
    lane, _ = sum_behind_a_product(inner, (1, 1), (1, 1, "half_up"), relu)
    found = steps_of(expand_all([lane])[0])
    assert found == ["add i", "shr i", "min i", "add", "shr i", "max i"]
    lane, _ = sum_behind_a_product(inner, (1, 1), (1, 0, "half_up"), relu)
    assert steps_of(expand_all([lane])[0]) == ["add i", "shr i", "min i", "add", *CLAMPS]
    lane, _ = sum_behind_a_product(inner, (1, 1), (1, 0, "half_up"), relu, Interval(0, 127))
    assert steps_of(expand_all([lane])[0]) == ["add i", "shr i", "add", *CLAMPS]


def test_a_bias_brings_nothing_that_needs_more_bits():
    """The half of the sum goes into the bias only where the term then needs no clamp of its own,
    for which i32 may be too narrow."""
    x, y = leaf(Interval(-1451753, 8379347)), leaf(Interval(0, 127))
    term = Requantised(I8_RANGE, UNKNOWN_LOC, total(x, -62), number(256), 22, "floor")
    lane = Requantised(Interval(0, 1), UNKNOWN_LOC, total(term, y), number(1), 4, "half_up")
    (made,) = expand_all([lane])
    some = np.linspace(*x.range, 999).astype(np.int64)
    values = dict(zip((x, y), np.meshgrid(some, range(128)), strict=True))
    np.testing.assert_array_equal(value_of(made, values), value_of(lane, values))
