"""Splits box copies into two-dimensional transfers.

A LOAD or STORE moves rows of consecutive elements: a fixed stride apart in DRAM, one behind the
other in the scratchpad, and a LOAD can put up to 15 zeros on each side of the two dimensions. Here
a box of any rank becomes as few of them as its strides and paddings allow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

MAX_PAD = 15
"""Each pad field has 4 bits."""
MAX_SIZE = (1 << 16) - 1
"""Sizes and strides have 16 bits."""


@dataclass(frozen=True)
class Dimension:
    """Describes a dimension of a box, in elements: `before` zeros, `size` values, `after` zeros.
    The values are `dram` apart in DRAM, and all positions `sram` apart in the scratchpad.
    """

    size: int
    dram: int
    sram: int
    before: int = 0
    after: int = 0

    @property
    def extent(self) -> int:
        return self.before + self.size + self.after

    @property
    def is_padded(self) -> bool:
        return bool(self.before or self.after)


@dataclass(frozen=True)
class Transfer:
    """Describes a transfer by one instruction: `rows` x `columns` values, `stride` apart in DRAM,
    with `pads` zeros (rows before and after, elements before and after each row). Offsets are
    relative to the box. With `rows` 0 it only writes zeros.
    """

    sram: int
    dram: int
    rows: int
    columns: int
    stride: int = 0
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)


def transfers(dimensions: Sequence[Dimension]) -> list[Transfer]:
    """Lists the instructions that move a box; `dimensions` run from the outermost to the innermost.

    Strides of the scratchpad must be those of a dense array or of a box inside one.
    """
    merged = _merge([d for d in dimensions if d.extent != 1 or d.is_padded])
    return list(_split(merged, 0, 0))


def zeros(sram: int, count: int) -> Iterator[Transfer]:
    """Yields instructions that clear `count` consecutive elements: each a row of padding around no
    rows.
    """
    for start in range(0, count, MAX_SIZE):
        size = min(MAX_SIZE, count - start)
        yield Transfer(sram + start, 0, 0, size, size, (1, 0, 0, 0))


def _merge(dimensions: Sequence[Dimension]) -> list[Dimension]:
    """Joins neighbouring dimensions that are one in DRAM and in the scratchpad. A padded dimension
    is joined with the full one inside it while the zeros still fit a pad field.
    """
    merged: list[Dimension] = []
    for inner in reversed(dimensions):
        last = merged[-1] if merged else None
        joined = _join(inner, last) if last is not None else None
        if joined is None:
            merged.append(inner)
        else:
            merged[-1] = joined
    return merged[::-1]


def _join(outer: Dimension, inner: Dimension) -> Dimension | None:
    if inner.is_padded or inner.size == 0:
        return None
    if (outer.dram, outer.sram) != (inner.size * inner.dram, inner.size * inner.sram):
        return None
    before, after = outer.before * inner.size, outer.after * inner.size
    if max(before, after) > MAX_PAD:
        return None
    return Dimension(outer.size * inner.size, inner.dram, inner.sram, before, after)


def _split(dimensions: list[Dimension], sram: int, dram: int) -> Iterator[Transfer]:
    """Peels off outer dimensions until one instruction can do the rest."""
    if any(d.size == 0 for d in dimensions) and _is_dense(dimensions):
        yield from zeros(sram, _volume(dimensions))
        return
    single = _as_one(dimensions)
    if single is not None:
        yield replace(single, sram=sram, dram=dram)
        return
    outer, rest = dimensions[0], dimensions[1:]
    pitch = _volume(rest)
    if outer.is_padded and outer.sram == pitch and _is_dense(rest):
        yield from zeros(sram, outer.before * pitch)
        bare, skipped = replace(outer, before=0, after=0), outer.before * pitch
        yield from _split([bare, *rest], sram + skipped, dram)
        yield from zeros(sram + skipped + outer.size * pitch, outer.after * pitch)
        return
    for i in range(outer.extent):
        row = i - outer.before
        inside = 0 <= row < outer.size
        inner = rest if inside else _emptied(rest)
        yield from _split(inner, sram + i * outer.sram, dram + row * outer.dram if inside else dram)


def _emptied(dimensions: Sequence[Dimension]) -> list[Dimension]:
    """Gives the same positions, all of them zeros."""
    emptied = [replace(d, size=0, before=d.extent, after=0) for d in dimensions]
    return emptied or [Dimension(0, 1, 1, before=1)]


def _volume(dimensions: Sequence[Dimension]) -> int:
    volume = 1
    for dimension in dimensions:
        volume *= dimension.extent
    return volume


def _is_dense(dimensions: Sequence[Dimension]) -> bool:
    """Tells if the positions are consecutive in the scratchpad."""
    pitch = 1
    for dimension in reversed(dimensions):
        if dimension.sram != pitch:
            return False
        pitch *= dimension.extent
    return True


def _as_one(dimensions: list[Dimension]) -> Transfer | None:
    """Makes the instruction for up to two dimensions, with offsets 0; None when none can do it."""
    if len(dimensions) > 2:
        return None
    one = Dimension(1, 1, 1)
    inner = dimensions[-1] if dimensions else one
    outer = dimensions[0] if len(dimensions) == 2 else None
    if inner.dram != 1 and inner.size != 1 and outer is None:
        inner, outer = one, inner
    outer = outer or Dimension(1, 0, inner.extent)
    dense = inner.sram == 1 and (outer.sram == inner.extent or outer.extent == 1)
    if not dense or (inner.dram != 1 and inner.size != 1):
        return None
    pads = (outer.before, outer.after, inner.before, inner.after)
    stride = outer.dram if outer.size > 1 else inner.size
    if max(pads) > MAX_PAD or max(outer.size, inner.size, stride) > MAX_SIZE:
        return None
    return Transfer(0, 0, outer.size, inner.size, stride, pads)
