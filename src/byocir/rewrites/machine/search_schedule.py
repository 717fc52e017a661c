"""Searches for a schedule: how the blocks of a composite run on a described machine.

The last block, or one that stores its result, is tiled; what leads to it is computed in its loops,
sums in tiles of their own; operands are staged in the memories that instructions find them in,
each in the innermost loop that it depends on. Sizes and the order of loops are ranked by a closed
form of the cycles that the machine declares, among those for which its memories have room. The best
few are timed by coarse programs (`tile_programs`), where these tell what the machine will do.

The result is a script of schedule primitives, which can be read, edited and given instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, permutations, product
from math import inf

import numpy as np
from xdsl.ir import Operation

from byocir.dialects.byoc import CompositeOp
from byocir.dialects.locations import place
from byocir.dialects.tir import BlockOp
from byocir.dialects.tir.affine import whole_axes
from byocir.dialects.types import Floats, Ints, Shape, shape_of
from byocir.dialects.walk import makers_first
from byocir.errors import ByocirError, Lines
from byocir.machine import InOrder, Machine, Memory
from byocir.machine.block_keys import leads_out
from byocir.rewrites.machine.fuse_epilogues import fused
from byocir.rewrites.machine.schedule_script import Choice, Script
from byocir.rewrites.machine.stages import Chain, Stage
from byocir.rewrites.machine.tile_costs import Buffer, TileCosts, Tiled, Whole
from byocir.rewrites.machine.tile_programs import timed_cycles
from byocir.rewrites.machine.tile_sizes import TileSizes
from byocir.rewrites.machine.whole_channels import channels_wanted
from byocir.rewrites.tiles import at, spread

NEAR = 1.01
"""Choices that cost up to so many times the least count as equal, and the one with the fewest steps
is taken: each step is written out, and the closed form knows no better."""
TIMED = 6
"""Choices that are timed by coarse programs."""
MOST_STEPS = 4096
"""Iterations of loops that coarse programs have at most. It takes 20 us to time each, and the first
and the last tile, which they tell more about than the closed form, matter little among so many."""


def schedule_for(machine: Machine, composite: CompositeOp) -> str | None:
    """Finds the script by which the blocks of a composite on tensors run on a machine; None for a
    composite without blocks. Raises ByocirError B271 for blocks that its instructions do not do,
    B272 where a memory holds no tile.
    """
    blocks = [op for op in composite.body.block.ops if isinstance(op, BlockOp)]
    if not blocks:
        return None
    chain = Chain(machine, blocks)
    choice = machine.answer(("fastest", chain.form), lambda: _Search(chain).fastest())
    return Script(chain, choice).text()


def schedules_for(machine: Machine, composite: CompositeOp, most: int) -> list[str]:
    """Lists the scripts that the closed form puts first, at most so many; none for a composite
    without blocks. Raises ByocirError as `schedule_for`.
    """
    blocks = [op for op in composite.body.block.ops if isinstance(op, BlockOp)]
    if not blocks:
        return []
    return list(_Search(Chain(machine, blocks)).first(most))


def refusal_of(
    machine: Machine,
    ops: Sequence[Operation],
    channel_multiple: int = 1,
    inside: Sequence[Operation] | None = None,
) -> str:
    """Says why a machine cannot run the blocks of a match: which memory holds no tile, or, on lines
    of their own, what its instructions say to one; empty if it can. `channel_multiple` is that of
    the target, which hears if another one helps; `inside` are the constants that move into the
    composite, by default all that are read.
    """
    blocks = fused(machine, makers_first([op for op in ops if isinstance(op, BlockOp)]), inside)
    if not blocks:
        return ""
    try:
        chain = Chain(machine, blocks)
        if any(_makes_a_part(stage.block) for stage in chain.stages[:-1]):
            return "expected blocks that each make all of an array, found one that makes a part"
        if any(map(_pads_what_is_made, chain.stages)):
            return "expected pads around arrays from main memory, found some around what is made"
        _Search(chain).expect_room()
    except ByocirError as error:
        reason = "\n".join([error.message, *map(str.strip, error.help.splitlines())])
        wanted = channels_wanted(machine, ops)
        if channel_multiple % wanted == 0:
            return reason
        hint = f"channel_multiple = {wanted} in the target's class pads its channels"
        return with_hint(reason, hint)
    return ""


def with_hint(reason: str, hint: str) -> str:
    """Adds what helps to the line of a refusal that tells its cause: the second, if there is
    one.
    """
    lines = reason.split("\n")
    at = min(1, len(lines) - 1)
    lines[at] += f"; {hint}"
    return "\n".join(lines)


def _makes_a_part(block: BlockOp) -> bool:
    """Tells if a block leaves elements of its result to others, as those of a concatenation do."""
    shape = shape_of(block.outs[0].type)
    return whole_axes(block.out_maps[0], shape, block.extents) is None


def reads_pads_apart(machine: Machine, ops: Iterable[Operation]) -> bool:
    """Tells whether tiles of the blocks among ops have lines that lie apart in an array with pads,
    where loads of the machine set such pads around neighbours.
    """
    blocks = fused(machine, makers_first([op for op in ops if isinstance(op, BlockOp)]))
    try:
        chain = Chain(machine, blocks)
        return any(chain.around(each) and chain.steps(each) for each in chain.staged)
    except ByocirError:
        return False


def _pads_what_is_made(stage: Stage) -> bool:
    """Tells if a block reads pads around what another one makes: nothing sets these."""
    padded = [pad is not None for pad in stage.block.pad_values]
    pairs = enumerate(zip(stage.made[:-1], padded, strict=True))
    return any(at is not None and pad and leads_out(stage.block, n) for n, (at, pad) in pairs)


def scheduled_cycles(machine: Machine, ops: Iterable[Operation]) -> float:
    """Computes the cycles of the schedule that the closed form puts first for the blocks among ops
    on tensors; infinity for blocks that a machine cannot run.
    """
    blocks = fused(machine, makers_first([op for op in ops if isinstance(op, BlockOp)]))
    try:
        chain = Chain(machine, blocks)
        return machine.answer(("least", chain.form), lambda: _Search(chain).least())
    except ByocirError:
        return inf


@dataclass(frozen=True)
class _Judged:
    """Lists choices that fit, with the same order of loops and the same operands staged for all
    sums: their places in the arrays of sizes, their cycles and steps.
    """

    order: Shape
    whole: Whole
    places: tuple[Ints, ...]
    cycles: Floats
    steps: Ints


def _least(judged: Sequence[_Judged]) -> float:
    return min(each.cycles.min() for each in judged)


def _stores_apart(machine: Machine) -> bool:
    """Tells whether units that load do not store: where they do, `overlap-loads` puts loads in
    front of stores, which coarse programs do not.
    """
    storing = {each.unit for each in machine.instructions if each.into.is_main}
    inward = [each for each in machine.instructions if not each.into.is_main]
    loading = {each.unit for each in inward if each.reads_main}
    return not isinstance(machine.ordered, InOrder) and storing.isdisjoint(loading)


class _Search:
    """Searches for the sizes of a chain's tiles."""

    def __init__(self, chain: Chain) -> None:
        self.chain = chain
        self.sizes = TileSizes(chain)

    def best(self) -> Choice:
        """Finds the choice with the fewest steps among those that cost about the least. Raises
        ByocirError B272.
        """
        costs, judged = self._judged
        least = _least(judged)
        near = [np.flatnonzero(each.cycles <= NEAR * least) for each in judged]
        return next(self._sorted(costs, judged, near, steps_first=True))

    def fastest(self) -> Choice:
        """Finds the fastest of the choices that cost the least, as coarse programs tell. Raises
        ByocirError B272.
        """
        best = self.best()
        if not _stores_apart(self.chain.machine) or self._steps(best) > MOST_STEPS:
            return best
        found = {Script(self.chain, best).text(): best, **self.first(TIMED)}
        steps = {script: self._steps(choice) for script, choice in found.items()}
        few = {script: found[script] for script in found if steps[script] <= MOST_STEPS}
        if len(few) == 1:
            return best
        costs, _ = self._judged
        cycles = {
            script: timed_cycles(costs, self._place(choice), choice)
            for script, choice in few.items()
        }
        least = NEAR * min(cycles.values())
        near = [script for script in few if cycles[script] <= least]
        return few[min(near, key=lambda script: (steps[script], cycles[script]))]

    def _place(self, choice: Choice) -> tuple[Ints, ...]:
        """Finds the place of a choice among all whose costs are known."""
        costs, _ = self._judged
        pairs = ((of.ravel(), choice.sizes[tiled]) for tiled, of in costs.sizes.items())
        return tuple(np.flatnonzero(of == size)[:1] for of, size in pairs if of.size > 1)

    def _steps(self, choice: Choice) -> int:
        costs, _ = self._judged
        return at(costs.steps, self._place(choice)).item()

    def first(self, most: int) -> dict[str, Choice]:
        """Gives the choices that the closed form puts first, at most so many, by their scripts.
        Raises ByocirError B272.
        """
        found = dict[str, Choice]()
        for choice in self.ranked():
            found.setdefault(Script(self.chain, choice).text(), choice)
            if len(found) == most:
                break
        return found

    def least(self) -> float:
        """Computes the cycles of the cheapest choice. Raises ByocirError B272."""
        return _least(self._judged[1])

    def ranked(self) -> Iterator[Choice]:
        """Yields the choices that have room, the cheapest first. Raises ByocirError B272."""
        costs, judged = self._judged
        return self._sorted(costs, judged, [np.arange(len(each.cycles)) for each in judged])

    def _sorted(
        self,
        costs: TileCosts,
        judged: Sequence[_Judged],
        chosen: Sequence[Ints],
        *,
        steps_first: bool = False,
    ) -> Iterator[Choice]:
        """Sorts the choices of all judgements by cycles and steps."""
        pairs = [*zip(judged, chosen, strict=True)]
        cycles = np.concatenate([each.cycles[own] for each, own in pairs])
        steps = np.concatenate([each.steps[own] for each, own in pairs])
        owner = np.repeat(np.arange(len(pairs)), [len(own) for own in chosen])
        place = np.concatenate(chosen)
        found = np.lexsort((cycles, steps) if steps_first else (steps, cycles))
        owners: list[int] = owner[found].tolist()
        for own, n in zip(owners, place[found], strict=True):
            each = judged[own]
            here = tuple(places[n, None] for places in each.places)
            sizes = {tiled: at(of, here).item() for tiled, of in costs.sizes.items()}
            yield Choice(sizes, each.order, each.whole)

    @cached_property
    def _judged(self) -> tuple[TileCosts, list[_Judged]]:
        """Judges all choices that fit. Raises ByocirError B272 where none does."""
        options = self.sizes.options
        costs = TileCosts(self.chain, dict(zip(options, spread([*options.values()]), strict=True)))
        judged: list[_Judged] = []
        orders = self._orders()
        for whole in self._wholes():
            fits = np.broadcast_to(costs.fits(whole), costs.shape)
            places = np.nonzero(np.atleast_1d(fits))
            if len(places[0]):
                steps = at(costs.steps, places)
                cycles = costs.cycles(whole, orders, places)
                pairs = zip(orders, cycles, strict=True)
                judged += [_Judged(order, whole, places, own, steps) for order, own in pairs]
        if not judged:
            raise self._full()
        return costs, judged

    def _orders(self) -> list[Shape]:
        """Lists the orders of the loops over tiles to try."""
        block = self.chain.last.block
        live = [i for i in block.parallels if block.extents[i] > 1] or block.parallels[:1]
        return list(permutations(live)) if len(live) <= 3 else [tuple(live), tuple(live[::-1])]

    def _wholes(self) -> Iterator[Whole]:
        """Yields the sets of operands to stage for all sums at once: of each stage with sums some,
        but not all.
        """
        some = [
            [chosen for count in range(len(own)) for chosen in combinations(own, count)]
            for own in self.sizes.summed
        ]
        for chosen in product(*some):
            yield frozenset(each for own in chosen for each in own)

    def expect_room(self) -> None:
        """Raises ByocirError B272 where memories do not hold the smallest tiles, B271 where nothing
        copies tiles of any size."""
        given = (self.sizes.smallest, self.sizes.of_one_call)
        if not any(self._alone(sizes).fits(frozenset()) for sizes in given):
            error = self._full()
            if error.code == "B272":
                raise error
            self.best()

    def _alone(self, sizes: Mapping[Tiled, int]) -> TileCosts:
        """Computes the costs of one choice."""
        arrays = {each: np.array(size, np.int64) for each, size in sizes.items()}
        return TileCosts(self.chain, arrays)

    def _full(self) -> ByocirError:
        """Makes the error that says why the smallest tiles do not fit."""
        chain, sizes = self.chain, self.sizes.smallest
        costs, where = self._alone(sizes), place(self.chain.stages[0].block.location)
        buffers: dict[Memory, list[Buffer]] = {}
        for each in costs.buffers(frozenset()):
            buffers.setdefault(each.memory.storage, []).append(each)
        for memory, own in buffers.items():
            rows = [each.rows.item() for each in own]
            if memory.holds(rows):
                continue
            block, last = chain.last.block, len(chain.stages) - 1
            tile = ", ".join(f"{block.names[i]}={sizes[last, i]}" for i in range(len(block.names)))
            shapes = ", ".join("x".join(str(n) for n in each.box) for each in own)
            return ByocirError(
                "B272",
                f"expected {memory.scope} to hold the smallest tile ({tile}), found {sum(rows)} "
                f"rows wanted and {memory.there}: {shapes}",
                where=where,
            )
        if not costs.in_calls:
            told = "expected tiles of whole calls of instructions, found none"
            return ByocirError("B271", told, where=where, help=self._parted(costs))
        if not costs.begins_rows(frozenset()):
            told = "expected tiles that calls read and write from the start of rows, found none"
            apart = Lines.of(dict.fromkeys(costs.rows_apart(frozenset())))
            return ByocirError("B271", told, where=where, help=apart)
        for memory in chain.machine.memories:
            if not costs.in_order(memory, frozenset()):
                told = f"expected tiles of {memory.scope} that one call reads, and copies of whole "
                return ByocirError("B271", f"{told}rows, found none", where=where)
        undone = costs.undone(frozenset())
        assert undone is not None
        return undone

    def _parted(self, costs: TileCosts) -> str:
        """Names an extent that calls cannot do in whole numbers; empty if there is none."""
        for stage, extents in zip(self.chain.stages, costs.extents, strict=True):
            for name, i, limit in stage.limits:
                if extents[i] % limit.step:
                    instruction = stage.plan.instruction.name
                    return f"{instruction}: expected {name} {limit}, found {extents[i]}"
        return ""
