"""Computes fixed-point numbers for `graph.requantize`: how a scale becomes a multiplier and a
shift.

`y = saturate(round(x * multiplier / 2^shift))` for an int32 accumulator `x`. The numbers chosen
here let a device without 64-bit products compute it: where `x` is first cut to the accumulators
beyond which results saturate, nothing leaves int32, and every `x` gives the exact result.
"""

from __future__ import annotations

from typing import Any, Literal, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

Rounding = Literal["half_up", "half_even", "floor"]
"""The way in which fixed point rounds: to the nearest integer, and ties up or to the even one; or
down, which rounds half up where the half was added before (`rewrites/early_half.py`)."""

FloatScale = Literal["float_scale", "float_scale_last"]
FLOAT_SCALE: Literal["float_scale"] = "float_scale"
SCALE_LAST: Literal["float_scale_last"] = "float_scale_last"
FLOAT_SCALES: tuple[FloatScale, ...] = get_args(FloatScale)
"""The ways of devices that compute in no fixed point: they multiply by an f32, and round half to
even. Those that do so last add nothing behind it, so that a zero point is added to sums before
(`rewrites/early_zero.py`)."""

Integers = TypeVar("Integers", int, NDArray[np.int64])

INT32_MAX = 2**31 - 1

MAX_SHIFT = 23
"""The most fractional bits: an int8 result with 23 of them stays within 2^30, which leaves room in
int32 for one multiplier more and for the rounding term."""


def span_of(limits: tuple[int, int], zero_point: int) -> int:
    """Gives a bound above the magnitudes of rounded numbers that matter: those from which the zero
    point and the cut to these limits make different results.
    """
    return max(limits[1] - zero_point + 1, zero_point - limits[0])


SHORT_ENOUGH = 2.0**-4
"""By how much of a step short multipliers may move the greatest results, on the mean of all
channels: few results are as great, so that of a thousand a few change, each by one step."""


def fixed_parameters(
    scales: np.ndarray, span: int = 2**7, reach: np.ndarray | None = None
) -> tuple[np.ndarray, int]:
    """Gives multipliers (int32, the shape of `scales`) and their common shift: `scales` is about
    `multipliers / 2^shift`.

    `scales` are float64, finite and not negative; `span` is one more than the greatest result (128
    for int8, 256 for uint8; with a zero point, what `span_of` tells). The shift is MAX_SHIFT, less
    where that leaves no room: `span * 2^shift + multiplier <= 2^31 - 1` always holds. Then powers
    of two common to all multipliers are divided out, so that power-of-two scales give multiplier 1.
    A scale below 2^-24 gives multiplier 0. A scale too large even for shift 0 is cut to what fits:
    with any accumulator but 0 the result saturates either way.

    `reach` is the greatest magnitude of accumulators, broadcast to the scales, where it is known.
    Then multipliers are so short that no product leaves int32, and nothing must be clamped before
    it, if they are SHORT_ENOUGH for that.
    """
    scales = np.asarray(scales, np.float64)
    shift = _longest_shift(scales, span, 1.0)
    if reach is not None:
        short = _longest_shift(scales, span, reach)
        moved = np.abs(np.rint(scales * 2.0**short) / 2.0**short - scales)
        greatest = np.minimum(reach, span / np.maximum(scales, 2.0**-MAX_SHIFT))
        if np.mean(moved * greatest) <= SHORT_ENOUGH and np.max(moved * greatest) <= 0.5:
            shift = short
    rounded = np.rint(scales * 2.0**shift)
    multipliers = np.minimum(rounded, INT32_MAX - (span << shift)).astype(np.int32)
    common = common_powers_of_two(multipliers, shift)
    return multipliers >> common, shift - common


def _longest_shift(scales: np.ndarray, span: int, reach: np.ndarray | float) -> int:
    """Gives the most fractional bits that multipliers can have so that products of accumulators of
    this magnitude, with a result beside them, stay in int32.
    """
    for shift in range(MAX_SHIFT, 0, -1):
        products = np.rint(scales * 2.0**shift) * reach
        if (span << shift) + np.max(products, initial=0.0) <= INT32_MAX:
            return shift
    return 0


def common_powers_of_two(multipliers: np.ndarray, shift: int) -> int:
    """Counts the factors 2 that these multipliers (int32) and `2^shift` have in common, by which
    both can be reduced.
    """
    bits = int(np.bitwise_or.reduce(multipliers, axis=None))
    if bits == 0:
        return shift
    return min(shift, (bits & -bits).bit_length() - 1)


def rescale(x: Integers, multiplier: Integers | int, shift: int, rounding: Rounding) -> Integers:
    """Computes `round(x * multiplier / 2^shift)` without saturating: the meaning of `fixed`. It is
    exact for Python's integers, and in int64 for those of int32.
    """
    product: Any = x * multiplier
    if shift == 0 or rounding == "floor":
        return product >> shift
    half = 1 << (shift - 1)
    if rounding == "half_up":
        return (product + half) >> shift
    return (product + half - 1 + ((product >> shift) & 1)) >> shift
