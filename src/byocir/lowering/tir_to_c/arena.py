"""Places buffers in one arena: a program that allocates no memory works in it.

Buffers that are alive at the same time must not overlap. Finding the smallest arena is NP-hard.
The greedy plans of Pisarchyk and Lee, "Efficient memory management for deep neural net inference"
(2020), come first: by size and by breadth, each buffer into the smallest free gap or to the lowest
address. When none needs as little as the lower bound, a bounded search changes the order of the
best. Placing at the lowest address gives the smallest arena for some order, so the search can reach
it; nothing says that it does.

All of that looks at pairs of buffers that are alive together. Where thousands are at once, buffers
go one after the other, in the order in which they are needed, into what is free by then.
"""

from __future__ import annotations

from bisect import bisect, bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import compress
from random import Random

from byocir.rewrites.memory_rows import Life, Span, lowest

_EFFORT = 500_000
"""Buffers looked at while the order is improved: about a tenth of a second."""
MOST_PAIRS = 250_000
"""Pairs of buffers alive together that are looked at; those of known nets are some thousands."""


@dataclass(frozen=True)
class Arena:
    """Says where each buffer lies, how many bytes all of them take, and how many are alive at once
    at most: no arena can be smaller.
    """

    offsets: list[int]
    nbytes: int
    lower_bound: int


_Fit = Callable[[int, Iterable[Span]], int]
"""Finds an address for so many bytes beside what is placed, by address."""


def plan(buffers: Sequence[Life]) -> Arena:
    """Finds the smallest arena that greedy orders and a search come to; always the same for the
    same buffers.
    """
    swept = _Sweep.over(buffers)
    if swept.pairs > MOST_PAIRS:
        return Arena(swept.offsets, swept.end, swept.most)
    packing = _Packing(buffers, swept.most)
    best: tuple[int, list[int]] | None = None
    for order, fit in _greedy(buffers, packing.alive):
        offsets, nbytes = packing.place(order, fit)
        if nbytes == packing.lower_bound:
            return Arena(offsets, nbytes, nbytes)
        if best is None or nbytes < best[0]:
            best = nbytes, offsets
    assert best is not None
    # in the order of its addresses, placing at the lowest one moves nothing of a plan up
    by_address = sorted(range(len(buffers)), key=best[1].__getitem__)
    offsets, nbytes = _improve(packing, by_address)
    return Arena(offsets, nbytes, packing.lower_bound)


def lower_bound(buffers: Sequence[Life]) -> int:
    """Counts the most bytes that are alive at one step."""
    return _Sweep.over(buffers).most


@dataclass
class _Sweep:
    """Places buffers in the order of their first steps: each into the tightest gap between those
    that are alive, or behind them all.
    """

    offsets: list[int]
    end: int = 0
    """The bytes that all take."""
    most: int = 0
    """The most bytes alive at once."""
    pairs: int = 0
    """Counts the pairs of buffers that are alive together."""
    _gaps: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    """Room and address of each gap, by room."""
    _begins: dict[int, int] = field(default_factory=dict[int, int])
    """The room of each gap by its address."""
    _ends: dict[int, int] = field(default_factory=dict[int, int])
    """The address of each gap by its end."""

    @staticmethod
    def over(buffers: Sequence[Life]) -> _Sweep:
        """Places these buffers from the first step to the last."""
        sweep, alive, room = _Sweep([0] * len(buffers)), list[tuple[int, int]](), 0
        for i in sorted(range(len(buffers)), key=lambda i: buffers[i].first):
            buffer = buffers[i]
            while alive and alive[0][0] < buffer.first:
                _, gone = heappop(alive)
                sweep._free(sweep.offsets[gone], buffers[gone].rows)
                room -= buffers[gone].rows
            sweep.offsets[i] = sweep._take(buffer.rows)
            sweep.pairs += len(alive)
            heappush(alive, (buffer.last, i))
            room += buffer.rows
            sweep.most = max(sweep.most, room)
        return sweep

    def _take(self, room: int) -> int:
        """Takes so much room, and gives its address."""
        if not room:
            return 0
        at = bisect_left(self._gaps, (room, 0))
        if at < len(self._gaps):
            gap, begin = self._gaps[at]
        else:  # the free space at the end can be used, too
            begin = self._ends.get(self.end, self.end)
            gap, self.end = self.end - begin, begin + room
        if gap:
            self._forget(begin, gap)
        if gap > room:
            self._keep(begin + room, gap - room)
        return begin

    def _free(self, begin: int, room: int) -> None:
        """Makes room free again: one gap with free neighbours."""
        if not room:
            return
        if begin in self._ends:
            before = self._ends[begin]
            room += begin - before
            self._forget(before, begin - before)
            begin = before
        if begin + room in self._begins:
            behind = self._begins[begin + room]
            self._forget(begin + room, behind)
            room += behind
        self._keep(begin, room)

    def _keep(self, begin: int, room: int) -> None:
        insort(self._gaps, (room, begin))
        self._begins[begin], self._ends[begin + room] = room, begin

    def _forget(self, begin: int, room: int) -> None:
        del self._gaps[bisect_left(self._gaps, (room, begin))]
        del self._begins[begin], self._ends[begin + room]


class _Packing:
    """Holds buffers, which of them are alive together, and which are alive at each step that starts
    one.
    """

    def __init__(self, buffers: Sequence[Life], lower_bound: int) -> None:
        self.lower_bound = lower_bound
        self.rooms = [buffer.rows for buffer in buffers]
        self.meets: list[set[int]] = [set() for _ in buffers]
        self.alive: list[list[int]] = []
        alive: list[int] = []
        for i in sorted(range(len(buffers)), key=lambda i: buffers[i].first):
            alive = [j for j in alive if buffers[j].last >= buffers[i].first]
            for j in alive:
                self.meets[j].add(i)
            self.meets[i].update(alive)
            alive.append(i)
            self.alive.append(alive.copy())

    def place(self, order: Sequence[int], fit: _Fit) -> tuple[list[int], int]:
        """Places buffers in this order; gives the offset of each, and the bytes that all take."""
        offsets = [0] * len(order)
        spans: dict[int, Span] = {}
        placed: list[Span] = []
        indices: list[int] = []
        for i in order:
            near = self.meets[i]
            if 4 * len(near) < len(placed):
                taken = iter(sorted(spans[j] for j in near if j in spans))
            else:
                taken = compress(placed, map(near.__contains__, indices))
            begin = offsets[i] = fit(self.rooms[i], taken)
            span = spans[i] = begin, begin + self.rooms[i], i
            at = bisect(placed, span)
            placed.insert(at, span)
            indices.insert(at, i)
        return offsets, max((end for _, end, _ in placed), default=0)


def _greedy(
    buffers: Sequence[Life], alive: Sequence[Sequence[int]]
) -> Iterator[tuple[Sequence[int], _Fit]]:
    """Yields orders in which to place buffers, each with the rule for where: by size, by breadth
    (the steps with the most bytes alive, and there by size), by size times lifetime, and by start.
    """
    each = range(len(buffers))
    size = [(-buffer.rows, buffer.first, i) for i, buffer in enumerate(buffers)]
    by_size = sorted(each, key=size.__getitem__)
    yield by_size, _tightest
    yield by_size, lowest
    breadth: dict[int, None] = {}
    for step in sorted(alive, key=lambda step: sum(size[i][0] for i in step)):
        new = (i for i in step if i not in breadth)
        breadth.update(dict.fromkeys(sorted(new, key=size.__getitem__)))
    yield list(breadth), _tightest
    yield list(breadth), lowest
    area = [-b.rows * (b.last - b.first + 1) for b in buffers]
    yield sorted(each, key=lambda i: (area[i], *size[i])), lowest
    yield sorted(each, key=lambda i: (buffers[i].first, *size[i])), lowest


def _tightest(room: int, taken: Iterable[Span]) -> int:
    """Finds the start of the smallest gap where a buffer fits, otherwise the end of all that is
    taken.
    """
    at, best, least = 0, None, 0
    for begin, end, _ in taken:
        gap = begin - at
        if gap >= room and (best is None or gap < least):
            best, least = at, gap
        if end > at:
            at = end
    return at if best is None else best


def _improve(packing: _Packing, order: list[int]) -> tuple[list[int], int]:
    """Moves up to three buffers at a time, of those that end highest or of all, to other positions
    in the order, and keeps what is not worse. The random choices are seeded, and bounded by work,
    not by time.
    """
    random = Random(0)
    offsets, nbytes = packing.place(order, lowest)
    cost = len(order) + sum(map(len, packing.meets))
    for turn in range(_EFFORT // cost):
        tops = [i for i in order if offsets[i] + packing.rooms[i] == nbytes]
        moved = order.copy()
        for _ in range(1 + turn % 3):
            chosen = random.choice(tops if turn % 2 else order)
            moved.remove(chosen)
            moved.insert(random.randrange(len(order)), chosen)
        changed, end = packing.place(moved, lowest)
        if end <= nbytes:
            order, offsets, nbytes = moved, changed, end
        if nbytes == packing.lower_bound:
            break
    return offsets, nbytes
