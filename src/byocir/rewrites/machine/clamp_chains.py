"""Reads chains of clamps in bodies, through conversions that change no number."""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.ir import Operation, SSAValue

from byocir.dialects.intervals import Interval
from byocir.patterns.scalars import constant_number
from byocir.rewrites.block_ends import BodyEnds

CONVERSIONS = arith.ExtSIOp | arith.ExtUIOp | arith.TruncIOp
CLAMPS = arith.MaxSIOp | arith.MinSIOp
ANY = Interval(-(2**63), 2**63 - 1)
"""The numbers between which a value is clamped that is not."""


def clamped(value: SSAValue, ends: BodyEnds) -> tuple[SSAValue, Interval] | None:
    """Reads a chain of clamps to numbers: gives the value that it clamps, and the numbers between
    which it does; None for another value.
    """
    low, high = ANY
    steps = list[tuple[type[Operation], int]]()
    while isinstance(owner := value.owner, CLAMPS):
        numbers = [constant_number(operand) for operand in owner.operands]
        at = next((i for i, number in enumerate(numbers) if isinstance(number, int)), None)
        if at is None:
            break
        steps.append((type(owner), int(numbers[at] or 0)))
        value = clamp_behind(owner.operands[1 - at], ends)
    for kind, number in reversed(steps):
        bound = max if kind is arith.MaxSIOp else min
        low, high = bound(low, number), bound(high, number)
    return (value, Interval(low, high)) if steps else None


def clamp_behind(value: SSAValue, ends: BodyEnds) -> SSAValue:
    """Looks through conversions that change no number, to a clamp before them; gives the value
    itself if there is none.
    """
    inner = value
    while isinstance(owner := inner.owner, CONVERSIONS):
        if ends.unwrapped(owner) is None:
            return value
        inner = owner.operands[0]
    return inner if isinstance(inner.owner, CLAMPS) else value
