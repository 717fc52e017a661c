"""Counts what tiles of a composite need of a described machine, and their cycles, in a closed form
over all sizes at once.

Loads, work and stores of different tiles run side by side where memories hold buffers twice. So a
choice takes as long as its busiest unit, and what the others do of the first tile.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import pairwise
from itertools import product as combined

import numpy as np

from byocir.dialects.tir.linear import spans
from byocir.dialects.tir.reductions import keeps_order
from byocir.dialects.types import Bools, Floats, Ints, Shape, element_type_of, shape_of
from byocir.errors import ByocirError
from byocir.machine import MAIN, Memory
from byocir.machine.call_cycles import count_calls, cycles_of_calls
from byocir.machine.instructions import Fit, init_of
from byocir.machine.row_starts import steps_along_rows
from byocir.machine.window_points import windows_of
from byocir.rewrites.machine.copies import ONE, Copies
from byocir.rewrites.machine.stages import Chain, Stage, Staged
from byocir.rewrites.tiles import at, fills, product, shape_over, sides

HINDRANCE = 1 / 16
"""The busiest unit waits in so large a part of the cycles of the others."""

Tiled = tuple[int, int]
"""An iterator that has tiles: its stage, and its position there."""
Whole = frozenset[tuple[int, int]]
"""Operands, each as stage and position, that are staged for all sums at once."""
_Busy = dict[str, Floats]
"""The cycles of units, and of channels, by name."""


@dataclass(frozen=True)
class Buffer:
    """Describes a buffer in a memory of the machine: its box, and where it is filled more than
    once."""

    memory: Memory
    box: list[Ints]
    moves: Bools

    @cached_property
    def rows(self) -> Ints:
        return self.memory.rows_of_all(self.box)


class TileCosts:
    """Counts the costs of a chain's tiles. Sizes are those of parallel iterators of the last block,
    and of all sums; there may be many of each, in arrays as `rewrites.tiles` has them.
    """

    def __init__(self, chain: Chain, sizes: Mapping[Tiled, Ints]) -> None:
        self.chain = chain
        self.sizes = sizes
        self.shape = shape_over(sizes.values())
        self._known: dict[tuple[Staged | None, bool], _Busy] = {}
        self._buffers: dict[Whole, list[Buffer]] = {}

    def count(self, s: int, i: int) -> Ints:
        """Counts the tiles of an iterator."""
        return -(-self.chain.stages[s].extents[i] // self.sizes[s, i])

    @cached_property
    def tiles(self) -> Ints:
        """Counts the tiles of the last block."""
        last = len(self.chain.stages) - 1
        return product(self.count(last, i) for i in self.chain.last.block.parallels)

    def sums(self, s: int) -> Ints:
        """Counts the tiles of the sums of a stage."""
        return product(self.count(s, i) for i in self.chain.stages[s].reductions)

    @cached_property
    def steps(self) -> Ints:
        """Counts the iterations of all loops over tiles, which are written out."""
        return self.tiles * reduce(np.add, (self.sums(s) for s in range(len(self.chain.stages))))

    @cached_property
    def extents(self) -> list[list[Ints]]:
        """Gives the extents over which each stage runs in one iteration of the innermost loop."""
        stages = self.chain.stages
        found = [[np.array(n, np.int64) for n in stage.extents] for stage in stages]
        for (s, i), sizes in self.sizes.items():
            found[s][i] = sizes
        for stage, own in zip(stages[::-1], found[::-1], strict=True):
            # A stage reads the results of other stages for whole sums.
            whole = _whole_sums(stage, own)
            for operand, maker in enumerate(stage.made):
                if maker is None:
                    continue
                box = sides(stage.forms[operand], whole)
                for form, size in zip(stages[maker].forms[-1], box, strict=True):
                    for i in form.atoms:
                        found[maker][i] = np.minimum(found[maker][i], size)
        return found

    # -- what fits

    def fits(self, whole: Whole) -> Bools:
        """Marks the sizes that instructions and memories allow."""
        checks = [self.in_calls, self._keeps_order(), self.begins_rows(whole)]
        checks.append(self.has_room(whole, doubled=False) & self._sets_pads)
        checks += [self.in_order(memory, whole) for memory in self.chain.machine.memories]
        done = [
            np.isfinite(sum(self.cycles_of_copies(*key).values(), _NONE))
            for key in self._moves(whole)
        ]
        return reduce(np.logical_and, [*checks, *done])

    @cached_property
    def in_calls(self) -> Bools:
        """Marks the sizes of tiles that are multiples of what a call takes."""
        legal = np.ones((), np.bool_)
        for stage, extents in zip(self.chain.stages, self.extents, strict=True):
            for _, i, limit in stage.limits:
                legal = legal & (extents[i] % limit.step == 0)
            for i in windows_of(stage.block) if stage.plan.at_points else ():
                legal = legal & (extents[i] == 1)
        return legal

    def _keeps_order(self) -> Bools:
        """Marks where tiles of sums that depend on their order are taken in it."""
        kept = np.ones((), np.bool_)
        for s, stage in enumerate(self.chain.stages):
            sizes = [self.sizes.get((s, i), n) for i, n in enumerate(stage.extents)]
            kept = kept & keeps_order(stage.block, sizes, stage.extents)
        return kept

    def begins_rows(self, whole: Whole) -> Bools:
        """Marks where all calls begin with rows of the memories that want it."""
        fits = self._calls_begin_rows & self._sums_begin_rows(whole)
        for each, is_whole in self._brought(whole):
            fits = fits & self._parts_no_rows(each, is_whole)
        follow = (self._rows_follow(*placed) for placed in self._placed(whole))
        return reduce(np.logical_and, follow, fits)

    def rows_apart(self, whole: Whole) -> Iterator[str]:
        """Names the operands, each with its instruction, whose rows do not follow each other in any
        of the tiles, though the instruction needs that.
        """
        for s, operand, box in self._placed(whole):
            if not np.any(self._rows_follow(s, operand, box)):
                fit = self.chain.stages[s].plan.fit
                name = _called(fit, operand)
                told = f"{fit.instruction.name}: expected rows of {name} one after the other, found"
                yield f'{told} some apart, which strided=("{name}",) allows'

    def _placed(self, whole: Whole) -> Iterator[tuple[int, int, Sequence[Ints]]]:
        """Yields the operands that are in memories of the machine, each as stage and position, with
        the box of the buffer.
        """
        for each, is_whole in self._brought(whole):
            if each.path[-1] == self.chain.stages[each.stage].plan.fit.memories[each.operand]:
                yield each.stage, each.operand, self._staged_box(each, is_whole)
        staged = {(each.stage, each.operand) for each in self.chain.staged}
        for s, stage in enumerate(self.chain.stages):
            for operand, maker in enumerate([*stage.made[:-1], s]):
                if maker is not None and (s, operand) not in staged:
                    yield s, operand, self._made_box(maker)

    def _parts_no_rows(self, each: Staged, is_whole: bool) -> Bools:
        """Marks where pads do not part rows: what is beside them would be set by calls that begin
        inside rows. Loads that set pads do one row of the dimensions that have some.
        """
        box, memory, fits = self._staged_box(each, is_whole), each.path[1], np.ones((), np.bool_)
        around = self.chain.around(each)
        sides = [*zip(range(len(box))[::-1], memory.row[::-1], strict=False)]
        if memory.inside_rows or not any(d in around and lanes > 1 for d, lanes in sides):
            return fits
        if self.chain.has_own_pads(each):
            one = (box[d] <= lanes for d, lanes in sides if d in around)
            return reduce(np.logical_and, one, fits)
        parted = (box[d] == 1 for d, lanes in sides if d in around and lanes > 1)
        return reduce(np.logical_and, parted, fits)

    def _rows_follow(self, s: int, operand: int, box: Sequence[Ints]) -> Bools:
        """Marks where the rows of an operand, a box, follow each other, if the instruction does not
        step over rows, along iterators that calls cannot take point by point: those would begin
        inside rows, limits want several points, or each call begins sums, so takes them whole.
        """
        stage, fits = self.chain.stages[s], np.ones((), np.bool_)
        fit, memory = stage.plan.fit, stage.plan.fit.memories[operand]
        if memory.is_main or _called(fit, operand) in fit.instruction.strided:
            return fits
        rank = max(len(box) - len(memory.row), 0)
        blocks = product(-(-n // lanes) for n, lanes in zip(box[rank:], memory.row, strict=False))
        apart = blocks if memory.interleaved else 1
        operands = range(len(fit.memories))
        along = (step for n in operands for step in steps_along_rows(fit, stage.tile, n))
        # Of iterators that are joined, calls take all points of the others.
        lasts = {name: i for name, i, limit in stage.limits if limit.least > 1}
        several = {*lasts.values(), *(stage.reductions if init_of(fit.form) is None else ())}
        for i in several | {i for i, step, lanes in along if step % lanes}:
            forms = enumerate(stage.tile_forms[operand][:rank])
            steps = (form.coefficient(i) * product(box[d + 1 : rank]) for d, form in forms)
            size = np.minimum(stage.plan.sizes[i], self.extents[s][i])
            fits = fits & ((size == 1) | (sum(steps, start=_ZERO) * apart <= 1))
        # Rows of one lane: the next block of lanes is as many rows further as the first one has.
        height = 1 if memory.interleaved else product(box[:rank])
        for i, step, lanes in steps_along_rows(fit, stage.tile, operand):
            size = np.minimum(stage.plan.sizes[i], self.extents[s][i])
            fits = fits & ((size == 1) | (step // lanes * height <= 1))
        return fits

    @cached_property
    def _calls_begin_rows(self) -> Bools:
        """Marks where the calls in a tile begin with rows if the first does."""
        fits = np.ones((), np.bool_)
        for s, stage in enumerate(self.chain.stages):
            sizes = stage.plan.sizes
            for operand in range(len(stage.plan.fit.memories)):
                for i, step, lanes in steps_along_rows(stage.plan.fit, stage.tile, operand):
                    if step * sizes[i] % lanes:
                        fits = fits & (self.extents[s][i] <= sizes[i])
        return fits

    def _sums_begin_rows(self, whole: Whole) -> Bools:
        """Marks where each tile of sums begins with rows of the operands that are there for all
        sums: staged so, or made by other stages.
        """
        found = [(s, n, self.chain.stages[s].plan.fit.memories[n]) for s, n in self.chain.handed]
        found += [
            (e.stage, e.operand, e.path[-1]) for e, is_whole in self._brought(whole) if is_whole
        ]
        fits = np.ones((), np.bool_)
        for s, operand, memory in found:
            stage = self.chain.stages[s]
            sides = zip(stage.forms[operand][::-1], memory.row[::-1], strict=False)
            for form, lanes in sides if not memory.inside_rows else ():
                for i, step in form.terms if lanes > 1 else ():
                    if i in stage.reductions:
                        size = self.sizes[s, i]
                        fits = fits & ((step * size % lanes == 0) | (size == stage.extents[i]))
        return fits

    def has_room(self, whole: Whole, *, doubled: bool) -> Bools:
        """Marks where memories hold all buffers; with `doubled`, two of each that is filled more
        than once.
        """
        fits = np.ones((), np.bool_)
        buffers = self.buffers(whole)
        for memory in self.chain.machine.memories:
            own = [each for each in buffers if each.memory.storage == memory]
            again = [np.where(each.moves, each.rows, 0) for each in own if doubled]
            fits = fits & memory.holds_all([*(each.rows for each in own), *again])
        return fits

    def buffers(self, whole: Whole) -> list[Buffer]:
        """Lists the buffers in memories of the machine."""
        if whole not in self._buffers:
            self._buffers[whole] = list(self._found(whole))
        return self._buffers[whole]

    def _found(self, whole: Whole) -> Iterator[Buffer]:
        parallels = self.chain.last.block.parallels
        for each, is_whole in self._brought(whole):
            loops = self._loops(each, parallels, is_whole)
            moves = [self.count(*own) > 1 for own, is_moved in loops if is_moved]
            moved = reduce(np.logical_or, moves, _NEVER)
            for memory in each.path[1:]:
                yield Buffer(memory, self._staged_box(each, is_whole), moved)
        for s, stage in enumerate(self.chain.stages):
            if not stage.into.is_main and s not in self.chain.starts:
                yield Buffer(stage.into, self._made_box(s), self.tiles > 1)
        last = self.chain.last
        for memory in (self.chain.machine.path(last.into, MAIN) or ())[1:-1]:
            yield Buffer(memory, sides(last.forms[-1], self.extents[-1]), self.tiles > 1)

    def _loops(
        self, each: Staged, order: Sequence[int], is_whole: bool
    ) -> Iterator[tuple[Tiled, bool]]:
        """Yields the iterators of the loops around what is staged, each with whether it moves
        that.
        """
        last, s = len(self.chain.stages) - 1, each.stage
        around = [*((last, i) for i in order), *((s, i) for i in self.chain.stages[s].reductions)]
        return zip(around, self.chain.moved(each, order, is_whole), strict=True)

    def _staged_box(self, each: Staged, is_whole: bool) -> list[Ints]:
        stage, extents = self.chain.stages[each.stage], self.extents[each.stage]
        if is_whole:  # all points of windows
            return sides(stage.forms[each.operand], _whole_sums(stage, extents))
        return sides(stage.tile_forms[each.operand], extents)

    def _made_box(self, s: int) -> list[Ints]:
        """Computes the sizes of the buffer that a stage writes: all that others read of it, with
        the pads around its result. Where no loop parts a dimension, the whole of it is made.
        """
        made, box = self.chain.stages[s], sides(self.chain.stages[s].forms[-1], self.extents[s])
        shape = shape_of(made.block.outs[0].type)
        for user, extents in zip(self.chain.stages, self.extents, strict=True):
            whole = _whole_sums(user, extents)
            for operand in (operand for operand, maker in enumerate(user.made) if maker == s):
                forms, of = user.forms[operand], spans(user.extents).__getitem__
                for d, (size, wide) in enumerate(zip(shape, sides(forms, whole), strict=True)):
                    low = forms[d].interval(of).low
                    around = np.maximum(size, low + wide) - min(low, 0)
                    is_whole = (self.tiles == 1) | (wide >= size)
                    box[d] = np.maximum(box[d], np.where(is_whole, around, wide))
        return box

    def in_order(self, memory: Memory, whole: Whole) -> Bools:
        """Marks where rows of a memory, if it is a FIFO, leave it in the order in which they came:
        one call must read or write the whole of a tile in it, as rows of one block of lanes that no
        copy parts.
        """
        fits = np.ones((), np.bool_)
        if not memory.fifo:
            return fits
        for s, stage in enumerate(self.chain.stages):
            for operand, own in enumerate(stage.plan.fit.memories):
                if own == memory:
                    fits = fits & self._in_one_call(s, operand) & ((s, operand) not in whole)
                    fits = fits & (operand < len(stage.block.ins) or self.sums(s) == 1)
        for copies in (each for key in self._moves(whole) for each in self._copies(*key)):
            if memory in (copies.source, copies.into):
                fits = fits & copies.in_rows(self.chain.machine, memory)
        return fits

    def _in_one_call(self, s: int, operand: int) -> Bools:
        """Marks where one call reaches all of an operand in a tile, and is the only one to do so,
        unless the operand stays in the unit.
        """
        stage, fit = self.chain.stages[s], self.chain.stages[s].plan.fit
        kept = fit.operands.get(fit.instruction.keeps) == operand
        sizes = enumerate(zip(self.extents[s], stage.plan.sizes, strict=True))
        parted = [extent > size for i, (extent, size) in sizes if i in fit.turns or not kept]
        box = sides(stage.tile_forms[operand], self.extents[s])
        row = fit.memories[operand].row
        lanes = zip(box[::-1], row[::-1], strict=False)
        outside = [*parted, *(size > n for size, n in lanes)]
        return ~reduce(np.logical_or, outside, _NEVER)

    # -- cycles

    def _moves(self, whole: Whole) -> list[tuple[Staged | None, bool]]:
        """Yields all that is copied: operands that are staged, each with whether for all sums at
        once, and the result.
        """
        return [*self._brought(whole), (None, False)]

    def _brought(self, whole: Whole) -> list[tuple[Staged, bool]]:
        """Lists what is staged, each hop that has loops of its own, with whether it is brought for
        all sums at once."""
        staged = ((each, (each.stage, each.operand) in whole) for each in self.chain.staged)
        return [hop for each, is_whole in staged for hop in self.chain.hops(each, is_whole)]

    def _copies(self, each: Staged | None, is_whole: bool) -> list[Copies]:
        last = self.chain.last
        if each is None:
            value, box = last.block.outs[0], sides(last.forms[-1], self.extents[-1])
            path = self.chain.machine.path(last.into, MAIN) or ()
        else:
            value = self.chain.stages[each.stage].block.ins[each.operand]
            box, path = self._staged_box(each, is_whole), each.path
        element, array = element_type_of(value.type), shape_of(value.type)
        found = [Copies(element, box, source, into, array) for source, into in pairwise(path)]
        steps = () if each is None or is_whole else self.chain.steps(each)
        if steps:  # no lines of the array follow each other
            found[0] = replace(found[0], array=(), steps=steps)
        return found

    @cached_property
    def _sets_pads(self) -> Bools:
        """Marks where the machine does the copies that meet pads."""
        totals = (copies.total(self.chain.machine) for _, copies in self._beside_pads())
        return np.isfinite(sum(totals, start=_NONE))

    def _beside_pads(self) -> Iterator[tuple[Staged, Copies]]:
        """Yields, for each operand that is read with pads, the smallest copy that pads need. It is
        one element long in dimensions with pads: so short can be pads, and what is between them.
        """
        for each in self.chain.staged:
            dims = self.chain.around(each)
            if dims:
                copies = self._copies(each, False)[0]
                shape = [ONE if d in dims else size for d, size in enumerate(copies.shape)]
                yield each, replace(copies, shape=shape, array=())

    def undone(self, whole: Whole) -> ByocirError | None:
        """Makes the error that no instruction does some of the copies, pads first; None if all are
        done.
        """
        machine = self.chain.machine
        for each, copies in self._beside_pads():
            if np.any(np.isinf(copies.total(machine))):
                return copies.refused(machine, " beside pads", self.chain.why_apart(each))
        for copies in (each for key in self._moves(whole) for each in self._copies(*key)):
            if np.any(np.isinf(copies.total(machine))):
                return copies.refused(machine)
        return None

    def cycles_of_copies(self, each: Staged | None, is_whole: bool) -> _Busy:
        """Counts the cycles that it takes, by unit and channel, to bring something once to where it
        is read, or the result out.
        """
        if (each, is_whole) not in self._known:
            found, machine = _Busy(), self.chain.machine
            for hop, copies in enumerate(self._copies(each, is_whole)):
                outer = self.chain.lines_apart(each) if each is not None and not hop else 0
                line = replace(copies, shape=[*[ONE] * outer, *copies.shape[outer:]])
                _add(found, line.cycles(machine), product(copies.shape[:outer]))
            self._known[each, is_whole] = found
        return self._known[each, is_whole]

    @cached_property
    def _work(self) -> list[tuple[Floats, Ints]]:
        """Counts the cycles of each stage's calls in one tile of its sums, and these calls."""
        found = list[tuple[Floats, Ints]]()
        for stage, extents in zip(self.chain.stages, self.extents, strict=True):
            sizes = [np.minimum(*pair) for pair in zip(stage.plan.sizes, extents, strict=True)]
            cycles = cycles_of_calls(stage.plan.fit, sizes, extents, self.in_calls)
            calls = count_calls(sizes, extents)
            for i, j, lines in _lines(stage, extents):
                legal = self.in_calls & (lines > 1)
                cut, whole = [*sizes], [*extents]
                cut[i] = whole[i] = np.ones((), np.int64)
                cut[j], whole[j] = extents[j] * lines, extents[i] * extents[j]
                sooner = cycles_of_calls(stage.plan.fit, cut, whole, legal)
                legal = legal & (sooner < cycles)
                cycles = np.where(legal, sooner, cycles)
                calls = np.where(legal, count_calls(cut, whole), calls)
            found.append((cycles, calls))
        return found

    @cached_property
    def shares(self) -> list[_Busy]:
        """Counts the cycles of each stage's calls in one tile of its sums, by unit and channel."""
        pairs = zip(self.chain.stages, self._work, strict=True)
        return [stage.plan.instruction.shares(*work) for stage, work in pairs]

    def cycles(
        self, whole: Whole, orders: Sequence[Shape], chosen: tuple[Ints, ...]
    ) -> Iterator[Floats]:
        """Yields the cycles of chosen sizes, for each order of the loops over tiles. Where buffers
        have room for two tiles, units work side by side: the last unit, or channel that they share,
        to end counts, with the cycles of the others for the first tile and a share (`HINDRANCE`) of
        all that the others do, but at least the stages one after the other, where each waits for
        the whole of the one before. Else the cycles of all units add up.
        """
        once, fixed, alone = self._working(chosen)
        moving = [
            (each, is_whole, {name: at(n, chosen) for name, n in found.items()})
            for each, is_whole in self._moves(whole)
            for found in [self.cycles_of_copies(each, is_whole)]
        ]
        for _, _, found in moving:
            _add(once, found)
        doubled, of_units = self.has_room(whole, doubled=True), self.chain.machine.of_units
        doubled, first = at(doubled, chosen), of_units(once)
        counts = {own: at(self.count(*own), chosen) for own in self.sizes}
        for order in orders:
            busy = dict(fixed)
            for each, is_whole, found in moving:
                loops = () if each is None else self._loops(each, order, is_whole)
                times = fills((counts[own], is_moved) for own, is_moved in loops)
                _add(busy, found, at(self.tiles, chosen) if each is None else times)
            total, longest = of_units(busy), reduce(np.maximum, busy.values())
            ended = reduce(np.maximum, (n + first - once[name] for name, n in busy.items()))
            waits = (total - longest) * HINDRANCE
            yield np.where(doubled, np.maximum(ended + waits, alone), total)

    def _working(self, chosen: tuple[Ints, ...]) -> tuple[_Busy, _Busy, Floats]:
        """Counts the cycles of stages by unit and channel, for one tile and for all, and those that
        they take one after the other.
        """
        once, fixed, alone = _Busy(), _Busy(), _NONE
        tiles, last = at(self.tiles, chosen), len(self.chain.stages) - 1
        for s, ((work, _), of_stage) in enumerate(zip(self._work, self.shares, strict=True)):
            own, sums = at(work, chosen), at(self.sums(s), chosen)
            shares = {name: at(cycles, chosen) for name, cycles in of_stage.items()}
            _add(once, shares)
            _add(fixed, shares, tiles * sums)
            alone = alone + own * (tiles if s == last else sums)
        return once, fixed, alone


def _called(fit: Fit, operand: int) -> str:
    """Gives the name that a description has for an operand; the result is the last one."""
    if operand == len(fit.memories) - 1:
        return "out"
    return next(name for name, position in fit.operands.items() if position == operand)


def _add(busy: _Busy, found: _Busy, times: Floats | Ints | int = 1) -> None:
    for name, cycles in found.items():
        busy[name] = busy.get(name, _NONE) + cycles * times


def _lines(stage: Stage, extents: Sequence[Ints]) -> Iterator[tuple[int, int, Ints]]:
    """Yields pairs of iterators of which the second one's lines follow each other in all operands,
    with how many of these one call takes; at least one.
    """
    fit, block = stage.plan.fit, stage.block
    named = {i for positions in fit.iterators.values() for i in positions}
    inner = [(j, limit) for _, j, limit in stage.limits if j not in block.reductions]
    for i, (j, limit) in combined(set(block.parallels) - named, inner):
        follow = np.asarray(extents[i] > 1)
        values = zip(stage.tile_forms, fit.memories, [*block.ins, *block.outs], strict=True)
        for forms, memory, value in values:
            terms = [[t for t in form.terms if block.extents[t[0]] > 1] for form in forms]
            used = [d for d, own in enumerate(terms) if {n for n, _ in own} & {i, j}]
            if not used:
                continue
            alone = [terms[d] for d in used] == [[(i, 1)], [(j, 1)]]
            counting = len(forms) - (0 if memory.is_main else len(memory.row))
            if not alone or used[1] != used[0] + 1 or used[1] >= counting:
                follow = _NEVER
            elif memory.is_main:
                follow = follow & (extents[j] == shape_of(value.type)[used[1]])
        if follow.any():
            lines = np.minimum(limit.most // extents[j], extents[i])
            yield i, j, np.where(follow, np.maximum(lines, 1), 1)


_ZERO: Ints = np.zeros((), np.int64)
_NONE: Floats = np.zeros(())
_NEVER = np.zeros((), np.bool_)


def _whole_sums(stage: Stage, extents: Sequence[Ints]) -> list[Ints]:
    """Gives the extents of a stage with those of all its sums."""
    whole = [np.array(n, np.int64) for n in stage.extents]
    return [whole[i] if i in stage.reductions else n for i, n in enumerate(extents)]
