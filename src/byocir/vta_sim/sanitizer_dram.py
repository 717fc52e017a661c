"""Finds transfers that touch the same DRAM: it cuts DRAM into segments at the borders of
overlapping rows.

Only what is both loaded and stored matters, and only the borders of those rows: the size of the
image does not. A transfer is a set of whole segments, so that state per segment is exact.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from byocir.vta_sim.config import Memory
from byocir.vta_sim.isa import Decoded, Opcode

Index = NDArray[np.int64]


class _Rows(NamedTuple):
    """Lists ranges of bytes [start, end), ascending, each with the instruction that it
    belongs to."""

    owner: Index
    start: Index
    end: Index

    def chosen(self, mask: NDArray[np.bool_]) -> _Rows:
        return _Rows(self.owner[mask], self.start[mask], self.end[mask])


class DramMap:
    """Describes the DRAM side of a stream on an image of ``size`` bytes.

    ``outside``: instructions whose transfer leaves the image, and ``outside_ranges`` int64 [K, 2]
    from where to where; segments have the part that is inside. ``borders``
    int64 [S + 1]: byte addresses of the S segments' ends. ``rewrites_uops``: whether micro-ops are
    loaded from bytes that some store writes.
    """

    def __init__(self, decoded: Decoded, size: int) -> None:
        c = decoded.columns
        moves = (decoded.opcode == Opcode.LOAD) | (decoded.opcode == Opcode.STORE)
        moving = np.flatnonzero(moves & (c["x_size"] != 0) & (c["y_size"] != 0))
        start, end, _ = _extent(decoded, moving)
        self.size = size
        self.outside = moving[end > size]
        self.outside_ranges = np.stack([start, end], axis=1)[end > size]
        rows = _rows(decoded, moving, size)
        stored = decoded.opcode[rows.owner] == Opcode.STORE
        stores, loads = rows.chosen(stored), rows.chosen(~stored)
        loads = loads.chosen(_overlapping(loads, stores))
        stores = stores.chosen(_overlapping(stores, loads))
        self.rewrites_uops = bool((c["memory_type"][loads.owner] == Memory.UOP).any())
        both = _Rows(*(np.concatenate(pair) for pair in zip(loads, stores, strict=True)))
        order = np.argsort(both.owner, kind="stable")
        self.borders = np.unique(np.concatenate([both.start, both.end]))
        self._low = np.searchsorted(self.borders, both.start[order])
        self._high = np.searchsorted(self.borders, both.end[order])
        self._first = np.searchsorted(both.owner[order], np.arange(len(decoded) + 1)).tolist()

    @property
    def segments(self) -> int:
        """Counts the segments."""
        return max(len(self.borders) - 1, 0)

    def touched(self, index: int) -> Index | slice | None:
        """Gives the segments that instruction ``index`` loads or stores; None if nothing shares
        them.
        """
        first, last = self._first[index], self._first[index + 1]
        if first == last:
            return None
        if last - first == 1:
            return slice(int(self._low[first]), int(self._high[first]))
        low, counts = self._low[first:last], (self._high - self._low)[first:last]
        before = np.cumsum(counts) - counts
        return np.repeat(low - before, counts) + np.arange(int(counts.sum()))


def _extent(decoded: Decoded, chosen: Index) -> tuple[Index, Index, Index]:
    """Gives the first byte, the last + 1, and the bytes of an element of each transfer."""
    c = decoded.columns
    sizes = np.array([decoded.config.element_bytes(memory) for memory in Memory], np.int64)
    size = sizes[c["memory_type"][chosen]]
    start = c["dram_base"][chosen] * size
    rows = (c["y_size"][chosen] - 1) * c["x_stride"][chosen]
    return start, start + (rows + c["x_size"][chosen]) * size, size


def _rows(decoded: Decoded, chosen: Index, image: int) -> _Rows:
    """Gives the ranges of bytes of each transfer within the image, as one range where rows touch or
    overlap.
    """
    x, stride, y = (decoded.columns[name][chosen] for name in ("x_size", "x_stride", "y_size"))
    start, end, size = _extent(decoded, chosen)
    apart = stride > x
    room = -(-np.maximum(image - start, 0) // np.maximum(stride * size, 1))
    counts = np.minimum(np.where(apart, y, 1), np.where(apart, room, start < image))
    which = np.repeat(np.arange(len(chosen)), counts)
    row = np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)
    first = start[which] + row * (stride * size)[which]
    last = np.where(apart[which], first + (x * size)[which], end[which])
    return _Rows(chosen[which], first, np.minimum(last, image))


def _overlapping(rows: _Rows, others: _Rows) -> NDArray[np.bool_]:
    """Marks the rows that share a byte with any of the others."""
    if not len(others.start):
        return np.zeros(len(rows.start), np.bool_)
    order = np.argsort(others.start, kind="stable")
    starts, reach = others.start[order], np.maximum.accumulate(others.end[order])
    before = np.searchsorted(starts, rows.end) - 1
    return (before >= 0) & (reach[before] > rows.start)
