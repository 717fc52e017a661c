"""Chooses the size of register tiles, rows by vectors, by shape and processor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from byocir.toolchain.cpu import Cpu

VECTORS = (1, 2, 3, 4)
"""The vectors that one row may have; more leave too few rows to use each again."""
ALONE = (1, 2, 3, 4, 6, 8)
"""The same where there is one row."""
MOST_ROWS = 28
IN_FLIGHT = 8
"""Accumulators that hide how long one multiplication and addition take."""
LOAD = 0.3
"""The cost to load a number or a vector, in multiplications and additions of vectors."""
ELEMENT = 4
"""Bytes of an accumulator."""
LEAST_LANES = 4


@dataclass(frozen=True)
class TileShape:
    """Describes a shape of tiles: at most `rows` rows of `vectors` vectors of `lanes` elements."""

    lanes: int
    vectors: int
    rows: int

    @property
    def width(self) -> int:
        """Counts the elements of a row."""
        return self.lanes * self.vectors


def lanes_of(cpu: Cpu, extent: int) -> int:
    """Gives the number of elements in a vector: as many as a register holds, fewer where there are
    fewer in all; 0 where there are too few for any.
    """
    lanes = cpu.vector // ELEMENT
    while lanes > extent:
        lanes //= 2
    return lanes if lanes >= LEAST_LANES else 0


def tile_shape(
    cpu: Cpu, extent: int, rows: Sequence[int], *, fused: bool, reserved: int = 0
) -> TileShape | None:
    """Chooses the cheapest tile for so many elements along the vectors and along each row iterator,
    the innermost last; None where vectors do not fit. With `fused`, products are added in one
    instruction and need no register of their own; so many rows of registers are `reserved`.
    """
    lanes = lanes_of(cpu, extent)
    if not lanes:
        return None
    many = -(-extent // lanes)
    best: tuple[float, TileShape] | None = None
    for vectors in VECTORS if rows and max(rows) > 1 else ALONE:
        if vectors > many:
            continue
        spare = cpu.registers - vectors * (1 + reserved) - (1 if fused else 2) - reserved
        height = min(max(spare // vectors, 1), MOST_ROWS)
        cost = -(-many // vectors) * _cost_of_rows(rows, height, vectors)
        if best is None or cost < best[0]:
            best = cost, TileShape(lanes, vectors, height)
    assert best is not None
    return best[1]


def _cost_of_rows(rows: Sequence[int], height: int, vectors: int) -> float:
    """Estimates the cost of one step of the reduction for all rows."""
    heights = heights_of(rows, height)
    cost = 1.0
    for axis, (extent, most) in enumerate(zip(rows, heights, strict=True)):
        if axis < len(rows) - 1:
            cost *= -(-extent // most)
    inner = heights[-1] if heights else 1
    outer = heights[-2] if len(heights) > 1 else 1
    tiles = split(rows[-1], inner) if rows else [(0, 1, 1)]
    return cost * sum(
        (stop - start) // step * _cost_of_tile(step * outer, vectors) for start, stop, step in tiles
    )


def _cost_of_tile(rows: int, vectors: int) -> float:
    return max(rows * vectors, IN_FLIGHT) + LOAD * (rows + vectors)


def heights_of(rows: Sequence[int], height: int) -> list[int]:
    """Splits the height of a tile among the row iterators, the innermost first."""
    heights = [1] * len(rows)
    left = height
    for axis in reversed(range(len(rows))):
        heights[axis] = max(min(rows[axis], left), 1)
        left //= heights[axis]
    return heights


def split(extent: int, most: int) -> list[tuple[int, int, int]]:
    """Splits an extent into even pieces of at most so many: (start, stop, step) of those of one
    size, then of the rest, which are one smaller. 10 by at most 4 → (0, 4, 4), (4, 10, 3).
    """
    count = -(-extent // most)
    large = -(-extent // count)
    until = (extent - count * (large - 1)) * large
    if until >= extent:
        return [(0, extent, large)]
    return [(0, until, large), (until, extent, large - 1)]
