"""Searches the cheapest tiles that fit VTA's memories twice.

The estimate: loads of inputs and weights, compute (GEMM, ALU and loads of the accumulator) and
stores run side by side, so a nest takes as long as the longest of the three, plus what the first
tile loads and one tile's share of compute and stores, plus a fixed cost per tile. Instructions,
rows and bursts have fixed costs, too. All candidates are judged at once (`rewrites.tiles`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from byocir.dialects.tir.linear import Linear
from byocir.dialects.types import Bools, Floats, Ints, Shape
from byocir.lowering.tir_to_vta.tile_nest import SCOPES, Buffer, CompositeNest, element_cycles
from byocir.rewrites.tiles import at, fills, product, shape_over, sides, spread
from byocir.vta_sim import Memory, VTAConfig

LOAD_OVERHEAD = 24
"""Cycles of a load besides its data."""

ROW_OVERHEAD = 2
"""Cycles of each row of a load besides its data: it is a request of its own."""

BURST_BYTES, BURST_OVERHEAD = 128, 7
"""A store writes rows in bursts of so many bytes, each of which is acknowledged."""

STEP_OVERHEAD = 8
"""Cycles of a GEMM or ALU instruction besides its points."""

TILE_OVERHEAD = 32
"""Cycles that handing one tile from queue to queue takes, whatever they do meanwhile."""


@dataclass(frozen=True)
class NoTiles(Exception):
    """Says that no tiles fit; `needed` is what the smallest would take of each memory, in
    elements.
    """

    needed: dict[Memory, int]


def best_tiles(nest: CompositeNest, config: VTAConfig) -> Shape:
    """Finds the tile size of every iterator of a nest (its extent where it is not tiled); errors as
    `ranked_tiles`.
    """
    return ranked_tiles(nest, config, 1)[0]


def ranked_tiles(nest: CompositeNest, config: VTAConfig, most: int) -> list[Shape]:
    """Lists at most so many tile sizes of a nest's iterators, the cheapest first.

    A buffer that is loaded more than once must fit its memory twice, so that the next tile can be
    loaded while the last one is used. Reductions are cut into equal parts, and only those over
    input channels unless nothing else fits. Raises NoTiles when nothing does.
    """
    costs, fit = _fitting(nest, config, nest.channels)
    if not len(fit[0]):
        costs, fit = _fitting(nest, config, nest.reductions)
    if not len(fit[0]):
        raise NoTiles(costs.least())
    tiles = np.stack([at(sizes, fit) for sizes in costs.tiles])
    count = at(product(costs.counts), fit)
    # Wide rows make long bursts.
    keys = (-tiles[nest.outer - 1], count, at(costs.cycles(config), fit))
    return [tuple(sizes) for sizes in tiles[:, np.lexsort(keys)[:most]].T.tolist()]


def _fitting(
    nest: CompositeNest, config: VTAConfig, reductions: Sequence[int]
) -> tuple[_Costs, tuple[Ints, ...]]:
    """Computes the costs of all tiles that cut these reductions, and marks those that fit."""
    costs = _Costs.of(nest, spread(_sizes(nest, reductions)))
    fits = np.broadcast_to(costs.fits(config), shape_over(costs.tiles))
    return costs, np.nonzero(np.atleast_1d(fits))


def are_tiles(nest: CompositeNest, config: VTAConfig, sizes: Sequence[int]) -> bool:
    """Tells if sizes of a nest's iterators are tiles that fit: no larger than the extents and, of
    reductions, dividing them.
    """
    pairs = [*zip(sizes, nest.extents, strict=True)]
    if any(not 1 <= size <= extent for size, extent in pairs):
        return False
    if any(extent % size for size, extent in pairs[nest.parallels :]):
        return False
    return bool(_Costs.of(nest, spread([[size] for size in sizes])).fits(config))


def _sizes(nest: CompositeNest, reductions: Sequence[int]) -> list[list[int]]:
    """Lists, for each iterator, the tile sizes to try."""
    choices = [[extent] for extent in nest.extents]
    for i in nest.loops:
        if i < nest.parallels:
            choices[i] = _tile_sizes(nest.extents[i])
        elif i in reductions:
            choices[i] = [k for k in range(1, nest.extents[i] + 1) if nest.extents[i] % k == 0]
    return choices


def _tile_sizes(extent: int) -> list[int]:
    """Lists the smallest size for each number of tiles."""
    return sorted({-(-extent // count) for count in range(1, extent + 1)})


@dataclass(frozen=True)
class _Costs:
    """Holds the costs of tiles of a nest: their sizes, and how many tiles there are of each
    iterator, in arrays.
    """

    nest: CompositeNest
    tiles: Sequence[Ints]
    counts: Sequence[Ints]

    @staticmethod
    def of(nest: CompositeNest, tiles: Sequence[Ints]) -> _Costs:
        pairs = zip(nest.extents, tiles, strict=True)
        return _Costs(nest, tiles, [-(-extent // sizes) for extent, sizes in pairs])

    def _elements(self, index: Sequence[Linear[int]]) -> Ints:
        return product(sides(index, self.tiles))

    def _times(self, buffer: Buffer) -> Ints:
        """Counts how often a buffer is filled: loops that it does not depend on fill it once."""
        moving = {i for form in buffer.index for i in form.atoms}
        return fills((self.counts[i], i in moving) for i in self.nest.loops)

    def _used(self) -> dict[Memory, Ints]:
        """Counts the elements that the buffers take of each memory."""
        used: dict[Memory, Ints] = {memory: np.zeros((), np.int64) for memory in SCOPES}
        for buffer in self.nest.buffers:
            if buffer.occupies:
                twice = np.where(self._times(buffer) > 1, 2, 1)
                used[buffer.memory] = used[buffer.memory] + twice * self._elements(buffer.index)
        return used

    def fits(self, config: VTAConfig) -> Bools:
        """Marks the tiles that fit the memories."""
        fits = np.ones((), np.bool_)
        for memory, used in self._used().items():
            fits = fits & (used <= config.depth(memory))
        # A tile of the result must be a box: whole inner runs, or a part of one.
        for outer, inner in self.nest.joined:
            fits = fits & ((self.tiles[outer] == 1) | (self.counts[inner] == 1))
        return fits

    def least(self) -> dict[Memory, int]:
        """Counts the elements of each memory that the smallest tiles take."""
        return {memory: int(used.min()) for memory, used in self._used().items()}

    def cycles(self, config: VTAConfig) -> Floats:
        """Estimates the time of all tiles."""
        load = compute = first = np.zeros((), np.int64)
        for buffer in self.nest.buffers:
            if buffer.cycles:
                box, times = sides(buffer.index, self.tiles), self._times(buffer)
                instructions, rows = product(box[:-2]), product(box[:-1])
                overhead = LOAD_OVERHEAD * instructions + ROW_OVERHEAD * rows
                cost = buffer.cycles * product(box) + overhead
                if buffer.memory is Memory.ACC:
                    compute = compute + times * cost
                else:
                    load, first = load + times * cost, first + cost
        for box, cycles in self.nest.work:
            iterators = sorted({i for form in box for i in form.atoms})
            repeats = product(self.counts[i] for i in iterators)
            compute = compute + (cycles * self._elements(box) + STEP_OVERHEAD) * repeats
        store, count = self._store(config), product(self.counts)
        busiest: Floats = np.zeros((), np.float64)
        apart = first + compute / count + store / count
        for queue, alone in ((load, first), (compute, compute / count), (store, store / count)):
            busiest = np.maximum(busiest, queue + apart - alone)
        return busiest + TILE_OVERHEAD * count  # pyrefly: ignore[bad-return]

    def _store(self, config: VTAConfig) -> Ints:
        """Counts the cycles of all stores."""
        reached = zip(self.tiles[: self.nest.outer], self.counts, strict=False)
        elements = product(tiles * counts for tiles, counts in reached)
        row = self.tiles[self.nest.outer - 1]
        bursts = elements // row * -(-row * config.element_bytes(Memory.OUT) // BURST_BYTES)
        return element_cycles(Memory.OUT, config) * elements + BURST_OVERHEAD * bursts
