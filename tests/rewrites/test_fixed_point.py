"""The fixed-point numbers against exact integer arithmetic."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from byocir.dialects.graph.fixed_point import (
    INT32_MAX,
    INT32_MIN,
    MAX_SHIFT,
    clamp_bounds,
    fixed_parameters,
    rescale,
)

ROUNDINGS = ("floor", "half_up", "half_even")
SCALES = st.one_of(
    st.floats(-40, 21).map(lambda exponent: 2.0**exponent),
    st.integers(-30, 20).map(lambda exponent: 2.0**exponent),
)
INT8_BOUNDS = st.tuples(st.integers(-128, 127), st.integers(-128, 127)).map(sorted)
UINT8_BOUNDS = st.tuples(st.integers(0, 255), st.integers(0, 255)).map(sorted)


def parameters(scale: float, span: int = 128) -> tuple[int, int]:
    multipliers, shift = fixed_parameters(np.array(scale), span)
    return int(multipliers), shift


def exact(x: np.ndarray, multiplier: int, shift: int, rounding: str) -> np.ndarray:
    """The rescaled accumulators (int64), from products that int64 holds exactly."""
    products = x.astype(np.int64) * multiplier
    if shift == 0:
        return products
    floor, rest = products >> shift, products & (2**shift - 1)
    if rounding == "floor":
        return floor
    half = 2 ** (shift - 1)
    above_tie = floor + 1 if rounding == "half_up" else floor + (floor & 1)
    return np.where(rest == half, above_tie, floor + (rest > half))


def clamps_after(multiplier, shift, lo, hi, rounding) -> bool:
    """Tells if results of accumulators within the bounds must still be clamped to [lo, hi]: never
    for scales up to 1, except where one is so small that no int32 reaches [lo, hi] from 0."""
    lower, upper = clamp_bounds(multiplier, shift, lo, hi, rounding)
    least = rescale(lower, multiplier, shift, rounding)
    return least < lo or rescale(upper, multiplier, shift, rounding) > hi


def clamped_in_int32(x, multiplier, shift, lo, hi, rounding) -> np.ndarray:
    """What a device does that has int32 only; fails if anything leaves int32."""
    lower, upper = clamp_bounds(multiplier, shift, lo, hi, rounding)
    assert INT32_MIN <= lower <= upper <= INT32_MAX
    products = np.clip(x.astype(np.int64), lower, upper) * multiplier
    half = 2**shift >> 1
    assert products.min() >= INT32_MIN
    assert products.max() + half <= INT32_MAX
    odd = (products >> shift) & 1
    term = half if rounding == "half_up" or shift == 0 else half - 1 + odd
    if rounding == "floor":
        term = 0
    y = (products + term) >> shift
    if clamps_after(multiplier, shift, lo, hi, rounding):
        return np.clip(y, lo, hi)
    return y


def critical_accumulators(multiplier, shift, lo, hi, rounding) -> np.ndarray:
    """Everything near a bound, near a tie at the ends, near 0 and at the ends of int32."""
    ends = [*clamp_bounds(multiplier, shift, lo, hi, rounding), 0, INT32_MIN, INT32_MAX]
    ends += [(bound << shift) // max(multiplier, 1) for bound in (lo, hi, lo - 1, hi + 1)]
    near = (np.array(ends, np.int64)[:, None] + np.arange(-40, 41)).reshape(-1)
    return near[(near >= INT32_MIN) & (near <= INT32_MAX)]


@given(SCALES, INT8_BOUNDS, st.sampled_from(ROUNDINGS), st.integers(0, 2**32 - 1))
def test_clamping_first_is_exact_for_int8(scale, bounds, rounding, seed):
    check_clamping(scale, 128, bounds, rounding, seed)


@given(SCALES, UINT8_BOUNDS, st.sampled_from(ROUNDINGS), st.integers(0, 2**32 - 1))
def test_clamping_first_is_exact_for_uint8(scale, bounds, rounding, seed):
    check_clamping(scale, 256, bounds, rounding, seed)


def check_clamping(scale, span, bounds, rounding, seed):
    (multiplier, shift), (lo, hi) = parameters(scale, span), bounds
    arguments = (multiplier, shift, lo, hi, rounding)
    random = np.random.default_rng(seed).integers(INT32_MIN, INT32_MAX, 2000, endpoint=True)
    magnitudes = random >> (np.arange(2000) % 32)
    x = np.concatenate([random, magnitudes, critical_accumulators(*arguments)])
    expected = np.clip(exact(x, multiplier, shift, rounding), lo, hi)
    np.testing.assert_array_equal(clamped_in_int32(x, *arguments), expected)


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("scale", [2.0**-14, 0.00013, 0.0071, 0.5, 0.999999, 1.0, 1.5, 200.0])
def test_clamping_first_is_exact_for_every_small_accumulator(scale, rounding):
    """Those of results up to twice as far out as any that is not clamped."""
    multiplier, shift = parameters(scale)
    farthest = min(int(2**8 / scale) + 2, 2**21)
    x = np.arange(-farthest, farthest)
    expected = np.clip(exact(x, multiplier, shift, rounding), -128, 127)
    found = clamped_in_int32(x, multiplier, shift, -128, 127, rounding)
    np.testing.assert_array_equal(found, expected)


@given(SCALES, st.integers(INT32_MIN, INT32_MAX), st.sampled_from(ROUNDINGS))
def test_rescale_of_one_number_is_exact(scale, x, rounding):
    multiplier, shift = parameters(scale)
    assert rescale(x, multiplier, shift, rounding) == exact(
        np.array(x), multiplier, shift, rounding
    )


@given(SCALES, st.sampled_from([128, 256]))
def test_parameters_leave_room_and_are_close(scale, span):
    multiplier, shift = parameters(scale, span)
    assert 0 <= shift <= 23
    assert span * 2**shift + multiplier <= INT32_MAX
    assert abs(multiplier / 2**shift - scale) <= max(span * 2.0**-31, scale * 2.0**-11)


@given(st.integers(-23, 20))
def test_a_power_of_two_has_multiplier_1_or_shift_0(exponent):
    multiplier, shift = parameters(2.0**exponent)
    assert multiplier / 2**shift == 2.0**exponent
    assert multiplier == 1 or shift == 0


def test_scales_up_to_1_follow_the_published_formula():
    multiplier, shift = parameters(0.0123)
    lower, upper = clamp_bounds(multiplier, shift, -128, 127, "half_up")
    half = 2 ** (shift - 1)
    assert upper == (128 * 2**shift - half - 1) // multiplier
    assert lower == -((128 * 2**shift + half) // multiplier)
    assert not clamps_after(multiplier, shift, -128, 127, "half_up")


def test_scales_above_1_are_clamped_again():
    multiplier, shift = parameters(1.7)
    assert clamps_after(multiplier, shift, -128, 127, "half_up")


def test_channels_share_one_shift():
    multipliers, shift = fixed_parameters(np.array([0.5, 0.25, 2.0**-8]))
    assert multipliers.tolist() == [128, 64, 1]
    assert shift == 8


def test_a_vanishing_scale_gives_0():
    multiplier, shift = parameters(2.0**-40)
    assert multiplier == 0
    assert clamp_bounds(multiplier, shift, -128, 127, "half_up") == (INT32_MIN, INT32_MAX)


def test_a_scale_beyond_int32_saturates_every_accumulator_but_0():
    multiplier, shift = parameters(1e30)
    x = np.array([-3, -1, 0, 1, 7])
    found = clamped_in_int32(x, multiplier, shift, -128, 127, "half_even")
    assert found.tolist() == [-128, -128, 0, 127, 127]


REACHES = st.lists(
    st.tuples(st.floats(-14, -3).map(lambda exponent: 2.0**exponent), st.integers(0, 2**26)),
    min_size=1,
    max_size=5,
)


@given(REACHES, st.sampled_from([128, 256]), st.sampled_from(ROUNDINGS), st.integers(0, 2**32 - 1))
def test_short_multipliers_need_no_clamp_and_move_results_by_one_step(
    channels, span, rounding, seed
):
    scales, reach = (np.array(numbers) for numbers in zip(*channels, strict=True))
    multipliers, shift = fixed_parameters(scales, span, reach)
    if np.any(multipliers.astype(np.int64) * reach + (span << shift) > INT32_MAX):
        long, shift_of_long = fixed_parameters(scales, span)
        assert shift == shift_of_long
        np.testing.assert_array_equal(multipliers, long)
        return
    x = np.random.default_rng(seed).integers(-reach, reach, (400, len(reach)), endpoint=True)
    found = exact(x, multipliers, shift, rounding)
    wanted = np.rint(x * scales)
    np.testing.assert_array_less(
        np.abs(np.clip(found, -span, span - 1) - np.clip(wanted, -span, span - 1)), 2
    )


def test_multipliers_are_long_where_short_ones_would_move_too_many_results():
    scales, reach = np.array([0.00072, 0.00111]), np.array([2**25, 2**25])
    assert fixed_parameters(scales, 128, reach)[1] == MAX_SHIFT
    assert fixed_parameters(scales, 128, reach >> 5)[1] == 20
