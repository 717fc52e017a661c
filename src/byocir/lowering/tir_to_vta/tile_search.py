"""Searches the cheapest tiles that fit VTA's memories twice.

The estimate: loads of inputs and weights, compute (GEMM, ALU and loads of the accumulator) and
stores run side by side, so a nest takes as long as the longest of the three, plus what the first
tile loads and one tile's share of compute and stores, plus a fixed cost per tile. Instructions,
rows and bursts have fixed costs, too. All candidates are judged at once, in arrays.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from byocir.dialects.tir.linear import Linear
from byocir.dialects.types import Shape
from byocir.lowering.tir_to_vta.tile_nest import Buffer, CompositeNest, element_cycles
from byocir.vta_sim import Memory, VTAConfig

Ints = NDArray[np.int64]

MEMORIES = (Memory.INP, Memory.WGT, Memory.ACC)

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

MOST_CANDIDATES = 200_000
"""Longer lists of candidates are thinned out."""


@dataclass(frozen=True)
class NoTiles(Exception):
    """No tiles fit; `needed` is what the smallest would take of each memory, in elements."""

    needed: dict[Memory, int]


def best_tiles(nest: CompositeNest, config: VTAConfig) -> Shape:
    """Gives the tile size of every iterator of a nest (its extent where it is not tiled); errors as
    `ranked_tiles`."""
    return ranked_tiles(nest, config, 1)[0]


def ranked_tiles(nest: CompositeNest, config: VTAConfig, most: int) -> list[Shape]:
    """Gives at most so many tile sizes of a nest's iterators, the cheapest first.

    A buffer that is loaded more than once must fit its memory twice, so that the next tile can be
    loaded while the last one is used. Reductions are cut into equal parts, and only those over
    input channels unless nothing else fits. Raises NoTiles when nothing does.
    """
    found: Ints = np.array([])
    costs = None
    for reductions in (nest.channels, nest.reductions):
        costs = _Costs.of(nest, _candidates(nest, reductions))
        found = np.flatnonzero(costs.fits(config))
        if len(found):
            break
    assert costs is not None
    if not len(found):
        raise NoTiles(costs.least())
    tiles, cycles = costs.tiles[:, found], costs.cycles(config)[found]
    count = costs.counts[:, found].prod(axis=0)
    # Wide rows make long bursts.
    order = np.lexsort((-tiles[nest.outer - 1], count, cycles))[:most]
    return [tuple(sizes) for sizes in tiles[:, order].T.tolist()]


def are_tiles(nest: CompositeNest, config: VTAConfig, sizes: Sequence[int]) -> bool:
    """Tells if sizes of a nest's iterators are tiles: parts, of reductions equal ones, that fit."""
    pairs = [*zip(sizes, nest.extents, strict=True)]
    if any(not 1 <= size <= extent for size, extent in pairs):
        return False
    if any(extent % size for size, extent in pairs[nest.parallels :]):
        return False
    return bool(_Costs.of(nest, np.array(sizes, np.int64)[:, None]).fits(config)[0])


def _candidates(nest: CompositeNest, reductions: Sequence[int]) -> Ints:
    """Tile sizes to judge, [iterators, candidates]."""
    choices = [[extent] for extent in nest.extents]
    for i in nest.loops:
        if i < nest.parallels:
            choices[i] = _tile_sizes(nest.extents[i])
        elif i in reductions:
            choices[i] = [k for k in range(1, nest.extents[i] + 1) if nest.extents[i] % k == 0]
    while math.prod(map(len, choices)) > MOST_CANDIDATES:
        longest = max(range(len(choices)), key=lambda i: len(choices[i]))
        sizes = choices[longest]
        choices[longest] = sorted({sizes[0], *sizes[1::2], sizes[-1]})
    grids = np.meshgrid(*(np.array(sizes, np.int64) for sizes in choices), indexing="ij")
    return np.stack([grid.reshape(-1) for grid in grids])


def _tile_sizes(extent: int) -> list[int]:
    """Gives the smallest size for each number of tiles."""
    return sorted({-(-extent // count) for count in range(1, extent + 1)})


@dataclass(frozen=True)
class _Costs:
    """Candidates for the tiles of a nest, and how many tiles each has per iterator; both are
    [iterators, candidates]."""

    nest: CompositeNest
    tiles: Ints
    counts: Ints

    @staticmethod
    def of(nest: CompositeNest, tiles: Ints) -> _Costs:
        extents = np.array(nest.extents, np.int64)[:, None]
        return _Costs(nest, tiles, -(-extents // tiles))

    def _box(self, index: Sequence[Linear[int]]) -> list[Ints]:
        """Gives the sizes of the box that an index reaches, an array over the candidates for each
        dimension: what `schedule.access.reach` tells of one tile."""
        ones = np.ones_like(self.tiles[0])
        return [
            ones + sum((abs(c) * (self.tiles[i] - 1) for i, c in form.terms), start=0 * ones)
            for form in index
        ]

    def _elements(self, index: Sequence[Linear[int]]) -> Ints:
        return np.prod([np.ones_like(self.tiles[0]), *self._box(index)], axis=0, dtype=np.int64)

    def _times(self, buffer: Buffer) -> Ints:
        """Counts how often a buffer is filled: loops that it does not depend on fill it once."""
        moving = {i for form in buffer.index for i in form.atoms}
        entered: Ints = np.ones_like(self.tiles[0])
        times: Ints = entered
        for i in self.nest.loops:
            entered = entered * self.counts[i]
            if i in moving:
                times = np.where(self.counts[i] > 1, entered, times)
        return times

    def _used(self) -> dict[Memory, Ints]:
        """Gives the elements of each memory that the buffers take."""
        used = {memory: np.zeros_like(self.tiles[0]) for memory in MEMORIES}
        for buffer in self.nest.buffers:
            if buffer.occupies:
                twice = np.where(self._times(buffer) > 1, 2, 1)
                used[buffer.memory] = used[buffer.memory] + twice * self._elements(buffer.index)
        return used

    def fits(self, config: VTAConfig) -> NDArray[np.bool_]:
        """Marks the candidates that fit the memories."""
        used = self._used()
        fits = [used[memory] <= config.depth(memory) for memory in MEMORIES]
        # A tile of the result must be a box: whole inner runs, or a part of one.
        fits += [
            (self.tiles[outer] == 1) | (self.counts[inner] == 1)
            for outer, inner in self.nest.joined
        ]
        return np.logical_and.reduce(fits)

    def least(self) -> dict[Memory, int]:
        """Gives the fewest elements of each memory that any candidate takes."""
        return {memory: int(used.min()) for memory, used in self._used().items()}

    def cycles(self, config: VTAConfig) -> NDArray[np.float64]:
        """Gives the estimated time of each candidate."""
        zero = np.zeros_like(self.tiles[0])
        load, compute, first = zero, zero, zero
        for buffer in self.nest.buffers:
            if buffer.cycles:
                box, times = self._box(buffer.index), self._times(buffer)
                rows = np.prod([zero + 1, *box[:-1]], axis=0)
                instructions = np.prod([zero + 1, *box[:-2]], axis=0)
                overhead = LOAD_OVERHEAD * instructions + ROW_OVERHEAD * rows
                cost = buffer.cycles * self._elements(buffer.index) + overhead
                if buffer.memory is Memory.ACC:
                    compute = compute + times * cost
                else:
                    load, first = load + times * cost, first + cost
        covered = self.tiles * self.counts
        for box, cycles in self.nest.work:
            iterators = sorted({i for form in box for i in form.atoms})
            repeats = self.counts[iterators].prod(axis=0)
            compute = compute + (cycles * self._elements(box) + STEP_OVERHEAD) * repeats
        queues = np.stack([load, compute, self._store(covered, config)]).astype(np.float64)
        count = self.counts.prod(axis=0)
        alone = np.stack([first, *(queues[1:] / count)])
        return (queues + alone.sum(axis=0) - alone).max(axis=0) + TILE_OVERHEAD * count

    def _store(self, covered: Ints, config: VTAConfig) -> Ints:
        """Gives the cycles of all stores; `covered` is how far the tiles of each iterator reach."""
        elements = covered[: self.nest.outer].prod(axis=0)
        row = self.tiles[self.nest.outer - 1]
        bursts = elements // row * -(-row * config.element_bytes(Memory.OUT) // BURST_BYTES)
        return element_cycles(Memory.OUT, config) * elements + BURST_OVERHEAD * bursts
