"""Leaves out clamps of the terms of a sum that the clamp of the sum makes needless:

```
max((clamp(x, -128, 127) * 2 + y) >> 1, 0)  →  max((min(x, 127) * 2 + y) >> 1, 0)
```

As y is at most 127, all x of -128 or less give 0. What leads from a clamp to that of the sum never
falls, so it suffices to look at one number: where a term at the bound of its clamp, beside the
greatest other terms, gives no more than the least result, so does any lower one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np
from xdsl.dialects import arith
from xdsl.ir import Operation, SSAValue

from byocir.dialects.intervals import Interval
from byocir.dialects.tir import BlockOp
from byocir.dialects.tir.scalar import number_op
from byocir.dialects.uses import erase_unused, replace_uses
from byocir.patterns.scalars import constant_number
from byocir.rewrites.block_ends import NOTHING, BodyEnds, Ends, Known, scalar_ends
from byocir.rewrites.machine.clamp_chains import ANY, CLAMPS, CONVERSIONS, clamp_behind, clamped


def has_idle_clamps(op: BlockOp, ends: BodyEnds) -> bool:
    """Tells whether there are clamps of terms in a block's body that can be left out."""
    return next(_Terms(op, ends).idle(), None) is not None


def drop_idle_clamps(op: BlockOp, given: Known = NOTHING) -> bool:
    """Leaves out clamps of terms in a block's body; tells if there were any. No number on the way
    leaves its type without them. `given` bounds arrays that are made elsewhere.
    """
    ends, found = scalar_ends(op, given), False
    while (idle := next(_Terms(op, ends).idle(), None)) is not None:
        result = None if found else _Terms(op, ends).result()
        for each in (idle, result):
            if each is not None:
                each.drop(op)
        ends, found = scalar_ends(op, given), True
    return found


@dataclass(frozen=True)
class _Matters:
    """Says between which numbers a value must be known: any number of at most `low` gives the same
    result, and so does any of at least `high`. Ends have a number for each channel.
    """

    low: np.ndarray
    high: np.ndarray


@dataclass(frozen=True)
class _Idle:
    """Describes a clamp that need not act: the value of the body that is in its place a number
    clamped between bounds that are left.
    """

    place: SSAValue
    number: SSAValue
    left: Interval

    def drop(self, op: BlockOp) -> None:
        """Puts the number in the place of its clamp."""
        place, value = self.place.owner, self.number
        assert isinstance(place, Operation)
        assert place.parent is not None
        for clamp, bound in ((arith.MaxSIOp, self.left.low), (arith.MinSIOp, self.left.high)):
            if bound not in ANY:
                constant = number_op(bound, value.type)
                made = clamp(value, constant.result)
                constant.location = made.location = place.location
                place.parent.insert_ops_before([constant, made], place)
                value = made.result
        replace_uses(self.place, value)
        erase_unused(op.body.block)


_Path = Sequence[Operation]
"""Ops each of which reads the result of the next one."""


def _ops_between(value: SSAValue, number: SSAValue) -> _Path | None:
    """Lists the clamps and conversions that lead from a number to a value, the last one first; None
    where others read what is between.
    """
    found: list[Operation] = []
    while value is not number:
        owner = value.owner
        assert isinstance(owner, Operation)
        if not value.has_one_use():
            return None
        found.append(owner)
        *first, value = owner.operands
        value = next((x for x in first if constant_number(x) is None), value)
    return found


class _Terms:
    """Walks from the clamp of a block's result to the terms that lead there."""

    def __init__(self, op: BlockOp, ends: BodyEnds) -> None:
        self._op, self._ends = op, ends

    def result(self) -> _Idle | None:
        """Reads the clamp of the block's result, between the numbers that it gives: a clamp of its
        term may be why it gives no others.
        """
        place = clamp_behind(self._op.yielded[0], self._ends)
        found = clamped(place, self._ends)
        if found is None:
            return None
        number, bounds = found
        return _Idle(place, number, self._ends[number].interval.clamped(bounds))

    def idle(self) -> Iterator[_Idle]:
        """Yields the clamps that need not act, each for itself, if that of the result is as narrow
        as it can be.
        """
        result = self.result()
        if result is None:
            return
        chain = _ops_between(self._op.yielded[0], result.number)
        if chain is not None:
            low, high = (np.array(end, object) for end in result.left)
            yield from self._behind(result.number, _Matters(low, high), chain, [])

    def _behind(
        self, value: SSAValue, matters: _Matters, path: _Path, converted: _Path
    ) -> Iterator[_Idle]:
        """Yields the clamps on the way to a value. `path` has the ops that lead from it to the
        result, the last one first, but for the conversions that follow it.
        """
        owner = value.owner
        if not isinstance(owner, Operation) or not value.has_one_use():
            return
        if self._ends.unwrapped(owner) is None:
            return
        if isinstance(owner, CLAMPS):
            yield from self._clamp(value, matters, path, converted)
        elif isinstance(owner, CONVERSIONS):
            yield from self._behind(owner.operands[0], matters, path, [*converted, owner])
        else:
            for operand, inner in self._operands(owner, matters):
                yield from self._behind(operand, inner, [*path, *converted, owner], [])

    def _operands(self, op: Operation, matters: _Matters) -> Iterator[tuple[SSAValue, _Matters]]:
        """Yields the operands with which the result of an op rises, with what matters of them."""
        if not isinstance(op, arith.AddiOp | arith.MuliOp | arith.ShRSIOp):
            return
        pairs = permutations(op.operands)
        for x, y in [op.operands] if isinstance(op, arith.ShRSIOp) else pairs:
            ends = self._ends[y]
            if isinstance(op, arith.AddiOp):
                yield x, _Matters(matters.low - ends.high, matters.high - ends.low)
            elif not ends.are_known:
                continue
            elif isinstance(op, arith.ShRSIOp):
                scale = 1 << ends.low.astype(object)
                yield x, _Matters(matters.low * scale + scale - 1, matters.high * scale)
            elif ends.interval.low > 0:
                factor = ends.low.astype(object)
                yield x, _Matters(matters.low // factor, -(-matters.high // factor))

    def _clamp(
        self, value: SSAValue, matters: _Matters, path: _Path, converted: _Path
    ) -> Iterator[_Idle]:
        """Yields a clamp, and those behind it: what it cuts off matters no more than its bounds."""
        found = clamped(value, self._ends)
        if found is None:
            return
        number, (low, high) = found
        ends = self._ends[number].interval
        is_low_idle = ends.low < low and bool(np.all(low <= matters.low))
        is_high_idle = ends.high > high and bool(np.all(high >= matters.high))
        left = Interval(ANY.low if is_low_idle else low, ANY.high if is_high_idle else high)
        places = [*(op.results[0] for op in converted), value]
        at = next((i for i, place in enumerate(places) if place.type == number.type), None)
        if at is not None and left != (low, high):
            idle = _Idle(places[at], number, left)
            if self._stays(idle, [*path, *converted[:at]]):
                yield idle
        chain = _ops_between(value, number)
        if chain is not None:
            inner = _Matters(np.maximum(matters.low, low), np.minimum(matters.high, high))
            yield from self._behind(number, inner, [*path, *converted, *chain], [])

    def _stays(self, idle: _Idle, path: _Path) -> bool:
        """Tells whether all numbers on the path stay within their types without a clamp."""
        known = BodyEnds(self._ends.rank, self._ends)
        known[idle.place] = known[idle.number].clamped(Ends.of(idle.left, known.rank))
        for op in reversed(path):
            ends = known.unwrapped(op)
            if ends is None:
                return False
            known[op.results[0]] = ends
        return True
