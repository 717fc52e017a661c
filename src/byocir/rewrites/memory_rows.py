"""Finds room in a memory for buffers, so that those that are alive at once do not overlap.

The largest come first, each as low as those that are alive with it allow. What is placed lies in
one bank of its memory or, if it is larger, begins with one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

MOST = 8
"""Steps for which rows are not taken again, at most."""


@dataclass(frozen=True)
class Life:
    """Describes rows, or bytes, that are needed from step `first` to step `last`, both included."""

    rows: int
    first: int
    last: int

    def meets(self, other: Life) -> bool:
        return self.first <= other.last and other.first <= self.last


Placed = tuple[int, Life]
"""The first row of a life, and that life."""
Span = tuple[int, int, int]
"""The first row of what is placed, the one past it, and a number by which it is known."""


@dataclass(frozen=True)
class Full:
    """Says that a memory is too small: the lives with these numbers are needed at one step, and
    take so many rows.
    """

    alive: tuple[int, ...]
    wanted: int


def arranged(
    rows: int, lives: Sequence[Life], banks: int = 1, before: Sequence[Placed] = ()
) -> list[int] | Full:
    """Finds the first row of each life in a memory of so many rows, beside lives that have theirs
    already.
    """
    placed, found = _Placed(), [0] * len(lives)
    for row, life in before:
        placed.add(row, life)
    for i in sorted(range(len(lives)), key=lambda i: (-lives[i].rows, lives[i].first)):
        row = lowest(lives[i].rows, placed.beside(lives[i]), rows // banks)
        if row + lives[i].rows > rows:
            return _full(lives, lives[i])
        placed.add(row, lives[i])
        found[i] = row
    return found


def spread(
    rows: int,
    lives: Sequence[Life],
    longer: Callable[[Life, int], Life],
    banks: int = 1,
    before: Sequence[Placed] = (),
) -> list[int] | Full:
    """Finds rows that are not reused for as many steps as there is room for, so that what comes
    next can be made beside what is there: `longer` makes a life last so many steps more. Lives
    last fewer steps more only near steps at which the memory is full.
    """
    all_lives = [*(life for _, life in before), *lives]
    slacks = _slacks(rows, all_lives, longer)
    for most in range(max([1, *slacks]), 0, -1):
        pairs = zip(all_lives, slacks, strict=True)
        kept = [longer(life, min(slack, most)) for life, slack in pairs]
        placed = [(row, life) for (row, _), life in zip(before, kept, strict=False)]
        found = arranged(rows, kept[len(before) :], banks, placed)
        if not isinstance(found, Full):
            return found
    return arranged(rows, lives, banks, before)


def _slacks(rows: int, lives: Sequence[Life], longer: Callable[[Life, int], Life]) -> list[int]:
    """Counts the steps that each life can last longer, if all others last as much longer, without
    a step in it that needs more rows than there are. No step needs more if others last less long.
    """
    slacks = [0] * len(lives)
    for slack in range(1, MOST + 1):
        kept = [longer(life, slack) for life in lives]
        full = _full_steps(rows, kept)
        for i, life in enumerate(kept):
            if full[life.last + 1] == full[life.first]:
                slacks[i] = slack
    return slacks


def _full_steps(rows: int, lives: Sequence[Life]) -> list[int]:
    """Counts the steps in front of each step at which lives need more rows than there are."""
    changes = np.zeros(max((life.last for life in lives), default=0) + 2, np.int64)
    sizes = [life.rows for life in lives]
    np.add.at(changes, [life.first for life in lives], sizes)
    np.subtract.at(changes, [life.last + 1 for life in lives], sizes)
    return [0, *np.cumsum(np.cumsum(changes) > rows).tolist()]


class _Placed:
    """Keeps lives that have rows, in spans of time, as most of them are short."""

    _SPAN = 64

    def __init__(self) -> None:
        self._at: dict[int, list[Placed]] = {}

    def _spans(self, life: Life) -> range:
        return range(life.first // self._SPAN, life.last // self._SPAN + 1)

    def add(self, row: int, life: Life) -> None:
        for span in self._spans(life):
            self._at.setdefault(span, []).append((row, life))

    def beside(self, life: Life) -> list[Span]:
        """Lists the rows of the lives that overlap one in time, the lowest first."""
        found = [each for span in self._spans(life) for each in self._at.get(span, ())]
        return sorted((row, row + o.rows, o.first) for row, o in found if o.meets(life))


def lowest(room: int, taken: Iterable[Span], bank: int | None = None) -> int:
    """Finds the lowest place for so much room beside what is taken, by place, in one bank if there
    are banks.
    """
    at = 0
    for begin, end, _ in taken:
        at = at if bank is None else _in_bank(at, room, bank)
        if at + room <= begin:
            return at
        if end > at:
            at = end
    return at if bank is None else _in_bank(at, room, bank)


def _in_bank(row: int, rows: int, bank: int) -> int:
    """Finds the first row from here on at which so many rows lie in one bank, or, where they are
    more than a bank has, begin with one.
    """
    here = row % bank
    return row if here == 0 or here + rows <= bank else row + bank - here


def _full(lives: Sequence[Life], life: Life) -> Full:
    """Finds the step at which a life without a place needs the most rows together with others."""
    moments = sorted({max(other.first, life.first) for other in lives if other.meets(life)})
    alive = [[i for i, o in enumerate(lives) if o.first <= at <= o.last] for at in moments]
    worst = max(alive, key=lambda numbers: sum(lives[i].rows for i in numbers))
    return Full(tuple(worst), sum(lives[i].rows for i in worst))
