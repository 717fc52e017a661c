"""Rows for buffers: which of them are alive at once, and where each lies.

The largest buffers come first, each as low as those that are alive with it allow. A buffer lies in
one bank and begins at a granule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from byocir.dialects.tir import AllocOp
from byocir.dialects.types import shape_of
from byocir.machine import Calls, Memory
from byocir.rewrites.machine.steps import steps_of


@dataclass(frozen=True)
class Life:
    """A buffer of a memory, and the first and the last step that it is alive in."""

    buffer: AllocOp
    memory: Memory
    first: int
    last: int

    @cached_property
    def rows(self) -> int:
        return self.memory.rows_of(shape_of(self.buffer.result.type))

    def meets(self, other: Life) -> bool:
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True)
class Overfull:
    """A memory that does not hold what is alive at once: the rows that it would need for that, and
    the buffers."""

    memory: Memory
    wanted: int
    alive: tuple[Life, ...]


Rows = Mapping[AllocOp, int]


def lives_of(calls: Sequence[Calls], slack: int = 0) -> list[Life]:
    """The buffers of a program in the order of their use, each alive for `slack` more steps than it
    is used in: so long, what comes next can be made beside it. Time is counted in calls."""
    first: dict[AllocOp, int] = {}
    last: dict[AllocOp, int] = {}
    memories: dict[AllocOp, Memory] = {}
    ends: list[int] = []
    at = 0
    for number, step in enumerate(steps_of(calls)):
        for call in [*step.loads, *step.work]:
            for place in call.places.values():
                owner = place.buffer.owner
                if isinstance(owner, AllocOp) and not place.memory.is_main:
                    first.setdefault(owner, at)
                    last[owner], memories[owner] = at, place.memory
            at += 1
        ends.append(at - 1)
        assert len(ends) == number + 1
    step_at = [n for n, end in enumerate(ends) for _ in range(end - (ends[n - 1] if n else -1))]

    def end(buffer: AllocOp) -> int:
        if not slack:
            return last[buffer]
        return ends[min(step_at[last[buffer]] + slack, len(ends) - 1)]

    return [Life(b, memories[b], first[b], end(b)) for b in first]


def arranged(memories: Sequence[Memory], lives: Sequence[Life]) -> Rows | Overfull:
    """The first row of each buffer of these memories, or the memory that does not hold them."""
    found: dict[AllocOp, int] = {}
    for memory in memories:
        own = [life for life in lives if life.memory == memory]
        placed = _Placed()
        for life in sorted(own, key=lambda life: (-life.rows, life.first)):
            row = _lowest(memory, life, placed.beside(life))
            if row is None:
                return _overfull(memory, own, life)
            placed.add(row, life)
            found[life.buffer] = row
    return found


class _Placed:
    """Buffers that have rows, by when they are alive: most are so for a short time."""

    _SPAN = 64

    def __init__(self) -> None:
        self._at: dict[int, list[tuple[int, Life]]] = {}

    def _spans(self, life: Life) -> range:
        return range(life.first // self._SPAN, life.last // self._SPAN + 1)

    def add(self, row: int, life: Life) -> None:
        for span in self._spans(life):
            self._at.setdefault(span, []).append((row, life))

    def beside(self, life: Life) -> list[tuple[int, Life]]:
        """Those that are alive with a buffer."""
        found = [each for span in self._spans(life) for each in self._at.get(span, ())]
        return [(row, other) for row, other in found if other.meets(life)]


def _lowest(memory: Memory, life: Life, beside: Sequence[tuple[int, Life]]) -> int | None:
    """The lowest row at which a buffer fits between those that are alive with it."""
    bank, row = memory.rows // memory.banks, 0
    for low, other in sorted(beside, key=lambda each: each[0]):
        row = _in_bank(row, life.rows, bank)
        if row + life.rows <= low:
            return row
        row = max(row, low + other.rows)
    row = _in_bank(row, life.rows, bank)
    return row if life.rows <= bank and row + life.rows <= memory.rows else None


def _in_bank(row: int, rows: int, bank: int) -> int:
    """The first row from here on at which so many lie in one bank."""
    return row if row % bank + rows <= bank else (row // bank + 1) * bank


def _overfull(memory: Memory, own: Sequence[Life], life: Life) -> Overfull:
    """Lists the buffers alive at the worst moment of one that found no place."""
    moments = sorted({max(other.first, life.first) for other in own if other.meets(life)})
    alive = [
        [o for o in own if o.first <= at <= o.last]
        for at in moments
        if life.first <= at <= life.last
    ]
    worst = max(alive, key=lambda lives: sum(each.rows for each in lives))
    return Overfull(memory, sum(each.rows for each in worst), tuple(worst))
