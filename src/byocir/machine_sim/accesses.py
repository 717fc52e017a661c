"""Finds which instructions of a program conflict, by the latest accesses to each element of a
memory.

Units run in order: what is ordered after the latest access of a unit to an element is ordered after
all earlier ones of it. So one position for each unit and element is enough, and time and memory are
linear in the program and in what it touches. This is the bookkeeping of FastTrack (Flanagan and
Freund, PLDI 2009) for a few threads that are known before. Simulators keep it in shadows while they
look for hazards; passes that order instructions ask `conflicts`, which looks at all at once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from byocir.machine_sim.model import Accesses, Index, Program

Elements = Index | slice
NO_ELEMENTS: Index = np.empty(0, np.int64)
least, greatest = np.minimum.reduce, np.maximum.reduce
"""Of an array that is not empty: less than half the time of its methods, which weigh where most
accesses are of few elements."""


class Rival(NamedTuple):
    """Holds the latest accesses of a unit to each element, as positions in the unit's program from
    1; 0 for none.
    """

    unit: int
    writes: bool
    latest: Index


class Shadow:
    """Keeps the latest access of each unit to each element of an array of this shape, as far as
    accesses of others may conflict with it.

    `writers` and `readers` are the units that do so; with `keeps_writes` all writes are kept, which
    `unwritten` needs.
    """

    def __init__(
        self,
        shape: int | tuple[int, ...],
        writers: Collection[int],
        readers: Collection[int],
        *,
        keeps_writes: bool = False,
    ) -> None:
        everybody = {int(unit) for unit in (*writers, *readers)}
        written = [int(u) for u in sorted(writers) if keeps_writes or everybody - {u}]
        read = [int(u) for u in sorted(readers) if {*writers} - {u}]
        self._written = [Rival(unit, True, np.zeros(shape, np.int64)) for unit in written]
        self._read = [Rival(unit, False, np.zeros(shape, np.int64)) for unit in read]
        self.sides = {(u, w): self._side(u, w) for u in everybody for w in (False, True)}
        """By unit, and whether it writes: what such an access conflicts with, which are writes of
        others, and their reads if it writes; and where its position is kept, if it is."""

    def _side(self, unit: int, writes: bool) -> tuple[list[Rival], Index | None]:
        others = [*self._written, *self._read] if writes else self._written
        own = self._written if writes else self._read
        kept = next((rival.latest for rival in own if rival.unit == unit), None)
        return [rival for rival in others if rival.unit != unit], kept

    def unwritten(self, elements: Elements) -> Index:
        """Gives those elements that nobody has written."""
        left: Index | None = None
        for rival in self._written:
            positions = rival.latest[elements]
            if not positions.size or least(positions):
                return NO_ELEMENTS
            left = positions if left is None else np.maximum(left, positions)
        indices = indices_of(elements)
        return indices if left is None else indices[left == 0]


FEW = 24
"""The number of elements from which numpy finds the greatest sooner than Python does in a list."""


def latest_of(positions: Index) -> int:
    """Gives the latest of some positions; 0 where there are none."""
    if positions.ndim == 1 and positions.size < FEW:
        return max(positions.tolist(), default=0)
    return int(greatest(positions, axis=None, initial=0))


def indices_of(elements: Elements) -> Index:
    """Lists elements by their indices."""
    if not isinstance(elements, slice):
        return elements
    return np.arange(int(elements.start), int(elements.stop))


class Segments:
    """Cuts memories where accesses begin and end, so that every access is a run of whole segments,
    however large memories are. `first` and `last` are the segments of each access, the last one
    plus 1, of its memory.
    """

    def __init__(self, accesses: Accesses) -> None:
        self.accesses, self.borders = accesses, list[Index]()
        self.first, self.last = np.zeros((2, len(accesses.index)), np.int64)
        for memory in range(len(accesses.memories)):
            rows = np.flatnonzero(accesses.memory == memory)
            start, stop = accesses.start[rows], accesses.stop[rows]
            borders = np.unique(np.concatenate([start, stop]))
            self.first[rows] = np.searchsorted(borders, start)
            self.last[rows] = np.searchsorted(borders, stop)
            self.borders.append(borders)

    def shadows(self, unit: Index, fresh: Collection[str] = ()) -> list[Shadow]:
        """Makes a shadow of each memory, for instructions of these units; those of `fresh` keep all
        writes."""
        found, told = list[Shadow](), self.accesses
        for memory, (name, borders) in enumerate(zip(told.memories, self.borders, strict=True)):
            sides = ((told.memory == memory) & (told.writes == writes) for writes in (True, False))
            users = [set(unit[told.index[side]].tolist()) for side in sides]
            count = max(len(borders) - 1, 0)
            found.append(Shadow(count, *users, keeps_writes=name in fresh))
        return found

    def span(self, memory: int, segments: Index) -> tuple[int, int]:
        """Gives the first element of some segments, and the last one plus 1."""
        borders = self.borders[memory]
        return int(borders[segments[0]]), int(borders[segments[-1] + 1])


def conflicts(
    program: Program, memories: Collection[str] | None = None
) -> Mapping[int, Sequence[int]]:
    """Gives by instruction the earlier ones that must be done before it starts, so that it finds
    the same as in program order: of each other unit the last instruction that accesses the same
    elements, if one of the two writes them. What earlier instructions of its unit come after is not
    said again. Only the `memories` that are named are looked at, by default all.
    """
    accesses, unit = program.accesses, program.unit
    touched = accesses.within(accesses.memories if memories is None else memories)
    found: dict[int, list[int]] = {}
    units = int(unit.max(initial=-1)) + 1
    touched = _shared(unit, touched, units)
    rows = [np.flatnonzero(unit == own) for own in range(units)]
    for latest in _latest(unit, touched, units):
        for own in rows:
            known = np.maximum.accumulate(latest[own])
            for index in own[np.flatnonzero(np.diff(known, prepend=0))].tolist():
                found.setdefault(index, []).append(int(latest[index]) - 1)
    return {index: sorted(found[index]) for index in sorted(found)}


def _shared(unit: Index, accesses: Accesses, units: int) -> Accesses:
    """Keeps reads of memories that another unit writes, and writes of those that another touches:
    most are of memories that one unit has for itself, or that it alone changes.
    """
    own, memory, writes = unit[accesses.index], accesses.memory, accesses.writes
    users = np.zeros((2, len(accesses.memories), units), np.bool_)
    users[0, memory, own] = True
    users[1, memory[writes], own[writes]] = True
    others = users.sum(2, keepdims=True) - users > 0
    return accesses.at(np.flatnonzero(others[np.where(writes, 0, 1), memory, own]))


MOST = 1 << 22
"""The number of segments of accesses from which on they are looked at in several parts."""
SIXTEEN_BITS = 1 << 16
"""The number of segments that are looked at in one part: numpy sorts short numbers by radix."""


def _latest(unit: Index, accesses: Accesses, units: int) -> list[Index]:
    """Gives, for each unit, the number from 1 of its last instruction that conflicts with each
    instruction of a program, of those before it; 0 for none. It may be missing where an earlier
    instruction of the same unit has the same.
    """
    segments, found = Segments(accesses), [np.zeros(len(unit), np.int64) for _ in range(units)]
    sizes = np.array([len(borders) for borders in segments.borders], np.int64)
    offset = (np.cumsum(sizes) - sizes)[accesses.memory]
    begin, end, stop = segments.first + offset, segments.last + offset, int(sizes.sum())
    total = int((end - begin).sum())
    step = min(max(1, stop * MOST // max(total, MOST)), SIXTEEN_BITS)
    for low in range(0, stop, step):
        access, segment = _covering(begin - low, end - low, min(step, stop - low))
        _add_latest(found, unit, accesses.index[access], accesses.writes[access], segment)
    return found


def _add_latest(
    found: list[Index], unit: Index, index: Index, writes: NDArray[np.bool_], segment: Index
) -> None:
    """Notes what accesses to segments conflict with. They are told one segment after the other, in
    program order: runs of a unit that all read, or all write, are as one.
    """
    if not len(index):
        return
    own = unit[index]
    differs = np.diff(segment) | np.diff(own) | (writes[1:] ^ writes[:-1])
    begins = np.flatnonzero(np.concatenate([[1], differs]))
    first, last = index[begins], index[np.append(begins[1:], len(index)) - 1]
    own, writes, base = own[begins], writes[begins], segment[begins] * (len(unit) + 1)
    for other, latest in enumerate(found):
        number = np.where(own == other, last + 1, 0)
        accessed = np.maximum.accumulate(base + number) - base
        written = np.maximum.accumulate(base + np.where(writes, number, 0)) - base
        earlier = np.where(writes, accessed, written)
        np.maximum.at(latest, first, np.where(own == other, 0, earlier))


def _covering(begin: Index, end: Index, count: int) -> tuple[Index, Index]:
    """Lists which accesses cover each of the first so many segments, one segment after the other,
    in program order.
    """
    begin, end = np.maximum(begin, 0), np.minimum(end, count)
    length = np.maximum(end - begin, 0)
    access = np.repeat(np.arange(len(length)), length)
    segment = np.arange(len(access)) + np.repeat(begin - (np.cumsum(length) - length), length)
    order = np.argsort(segment.astype(np.uint16), kind="stable")
    return access[order], segment[order]
