"""Addresses in a scratchpad, handed out and given back."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator


class Scratchpad:
    """The elements 0 to `depth` of one scratchpad, handed out in rotation."""

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self._taken: list[tuple[int, int]] = []
        self._next = 0

    def allocate(self, size: int) -> int | None:
        """The first of `size` free elements in a row, searched from the end of what was handed out
        last and then from the start; None when there is no such row."""
        for low, high in self._gaps():
            start = max(low, self._next)
            if start + size <= high:
                return self._take(start, size)
        for low, high in self._gaps():
            if low + size <= high:
                return self._take(low, size)
        return None

    def allocate_lowest(self, size: int) -> int | None:
        """The first of `size` free elements in a row, searched from the start."""
        found = (low for low, high in self._gaps() if low + size <= high)
        start = next(found, None)
        return None if start is None else self._take(start, size)

    def allocate_at(self, start: int, size: int) -> bool:
        """Hands out these elements if they are free; whether they are."""
        if not any(low <= start and start + size <= high for low, high in self._gaps()):
            return False
        insort(self._taken, (start, start + size))
        return True

    def free(self, start: int) -> None:
        """Gives back what was allocated at `start`."""
        del self._taken[bisect_left(self._taken, (start, 0))]

    @property
    def used(self) -> int:
        """Counts the elements that are handed out."""
        return sum(end - start for start, end in self._taken)

    def _take(self, start: int, size: int) -> int:
        self.allocate_at(start, size)
        self._next = start + size
        return start

    def _gaps(self) -> Iterator[tuple[int, int]]:
        low = 0
        for start, end in self._taken:
            yield low, start
            low = end
        yield low, self.depth
