"""Keeps the latest accesses to each element of a memory, and finds which instructions conflict by
them.

Units run in order: what is ordered after the latest access of a unit to an element is ordered after
all earlier ones of it. So one position for each unit and element is enough, and time and memory are
linear in the program and in what it touches. This is the bookkeeping of FastTrack (Flanagan and
Freund, PLDI 2009) for a few threads that are known before. Simulators that look for hazards and
the passes that order a program's instructions both keep it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from byocir.machine_sim.model import Access, Instruction

Index = NDArray[np.int64]
Elements = Index | slice
Box = tuple[slice, ...]
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


class Touch(NamedTuple):
    """Describes an access to elements of a memory."""

    shadow: Shadow
    elements: Elements | Box
    writes: bool


def conflicting(program: Iterable[tuple[int, Sequence[Touch]]]) -> Iterator[dict[int, int]]:
    """Yields for each instruction of a program the earlier ones that it conflicts with: they access
    the same element, one of the two writing, and so must be done before it starts. Of each other
    unit it gives the last one, by unit. The program is given as each instruction's unit and
    accesses.
    """
    rows: dict[int, list[int]] = {}
    for index, (unit, touched) in enumerate(program):
        own = rows.setdefault(unit, [])
        own.append(index)
        latest: dict[int, int] = {}
        for shadow, elements, writes in touched:
            for other, _, positions in shadow.sides[unit, writes][0]:
                found = latest_of(positions[elements])
                if found > latest.get(other, 0):
                    latest[other] = found
        for shadow, elements, writes in touched:
            kept = shadow.sides[unit, writes][1]
            if kept is not None:
                kept[elements] = len(own)
        yield {other: rows[other][place - 1] for other, place in latest.items()}


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
    however large memories are.
    """

    def __init__(self, instructions: Sequence[Instruction], memories: Collection[str]) -> None:
        self._instructions = instructions
        limits: dict[str, set[int]] = {}
        for access in each_once(instructions).values():
            if access.memory in memories:
                limits.setdefault(access.memory, set()).update((access.start, access.stop))
        self.borders = {memory: sorted(ends) for memory, ends in limits.items()}
        self._places = {
            memory: {end: place for place, end in enumerate(ends)}
            for memory, ends in self.borders.items()
        }

    def shadows(self, fresh: Collection[str] = ()) -> dict[str, Shadow]:
        """Makes a shadow of each memory; those of `fresh` keep all writes."""
        used: dict[str, tuple[set[int], set[int]]] = {}
        for each in self._instructions:
            for side, accesses in enumerate((each.writes, each.reads)):
                for access in accesses:
                    used.setdefault(access.memory, (set(), set()))[side].add(each.unit)
        return {
            memory: Shadow(len(borders) - 1, *used[memory], keeps_writes=memory in fresh)
            for memory, borders in self.borders.items()
        }

    def of(self, access: Access) -> slice:
        """Gives the segments that an access of the program covers."""
        places = self._places[access.memory]
        return slice(places[access.start], places[access.stop])

    def span(self, memory: str, segments: Index) -> tuple[int, int]:
        """Gives the first element of some segments, and the last one plus 1."""
        borders, first, last = self.borders[memory], int(segments[0]), int(segments[-1])
        return borders[first], borders[last + 1]


def each_once(instructions: Sequence[Instruction]) -> dict[int, Access]:
    """Gathers the accesses of a program, which many instructions share, by their identity."""
    found: dict[int, Access] = {}
    for each in instructions:
        for access in each.reads:
            found[id(access)] = access
        for access in each.writes:
            found[id(access)] = access
    return found


def memories_of(instructions: Sequence[Instruction]) -> set[str]:
    """Lists all memories that a program touches."""
    return {access.memory for access in each_once(instructions).values()}


def conflicts(
    instructions: Sequence[Instruction], memories: Collection[str] | None = None
) -> list[list[int]]:
    """Lists for each instruction of a program the earlier ones that must be done before it starts,
    so that it finds the same as in program order: of each other unit the last instruction that
    accesses the same elements, if one of the two writes them. Only the `memories` that are named
    are looked at, by default all.
    """
    found: list[list[int]] = [[] for _ in instructions]
    table = _Table(instructions, memories_of(instructions) if memories is None else memories)
    for latest in table.latest():
        for index in np.flatnonzero(latest).tolist():
            found[index].append(int(latest[index]) - 1)
    return [sorted(earlier) for earlier in found]


MOST = 1 << 22
"""The number of segments of accesses from which on they are looked at in several parts."""


class _Table:
    """Lists the accesses of a program, each to a run of segments of all memories, in order."""

    def __init__(self, instructions: Sequence[Instruction], memories: Collection[str]) -> None:
        segments, places = Segments(instructions, memories), dict[int, int]()
        begins, ends, self._offset = [0], [0], 0
        offsets: dict[str, int] = {}
        for memory, borders in segments.borders.items():
            offsets[memory], self._offset = self._offset, self._offset + len(borders)
        for key, access in each_once(instructions).items():
            if access.memory in offsets and access.start < access.stop:
                own, places[key] = segments.of(access), len(begins)
                begins.append(offsets[access.memory] + int(own.start))
                ends.append(offsets[access.memory] + int(own.stop))
        walked = ((each.reads, each.writes) for each in instructions)
        flat = [places.get(id(access), 0) for both in walked for own in both for access in own]
        counts = [len(own) for each in instructions for own in (each.reads, each.writes)]
        rows = np.repeat(np.arange(len(counts)), counts)
        self._unit = np.array([each.unit for each in instructions], np.int64)
        self._index, self._writes = rows // 2, rows % 2 == 1
        at = np.array(flat, np.int64)
        self._begin, self._end = np.array(begins, np.int64)[at], np.array(ends, np.int64)[at]

    def latest(self) -> list[Index]:
        """Gives, for each unit, the number from 1 of its last instruction that conflicts with each
        instruction of the program, of those before it; 0 for none.
        """
        count = int(self._unit.max(initial=-1)) + 1
        found = [np.zeros(len(self._unit), np.int64) for _ in range(count)]
        total = int((self._end - self._begin).sum())
        step = max(1, self._offset * MOST // max(total, MOST))
        for low in range(0, self._offset, step):
            access, segment = self._covering(low, low + step)
            index, writes = self._index[access], self._writes[access]
            unit, base = self._unit[index], segment * (len(self._unit) + 1)
            for other, latest in enumerate(found):
                number = np.where(unit == other, index + 1, 0)
                accessed = np.maximum.accumulate(base + number) - base
                written = np.maximum.accumulate(base + np.where(writes, number, 0)) - base
                earlier = np.where(writes, accessed, written)
                np.maximum.at(latest, index, np.where(unit == other, 0, earlier))
        return found

    def _covering(self, low: int, high: int) -> tuple[Index, Index]:
        """Lists which accesses cover each of these segments, one segment after the other, in
        program order.
        """
        begin, end = np.maximum(self._begin, low), np.minimum(self._end, high)
        length = np.maximum(end - begin, 0)
        access = np.repeat(np.arange(len(length)), length)
        within = np.arange(len(access)) - np.repeat(np.cumsum(length) - length, length)
        segment = begin[access] + within
        order = np.argsort(segment, kind="stable")
        return access[order], segment[order]
