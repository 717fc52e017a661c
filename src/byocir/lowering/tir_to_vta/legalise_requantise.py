"""Requantise in the i32 operations that VTA has: clamp, multiply, round, shift.

The accumulators beyond the clamp saturate anyway (`byocir.dialects.graph.fixed_point`), so the
product never leaves i32 and the result is exact for every accumulator. Clamps that the range of the
accumulator makes idle are left out. Where a bias is added behind the product, the product alone may
wrap around, and the sum wraps it back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from byocir.dialects.graph.fixed_point import INT32_MAX, INT32_MIN, clamp_bounds, rescale
from byocir.dialects.intervals import Interval
from byocir.lowering.tir_to_vta.legalise_lanes import (
    I32_RANGE,
    IMMEDIATE,
    OPERAND_CYCLES,
    SHIFT_WITH_PRODUCTS,
    WIDEST_SHIFT,
    Constant,
    Lane,
    Requantised,
    Step,
    count_uses,
    cycles,
    step,
)
from byocir.lowering.tir_to_vta.legalise_sums import ShiftedSum, gathered

MANY = 2**16
"""Points of a channel for which loading operands hardly counts."""


class NeedsMoreBits(Exception):
    """An intermediate product does not fit i32."""


def expand(lane: Requantised) -> Lane:
    """The steps that compute a requantise; raises NeedsMoreBits when i32 is too narrow for it."""
    steps = _Steps(lane)
    result = steps.clamp_before()
    if lane.shift:
        steps.multiply()
        steps.round_and_shift(result)
    else:
        steps.multiply_and_add(result)
    return steps.clamp_after(result)


def with_late_bias(lane: Requantised) -> Lane | None:
    """The steps of a requantise of `x + bias` that clamp x, multiply it, and add what the bias
    brings there together with the rounding term and the zero point; None where that number is not
    known or a sum may wrap. The product alone may: the sum brings it back."""
    biased = lane.operand
    if not isinstance(biased, Step) or not isinstance(biased.rhs, Constant) or not lane.shift:
        return None
    exact = biased.name == "add" and biased.range != I32_RANGE
    if not exact or lane.rounding != "half_up" or lane.multiplier.range.low < 0:
        return None
    bias, factors = biased.rhs.values, lane.multiplier.values
    steps = _Steps(lane)
    result, clamps = steps.clamp_before(), steps.made()
    ends = [np.full_like(bias + factors, end) for end in biased.range]
    for clamp, bound in clamps:
        ends = [_CLAMPS[clamp](end, bound.values) for end in ends]
    term = (1 << lane.shift >> 1) + (lane.zero << lane.shift)
    low, high = (end * factors + term for end in ends)
    known = Interval(int(low.min()), int(high.max()))
    late = [(clamp, Constant(bound.values - bias)) for clamp, bound in clamps]
    if not all(I32_RANGE.contains(i) for i in (known, *(bound.range for _, bound in late))):
        return None
    steps = _Steps(replace(lane, operand=biased.lhs), SHIFT_WITH_PRODUCTS)
    for clamp, bound in late:
        steps.apply(clamp, bound)
    steps.multiply()
    added = (bias * factors + term).astype(np.int32).astype(np.int64)  # wraps around
    steps.apply("add", Constant(added), known)
    steps.shift(lane.shift, result)
    return steps.clamp_after(result)


_CLAMPS = {"max": np.maximum, "min": np.minimum}


def expand_all(
    roots: Sequence[Lane], *, has_products: bool = True, points: int = MANY
) -> list[Lane]:
    """These lanes, for so many points of each channel, with every requantise expanded; raises
    NeedsMoreBits. Where the machine has products, sums are gathered into them, a bias may come
    after one, and shifts are longer."""
    made, uses = dict[Lane, Lane](), count_uses(roots)

    def expanded(lane: Lane) -> Lane:
        if lane not in made:
            made[lane] = _expanded(lane, uses if has_products else None, points, expanded)
        return made[lane]

    return [expanded(root) for root in roots]


def _expanded(
    lane: Lane, uses: Counter[Lane] | None, points: int, expanded: Callable[[Lane], Lane]
) -> Lane:
    if isinstance(lane, Requantised):
        given = replace(lane, operand=expanded(lane.operand))
        if uses is None:
            return expand(given)
        ways, total = [expand(given)], gathered(lane, uses)
        if total is not None:
            ways.append(_shifted(total, expanded))
        elif uses[lane.operand] == 1 and (late := with_late_bias(given)) is not None:
            ways.append(late)
        return min(ways, key=lambda way: cycles(way, points, OPERAND_CYCLES))
    if not isinstance(lane, Step):
        return lane
    rhs = expanded(lane.rhs) if isinstance(lane.rhs, Lane) else lane.rhs
    return replace(lane, lhs=expanded(lane.lhs), rhs=rhs)


def _shifted(found: ShiftedSum, expanded: Callable[[Lane], Lane]) -> Lane:
    """The steps of a sum that is shifted twice."""
    rank, location = found.lane.multiplier.values.ndim, found.location
    terms: list[Lane] = []
    for lane, factor in found.terms.factors.items():
        term = expanded(lane)
        if factor != 1:
            term = step("mul", term, Constant.uniform(factor, rank), location)
        terms.append(term)
    total = reduce(lambda lhs, rhs: step("add", lhs, rhs, location), terms)
    steps = _Steps(replace(found.lane, operand=total, location=location), SHIFT_WITH_PRODUCTS)
    steps.add(found.below)
    steps.shift(found.first, None if found.last else found.results)
    steps.add(found.above)
    steps.shift(found.last, found.results)
    return steps.clamp_after(found.results)


@dataclass
class _Steps:
    """The expansion of a requantise while it is made; `value` is its last step."""

    lane: Requantised
    longest_shift: int = WIDEST_SHIFT

    def __post_init__(self) -> None:
        self.value = self.lane.operand
        self.rank = self.lane.multiplier.values.ndim
        self.factors = [int(m) for m in np.unique(self.lane.multiplier.values)]

    def apply(self, name: str, rhs: Lane | Constant | int, known: Interval | None = None) -> None:
        """Makes `value` the result of an operation on it."""
        if isinstance(rhs, int):
            rhs = Constant.uniform(rhs, self.rank)
        self.value = step(name, self.value, rhs, self.lane.location, known)

    def made(self) -> list[tuple[str, Constant]]:
        """The steps on the operand so far, all with constants, first to last."""
        found: list[tuple[str, Constant]] = []
        value = self.value
        while value is not self.lane.operand:
            assert isinstance(value, Step)
            assert isinstance(value.rhs, Constant)
            found.append((value.name, value.rhs))
            value = value.lhs
        return found[::-1]

    def clamp_before(self) -> Interval:
        """Clamps the operand where its product would leave i32; gives the range of the result
        before it is clamped."""
        given = self.lane.operand.range
        overflows = [not self._fits(end) for end in given]
        if not any(overflows):
            return self._results(dict.fromkeys(self.factors, given))
        bounds = {m: self._bounds(m) for m in self.factors}
        if overflows[0] and given.low < max(b.low for b in bounds.values()):
            self._clamp("max", {m: b.low for m, b in bounds.items()})
        if overflows[1] and given.high > min(b.high for b in bounds.values()):
            self._clamp("min", {m: b.high for m, b in bounds.items()})
        active = {
            m: Interval(b.low if overflows[0] else INT32_MIN, b.high if overflows[1] else INT32_MAX)
            for m, b in bounds.items()
        }
        return self._results({m: given.clamped(b) for m, b in active.items()})

    def _fits(self, x: int) -> bool:
        """Tells if neither the product nor its sum with the rounding term leaves i32."""
        if not self.lane.shift:
            ends = (x * m + added for m in self.factors for added in (0, self.lane.zero))
            return all(INT32_MIN <= end <= INT32_MAX for end in ends)
        joins = self.lane.shift == self.last_shift
        room = (1 + (abs(self.joined) if joins else 0)) << self.lane.shift
        return all(INT32_MIN + room <= x * m <= INT32_MAX - room for m in self.factors)

    def _bounds(self, multiplier: int) -> Interval:
        low, high = (end - self.lane.zero for end in self.lane.range)
        if multiplier < 0 or max(-low, high + 1) * 2**self.lane.shift + multiplier > INT32_MAX:
            raise NeedsMoreBits
        bounds = clamp_bounds(multiplier, self.lane.shift, low, high, self.lane.rounding)
        # With a result of at least 0 the bound 0 does as well, and it is always an immediate.
        return Interval(0 if low == 0 else bounds[0], bounds[1])

    def _clamp(self, name: str, bound_of: dict[int, int]) -> None:
        bounds = np.vectorize(bound_of.__getitem__, otypes=[np.int64])(self.lane.multiplier.values)
        self.apply(name, Constant(bounds))

    def _results(self, operands: dict[int, Interval]) -> Interval:
        """The range of the results of operands in these ranges, by multiplier."""
        lane = self.lane
        ends = [
            rescale(end, m, lane.shift, lane.rounding) + lane.zero
            for m, values in operands.items()
            for end in values
        ]
        return Interval(min(ends), max(ends))

    def multiply(self, known: Interval | None = None) -> None:
        """Multiplies, unless by 1."""
        if self.lane.multiplier.number != 1:
            self.apply("mul", self.lane.multiplier, known)

    def multiply_and_add(self, result: Interval) -> None:
        """The product and the zero point, without rounding. A zero point that is a multiple of the
        multiplier is added first, for what it is a multiple by is the smaller number."""
        factor, zero = self.lane.multiplier.number, self.lane.zero
        if factor and zero % factor == 0:
            self.add(zero // factor)
            self.multiply(known=result)
        else:
            self.multiply()
            self.add(zero, result)

    def add(self, number: int, known: Interval | None = None) -> None:
        """Adds a number, unless it is 0."""
        if number:
            self.apply("add", number, known)

    @property
    def joined(self) -> int:
        """The zero point where it may join the rounding term: that of bytes, rounded half up. With
        ties to even an odd one would turn them around."""
        zero = self.lane.zero
        joins = self.lane.rounding == "half_up" and -128 <= zero <= 127
        return zero if joins or not self.lane.shift else 0

    @property
    def last_shift(self) -> int:
        """By how much the last step of rounding half up shifts: as far that the rounding term, and
        a zero point that joins it, are an immediate."""
        last = min(self.lane.shift, WIDEST_SHIFT)
        while last and not IMMEDIATE.holds(self._term(last)):
            last -= 1
        return last

    def _term(self, shift: int) -> int:
        return (1 << shift >> 1) + (self.joined << shift)

    def round_and_shift(self, result: Interval) -> None:
        """Adds the rounding term, shifts, and adds the zero point."""
        shift, last = self.lane.shift, self.last_shift
        rest = self.lane.zero - self.joined
        if self.lane.rounding == "half_even":
            self._take_even()
            self.add(1 << (shift - 1))
            last = shift
        else:
            # The bits below the term do not matter, and a smaller term is an immediate.
            if shift > last:
                self.shift(shift - last)
            self.add(self._term(last))
        self.shift(last, Interval(result.low - rest, result.high - rest))
        self.add(rest, result)

    def _take_even(self) -> None:
        """Subtracts 1 where the quotient is even, so that ties, half up, go to the even number.

        The lowest bit of the quotient is brought to bit 15, turned around by adding an immediate,
        and becomes the sign; minima and maxima make 0 or -1 of that."""
        product, up = self.value, WIDEST_SHIFT - self.lane.shift
        if up < 0:
            self.shift(-up)
        elif up > 0:
            self.apply("shl", up)
        self.add(IMMEDIATE.low)
        self.apply("shl", WIDEST_SHIFT + 1)
        self.apply("max", -1)
        self.apply("min", 0, known=Interval(-1, 0))
        even, self.value = self.value, product
        self.apply("add", even)

    def shift(self, amount: int, known: Interval | None = None) -> None:
        """Shifts to the right, unless by 0."""
        while amount > self.longest_shift:
            self.apply("shr", self.longest_shift)
            amount -= self.longest_shift
        if amount:
            self.apply("shr", amount, known)

    def clamp_after(self, found: Interval) -> Lane:
        """Clamps the result to its range, where it may be outside."""
        low, high = self.lane.range
        if found.low < low:
            self.apply("max", low)
        if found.high > high:
            self.apply("min", high, known=Interval(low, high))
        return self.value
