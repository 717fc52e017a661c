"""The fixed-point numbers against exact integer arithmetic."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from byocir.dialects.graph.fixed_point import (
    INT32_MAX,
    MAX_SHIFT,
    fixed_parameters,
    rescale,
)

ROUNDINGS = ("floor", "half_up", "half_even")
SCALES = st.one_of(
    st.floats(-40, 21).map(lambda exponent: 2.0**exponent),
    st.integers(-30, 20).map(lambda exponent: 2.0**exponent),
)
INT32_MIN = -(2**31)


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


@given(SCALES, st.sampled_from(ROUNDINGS), st.integers(0, 2**32 - 1))
def test_rescale_is_exact(scale, rounding, seed):
    """For accumulators of all magnitudes, and near ties."""
    multiplier, shift = parameters(scale)
    random = np.random.default_rng(seed).integers(INT32_MIN, INT32_MAX, 2000, endpoint=True)
    magnitudes = random >> (np.arange(2000) % 32)
    halves = (np.arange(-400, 400) << shift >> 1) // max(multiplier, 1)
    x = np.concatenate([random, magnitudes, halves, halves + 1])
    expected = exact(x, multiplier, shift, rounding)
    np.testing.assert_array_equal(rescale(x, multiplier, shift, rounding), expected)


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


def test_channels_share_one_shift():
    multipliers, shift = fixed_parameters(np.array([0.5, 0.25, 2.0**-8]))
    assert multipliers.tolist() == [128, 64, 1]
    assert shift == 8


def test_a_vanishing_scale_gives_0():
    assert parameters(2.0**-40)[0] == 0


def test_a_scale_beyond_int32_saturates_every_accumulator_but_0():
    multiplier, shift = parameters(1e30)
    x = np.array([-3, -1, 0, 1, 7])
    found = rescale(x, multiplier, shift, "half_even")
    assert np.clip(found, -128, 127).tolist() == [-128, -128, 0, 127, 127]


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
