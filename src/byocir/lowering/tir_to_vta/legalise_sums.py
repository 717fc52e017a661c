"""Gathers what is added to sums that take few values, on the way to their requantise, in one
number.

A residual sum `a * m + b * n + c` of bytes has at most 65,536 values, one over a window not many
more. What is added to it before it is shifted (what the zero points of its terms bring, the zero
point of its result, the half that rounds) is one number. Where the shift is longer than one step
does, the number is added between two steps, without its lowest bits. If that gives the same results
is not argued but tried, on all values; if not, the lowest bits are added in front. Ties to even
take no steps of their own where none of the values is a tie.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from xdsl.dialects.builtin import UNKNOWN_LOC, LocationAttr

from byocir.dialects.graph.fixed_point import rescale
from byocir.dialects.intervals import Interval
from byocir.dialects.locations import fuse
from byocir.lowering.tir_to_vta.legalise_lanes import (
    I32_RANGE,
    IMMEDIATE,
    WIDEST_SHIFT,
    Lane,
    Requantised,
    Step,
)

MOST_VALUES = 2**18
"""Sums with more values are not tried: to try as many takes a hundredth of a second."""


@dataclass(frozen=True)
class Sum:
    """Stands for `sum(lane * factor) + constant`; nothing that leads to it wraps or saturates."""

    factors: Mapping[Lane, int]
    constant: int
    location: LocationAttr

    @property
    def range(self) -> Interval:
        """Gives the range of values that the sum may have."""
        ends = [lane.range.scaled(factor) for lane, factor in self.factors.items()]
        low, high = (self.constant + sum(side) for side in zip(*ends, strict=True))
        return Interval(low, high)

    def plus(self, other: Sum) -> Sum:
        """Adds another sum; each lane occurs once."""
        factors = Counter(self.factors)
        factors.update(other.factors)
        constant = self.constant + other.constant
        return Sum(factors, constant, fuse(self.location, other.location))

    def scaled(self, factor: int, constant: int = 0) -> Sum:
        """Multiplies by a number: `self * factor + constant`."""
        factors = {lane: number * factor for lane, number in self.factors.items()}
        return replace(self, factors=factors, constant=self.constant * factor + constant)

    def values(self) -> np.ndarray | None:
        """Lists all values without the constant, int64; None where there are too many."""
        values = np.zeros(1, np.int64)
        for lane, factor in self.factors.items():
            if values.size * lane.range.size > MOST_VALUES:
                return None
            numbers = np.arange(lane.range.low, lane.range.high + 1) * factor
            values = np.add.outer(values, numbers).reshape(-1)
        return values


@dataclass(frozen=True)
class ShiftedSum:
    """Holds a requantise in the form `clamp(((terms + below >> first) + above) >> last)`, or with
    one shift where `last` is 0. `results` is the range before the clamp. `inside`, times the
    requantise's multiplier, is added to the terms before the first shift, too.
    """

    lane: Requantised
    terms: Sum
    below: int
    first: int
    above: int = 0
    last: int = 0
    results: Interval = I32_RANGE
    inside: int = 0

    @property
    def location(self) -> LocationAttr:
        """Gives the location of the requantise and of what leads to it."""
        return fuse(self.terms.location, self.lane.location)

    @property
    def number(self) -> int:
        """Gives the number that is added to the terms before the first shift."""
        multiplier = self.lane.multiplier.number
        assert multiplier is not None
        return self.inside * multiplier + self.below

    def result(self, value: int) -> int:
        """Computes, from the sum of the terms, the number before the clamp."""
        return ((value + self.number >> self.first) + self.above) >> self.last

    def with_term(self, term: Lane, other: Lane, inside: int) -> ShiftedSum:
        """Replaces a term by another lane, and the number inside by another; stays as it is where a
        number on the way would leave i32.
        """
        factors = {other if lane is term else lane: f for lane, f in self.terms.factors.items()}
        made = replace(self, terms=replace(self.terms, factors=factors), inside=inside)
        low, high = made.terms.range
        total = Interval(low + min(made.number, 0), high + max(made.number, 0))
        if not _fits(made.terms) or not I32_RANGE.contains(total):
            return self
        return replace(made, results=Interval(made.result(low), made.result(high)))

    def tried(self, values: np.ndarray, wanted: np.ndarray) -> ShiftedSum | None:
        """Checks the sum for all values of its terms: gives it with its range if the results are
        those wanted and nothing on the way leaves i32, else None.
        """
        start = values + self.below
        total = (start >> self.first) + self.above
        results = total >> self.last
        inside = all(I32_RANGE.contains(_range(array)) for array in (values, start, total))
        if not inside or not np.array_equal(np.clip(results, *self.lane.range), wanted):
            return None
        return replace(self, results=_range(results))


def gathered(lane: Requantised, uses: Counter[Lane]) -> ShiftedSum | None:
    """Gathers what is added on the way to a requantise in numbers around its first shift; None
    where that saves nothing.
    """
    factor = lane.multiplier.number
    if factor is None:
        return None
    total = _sum_of(lane.operand, uses).scaled(factor)
    # The bias of a term that is requantised itself may bring the number that this sum adds.
    is_behind = len(total.factors) > 1 and any(isinstance(t, Requantised) for t in total.factors)
    rounds = lane.shift and (total.constant or lane.rounding == "half_even")
    if not rounds and not is_behind:
        return None
    terms = replace(
        total,
        factors={term: number for term, number in total.factors.items() if number},
        constant=0,
    )
    values = terms.values()
    if values is None or not _fits(terms):
        return None
    rounded = rescale(values + total.constant, 1, lane.shift, lane.rounding) + lane.zero
    wanted = np.clip(rounded, *lane.range)
    if lane.rounding == "floor" and not lane.zero:
        whole = ShiftedSum(lane, terms, 0, lane.shift, inside=total.constant // factor)
        return whole.tried(values + total.constant, wanted)
    added = total.constant + (lane.zero << lane.shift) + lane.half
    if is_behind and added % factor == 0:
        whole = ShiftedSum(lane, terms, 0, lane.shift, inside=added // factor)
        if (found := whole.tried(values + added, wanted)) is not None:
            return found
    tries = (way.tried(values, wanted) for way in _ways(lane, terms, added))
    return next((way for way in tries if way is not None), None)


def _fits(terms: Sum) -> bool:
    """Tells if there are terms, none of which leaves i32 where it is multiplied."""
    products = [lane.range.scaled(number) for lane, number in terms.factors.items()]
    return bool(products) and all(map(I32_RANGE.contains, products))


def _ways(lane: Requantised, terms: Sum, added: int) -> Iterator[ShiftedSum]:
    """Yields the ways to add a number before the last shift, those with the fewest steps first. The
    later immediates are added, the more of the number's bits count.
    """
    whole = ShiftedSum(lane, terms, added, lane.shift)
    for last in range(min(lane.shift, WIDEST_SHIFT), 0, -1):
        first = lane.shift - last
        above, below = divmod(added, 1 << first)
        if all(map(IMMEDIATE.holds, (above, above + 1, below))):
            yield ShiftedSum(lane, terms, 0, first, above, last)
            yield ShiftedSum(lane, terms, 0, first, above + 1, last)
            yield whole
            yield ShiftedSum(lane, terms, below, first, above, last)
            return
    yield whole


def _sum_of(lane: Lane, uses: Counter[Lane]) -> Sum:
    """Reads a lane as a sum of others; a lane that is read elsewhere, too, is a sum of itself."""
    found = _read(lane, uses) if uses[lane] == 1 else None
    if found is not None and lane.range.contains(found.range):
        return found
    # What requantises a term has steps of its own.
    location = UNKNOWN_LOC if isinstance(lane, Requantised) else lane.location
    return Sum({lane: 1}, 0, location)


def _read(lane: Lane, uses: Counter[Lane]) -> Sum | None:
    if isinstance(lane, Requantised):
        factor = lane.multiplier.number
        if factor is None or lane.shift:
            return None
        made = _sum_of(lane.operand, uses).scaled(factor, lane.zero)
    elif not isinstance(lane, Step):
        return None
    elif isinstance(lane.rhs, Lane):
        if lane.name != "add":
            return None
        made = _sum_of(lane.lhs, uses).plus(_sum_of(lane.rhs, uses))
    else:
        number = lane.rhs.number
        if number is None or lane.name not in ("add", "mul"):
            return None
        factor, constant = (number, 0) if lane.name == "mul" else (1, number)
        made = _sum_of(lane.lhs, uses).scaled(factor, constant)
    return replace(made, location=fuse(made.location, lane.location))


def _range(values: np.ndarray) -> Interval:
    return Interval(int(values.min()), int(values.max()))
