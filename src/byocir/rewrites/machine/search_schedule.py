"""The search for a schedule: how the blocks of a composite run on a described machine.

The last block, or one that stores its result, is tiled; what leads to it is computed in its loops,
sums in tiles of their own; operands are staged in the memories that instructions find them in,
each in the innermost loop that it depends on. Sizes and the order of loops are chosen by a closed
form of the cycles that the machine declares, among those for which its memories have room.

The result is a script of schedule primitives, which can be read, edited and given instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import compress, pairwise, permutations, product
from math import inf, lcm, prod

from xdsl.ir import Attribute, Operation, SSAValue

from byocir.dialects.byoc import CompositeOp
from byocir.dialects.locations import place
from byocir.dialects.tir import BlockOp, FillOp
from byocir.dialects.tir.affine import linear
from byocir.dialects.tir.linear import Linear, spans
from byocir.dialects.tir.scalar import number_attr
from byocir.dialects.types import Shape, element_type_of, shape_of
from byocir.errors import ByocirError
from byocir.machine import MAIN, Machine, Memory
from byocir.machine.cut_plans import Plan, cost_of, plans_of
from byocir.machine.instructions import init_of
from byocir.rewrites.machine.copies import copy_cost, identity, uncopied, whole_rows
from byocir.rewrites.machine.fuse_epilogues import fused
from byocir.rewrites.machine.split_bodies import why_whole
from byocir.rewrites.schedule.blocks import reads_old

NEAR = 1.02
"""Choices that cost up to so many times the least count as equal, and the one with the fewest steps
is taken: each step is written out, and the closed form knows no better."""
HINDRANCE = 1 / 16
"""The busiest unit waits in so large a part of the cycles of the others."""
MOST_WAYS = 3000
"""Choices that are all tried; among more, one size is changed at a time."""


def schedule_for(machine: Machine, composite: CompositeOp) -> str | None:
    """Gives the script by which the blocks of a composite on tensors run on a machine; None where
    it has none. Raises ByocirError B271 for blocks that its instructions do not do, B272 where a
    memory holds no tile."""
    blocks = [op for op in composite.body.block.ops if isinstance(op, BlockOp)]
    if not blocks:
        return None
    chain = _Chain(machine, _stages_of(machine, blocks))
    found = chain.best()
    return _Script(chain, found).text()


def schedules_for(machine: Machine, composite: CompositeOp, most: int) -> list[str]:
    """Gives the scripts that the closed form puts first, at most so many; none for a composite
    without blocks. Raises ByocirError as `schedule_for`."""
    blocks = [op for op in composite.body.block.ops if isinstance(op, BlockOp)]
    if not blocks:
        return []
    chain = _Chain(machine, _stages_of(machine, blocks))
    found: dict[str, None] = {}
    for choice in chain.ranked():
        found[_Script(chain, choice).text()] = None
        if len(found) == most:
            break
    return list(found)


def refusal_of(machine: Machine, ops: Sequence[Operation]) -> str:
    """Gives the reason why a machine cannot run the blocks of a match: what its instructions say to
    one, or which memory holds no tile; empty if it can."""
    blocks = fused(machine, _in_order([op for op in ops if isinstance(op, BlockOp)]))
    if not blocks:
        return ""
    try:
        _Chain(machine, _stages_of(machine, blocks)).expect_room()
    except ByocirError as error:
        return "; ".join(part for part in (error.message, error.help) if part)
    return ""


def _in_order(blocks: Sequence[BlockOp]) -> list[BlockOp]:
    """Blocks of one function, each behind those that make what it reads."""
    found: dict[Operation, BlockOp] = {}
    given = set[Operation](blocks)

    def put(block: BlockOp) -> None:
        for value in block.ins:
            owner = value.owner
            if isinstance(owner, BlockOp) and owner in given and owner not in found:
                put(owner)
        found[block] = block

    for block in blocks:
        if block not in found:
            put(block)
    return list(found.values())


# -- the blocks, and the instructions that do them


@dataclass(frozen=True)
class Stage:
    """A block of a chain and the instruction that does it. The last one may be a copy that the
    program does not have yet."""

    block: BlockOp
    plan: Plan
    name: str
    made: tuple[int | None, ...]
    """For each operand, inputs and then the result, the position of the stage that makes it, or
    what the result begins with; None for what is in main memory or begins with a number."""
    is_new: bool = False

    @property
    def into(self) -> Memory:
        return self.plan.instruction.into

    @cached_property
    def extents(self) -> Shape:
        """The extents of the block's iterators."""
        return self.block.extents

    @cached_property
    def reductions(self) -> list[int]:
        """The positions of the iterators that the block sums over."""
        return self.block.reductions

    @cached_property
    def forms(self) -> list[list[Linear[int]]]:
        """The indices of the operands."""
        found = [[linear(expr) for expr in attr.data.results] for attr in self.block.maps]
        return [[form for form in forms if form is not None] for forms in found]


def _stages_of(machine: Machine, blocks: Sequence[BlockOp]) -> list[Stage]:
    stages: list[Stage] = []
    places: dict[SSAValue, int] = {}
    for block in blocks:
        made = tuple(places.get(value) for value in [*block.ins, *block.outs])
        reasons: list[str] = []
        found = [
            plan
            for plan in _plans(machine, block, reasons)
            if _is_fed(machine, plan, made, stages)
            and _leaves(machine, plan, block is blocks[-1])
            and _begins(machine, plan, block)
        ]
        if not found:
            raise _undone(machine, block, [*reasons, *why_whole(machine, block)])
        name = _named(found[0].instruction.name, [stage.name for stage in stages])
        stages.append(Stage(block, found[0], name, made))
        places.update(dict.fromkeys(block.results, len(stages) - 1))
    last = stages[-1]
    if last.into.is_main:
        return stages
    return [*stages, _storing(machine, last, len(stages) - 1)]


def _plans(machine: Machine, block: BlockOp, reasons: list[str]) -> list[Plan]:
    found = plans_of(machine, block, block.extents, "pattern", reasons)
    if found or not reads_old(block) or isinstance(block.outs[0].owner, BlockOp):
        return found
    fill = block.outs[0].owner
    zero = number_attr(0, element_type_of(block.outs[0].type))
    start = fill.value if isinstance(fill, FillOp) else zero
    return plans_of(machine, block, block.extents, "pattern", reasons, start)


def _is_fed(
    machine: Machine, plan: Plan, made: Sequence[int | None], stages: Sequence[Stage]
) -> bool:
    *sources, start = [MAIN if at is None else stages[at].into for at in made]
    pairs = zip(sources, plan.fit.memories, strict=False)
    return start in (MAIN, plan.instruction.into) and all(
        source == memory if not source.is_main else machine.path(source, memory) is not None
        for source, memory in pairs
    )


def _begins(machine: Machine, plan: Plan, block: BlockOp) -> bool:
    """Tells whether a plan writes where the block that begins with its result, if one does, adds to
    it."""
    use = block.results[0].get_user_of_unique_use()
    if not isinstance(use, BlockOp) or block.results[0] not in use.outs:
        return True
    return any(each.instruction.into == plan.instruction.into for each in _plans(machine, use, []))


def _leaves(machine: Machine, plan: Plan, is_last: bool) -> bool:
    into = plan.instruction.into
    return not is_last or machine.path(into, MAIN) is not None


def _undone(machine: Machine, block: BlockOp, reasons: Sequence[str]) -> ByocirError:
    told = f"expected a block that an instruction of {machine.name} does, found none that does it"
    why = "; ".join(dict.fromkeys(reasons)) or "no copies lead to or from its memories"
    return ByocirError("B271", told, where=place(block.location), help=why)


def _named(instruction: str, taken: Sequence[str]) -> str:
    name = instruction.rpartition(".")[2]
    return next(n for n in (name, *(f"{name}{i}" for i in range(len(taken) + 1))) if n not in taken)


def _storing(machine: Machine, last: Stage, at: int) -> Stage:
    """Gives the copy that brings the last result to main memory, or a step towards it."""
    path = machine.path(last.into, MAIN)
    assert path is not None
    out = last.block.outs[0]
    block = identity(element_type_of(out.type), shape_of(out.type), path[0], path[1])
    reasons: list[str] = []
    plans = plans_of(machine, block, block.extents, "memories", reasons)
    if not plans:
        raise _undone(machine, last.block, reasons)
    name = "stored" if last.name != "stored" else "stored0"
    return Stage(block, plans[0], name, (at, None), is_new=True)


# -- what a choice costs


@dataclass(frozen=True)
class Choice:
    """Sizes of tiles: of the last block's iterators, by position, and of the sums of each stage;
    the order of the loops over tiles of the last block; and the operands, each as stage and
    position, that are staged for all sums at once."""

    tile: Shape
    sums: tuple[tuple[int, ...], ...]
    order: tuple[int, ...]
    whole: frozenset[tuple[int, int]] = frozenset()


@dataclass(frozen=True)
class Staged:
    """An operand of a stage in a buffer of another memory: which loops it depends on, how often it
    is filled, and the box that it holds."""

    stage: int
    operand: int
    path: tuple[Memory, ...]
    level: int
    """The number of loops around it."""
    times: int
    box: Shape


class _Chain:
    """The stages of a composite, the last of which is tiled."""

    def __init__(self, machine: Machine, stages: Sequence[Stage]) -> None:
        self.machine = machine
        self.stages = stages
        self.last = stages[-1]
        self._costs: dict[Choice, tuple[bool, float]] = {}

    @cached_property
    def starts(self) -> set[int]:
        """The stages that make what others begin with, in the same buffers."""
        return {stage.made[-1] for stage in self.stages if stage.made[-1] is not None}

    def best(self) -> Choice:
        """Gives the cheapest choice that the machine has room for. Raises ByocirError B272."""
        starts = [choice for order in self._orders() for choice in self._starts(order)]
        ways = prod(map(len, self._options().values())) * 2 ** len(self._summed)
        ways *= max(len(starts) // 4, 1)
        found = (
            [choice for start in starts[::2] for choice in self._all(start)]
            if ways <= MOST_WAYS
            else [self._descended(start) for start in starts if self.cost(start) < inf]
        )
        least = min((self.cost(choice) for choice in found), default=inf)
        if least == inf:
            raise self._full(starts[0])
        near = [choice for choice in self._costs if self.cost(choice) <= NEAR * least]
        return min(near, key=lambda choice: (self._steps(choice), self.cost(choice)))

    def ranked(self) -> list[Choice]:
        """Gives the choices that were looked at and have room, the cheapest first. Raises
        ByocirError B272."""
        self.best()
        found = [choice for choice, (fits, _) in self._costs.items() if fits]
        return sorted(found, key=lambda choice: (self.cost(choice), self._steps(choice)))

    def _steps(self, choice: Choice) -> int:
        """Gives the iterations of all loops over tiles, which are written out."""
        stages = range(len(self.stages))
        sums = sum(prod(self.sum_counts(s, choice)) for s in stages)
        return prod(self.counts(choice)) * sums

    def expect_room(self) -> None:
        """Raises ByocirError B272 where memories do not hold the smallest tiles, B271 where nothing
        copies tiles of any size."""
        starts = [choice for order in self._orders() for choice in self._starts(order)]
        if all(self.cost(choice) == inf for choice in starts):
            error = self._full(starts[0])
            if error.code == "B272":
                raise error
            self.best()

    def _orders(self) -> list[tuple[int, ...]]:
        """Gives the orders of the loops over tiles that are tried."""
        block = self.last.block
        live = [i for i in block.parallels if block.extents[i] > 1] or block.parallels[:1]
        return list(permutations(live)) if len(live) <= 3 else [tuple(live), tuple(live[::-1])]

    def _starts(self, order: tuple[int, ...]) -> Iterator[Choice]:
        """Gives the smallest tiles, and those of about one instruction."""
        last = len(self.stages) - 1
        for smallest in (True, False):
            tile = tuple(self._size(last, i, smallest) for i in range(len(self.last.extents)))
            sums = tuple(
                tuple(self._size(s, i, smallest) for i in stage.reductions)
                for s, stage in enumerate(self.stages)
            )
            yield Choice(tile, sums, order)

    def _size(self, s: int, i: int, smallest: bool) -> int:
        """Gives the smallest size of an iterator, or what one instruction does of it."""
        sizes = self.sizes_of(s, i)
        most = min(sizes) if smallest else self.stages[s].plan.sizes[i]
        return max((n for n in sizes if n <= most), default=min(sizes))

    @cached_property
    def _summed(self) -> list[tuple[int, int]]:
        """The operands, by stage and position, that may be staged for all sums at once."""
        return [
            (s, operand)
            for s, stage in enumerate(self.stages)
            if any(len(self.sizes_of(s, i)) > 1 for i in stage.reductions)
            for operand, at in enumerate(stage.made[:-1])
            if at is None
        ]

    def _options(self) -> dict[tuple[int, int], list[int]]:
        """Gives the sizes that are tried, by stage and iterator."""
        last = len(self.stages) - 1
        tiled = [(last, i) for i in self.last.block.parallels]
        sums = [(s, i) for s, stage in enumerate(self.stages) for i in stage.reductions]
        return {each: self.sizes_of(*each) for each in [*tiled, *sums]}

    def _all(self, start: Choice) -> Iterator[Choice]:
        """Gives all choices with the loops in this order."""
        options = self._options()
        for sizes in product(*options.values()):
            choice = start
            for (s, i), n in zip(options, sizes, strict=True):
                choice = self._with(choice, s, i, n)
            for chosen in product((False, True), repeat=len(self._summed)):
                yield replace(choice, whole=frozenset(compress(self._summed, chosen)))

    def _with(self, choice: Choice, s: int, i: int, size: int) -> Choice:
        """Gives the choice with another size of one iterator."""
        block = self.stages[s]
        if i not in block.reductions:
            return replace(choice, tile=(*choice.tile[:i], size, *choice.tile[i + 1 :]))
        at = block.reductions.index(i)
        own = (*choice.sums[s][:at], size, *choice.sums[s][at + 1 :])
        return replace(choice, sums=(*choice.sums[:s], own, *choice.sums[s + 1 :]))

    def sizes_of(self, stage: int, i: int) -> list[int]:
        """Gives the tiles of an iterator that are tried, the largest first: parts of equal size and
        multiples of what one instruction does; for sums, and for what has them, those that divide.
        """
        block, unit = self.stages[stage].block, self.stages[stage].plan.sizes[i]
        extent, step = block.extents[i], self._step(stage, i)
        if i in block.reductions:
            if init_of(self.stages[stage].plan.fit.form) is None:
                return [extent]  # what begins anew with each call has whole sums
            sizes = [n for n in range(extent, 0, -step) if extent % n == 0]
            return _spread(sizes, [n for n in sizes if n % unit == 0])
        if reads_old(block):  # tiles of it cannot overlap
            sizes = [n for n in range(extent, 0, -1) if extent % n == 0 and n % step == 0]
            return _spread(sizes or [extent], [n for n in sizes if n % unit == 0])
        parts = [-(-extent // count) for count in range(extent, 0, -1)]
        rounded = {min(-(-n // step) * step, extent) for n in parts}
        multiples = {n for n in range(unit, extent, unit) if n % step == 0}
        sizes = sorted(rounded | multiples, reverse=True)
        if extent % step:  # the last tile overlaps the one before
            sizes = [n for n in sizes if n % step == 0] or sizes
        return _spread(sizes, [n for n in sizes if n % unit == 0])

    def _step(self, stage: int, i: int) -> int:
        """Gives the number that tiles must be multiples of: the steps of all that is done on
        them."""
        steps = [1]
        for s, each in enumerate(self.stages):
            for name, positions in each.plan.fit.iterators.items():
                limit = each.plan.instruction.limits.get(name)
                if limit is not None and self._is_tiled(s, set(positions), stage, i):
                    steps.append(limit.step)
        return lcm(*steps)

    def _is_tiled(self, s: int, used: set[int], stage: int, i: int) -> bool:
        """Tells whether tiles of iterator i of a stage are tiles of iterators of stage s."""
        if i in self.stages[stage].reductions:
            return s == stage and i in used
        return self._depends(s, used, i)

    def _descended(self, choice: Choice) -> Choice:
        """Gives the choice after each size, and what is staged for all sums, was set to the best,
        in turn, until none changes."""
        while True:
            before = choice
            for (s, i), sizes in self._options().items():
                options = [self._with(choice, s, i, n) for n in sizes]
                choice = min(options, key=lambda c: (self.cost(c), -prod(c.tile)))
            for each in self._summed:
                other = replace(choice, whole=choice.whole ^ {each})
                choice = min(choice, other, key=self.cost)
            if choice == before:
                return choice

    # -- the closed form

    def cost(self, choice: Choice) -> float:
        """Gives the cycles of a choice; infinite where a memory has no room."""
        if choice not in self._costs:
            self._costs[choice] = self._cost(choice)
        fits, cycles = self._costs[choice]
        return cycles if fits else inf

    def _cost(self, choice: Choice) -> tuple[bool, float]:
        extents = self.extents(choice)
        if self._illegal(extents):
            return False, inf
        if any(not self._is_split(s, operand, choice) for s, operand in choice.whole):
            return False, inf
        staged = self.staged(choice, extents)
        rows: dict[Memory, list[int]] = {memory: [] for memory in self.machine.memories}
        moving: dict[Memory, list[int]] = {memory: [] for memory in self.machine.memories}
        for memory, box, times in self._buffers(staged, choice, extents):
            rows[memory].append(memory.rows_of(box))
            moving[memory] += [memory.rows_of(box)] if times > 1 else []
        if not all(memory.holds(found) for memory, found in rows.items()):
            return False, inf
        if self._disordered(choice, extents, staged) is not None:
            return False, inf
        once, busy, alone = self._busy(choice, extents, staged)
        if inf in busy.values():
            return False, inf
        twice = all(memory.holds(rows[memory] + moving[memory]) for memory in rows)
        if not twice or len(busy) < 2:
            return True, sum(busy.values())
        longest = max(busy.values())
        waits = (sum(busy.values()) - longest) * HINDRANCE
        return True, max(longest + sum(once.values()) - max(once.values()) + waits, alone)

    def _illegal(self, extents: Sequence[Shape]) -> str:
        """Names an extent of a tile that the limits of its instruction do not allow as a whole
        number of calls; empty if there is none."""
        for stage, sizes in zip(self.stages, extents, strict=True):
            instruction = stage.plan.instruction
            for name, positions in stage.plan.fit.iterators.items():
                limit = instruction.limits.get(name)
                wrong = [sizes[i] for i in positions if limit is not None and sizes[i] % limit.step]
                if wrong:
                    return f"{instruction.name}: expected {name} {limit}, found {wrong[0]}"
        return ""

    def _disordered(
        self, choice: Choice, extents: Sequence[Shape], staged: Sequence[Staged]
    ) -> Memory | None:
        """Gives the FIFO that rows would leave in another order than they came: tiles in it are
        what one call reads or writes, rows of one block of lanes, which copies do not part."""
        fifos = [memory for memory in self.machine.memories if memory.fifo]
        for s, stage in enumerate(self.stages if fifos else ()):
            for operand, memory in enumerate(stage.plan.fit.memories):
                is_result = operand == len(stage.block.ins)
                again = is_result and prod(self.sum_counts(s, choice)) > 1
                if memory.fifo and (again or not self._in_one_call(s, operand, extents[s])):
                    return memory
        found = [
            memory
            for s, operand in choice.whole
            if (memory := self.stages[s].plan.fit.memories[operand]).fifo
        ]
        copies = (copy for copy, _ in self._copies(extents, staged, 1)) if fifos else ()
        for element, box, source, into in copies:
            for memory in (source, into):
                if memory.fifo and not whole_rows(self.machine, memory, element, box, source, into):
                    return memory
        return found[0] if found else None

    def _in_one_call(self, s: int, operand: int, extents: Shape) -> bool:
        """Tells whether a call reaches all of an operand that is in a tile, and no other call does:
        unless the operand stays in the unit."""
        stage, fit = self.stages[s], self.stages[s].plan.fit
        kept = fit.operands.get(fit.instruction.keeps) == operand
        sizes = zip(extents, stage.plan.sizes, strict=True)
        parted = {i for i, (extent, size) in enumerate(sizes) if extent > size}
        box, memory = _box(stage.forms[operand], extents), fit.memories[operand]
        return prod(memory.cut(box)[1]) == 1 and not (parted & fit.turns if kept else parted)

    def _is_split(self, s: int, operand: int, choice: Choice) -> bool:
        """Tells whether each tile of sums begins with a row of what is staged for all of them, and
        something else is staged for each."""
        stage = self.stages[s]
        if all(each in choice.whole for each in self._summed if each[0] == s):
            return False
        row = stage.plan.fit.memories[operand].row
        sizes = dict(zip(stage.reductions, choice.sums[s], strict=True))
        return all(
            step * sizes[i] % lanes == 0 or sizes[i] == stage.extents[i]
            for form, lanes in zip(stage.forms[operand][::-1], row[::-1], strict=False)
            for i, step in form.terms
            if i in sizes
        )

    def _buffers(
        self, staged: Sequence[Staged], choice: Choice, extents: Sequence[Shape]
    ) -> Iterator[tuple[Memory, Shape, int]]:
        for each in staged:
            for memory in each.path[1:]:
                yield memory, each.box, each.times
        count = prod(self.counts(choice))
        for s, stage in enumerate(self.stages):
            if not stage.into.is_main and s not in self.starts:
                yield stage.into, self._made_box(s, extents), count

    def _made_box(self, s: int, extents: Sequence[Shape]) -> Shape:
        """Gives the sizes of the buffer that a stage writes: of all that others read of it, pads
        around its result included."""
        boxes = [_box(self.stages[s].forms[-1], extents[s])]
        for user, sizes in zip(self.stages, extents, strict=True):
            whole = _whole_sums(user, sizes)
            read = (operand for operand, at in enumerate(user.made) if at == s)
            boxes += [_box(user.forms[operand], whole) for operand in read]
        return tuple(map(max, zip(*boxes, strict=True)))

    def _busy(
        self, choice: Choice, extents: Sequence[Shape], staged: Sequence[Staged]
    ) -> tuple[dict[str, float], dict[str, float], float]:
        """Gives the cycles of each unit, in one step and in all, and those of the first tile and of
        what cannot begin before it is whole: that all results leave."""
        once: dict[str, float] = {}
        busy: dict[str, float] = {}

        def add(unit: str, cycles: float, times: int) -> None:
            once[unit] = once.get(unit, 0) + cycles
            busy[unit] = busy.get(unit, 0) + cycles * times

        count = prod(self.counts(choice))
        for copy, times in self._copies(extents, staged, count):
            add(*copy_cost(self.machine, *copy), times)
        alone = 0.0
        for s, stage in enumerate(self.stages):
            sums = self.sum_counts(s, choice)
            cycles = cost_of(stage.plan.fit, _least(stage.plan.sizes, extents[s]), extents[s])
            add(stage.plan.instruction.unit.name, cycles, count * prod(sums))
            alone += cycles * (count if stage is self.last else prod(sums))
        return once, busy, alone

    def _copies(
        self, extents: Sequence[Shape], staged: Sequence[Staged], count: int
    ) -> Iterator[tuple[tuple[Attribute, Shape, Memory, Memory], int]]:
        """Walks the copies and how often each is made: those of staged operands, and `count` of the
        result."""
        for each in staged:
            element = element_type_of(self.stages[each.stage].block.ins[each.operand].type)
            for source, into in pairwise(each.path):
                yield (element, each.box, source, into), each.times
        out, box = self.last.block.outs[0], _box(self.last.forms[-1], extents[-1])
        for source, into in pairwise(self.machine.path(self.last.into, MAIN) or ()):
            yield (element_type_of(out.type), box, source, into), count

    def extents(self, choice: Choice) -> list[Shape]:
        """Gives the extents that each stage runs over in one iteration of the innermost loop."""
        found: list[list[int]] = [list(stage.extents) for stage in self.stages]
        found[-1] = list(choice.tile)
        for s in range(len(self.stages) - 1, -1, -1):
            stage = self.stages[s]
            for at, i in enumerate(stage.reductions):
                found[s][i] = choice.sums[s][at]
            whole = _whole_sums(stage, found[s])  # what is read of others is read of all sums
            for operand, at in enumerate(stage.made):
                if at is None:
                    continue
                box = _box(stage.forms[operand], whole)
                for form, size in zip(self.stages[at].forms[-1], box, strict=True):
                    for i, _ in form.terms:
                        found[at][i] = min(found[at][i], size)
        return [tuple(extents) for extents in found]

    def counts(self, choice: Choice) -> list[int]:
        """Gives the iterations of each loop over tiles of the last block, in their order."""
        extents = self.last.extents
        return [-(-extents[i] // choice.tile[i]) for i in choice.order]

    def sum_counts(self, s: int, choice: Choice) -> list[int]:
        stage = self.stages[s]
        sizes = zip(stage.reductions, choice.sums[s], strict=True)
        return [stage.extents[i] // size for i, size in sizes]

    def staged(self, choice: Choice, extents: Sequence[Shape]) -> list[Staged]:
        """Gives the operands that are staged, in the order in which the script does it."""
        found: list[Staged] = []
        counts = self.counts(choice)
        for s, stage in enumerate(self.stages):
            sums = self.sum_counts(s, choice)
            around = [*counts, *sums]
            for operand, memory in enumerate(stage.plan.fit.memories[:-1]):
                source = MAIN if stage.made[operand] is None else self._into(stage.made[operand])
                path = self.machine.path(source, memory)
                if path is None or len(path) < 2:
                    continue
                forms = stage.forms[operand]
                moved = self._moved(s, forms, choice)
                extent = extents[s]
                if (s, operand) in choice.whole:
                    moved = [*moved[: len(counts)], *[False] * len(sums)]
                    extent = _whole_sums(stage, extent)
                if memory.fifo:  # what is read leaves it
                    moved = [True] * len(around)
                level = max((n + 1 for n, m in enumerate(moved) if m and around[n] > 1), default=0)
                if stage.made[operand] is not None:
                    level = max(level, len(counts))
                box = _box(forms, extent)
                times = prod(around[:level])
                found.append(Staged(s, operand, tuple(path), level, times, box))
        return found

    def _into(self, at: int | None) -> Memory:
        return MAIN if at is None else self.stages[at].into

    def _moved(self, s: int, forms: Sequence[Linear[int]], choice: Choice) -> list[bool]:
        """Tells for each loop around a stage, those over its sums last, if it moves an index."""
        used = {i for form in forms for i, _ in form.terms}
        outer = [self._depends(s, used, i) for i in choice.order]
        return [*outer, *(i in used for i in self.stages[s].reductions)]

    def _depends(self, s: int, used: set[int], i: int) -> bool:
        """Tells whether iterators of a stage begin elsewhere in each iteration over tiles of an
        iterator of the last block."""
        if s == len(self.stages) - 1:
            return i in used
        stage = self.stages[s]
        dims = [d for d, f in enumerate(stage.forms[-1]) if any(t in used for t, _ in f.terms)]
        for later, user in enumerate(self.stages):
            for operand, at in enumerate(user.made):
                if at != s:
                    continue
                reached = {t for d in dims for t, _ in user.forms[operand][d].terms}
                if self._depends(later, reached, i):
                    return True
        return False

    def _full(self, choice: Choice) -> ByocirError:
        extents = self.extents(choice)
        staged = self.staged(choice, extents)
        sizes: dict[Memory, list[int]] = {}
        shapes: dict[Memory, list[str]] = {}
        for memory, box, _ in self._buffers(staged, choice, extents):
            sizes.setdefault(memory, []).append(memory.rows_of(box))
            shapes.setdefault(memory, []).append("x".join(map(str, box)))
        memory = next((m for m, rows in sizes.items() if not m.holds(rows)), None)
        if memory is None and (told := self._illegal(extents)):
            where = place(self.stages[0].block.location)
            expected = "expected tiles of whole calls of instructions, found none"
            raise ByocirError("B271", expected, where=where, help=told)
        if memory is None and (fifo := self._disordered(choice, extents, staged)) is not None:
            told = f"expected tiles of {fifo.scope} that one call reads, and copies of whole rows"
            where = place(self.stages[0].block.location)
            raise ByocirError("B271", f"{told}, found none", where=where)
        if memory is None:
            copies = (copy for copy, _ in self._copies(extents, staged, 1))
            return uncopied(
                self.machine, *next(c for c in copies if copy_cost(self.machine, *c)[1] == inf)
            )
        tile = dict(zip(self.last.block.names, choice.tile, strict=True))
        return ByocirError(
            "B272",
            f"expected {memory.scope} to hold the smallest tile ({_sized(tile)}), found "
            f"{sum(sizes[memory])} rows wanted and {memory.there}: {', '.join(shapes[memory])}",
            where=place(self.stages[0].block.location),
        )


def _whole_sums(stage: Stage, extents: Sequence[int]) -> Shape:
    """Gives the extents of a stage with all of its sums."""
    pairs = enumerate(zip(stage.extents, extents, strict=True))
    return tuple(whole if i in stage.reductions else n for i, (whole, n) in pairs)


def _box(forms: Sequence[Linear[int]], extents: Sequence[int]) -> Shape:
    known = spans(extents)
    return tuple(form.interval(known.__getitem__).size for form in forms)


def _spread(sizes: Sequence[int], preferred: Sequence[int]) -> list[int]:
    """Gives some of many sizes, from the largest to the smallest, each about two thirds of the one
    before; those that are preferred come before others near them."""
    found = [sizes[0]]
    for n in sizes:
        if 3 * n <= 2 * found[-1]:
            near = [m for m in preferred if 2 * n <= 2 * m <= 2 * found[-1] and m != found[-1]]
            found.append(near[-1] if near and near[-1] >= n else n)
    return list(dict.fromkeys([*found, sizes[-1]]))


def _least(sizes: Sequence[int], extents: Sequence[int]) -> list[int]:
    return [min(size, extent) for size, extent in zip(sizes, extents, strict=True)]


def _sized(sizes: dict[str, int]) -> str:
    return ", ".join(f"{name}={size}" for name, size in sizes.items())


# -- the script


class _Script:
    """A choice as calls of schedule primitives."""

    def __init__(self, chain: _Chain, choice: Choice) -> None:
        self.chain = chain
        self.choice = choice
        self.calls: list[str] = []
        self.names: list[str] = []
        """The loops around the last block, then those around sums as they come."""

    def text(self) -> str:
        """Gives the script."""
        chain, last = self.chain, self.chain.last
        given = [stage.name for stage in chain.stages if not stage.is_new]
        self.calls.append(f"{', '.join(given)}{',' if len(given) == 1 else ''} = blocks()")
        if last.is_new:
            self.calls.append(f"{last.name} = cache_write({given[-1]})")
        loops = self._tiled()
        for s, stage in reversed([*enumerate(chain.stages[:-1])]):
            if loops and s not in chain.starts:
                self.calls.append(f"compute_at({stage.name}, {loops[-1]})")
        inner = [[*loops, *self._summed(s)] for s in range(len(chain.stages))]
        for s, stage in enumerate(chain.stages):
            if not stage.into.is_main and s not in chain.starts:
                at = f", at={loops[-1]}" if loops else ""
                out = len(stage.block.ins)
                self.calls.append(f"stage({stage.name}, {out}, {stage.into.scope}{at})")
        for each in chain.staged(self.choice, chain.extents(self.choice)):
            names = self._around(each, loops, inner)
            at = f", at={names[-1]}" if names else ""
            name = chain.stages[each.stage].name
            self.calls.append(f"stage({name}, {each.operand}, {each.path[-1].scope}{at})")
        return "; ".join(self.calls)

    def _loop(self, name: str) -> str:
        taken = {*self.names, *(stage.name for stage in self.chain.stages)}
        found = next(
            n for n in (name, *(f"{name}{i}" for i in range(len(taken) + 1))) if n not in taken
        )
        self.names.append(found)
        return found

    def _tiled(self) -> list[str]:
        block, counts = self.chain.last.block, self.chain.counts(self.choice)
        chosen = [i for i, count in zip(self.choice.order, counts, strict=True) if count > 1]
        self.loops = [count > 1 for count in counts]
        if not chosen:
            return []
        names = [self._loop(block.names[i]) for i in chosen]
        sizes = {block.names[i]: self.choice.tile[i] for i in chosen}
        self._tile(self.chain.last.name, names, sizes, ', remainder="overlap"')
        return names

    def _summed(self, s: int) -> list[str]:
        stage, counts = self.chain.stages[s], self.chain.sum_counts(s, self.choice)
        found = zip(stage.reductions, self.choice.sums[s], counts, strict=True)
        chosen = [(i, size) for i, size, count in found if count > 1]
        if not chosen:
            return []
        names = [self._loop(stage.block.names[i]) for i, _ in chosen]
        self._tile(stage.name, names, {stage.block.names[i]: size for i, size in chosen}, "")
        return names

    def _tile(self, block: str, names: Sequence[str], sizes: dict[str, int], more: str) -> None:
        left = ", ".join(names) + ("," if len(names) == 1 else "")
        self.calls.append(f"{left} = tile({block}, {_sized(sizes)}{more})")

    def _around(self, each: Staged, loops: list[str], inner: list[list[str]]) -> list[str]:
        """Gives the loops that are around what is staged."""
        counts = [
            *self.chain.counts(self.choice),
            *self.chain.sum_counts(each.stage, self.choice),
        ]
        depth = sum(count > 1 for count in counts[: each.level])
        return inner[each.stage][:depth]
