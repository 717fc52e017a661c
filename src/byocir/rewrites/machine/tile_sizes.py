"""Lists the sizes of tiles that the search for a schedule on a described machine tries."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from math import lcm

from byocir.machine.instructions import init_of
from byocir.rewrites.machine.stages import Chain
from byocir.rewrites.machine.tile_costs import Tiled
from byocir.rewrites.schedule.blocks import reads_old


class TileSizes:
    """Lists the sizes to try of each iterator that has tiles: parallel ones of the last block, and
    all sums.
    """

    def __init__(self, chain: Chain) -> None:
        self.chain = chain
        self.stages = chain.stages

    @cached_property
    def options(self) -> dict[Tiled, list[int]]:
        """Lists the sizes to try for each iterator, the largest first."""
        last = len(self.stages) - 1
        tiled = [(last, i) for i in self.chain.last.block.parallels]
        sums = [(s, i) for s, stage in enumerate(self.stages) for i in stage.reductions]
        return {each: self.sizes_of(*each) for each in [*tiled, *sums]}

    @property
    def smallest(self) -> dict[Tiled, int]:
        """Gives the smallest size of each iterator."""
        return {each: min(sizes) for each, sizes in self.options.items()}

    @property
    def of_one_call(self) -> dict[Tiled, int]:
        """Gives, for each iterator, the largest size that one call of the stage's instruction does
        whole; the smallest size where none is.
        """
        return {
            (s, i): max((n for n in sizes if n <= self.stages[s].plan.sizes[i]), default=min(sizes))
            for (s, i), sizes in self.options.items()
        }

    @cached_property
    def summed(self) -> list[list[tuple[int, int]]]:
        """Lists, for each stage with sums, the operands that may be staged for all its sums at
        once, by stage and position. Where tiles have one point of each window, that is the whole of
        an operand in a memory on its way, if there is one. Of each list at least one must not be
        staged so.
        """
        far = {(each.stage, each.operand) for each in self.chain.staged if len(each.path) > 2}
        found = [
            [
                (s, operand)
                for operand, at in enumerate(stage.made[:-1])
                if at is None and ((s, operand) in far or not stage.reads_points(operand))
            ]
            for s, stage in enumerate(self.stages)
            if any(len(self.options[s, i]) > 1 for i in stage.reductions)
        ]
        return [own for own in found if own]

    def sizes_of(self, stage: int, i: int) -> list[int]:
        """Lists the tile sizes of an iterator to try, the largest first: parts of equal size, and
        multiples of what one instruction does, if it does several points. Tiles of sums, and of
        blocks that have sums, divide the extent; what one call adds to other sums is whole. Where
        blocks would read different parts of a result, there is one tile.
        """
        block, unit = self.stages[stage].block, self.stages[stage].plan.sizes[i]
        extent, step = block.extents[i], self._step(stage, i)
        if i in block.reductions:
            if init_of(self.stages[stage].plan.fit.form) is None:
                return [extent]  # no call can continue a sum, so tiles hold whole sums
            if extent <= unit and self._continues_sums(stage):
                return [extent]
            sizes = [n for n in range(extent, 0, -step) if extent % n == 0]
            return _spread(sizes, [n for n in sizes if n % unit == 0])
        if self.chain.is_read_apart(i):
            return [extent]
        if reads_old(block):  # an update in place cannot be repeated, so tiles must not overlap
            sizes = [n for n in range(extent, 0, -1) if extent % n == 0 and n % step == 0]
            return _spread(sizes or [extent], [n for n in sizes if n % unit == 0])
        parts = [-(-extent // count) for count in range(extent, 0, -1)]
        rounded = {min(-(-n // step) * step, extent) for n in parts}
        multiples = range(unit, extent, unit) if unit > 1 else ()
        sizes = sorted(rounded | {n for n in multiples if n % step == 0}, reverse=True)
        if extent % step:  # the last tile overlaps the one before
            sizes = [n for n in sizes if n % step == 0] or sizes
        if unit == 1:  # no call does more points; tiles that overlap would do some twice
            return _spread(sizes, [n for n in sizes if extent % n == 0])
        return _spread(sizes, [n for n in sizes if n % unit == 0])

    def _continues_sums(self, stage: int) -> bool:
        """Tells whether a stage adds to the sums of another one."""
        first = self.stages[stage].made[-1]
        return first is not None and bool(self.stages[first].reductions)

    def _step(self, stage: int, i: int) -> int:
        """Gives the number of which tile sizes must be multiples: the steps of all that is done on
        the tiles.
        """
        steps = [1]
        for s, each in enumerate(self.stages):
            for name, positions in each.plan.fit.iterators.items():
                limit = each.plan.instruction.limits.get(name)
                if limit is not None and self._is_tiled(s, set(positions), stage, i):
                    steps.append(limit.step)
        return lcm(*steps)

    def _is_tiled(self, s: int, used: set[int], stage: int, i: int) -> bool:
        """Tells whether a tile of iterator i of a stage is also a tile of these iterators of stage
        s.
        """
        if i in self.stages[stage].reductions:
            return s == stage and i in used
        return self.chain.depends(s, used, i)


def _spread(sizes: Sequence[int], preferred: Sequence[int]) -> list[int]:
    """Selects some of many sizes, from the largest to the smallest, each about two thirds of the
    one before; preferred sizes replace others near them.
    """
    found = [sizes[0]]
    for n in sizes:
        if 3 * n <= 2 * found[-1]:
            near = [m for m in preferred if 2 * n <= 2 * m <= 2 * found[-1] and m != found[-1]]
            found.append(near[-1] if near and near[-1] >= n else n)
    return list(dict.fromkeys([*found, sizes[-1]]))
