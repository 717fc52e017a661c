"""Cuts arrays and iterators into tiles: it says how the elements of a plain array lie in a packed
one, and back.

The schedule primitive `pack` and `vta-pack` lay arrays out so. `pack-weights`, for the host, tiles
iterators alone: it orders a constant by those of the loops that read it, whatever its dimensions
are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.ir.affine import AffineExpr

from byocir.dialects.intervals import Interval
from byocir.dialects.tir import IteratorAttr
from byocir.dialects.tir.affine import divided, modulo, parted
from byocir.dialects.types import Shape


@dataclass(frozen=True)
class TiledLayout:
    """Describes a shape some of whose dimensions are cut into `tiles` of these sizes. Of a
    dimension of size n in tiles of t there are ceil(n / t); the places in the tiles are the last
    dimensions, in the order of `tiles`: [8, 30] with tiles {1: 4} is [8, 8, 4].
    """

    shape: Shape
    tiles: Mapping[int, int]

    @property
    def counts(self) -> Shape:
        """Counts the tiles along each dimension."""
        return tuple(-(-n // self.tiles.get(d, 1)) for d, n in enumerate(self.shape))

    @property
    def packed(self) -> Shape:
        """Gives the shape of the packed array."""
        return (*self.counts, *self.tiles.values())

    @property
    def divides(self) -> bool:
        """Tells if all tiles are full."""
        return all(self.shape[d] % size == 0 for d, size in self.tiles.items())

    def plain_index(self, at: Sequence[AffineExpr]) -> list[AffineExpr]:
        """Turns an index of the packed array into one of the plain array; past the end for
        places that no element fills."""
        index = list(at[: len(self.shape)])
        for place, (d, size) in zip(at[len(self.shape) :], self.tiles.items(), strict=True):
            index[d] = index[d] * size + place
        return index

    def packed_index(
        self, at: Sequence[AffineExpr], known: Sequence[Interval] | None = None
    ) -> list[AffineExpr]:
        """Turns an index of the plain array into one of the packed array, without dividing where
        that is not needed, if iterator i is in `known[i]`."""
        index, places = list(at), list[AffineExpr]()
        for d, size in self.tiles.items():
            parts = divided(at[d], size), modulo(at[d], size)
            index[d], place = parts if known is None else parted(at[d], size, known)
            places.append(place)
        return [*index, *places]

    def pack(self, values: np.ndarray) -> np.ndarray:
        """Packs an array of the plain shape; zeros fill the last tiles."""
        margins = [
            (0, count * self.tiles.get(d, 1) - n)
            for d, (n, count) in enumerate(zip(self.shape, self.counts, strict=True))
        ]
        split, rank = list[int](), len(self.shape)
        for d, count in enumerate(self.counts):
            split += [count, self.tiles.get(d, 1)]
        order = [*range(0, 2 * rank, 2), *(2 * d + 1 for d in self.tiles)]
        order += [2 * d + 1 for d in range(rank) if d not in self.tiles]  # the rest have size 1
        tiled = np.pad(values, margins).reshape(split).transpose(order)
        return np.ascontiguousarray(tiled.reshape(self.packed))


def tiled_iterators(
    iterators: Sequence[IteratorAttr], tiles: Mapping[int, tuple[str, str, int]]
) -> tuple[list[IteratorAttr], list[AffineExpr]]:
    """Cuts the iterators at these positions into tiles: two neighbours with these names replace
    each, one over the tiles and one over the places in a tile of this size. Gives the new
    iterators, and the old ones in terms of them:

    ```
    [m: 8, n: 30], {1: ("n", "ni", 4)}  →  [m: 8, n: 8, ni: 4], [m, n * 4 + ni]
    ```
    """
    made: list[IteratorAttr] = []
    old: list[AffineExpr] = []
    for i, iterator in enumerate(iterators):
        at = AffineExpr.dimension(len(made))
        if i not in tiles:
            made.append(iterator)
            old.append(at)
            continue
        outer, inner, size = tiles[i]
        kind, count = iterator.kind.data, -(-iterator.extent.data // size)
        made += [IteratorAttr.of(outer, kind, count), IteratorAttr.of(inner, kind, size)]
        old.append(at * size + AffineExpr.dimension(len(made) - 1))
    return made, old
