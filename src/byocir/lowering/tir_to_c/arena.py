"""Where buffers lie in one arena: the memory of a program that allocates none.

Buffers that are alive at the same time must not overlap. Finding the smallest arena is NP-hard;
placing each buffer at the lowest free address is good in practice, and exact for the best order, so
a few orders are tried: by size, by size times lifetime, and by start.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

ALIGN = 64
"""Bytes that addresses are multiples of: a cache line, and the widest vector register."""


@dataclass(frozen=True)
class Lifetime:
    """A buffer of so many bytes that is alive from step `first` to step `last`, both included."""

    nbytes: int
    first: int
    last: int

    def meets(self, other: Lifetime) -> bool:
        return self.first <= other.last and other.first <= self.last

    @property
    def room(self) -> int:
        """Bytes it takes in the arena."""
        return -(-self.nbytes // ALIGN) * ALIGN


@dataclass(frozen=True)
class Arena:
    """The offset of each buffer, the bytes that all take, and the most that are alive at once,
    below which no arena can be."""

    offsets: list[int]
    nbytes: int
    lower_bound: int


_ORDERS: tuple[Callable[[Lifetime], tuple[int, ...]], ...] = (
    lambda buffer: (-buffer.room, buffer.first),
    lambda buffer: (-buffer.room * (buffer.last - buffer.first + 1), buffer.first),
    lambda buffer: (buffer.first, -buffer.room),
)


def plan(buffers: Sequence[Lifetime]) -> Arena:
    """The best of a few orders; the same for the same buffers."""
    plans = [
        place(buffers, sorted(range(len(buffers)), key=lambda i: (*order(buffers[i]), i)))
        for order in _ORDERS
    ]
    return min(plans, key=lambda arena: arena.nbytes)


def place(buffers: Sequence[Lifetime], order: Sequence[int]) -> Arena:
    """Each buffer, in this order, at the lowest address where it meets none that is placed."""
    offsets = [0] * len(buffers)
    placed: list[int] = []
    for i in order:
        offsets[i] = _lowest(buffers[i], [(offsets[j], buffers[j]) for j in placed])
        placed.append(i)
    end = max((offsets[i] + buffer.room for i, buffer in enumerate(buffers)), default=0)
    return Arena(offsets, end, lower_bound(buffers))


def _lowest(buffer: Lifetime, placed: Sequence[tuple[int, Lifetime]]) -> int:
    taken = sorted((offset, offset + b.room) for offset, b in placed if b.meets(buffer))
    at = 0
    for begin, end in taken:
        if at + buffer.room <= begin:
            break
        at = max(at, end)
    return at


def lower_bound(buffers: Sequence[Lifetime]) -> int:
    """The most bytes that are alive at one step."""
    starts = {buffer.first for buffer in buffers}
    return max((sum(b.room for b in buffers if b.first <= s <= b.last) for s in starts), default=0)
