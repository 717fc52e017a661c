"""Reads where bodies round half to even, and emits that in the operations of vector units.

Bodies write it as `(x + half - 1 + odd) >> shift`, with `odd` the lowest bit of `x >> shift`. Where
no x is half-way between two results that differ, `(x + half) >> shift` gives the same. Otherwise
the bit is turned around and brought to the sign: shifted down again it is -1 where the quotient is
even.
"""

from __future__ import annotations

from itertools import permutations

import numpy as np
from xdsl.dialects import arith
from xdsl.ir import Operation, SSAValue

from byocir.dialects.intervals import Interval, integer_range
from byocir.dialects.tir.bodies import round_even
from byocir.dialects.tir.scalar import Emitted
from byocir.patterns.scalars import ScalarPattern, match_part, number
from byocir.rewrites.block_ends import BodyEnds, Ends
from byocir.rewrites.machine.clamp_chains import CONVERSIONS

MOST_VALUES = 2**18
"""Sums with more values are not looked at one by one."""
FEW = 2**9
"""An integer that is no sum is taken to have any of its values where these are so few."""


def even_rounding(value: SSAValue, ends: BodyEnds) -> tuple[SSAValue, SSAValue] | None:
    """Gives what a value rounds, half to even, and the bits by which it shifts; None for another
    value, and where what it rounds and half of 2^shift may leave their type.
    """
    if not isinstance(value.owner, arith.ShRSIOp):
        return None
    for part in match_part(value, _rounded, 1):
        shift, below = int(part.numbers["shift"]), int(part.numbers["below"])
        (rounded,) = part.inputs
        if rounded is None or shift <= 0 or below != (1 << shift - 1) - 1:
            continue
        half = Ends.of(Interval.at(below + 1), ends.rank)
        if ends[rounded].corners(half, np.add).within(integer_range(rounded.type)):
            return rounded, value.owner.rhs
    return None


def _rounded(_: ScalarPattern, x: ScalarPattern) -> ScalarPattern:
    return round_even(x, number("below"), number("shift"))


def half_even(x: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """Computes `x / 2^shift`, rounded half to even, with shifts of at least 1."""
    return (x + (1 << shift - 1) - 1 + (x >> shift & 1)) >> shift


def emit_half_even(x: Emitted, shift: int, width: int, *, ties: bool) -> Emitted:
    """Emits how an integer of so many bits is rounded, with ties or without; it shifts by at most
    width - 2 bits, and x plus half of 2^shift fits the width.
    """
    if not ties:
        return (x + (1 << shift - 1)) >> shift
    is_even = ((x + (1 << shift)) * (1 << width - 1 - shift)) >> width - 1
    return (is_even + (1 << shift - 1) + x) >> shift


def has_ties(value: SSAValue, shift: int, within: Ends, ends: BodyEnds) -> bool:
    """Tells whether a value may lie half-way between two multiples of 2^shift. Only numbers
    `within` these matter.
    """
    half, whole = 1 << shift - 1, 1 << shift
    values = values_of(value, ends)
    if values is not None:
        low, high = within.interval
        inside = values[(low <= values) & (values <= high)]
        return bool(np.any(inside % whole == half))
    x, factor = _product(value, ends)
    if factor is None:
        return True
    # A multiple of the factor is half-way where x is an odd multiple of a step.
    common = np.gcd(factor, whole)
    step = np.where(common == whole, 2 * whole, half // common)
    low = np.maximum(ends[x].low, -(-within.low // factor))
    high = np.minimum(ends[x].high, within.high // factor)
    can_be = (common < whole) & ((low <= -step) | (high >= step))
    return bool(can_be.any())


def _product(value: SSAValue, ends: BodyEnds) -> tuple[SSAValue, np.ndarray | None]:
    """Reads a product with known factors above 0; they are None for another value."""
    owner = value.owner
    if isinstance(owner, arith.MuliOp):
        for x, y in permutations(owner.operands):
            factor = ends.get(y)
            if x in ends and factor is not None and factor.are_known and factor.interval.low > 0:
                return x, factor.low.astype(object)
    return value, None


def values_of(value: SSAValue, ends: BodyEnds) -> np.ndarray | None:
    """Lists all numbers that a value may be (int64), and maybe more; None where there are too
    many.
    """
    owner = value.owner
    if isinstance(owner, Operation) and ends.unwrapped(owner) is not None:
        if isinstance(owner, CONVERSIONS):
            return values_of(owner.operands[0], ends)
        if isinstance(owner, arith.AddiOp | arith.MuliOp):
            sides = [values_of(operand, ends) for operand in owner.operands]
            found = [side for side in sides if side is not None]
            if len(found) < 2 or found[0].size * found[1].size > MOST_VALUES:
                return None
            apply = np.add if isinstance(owner, arith.AddiOp) else np.multiply
            return apply.outer(*found).reshape(-1)
    interval = ends[value].interval if value in ends else None
    few = interval is not None and interval.size <= FEW
    return np.arange(interval.low, interval.high + 1) if interval is not None and few else None
