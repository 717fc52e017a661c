"""Describes a composite on a described machine as a chain of stages: a stage is a block with the
instruction that does it, and the last one may be the copy of the result to main memory.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cached_property

from xdsl.ir import SSAValue

from byocir.dialects.intervals import Interval
from byocir.dialects.locations import place
from byocir.dialects.tir import BlockOp, ConstantOp
from byocir.dialects.tir.affine import linear
from byocir.dialects.tir.linear import Linear, spans
from byocir.dialects.tir.reductions import is_unordered
from byocir.dialects.types import Shape, element_type_of, shape_of
from byocir.errors import ByocirError
from byocir.evaluate.scalar import number
from byocir.machine import MAIN, Limit, Machine, Memory
from byocir.machine.cut_plans import Plan, none_does, plans_of
from byocir.machine.find_instruction import fits
from byocir.machine.nearest_misses import Misfit, Reached
from byocir.machine.two_blocks import cut_as
from byocir.machine.window_points import at_points
from byocir.patterns.differences import computed
from byocir.rewrites.machine.copies import identity, padded
from byocir.rewrites.machine.cut_blocks import parts_of
from byocir.rewrites.machine.split_bodies import why_whole
from byocir.rewrites.machine.whole_blocks import (
    homes_in_place,
    plans_for,
    user_in_place,
    why_not_begun,
)
from byocir.rewrites.schedule.blocks import reads_old
from byocir.rewrites.window_guards import leaves_elements


@dataclass(frozen=True)
class Stage:
    """Pairs a block of a chain with the instruction that does it. The last one may be a copy that
    the program does not have yet.
    """

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
        """Gives the extents of the block's iterators."""
        return self.block.extents

    @cached_property
    def reductions(self) -> list[int]:
        """Lists the positions of the iterators that the block sums over."""
        return self.block.reductions

    @cached_property
    def limits(self) -> list[tuple[str, int, Limit]]:
        """Lists the iterators of the block whose sizes its instruction limits, each with the name
        that the instruction has for it."""
        limits = self.plan.instruction.limits
        named = self.plan.fit.iterators.items()
        return [(name, i, limits[name]) for name, at in named if name in limits for i in at]

    @cached_property
    def tile(self) -> BlockOp:
        """Gives the block as it is in a tile: where that has one point of each window, with indices
        of what this point reads.
        """
        points = at_points(self.block) if self.plan.at_points else None
        return points or self.block

    @cached_property
    def forms(self) -> list[list[Linear[int]]]:
        """Lists the indices of the operands."""
        return _forms(self.block)

    @cached_property
    def tile_forms(self) -> list[list[Linear[int]]]:
        """Lists the indices of the operands in a tile."""
        return _forms(self.tile)

    def reads_points(self, operand: int) -> bool:
        """Tells whether tiles have one point of each window of an operand."""
        pairs = zip(self.forms[operand], self.tile_forms[operand], strict=True)
        return any({*form.atoms} != {*tile.atoms} for form, tile in pairs)


def _forms(block: BlockOp) -> list[list[Linear[int]]]:
    found = [[linear(expr) for expr in attr.data.results] for attr in block.maps]
    return [[form for form in forms if form is not None] for forms in found]


def stages_of(machine: Machine, blocks: Sequence[BlockOp]) -> list[Stage]:
    """Gives each block the cheapest instruction that its neighbours can feed, and that feeds them,
    and adds the copy that brings the last result towards main memory. Raises ByocirError B271 for a
    block that no instruction does, as none fills in what main memory gets of windows without
    elements."""
    stages: list[Stage] = []
    places: dict[SSAValue, int] = {}
    homes = _homes(machine, blocks)
    for block in blocks:
        made = tuple(places.get(value) for value in [*block.ins, *block.outs])
        plans, begun = plans_for(machine, block, block.extents), homes_in_place(machine, block)
        makers = [MAIN if at is None else stages[at].into for at in made]
        unfit = [
            _unfed(machine, plan, made, makers)
            or _stays(machine, plan, block is blocks[-1], begun)
            or _handed_to_several(plan, block)
            or _cut_apart(machine, plan, block)
            or (why_not_begun(machine, block, plan) if made[-1] is None else "")
            for plan in plans
        ]
        found = [plan for plan, why in zip(plans, unfit, strict=True) if not why]
        if not found:
            pairs = zip(plans, unfit, strict=True)
            raise _undone(machine, block, [_misfit(plan, why) for plan, why in pairs])
        wanted = homes.get(block.results[0], ())
        first = min(found, key=lambda plan: _preference(plan.instruction.into, wanted))
        name = _named(first.instruction.name, [stage.name for stage in stages])
        stages.append(Stage(block, first, name, made))
        places.update((value, len(stages) - 1) for value in block.results)
    last = stages[-1]
    if last.into.is_main:
        _expect_elements(machine, last.block)
        return stages
    return [*stages, _storing(machine, last, len(stages) - 1)]


def _homes(machine: Machine, blocks: Sequence[BlockOp]) -> dict[SSAValue, set[Memory]]:
    """Lists for each value in which memories all blocks that use it can do so, and leave their own
    result where others use that.
    """
    found: dict[SSAValue, set[Memory]] = {}
    for block in reversed(blocks):
        plans = plans_for(machine, block, block.extents)
        wanted = found.get(block.results[0], {plan.instruction.into for plan in plans})
        uses = [plan.fit.memories for plan in plans if plan.instruction.into in wanted]
        for value, memories in zip(
            [*block.ins, *block.outs], zip(*uses, strict=True), strict=False
        ):
            reached = set(memories)
            if value in block.ins and any(machine.path(MAIN, each) for each in memories):
                reached.add(MAIN)
            found[value] = found.get(value, reached) & reached
    return found


def _preference(into: Memory, wanted: Collection[Memory]) -> int:
    """Ranks memories for a result that is wanted in some: these first, but main memory after the
    others, as it is loaded again from there.
    """
    if not wanted:
        return 0
    return 2 if into not in wanted else int(into.is_main)


def _unfed(
    machine: Machine, plan: Plan, made: Sequence[int | None], makers: Sequence[Memory]
) -> str:
    """Says what a plan does not find where its instruction reads it, for operands that stages make
    in the memories of `makers`; empty if it finds all.
    """
    if plan.at_points and any(at is not None for at in made[:-1]):
        return "expected one point of each window, found all of what another block makes"
    names = {position: name for name, position in plan.fit.operands.items()}
    *sources, start = makers
    for n, (source, memory) in enumerate(zip(sources, plan.fit.memories, strict=False)):
        is_found = source == memory if made[n] is not None else machine.path(source, memory)
        if not is_found:
            told = f"expected {names[n]} in {memory.called}, found it in {source.called}"
            return told + ("" if made[n] is not None else " and no copies of it from there")
    into = plan.instruction.into
    begins = start in (MAIN, into)
    return "" if begins else f"expected a start in {into.called}, found {start.called}"


def _stays(machine: Machine, plan: Plan, is_last: bool, begun: Collection[Memory] | None) -> str:
    """Says why what a plan makes does not get where it is wanted: a last result in main memory,
    others where another block begins with them (`begun`), if one does; empty if it does.
    """
    into = plan.instruction.into
    if is_last and machine.path(into, MAIN) is None:
        return (
            f"expected copies that bring its result from {into.called} to main memory, found none"
        )
    if begun is not None and into not in begun:
        wanted = " or ".join(sorted(each.called for each in begun))
        return f"expected its result in {wanted or 'no memory'}, found {into.called}"
    return ""


def _handed_to_several(plan: Plan, block: BlockOp) -> str:
    """Says that not one block alone goes on with what stays inside of a unit; empty if one does."""
    users = {use.operation for use in block.results[0].uses}
    if not plan.instruction.into.hidden or len(users) == 1:
        return ""
    return f"expected one block that goes on with its result, found {len(users)}"


def _cut_apart(machine: Machine, plan: Plan, block: BlockOp) -> str:
    """Says why calls of an instruction that do some cut of its first block do not go on with that:
    which cut is taken, the first block decides alone; empty if they always do.
    """
    pairs = zip(block.ins, plan.fit.memories, strict=False)
    first = next((value.owner for value, memory in pairs if memory.hidden), None)
    if not isinstance(first, BlockOp):
        return ""
    cuts = [
        cut_as(first, [min(size, 2) for size in each.sizes], (), block)[0]
        for each in plans_for(machine, first, first.extents)
        if each.instruction is plan.instruction.first
    ]  # it matters to patterns only whether an iterator has one point or more
    own = tuple(dict.fromkeys(cuts))
    question = "cut apart", machine.keys.pattern(block), own, plan.instruction
    return machine.answer(question, lambda: _unfit_cut(machine, plan, block, own))


def _unfit_cut(machine: Machine, plan: Plan, block: BlockOp, cuts: Sequence[Shape]) -> str:
    """Says why calls of an instruction do not do the first of these cuts that they do not do; empty
    if they do all.
    """
    for cut in cuts:
        said = next(fits(machine, block, cut, asked="pattern", only=plan.instruction))
        if isinstance(said, Misfit):
            return f"{said.reason}, in calls that make its sums"
    return ""


def _misfit(plan: Plan, why: str) -> Misfit:
    return Misfit(plan.instruction, why, Reached.FEEDING)


def _expect_elements(machine: Machine, block: BlockOp) -> None:
    """Raises ByocirError B271 for a block whose result goes to main memory, where its guards leave
    nothing of the window of an element.
    """
    where = block.where
    if block.reductions and where is not None and not leaves_elements(block, where.data):
        told = "expected windows with an element inside of the array, found some that are outside"
        why = f"no instruction of {machine.name} fills in their results"
        raise ByocirError("B271", told, where=place(block.location), help=why)


def _lacking(machine: Machine, block: BlockOp) -> BlockOp:
    """Gives a block that has no stage or, where no instruction does the one that adds to its
    result, that one."""
    use = user_in_place(block)
    return block if use is None or plans_for(machine, use, use.extents) else use


def _undone(machine: Machine, block: BlockOp, unfit: Sequence[Misfit]) -> ByocirError:
    """Makes the error for a block that no instruction does, though it may fit some (`unfit`)."""
    lacking, misfits = _lacking(machine, block), list[Misfit]()
    plans = plans_for(machine, lacking, lacking.extents, misfits)
    if lacking is not block:
        begun = [(plan, why_not_begun(machine, lacking, plan)) for plan in plans]
        unfit = [_misfit(plan, why) for plan, why in begun if why]
    body = computed(lacking)
    does = "copies" if body == "copy" else f"does {body}"
    told = f"expected an instruction of {machine.name} that {does}, found none"
    whole, lost = why_whole(machine, lacking)
    others = [why.removesuffix(f", of the body {body}") for why in lost[:1]]
    return none_does(told, [*misfits, *unfit, *whole], place(lacking.location), others)


def _named(instruction: str, taken: Sequence[str]) -> str:
    return free_name(instruction.rpartition(".")[2], taken)


def free_name(name: str, taken: Collection[str]) -> str:
    """Numbers a name that is taken."""
    return next(n for n in (name, *(f"{name}{i}" for i in range(len(taken) + 1))) if n not in taken)


def _storing(machine: Machine, last: Stage, at: int) -> Stage:
    """Makes the copy that brings the last result to main memory, or a step towards it."""
    path = machine.path(last.into, MAIN)
    assert path is not None
    out = last.block.outs[0]
    block = identity(element_type_of(out.type), shape_of(out.type), path[0], path[1])
    plans = plans_of(machine, block, block.extents, "memories")
    if not plans:
        misfits = list[Misfit]()
        plans_of(machine, block, block.extents, "memories", misfits)
        told = f"expected an instruction that copies to {path[1].called}, found none"
        raise none_does(told, misfits, place(last.block.location))
    name = "stored" if last.name != "stored" else "stored0"
    return Stage(block, plans[0], name, (at, None), is_new=True)


@dataclass(frozen=True)
class Staged:
    """Describes an operand of a stage, by its position, that is brought to another memory along a
    path."""

    stage: int
    operand: int
    path: tuple[Memory, ...]


class Chain:
    """Lists the stages of a composite. The last one is tiled; the others are computed in its loops,
    each with loops over its own sums.
    """

    def __init__(self, machine: Machine, blocks: Sequence[BlockOp]) -> None:
        self.machine = machine
        self.stages = stages_of(machine, blocks)
        self.last = self.stages[-1]
        self._known: dict[tuple[int, frozenset[int], int], bool] = {}

    @cached_property
    def form(self) -> int:
        """Gives a number that is equal only for chains that get the same tiles. It has of bodies
        what follows from them: instructions, and the order of sums.
        """
        return self.machine.number_of(tuple(self._form_of(stage) for stage in self.stages))

    def _form_of(self, stage: Stage) -> Hashable:
        keys, block, fit = self.machine.keys, stage.block, stage.plan.fit
        known = tuple(isinstance(value.owner, ConstantOp) for value in block.ins)
        given = tuple(map(keys.value, [*block.maps, *block.pad_values]))
        own = keys.boxes(block), given, block.extents, known
        takes = tuple(fit.iterators.items()), tuple(fit.operands.items()), fit.memories, fit.turns
        sums = is_unordered(block), reads_old(block)
        planned = stage.plan.sizes, stage.plan.at_points
        return own, sums, stage.made, fit.instruction, fit.form, takes, planned

    @cached_property
    def starts(self) -> set[int]:
        """Lists the stages whose results others begin with, in the same buffers."""
        return {stage.made[-1] for stage in self.stages if stage.made[-1] is not None}

    @cached_property
    def along(self) -> set[int]:
        """Lists the ends of buffers that move into loops along with a later one: where one buffer
        is made of another, and that changes behind it, the two cannot be moved one by one.
        """
        follows = {stage.made[-1]: s for s, stage in enumerate(self.stages)}
        ends, found = dict[int, int](), set[int]()
        for s in reversed(range(len(self.stages))):
            ends[s] = ends[follows[s]] if s in self.starts else s
        for s, at in ((s, at) for s, stage in enumerate(self.stages) for at in stage.made[:-1]):
            if at in self.starts and ends[at] != ends[s]:
                found.add(min(ends[at], ends[s]))
        return found

    @cached_property
    def handed(self) -> set[tuple[int, int]]:
        """Lists the operands, each as stage and position, that other stages make."""
        made = ((s, stage.made[:-1]) for s, stage in enumerate(self.stages))
        return {(s, n) for s, own in made for n, at in enumerate(own) if at is not None}

    @cached_property
    def staged(self) -> list[Staged]:
        """Lists the operands that are staged, in the order in which a script stages them."""
        found: list[Staged] = []
        for s, stage in enumerate(self.stages):
            for operand, memory in enumerate(stage.plan.fit.memories[:-1]):
                at = stage.made[operand]
                path = self.machine.path(MAIN if at is None else self.stages[at].into, memory)
                if path is not None and len(path) > 1:
                    found.append(Staged(s, operand, tuple(path)))
        return found

    def hops(self, each: Staged, is_whole: bool) -> list[tuple[Staged, bool]]:
        """Splits the way of an operand that is staged for all sums at once, if it leads through
        another memory: it is whole there, and what a tile of sums reads of it goes on.
        """
        if not is_whole or len(each.path) <= 2:
            return [(each, is_whole)]
        far, near = each.path[:-1], each.path[-2:]
        return [(replace(each, path=far), True), (replace(each, path=near), False)]

    def moved(self, each: Staged, order: Sequence[int], is_whole: bool) -> list[bool]:
        """Tells, for each loop around a stage, whether an operand is staged anew in each of its
        iterations: first the loops over tiles of the last block in this order, then those over the
        stage's sums. An operand that is whole is staged for all sums at once.
        """
        stage = self.stages[each.stage]
        if each.path[-1].fifo:  # reading a row removes it from the FIFO
            return [True] * (len(order) + len(stage.reductions))
        used = {i for form in stage.forms[each.operand] for i, _ in form.terms}
        is_made = stage.made[each.operand] is not None
        outer = [is_made or self.depends(each.stage, used, i) for i in order]
        return [*outer, *(i in used and not is_whole for i in stage.reductions)]

    def steps(self, each: Staged) -> Shape:
        """Gives, for each dimension, how far apart in its array neighbours in a tile of what is
        staged are; nothing where they are neighbours there, too.
        """
        stage = self.stages[each.stage]
        forms, own = stage.forms[each.operand], stage.tile_forms[each.operand]
        steps = [
            next((form.coefficient(i) // step for i, step in tile.terms), 1)
            for form, tile in zip(forms, own, strict=True)
        ]
        return tuple(steps) if any(step != 1 for step in steps) else ()

    def around(self, each: Staged) -> list[int]:
        """Lists the dimensions in which tiles of what is staged reach out of its array in main
        memory: there a machine has to set pads.
        """
        stage = self.stages[each.stage]
        if stage.made[each.operand] is not None or not each.path[0].is_main:
            return []
        shape = shape_of(stage.block.ins[each.operand].type)
        pairs = enumerate(zip(self._bounds(each), spans(shape), strict=True))
        return [d for d, (side, whole) in pairs if not whole.contains(side)]

    def lines_apart(self, each: Staged) -> int:
        """Counts the outer dimensions over which what is staged is loaded line by line. That is so
        where loads set pads of this number, but refuse to do it at the corners of the array.
        """
        if not self.has_own_pads(each):
            return 0
        refused = (parts_of(self.machine, block, None) is None for block in self._corners(each))
        return max(self.around(each), default=0) if any(refused) else 0

    def has_own_pads(self, each: Staged) -> bool:
        """Tells whether loads set the pads of what is staged: of neighbours alone."""
        pad = self.stages[each.stage].block.pad_values[each.operand]
        is_own = pad is not None and self.machine.sets_pad(number(pad).item())
        return is_own and not self.steps(each)

    def why_apart(self, each: Staged) -> list[Misfit]:
        """Lists what instructions say to the corners of what is staged, with the pads there."""
        misfits = list[Misfit]()
        for block in self._corners(each):
            plans_of(self.machine, block, block.extents, "all", misfits)
        return misfits

    def _corners(self, each: Staged) -> Iterator[BlockOp]:
        """Yields blocks that copy the first and the last box of what is staged, with at most two
        elements of the array where pads are; none where nothing is read around the array.
        """
        dims, block = self.around(each), self.stages[each.stage].block
        pad, array = block.pad_values[each.operand], block.ins[each.operand].type
        if not dims or pad is None:
            return
        shape = shape_of(array)
        sides = [*zip(self._bounds(each), shape, strict=True)]
        for box in (
            [(min(side.low, 0), min(size, 2)) for side, size in sides],
            [(max(size - 2, 0), max(side.high + 1, size)) for side, size in sides],
        ):
            sides_of_box = [side if d in dims else (0, shape[d]) for d, side in enumerate(box)]
            yield padded(array, sides_of_box, pad, each.path[1])

    def _bounds(self, each: Staged) -> list[Interval]:
        """Bounds the indices of what is staged, in all tiles."""
        of, forms = self._reached[each.stage], self.stages[each.stage].forms[each.operand]
        return [form.interval(of.__getitem__) for form in forms]

    @cached_property
    def _reached(self) -> list[list[Interval]]:
        """Bounds the iterators of each stage in all tiles: where a later stage reads around its
        result, it may run over what is around.
        """
        found = [spans(stage.extents) for stage in self.stages]
        for user, own in zip(self.stages[::-1], found[::-1], strict=True):
            for maker, forms in zip(user.made, user.forms, strict=True):
                if maker is None:
                    continue
                for form, out in zip(forms, self.stages[maker].forms[-1], strict=True):
                    low, high = form.interval(own.__getitem__)
                    for i in out.atoms:
                        known = found[maker][i]
                        found[maker][i] = Interval(min(low, known.low), max(high, known.high))
        return found

    def depends(self, s: int, used: AbstractSet[int], i: int) -> bool:
        """Tells whether iterators of a stage begin elsewhere for another tile of an iterator of the
        last block.
        """
        key = s, frozenset(used), i
        if key not in self._known:
            self._known[key] = self._depends(s, used, i)
        return self._known[key]

    def is_read_apart(self, i: int) -> bool:
        """Tells whether blocks would read different parts of what another one makes in a tile of an
        iterator of the last block: one the part that belongs to the tile, one all of it.
        """
        found: dict[tuple[int, int], set[bool]] = {}
        for s, user in enumerate(self.stages):
            for operand, maker in enumerate(user.made):
                for d, form in enumerate(user.forms[operand] if maker is not None else ()):
                    assert maker is not None
                    used = {t for t, _ in form.terms}
                    found.setdefault((maker, d), set()).add(self.depends(s, used, i))
        return any(len(each) > 1 for each in found.values())

    def _depends(self, s: int, used: AbstractSet[int], i: int) -> bool:
        if s == len(self.stages) - 1:
            return i in used
        stage = self.stages[s]
        dims = [d for d, f in enumerate(stage.forms[-1]) if any(t in used for t, _ in f.terms)]
        for later, user in enumerate(self.stages):
            for operand, at in enumerate(user.made):
                if at != s:
                    continue
                reached = {t for d in dims for t, _ in user.forms[operand][d].terms}
                if self.depends(later, reached, i):
                    return True
        return False
