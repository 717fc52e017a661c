"""Expands requantise to the i32 operations that VTA has: clamp, multiply, round, shift.

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

from byocir.dialects.graph.fixed_point import INT32_MAX, clamp_bounds, rescale
from byocir.dialects.intervals import Interval
from byocir.lowering.tir_to_vta.legalise_lanes import (
    I32_RANGE,
    IMMEDIATE,
    OPERAND_CYCLES,
    SHIFT_WITH_PRODUCTS,
    WIDEST_SHIFT,
    Constant,
    Lane,
    Pooled,
    Requantised,
    Step,
    count_uses,
    cycles,
    ends_of,
    step,
)
from byocir.lowering.tir_to_vta.legalise_sums import ShiftedSum, gathered
from byocir.rewrites.block_ends import Ends

MANY = 2**16
"""Points of a channel for which loading operands hardly counts."""


MOST = 2**62
"""Bounds a zero point and the rounding term before the shift, so that sums of them fit 64 bits."""


class NeedsMoreBits(Exception):
    """Says that an intermediate product does not fit i32."""


def expand(lane: Requantised, longest_shift: int = WIDEST_SHIFT) -> Lane:
    """Makes the steps that compute a requantise; raises NeedsMoreBits when i32 is too narrow for
    it.
    """
    steps = _Steps(lane, longest_shift if lane.rounding == "floor" else WIDEST_SHIFT)
    result = steps.clamp_before()
    if lane.shift:
        steps.multiply()
        steps.round_and_shift(result)
    else:
        steps.multiply_and_add(result)
    return steps.clamp_after(result)


def with_late_bias(lane: Requantised) -> Lane | None:
    """Makes the steps of a requantise of `x + bias` that clamp x, multiply it, and add the
    multiplied bias together with the rounding term and the zero point. None where that number is
    not known or a sum may wrap; the product alone may wrap, as the sum brings it back.
    """
    biased = lane.operand
    if not isinstance(biased, Step) or not isinstance(biased.rhs, Constant) or not lane.shift:
        return None
    exact = biased.name == "add" and biased.range != I32_RANGE
    if not exact or lane.rounding == "half_even" or lane.multiplier.range.low < 0:
        return None
    bias, factors = biased.rhs.values, lane.multiplier.values
    steps = _Steps(lane)
    result, clamps = steps.clamp_before(), steps.made()
    ends = list(ends_of(biased))
    for clamp, bound in clamps:
        ends = [_CLAMPS[clamp](end, bound.values) for end in ends]
    term = lane.half + (lane.zero << lane.shift)
    low, high = (end * factors + term for end in ends)
    known = Interval(int(low.min()), int(high.max()))
    late = [(clamp, Constant(bound.values - bias)) for clamp, bound in clamps]
    if not all(I32_RANGE.contains(i) for i in (known, *(bound.range for _, bound in late))):
        return None
    steps = _Steps(replace(lane, operand=biased.lhs), SHIFT_WITH_PRODUCTS)
    for clamp, bound in late:
        steps.apply(clamp, bound)
    steps.multiply()
    # I32 wraps around as on the ALU.
    added = (bias * factors + term).astype(np.int32).astype(np.int64)
    steps.apply("add", Constant(added), known)
    steps.shift(lane.shift, result)
    return steps.clamp_after(result)


_CLAMPS = {"max": np.maximum, "min": np.minimum}


def expand_all(
    roots: Sequence[Lane], *, has_products: bool = True, points: int = MANY
) -> list[Lane]:
    """Expands every requantise in these lanes, for so many points of each channel; raises
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
        if abs(lane.zero) + 1 << lane.shift > MOST:
            raise NeedsMoreBits
        given = replace(lane, operand=expanded(lane.operand))
        if uses is None:
            return expand(given)
        ways, total = [expand(given, SHIFT_WITH_PRODUCTS)], gathered(lane, uses)
        if total is not None:
            # The products are computed side by side.
            ways.insert(0, _shifted(_eased(total, uses), expanded))
        elif uses[lane.operand] == 1 and (late := with_late_bias(given)) is not None:
            ways.append(late)
        return min(ways, key=lambda way: cycles(way, points, OPERAND_CYCLES))
    if isinstance(lane, Pooled):
        return replace(lane, operand=expanded(lane.operand))
    if not isinstance(lane, Step):
        return lane
    rhs = expanded(lane.rhs) if isinstance(lane.rhs, Lane) else lane.rhs
    return replace(lane, lhs=expanded(lane.lhs), rhs=rhs)


def _eased(found: ShiftedSum, uses: Counter[Lane]) -> ShiftedSum:
    """Leaves out work of a sum's term that is requantised itself and read nowhere else: clamps
    which those of the sum make needless, and the number inside, which its bias can bring.
    """
    multiplier = found.lane.multiplier.number
    assert multiplier is not None
    for term, factor in found.terms.factors.items():
        if isinstance(term, Requantised) and uses[term] == 1 and factor > 0:
            free = _without_clamps(found, term, factor)
            number, rest = divmod(found.inside * multiplier, factor)
            raised = _raised(free, number) if number and not rest else None
            if raised is not None and _unclamped(raised) is not None:
                return found.with_term(term, raised, inside=0)
            return found.with_term(term, free, found.inside)
    return found


def _without_clamps(found: ShiftedSum, term: Requantised, factor: int) -> Requantised:
    """Drops a term's clamp on a side where the result would be clamped anyway:

        max((clamp(x, -128, 127) * 2 + y) >> 1, 0)  →  max((min(x, 127) * 2 + y) >> 1, 0)

    as y is at most 127, so that all x below -128 give 0.
    """
    reached, clamp = _unclamped(term), found.lane.range
    if reached is None:
        return term
    others = replace(found.terms, factors={**found.terms.factors, term: 0}).range
    low, high = term.range
    if found.result(factor * low + others.high) <= clamp.low:
        low = min(low, reached.low)
    if found.result(factor * high + others.low) >= clamp.high:
        high = max(high, reached.high)
    return replace(term, range=Interval(low, high))


def _unclamped(lane: Requantised) -> Interval | None:
    """Bounds the results of a requantise before they are clamped; None where its operand has to be
    clamped.
    """
    steps = _Steps(lane)
    ends = ends_of(lane.operand)
    return steps.results(*ends) if all(map(steps.fits, ends)) else None


def _raised(lane: Requantised, number: int) -> Requantised | None:
    """Raises the results of a requantise by a number, through its bias. None where there is no
    bias, where it would have to be a fraction, and where ties would go the other way.
    """
    biased = lane.operand
    if not isinstance(biased, Step) or (lane.rounding == "half_even" and number % 2):
        return None
    rise, rest = np.divmod(number << lane.shift, np.maximum(lane.multiplier.values, 1))
    if biased.name != "add" or not isinstance(biased.rhs, Constant) or np.any(rest):
        return None
    total = step("add", biased.lhs, Constant(biased.rhs.values + rise), biased.location)
    is_small = IMMEDIATE.holds(2 * number) and lane.multiplier.range.low > 0
    if not is_small or I32_RANGE in (total.range, biased.range):
        return None
    low, high = lane.range
    return replace(lane, operand=total, range=Interval(low + number, high + number))


def _shifted(found: ShiftedSum, expanded: Callable[[Lane], Lane]) -> Lane:
    """Makes the steps of a sum that is shifted twice."""
    rank, location = found.lane.multiplier.values.ndim, found.location
    multiplier = found.lane.multiplier.number
    assert multiplier is not None

    def scaled(lane: Lane, factor: int) -> Lane:
        if factor == 1:
            return lane
        return step("mul", lane, Constant.uniform(factor, rank), location)

    factors = found.terms.factors.items()
    terms = [scaled(expanded(lane), factor // multiplier) for lane, factor in factors]
    total = reduce(lambda lhs, rhs: step("add", lhs, rhs, location), terms)
    if found.inside:
        total = step("add", total, Constant.uniform(found.inside, rank), location)
    total = scaled(total, multiplier)
    steps = _Steps(replace(found.lane, operand=total, location=location), SHIFT_WITH_PRODUCTS)
    steps.add(found.below)
    steps.shift(found.first, None if found.last else found.results)
    steps.add(found.above)
    steps.shift(found.last, found.results)
    return steps.clamp_after(found.results)


@dataclass
class _Steps:
    """Builds the expansion of a requantise; `value` is its last step."""

    lane: Requantised
    longest_shift: int = WIDEST_SHIFT

    def __post_init__(self) -> None:
        self.value = self.lane.operand
        self.rank = self.lane.multiplier.values.ndim

    def apply(self, name: str, rhs: Lane | Constant | int, known: Interval | None = None) -> None:
        """Makes `value` the result of an operation on itself."""
        if isinstance(rhs, int):
            rhs = Constant.uniform(rhs, self.rank)
        self.value = step(name, self.value, rhs, self.lane.location, known)

    def made(self) -> list[tuple[str, Constant]]:
        """Gives the steps on the operand so far, all with constants, first to last."""
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
        before it is clamped itself.
        """
        low, high = ends_of(self.lane.operand)
        low_overflows, high_overflows = not self.fits(low), not self.fits(high)
        if low_overflows or high_overflows:
            factors = {m: self._bounds(m) for m in np.unique(self.lane.multiplier.values).tolist()}
            bounds = [self._by_channel({m: b[i] for m, b in factors.items()}) for i in (0, 1)]
            if low_overflows:
                low, high = self._clamp("max", bounds[0], low, high)
            if high_overflows:
                low, high = self._clamp("min", bounds[1], low, high)
        return self.results(low, high)

    def fits(self, x: np.ndarray) -> bool:
        """Tells if neither the product nor its sum with the rounding term leaves i32."""
        products = x * self.lane.multiplier.values
        reached = Interval(int(products.min()), int(products.max()))
        zero, shift = self.lane.zero, self.lane.shift
        if not shift:
            low, high = min(zero, 0), max(zero, 0)
            return I32_RANGE.contains(Interval(reached.low + low, reached.high + high))
        if self.lane.rounding == "floor":
            return I32_RANGE.contains(reached)
        room = (1 + (abs(self.joined) if shift == self.last_shift else 0)) << shift
        return I32_RANGE.contains(Interval(reached.low - room, reached.high + room))

    def _bounds(self, multiplier: int) -> Interval:
        low, high = (end - self.lane.zero for end in self.lane.range)
        if multiplier < 0 or max(-low, high + 1) * 2**self.lane.shift + multiplier > INT32_MAX:
            raise NeedsMoreBits
        bounds = clamp_bounds(multiplier, self.lane.shift, low, high, self.lane.rounding)
        # With a result of at least 0 the bound 0 does as well, and it is always an immediate.
        return Interval(0 if low == 0 else bounds[0], bounds[1])

    def _by_channel(self, number_of: dict[int, int]) -> np.ndarray:
        factors = self.lane.multiplier.values
        return np.vectorize(number_of.__getitem__, otypes=[np.int64])(factors)

    def _clamp(self, name: str, bounds: np.ndarray, low: np.ndarray, high: np.ndarray) -> Ends:
        """Clamps the operand, which has these ends; gives the ends that it has then."""
        clamp = _CLAMPS[name]
        ends = Ends(clamp(low, bounds), clamp(high, bounds))
        if np.any(ends.low != low) or np.any(ends.high != high):
            self.apply(name, Constant(bounds))
        return ends

    def results(self, low: np.ndarray, high: np.ndarray) -> Interval:
        """Bounds the results for operands between these ends."""
        lane = self.lane
        factors, shift = lane.multiplier.values, lane.shift
        ends = [rescale(end, factors, shift, lane.rounding) + lane.zero for end in (low, high)]
        return Interval(int(np.minimum(*ends).min()), int(np.maximum(*ends).max()))

    def multiply(self, known: Interval | None = None) -> None:
        """Multiplies, unless by 1."""
        if self.lane.multiplier.number != 1:
            self.apply("mul", self.lane.multiplier, known)

    def multiply_and_add(self, result: Interval) -> None:
        """Adds the steps of the product and the zero point, without rounding. A zero point that is
        a multiple of the multiplier is added before the product, as the quotient is a smaller
        number.
        """
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
        """Gives the zero point, if it may join the rounding term: that of bytes, rounded half up;
        else 0. With ties to even an odd zero point would turn ties around.
        """
        zero = self.lane.zero
        joins = self.lane.rounding == "half_up" and -128 <= zero <= 127
        return zero if joins or not self.lane.shift else 0

    @property
    def last_shift(self) -> int:
        """Counts the bits by which the last step of rounding half up shifts: as many as leave a
        rounding term, with the zero point that joins it, that fits an immediate.
        """
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
        elif self.lane.rounding == "floor":
            last = shift
        else:
            # The bits below the term do not matter, and a smaller term is an immediate.
            if shift > last:
                self.shift(shift - last)
            self.add(self._term(last))
        self.shift(last, Interval(result.low - rest, result.high - rest))
        self.add(rest, result)

    def _take_even(self) -> None:
        """Subtracts 1 where rounding half up took a tie to an odd quotient, so that ties go to the
        even number.

        The lowest bit of the quotient is brought to bit 15, turned around by adding an immediate,
        and becomes the sign; minima and maxima make 0 or -1 of that.
        """
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
