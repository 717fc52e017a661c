"""Plans how to cut a block of any size into calls of one instruction: along which iterators, and at
which cost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, reduce
from itertools import combinations, product
from math import gcd, inf

import numpy as np
from xdsl.ir import Attribute

from byocir.dialects.tir import BlockOp
from byocir.dialects.tir.affine import iterators_in
from byocir.dialects.tir.reductions import keeps_order
from byocir.dialects.types import Bools, Floats, Ints, Shape
from byocir.errors import ByocirError, Lines
from byocir.machine.block_keys import reaches_beyond
from byocir.machine.call_cycles import count_calls, cycles_of_block, cycles_of_calls
from byocir.machine.description import Machine
from byocir.machine.find_instruction import Asked, fitting, near, other_bodies
from byocir.machine.instructions import Fit, Instruction
from byocir.machine.lines import Chain, chains_of
from byocir.machine.nearest_misses import Misfit, Reached, nearest_first
from byocir.machine.parts import Limit
from byocir.machine.row_starts import calls_inside_rows
from byocir.machine.window_points import at_points, windows_of
from byocir.patterns.index import Affine

MOST_OTHERS = 3
"""Instructions named as near to a block that compute something else."""


@dataclass(frozen=True)
class Plan:
    """Describes a block as calls of an instruction: for each of its iterators, by position, the
    most points that a call has, and the cycles of all calls together. They may do tiles with one
    point of each window alone (`window_points`).
    """

    fit: Fit
    sizes: tuple[int, ...]
    cycles: float
    at_points: bool = False

    @property
    def instruction(self) -> Instruction:
        return self.fit.instruction


def plans_of(
    machine: Machine,
    block: BlockOp,
    extents: Sequence[int],
    asked: Asked,
    misfits: list[Misfit] | None = None,
    start: Attribute | None = None,
    only: Instruction | None = None,
    *,
    every: bool = False,
) -> list[Plan]:
    """Gives the ways in which instructions, or only one of them, do a block over these extents, the
    cheapest first. With `start` each call begins with that number, and sums are whole. `misfits`,
    if they are asked for, get why other instructions do not do it, which takes longer. Calls that
    do parts of the calls of another plan, in no fewer cycles, are left out, unless `every` plan is
    asked for. Where patterns alone are asked for, tiles may overlap: the points left over by an
    extent need not be a legal call.
    """
    explains = misfits is not None
    search = _Search(machine, block, asked, start, only, explains, every or explains)
    plans, told = search.plans(tuple(extents))
    if misfits is not None:
        misfits += told
    return [*plans]


def none_does(
    told: str, misfits: Iterable[Misfit], where: str = "", others: Iterable[str] = ()
) -> ByocirError:
    """Makes the error B271 that no instruction does a block, with what each of them says to it, the
    nearest first, and why it cannot be done in several steps: `others`, which come before what
    instructions say that compute something else.
    """
    found = nearest_first(misfits)
    said = [each.with_place for each in found[:1]] + [str(each) for each in found[1:]]
    near = sum(each.reached > Reached.BODY for each in found)
    lines = [*said[:near], *others, *said[near : near + MOST_OTHERS]]
    return ByocirError("B271", told, where=where, help=Lines.of(dict.fromkeys(lines)))


@dataclass(frozen=True)
class _Search:
    """Finds the ways in which instructions, or only one of them, do a block, and with `explains`
    why there are no others.
    """

    machine: Machine
    block: BlockOp
    asked: Asked
    start: Attribute | None = None
    only: Instruction | None = None
    explains: bool = False
    every: bool = True
    """Tells whether plans are wanted, too, whose calls do parts of the calls of others."""

    @cached_property
    def _key(self) -> int:
        return self.machine.keys.pattern(self.block)

    @cached_property
    def _beyond(self) -> frozenset[int]:
        return reaches_beyond(self.block)

    @property
    def _instructions(self) -> list[Instruction]:
        return self.machine.instructions if self.only is None else [self.only]

    @cached_property
    def _tried(self) -> list[Instruction]:
        """Lists the instructions that may do it; all where reasons are asked for."""
        given = self._instructions
        own = self.machine, self.block, given, self.asked, self.start
        return given if self.explains else near(*own)

    def plans(self, extents: Shape) -> tuple[list[Plan], list[Misfit]]:
        """Gives the plans over these extents, the cheapest first, and why there are no others."""
        machine, asked = self.machine, self.asked
        chains = () if asked == "pattern" else chains_of(machine, self.block, extents)
        own = self.start, self.only, self.explains, self.every
        question = "plans", self._key, extents, chains, asked, *own
        return machine.answer(question, lambda: self._plans(extents, chains))

    def _plans(self, extents: Shape, chains: Sequence[Chain]) -> tuple[list[Plan], list[Misfit]]:
        misfits, choices = list[Misfit](), [*self.choices(extents)]
        found = [*self._planned(((kept, ()) for kept in choices), extents, misfits)]
        if chains and not any(plan.sizes == extents for plan in found):
            found += self._planned(_chained(choices, chains), extents, misfits)
        found = found or self._at_points(extents)
        return sorted(found, key=lambda plan: plan.cycles), misfits

    def _at_points(self, extents: Shape) -> list[Plan]:
        """Gives the plans that do tiles with one point of each window alone."""
        block = at_points(self.block) if self.asked == "pattern" else None
        if block is None:
            return []
        windows = windows_of(self.block)
        found, _ = replace(self, block=block, every=True).plans(extents)
        called = [plan for plan in found if all(plan.sizes[i] == 1 for i in windows)]
        return [replace(plan, at_points=True) for plan in called]

    def _planned(
        self,
        choices: Iterable[tuple[frozenset[int], Sequence[Chain]]],
        extents: Shape,
        misfits: list[Misfit],
    ) -> Iterator[Plan]:
        """Yields plans whose calls run over chosen iterators; adds why there are no others."""
        overlapping = frozenset(self.block.parallels if self.asked == "pattern" else ())
        larger = list[Plan]()
        for kept, chains in choices:
            sizes = tuple(n if i in kept else 1 for i, n in enumerate(extents))
            if not chains and not self._has_lanes(sizes, overlapping):
                continue
            parts = set[Instruction]()
            if not self.every:
                parts.update(_doing_parts(larger, sizes, extents, overlapping))
            for fit in self.tried(sizes, chains, [e for e in self._tried if e not in parts]):
                if isinstance(fit, Misfit):
                    misfits.append(fit)
                    continue
                plan = _planned(fit, sizes, extents, misfits, overlapping)
                if plan is None:
                    continue
                if told := self._sums_otherwise(plan.sizes, extents):
                    misfits.append(Misfit(fit.instruction, told, Reached.SIZES, len(kept)))
                    continue
                if any(plan.sizes[i] == 1 < extents[i] for i in self._beyond):
                    continue  # each call reads other pads, of which its pattern has none
                # tiles may be as small as a call is
                called = sizes if self.asked == "pattern" else plan.sizes
                inside = calls_inside_rows(fit, self.block, called, extents)
                if not inside:
                    larger.append(plan)
                    yield plan
                else:
                    misfits.append(Misfit(fit.instruction, inside, Reached.ROWS, len(kept)))

    def _sums_otherwise(self, sizes: Shape, extents: Shape) -> str:
        """Says why calls of these sizes do not sum up as the block does: where each call begins
        with a number, sums are whole; empty if they do.
        """
        sums = () if self.start is None else self.block.reductions
        cut = next((i for i in sums if sizes[i] < extents[i]), None)
        if cut is not None:
            whole = f"calls over all {extents[cut]} of {self.block.names[cut]}, found {sizes[cut]}"
            return f"expected a form that adds to what is there, by init, or {whole}"
        alike = keeps_order(self.block, sizes, extents)
        return "" if alike else "expected calls that sum up in the block's order, found another"

    def _has_lanes(self, sizes: Shape, overlapping: frozenset[int]) -> bool:
        """Tells if one of the instructions may have as many lanes as a block of these sizes."""
        lanes = iterators_in(self.block.out_maps[0].results[-1:])
        return _ANY in self._lane_limits or any(
            _most(limit, sizes[i], i in overlapping) for limit in self._lane_limits for i in lanes
        )

    @cached_property
    def _lane_limits(self) -> set[Limit]:
        """Lists how many lanes there may be, for each form of an instruction that computes what the
        block does: they are the last dimension of what it writes to a memory of its machine. There
        may be any number where there may be one, and where reasons are asked for.
        """
        if self.explains:
            return {_ANY}
        found = set[Limit]()
        others, count = other_bodies(self.machine, self.block), len(self.block.ins)
        for instruction in self._tried:
            for form in instruction.forms:
                if len(form.reads) == count and form not in others:
                    last = form.out[-1] if form.out and not instruction.into.is_main else None
                    pairs = instruction.limits.items()
                    limits = [limit for name, limit in pairs if last == Affine(((name, 1),))]
                    found.add(next((limit for limit in limits if not limit.allows(1)), _ANY))
        return found

    def tried(
        self,
        sizes: Shape,
        chains: Sequence[Chain] = (),
        instructions: Sequence[Instruction] | None = None,
    ) -> list[Fit | Misfit]:
        """Tries each instruction, or these, on the block without regard to limits: then it only
        matters whether an iterator has one point or more.
        """
        least = sizes if self._beyond else tuple(min(n, 2) for n in sizes)

        @cache
        def fit() -> Callable[[Instruction], Fit | Misfit]:
            return fitting(
                self.machine,
                self.block,
                least,
                start=self.start,
                asked=self.asked,
                chains=chains,
                explains=self.explains,
            )

        def tried(instruction: Instruction) -> Fit | Misfit:
            own = self.start, self.asked, self.explains, chains
            question = "fits", self._key, least, instruction, *own
            return self.machine.answer(question, lambda: fit()(instruction))

        return [tried(each) for each in (self._tried if instructions is None else instructions)]

    def choices(self, extents: Sequence[int]) -> Iterator[frozenset[int]]:
        """Yields the sets of iterators that one call may run over: as many iterators as patterns
        name, or fewer.
        """
        live = [i for i, extent in enumerate(extents) if extent > 1]
        sums, count = self.block.reductions, len(self.block.ins)
        parallel = [i for i in live if i not in sums]
        reduced = [i for i in live if i in sums]
        shapes: set[tuple[int, int]] = set()
        for form in (form for each in self._instructions for form in each.forms):
            names = form.iterators
            rows = len(parallel) if names.parallel_groups else len(names.parallel)
            summed = len(reduced) if names.reduction_groups else len(names.reduction)
            if len(form.reads) == count:
                most = range(min(rows, len(parallel)) + 1), range(min(summed, len(reduced)) + 1)
                shapes.update(product(*most))
        return _kept(parallel, reduced, sorted(shapes, reverse=True))


_ANY = Limit(1)


def _doing_parts(
    plans: Iterable[Plan], sizes: Shape, extents: Shape, overlapping: frozenset[int]
) -> Iterator[Instruction]:
    """Yields the instructions of plans whose calls take as many points as these sizes, or more, in
    no more cycles than calls of these sizes alone.
    """
    kept = {i for i, size in enumerate(sizes) if size > 1}
    for plan in plans:
        if kept < {i for i, size in enumerate(plan.sizes) if size > 1}:
            part = _planned(plan.fit, sizes, extents, [], overlapping)
            if part is not None and part.cycles >= plan.cycles:
                yield plan.instruction


def _kept(
    parallel: Sequence[int], reduced: Sequence[int], shapes: Iterable[tuple[int, int]]
) -> Iterator[frozenset[int]]:
    """Yields sets of iterators, each once, with so many parallel ones and so many of sums."""
    seen: set[frozenset[int]] = set()
    for rows, sums in shapes:
        for first in combinations(parallel[::-1], rows):
            for second in combinations(reduced, sums):
                kept = frozenset((*first, *second))
                if kept not in seen:
                    seen.add(kept)
                    yield kept


def _chained(
    choices: Iterable[frozenset[int]], chains: Sequence[Chain]
) -> Iterator[tuple[frozenset[int], tuple[Chain, ...]]]:
    """Yields sets of iterators with chains in the place of their last iterators, each with its
    chains.
    """
    seen: set[frozenset[int]] = set()
    for kept in choices:
        joined = tuple(chain for chain in chains if [i for i in chain if i in kept] == [chain[-1]])
        whole = kept.union(*joined)
        if joined and whole not in seen:
            seen.add(whole)
            yield whole, joined


def _planned(
    fit: Fit,
    sizes: Sequence[int],
    extents: Sequence[int],
    misfits: list[Misfit],
    overlapping: frozenset[int],
) -> Plan | None:
    """Finds the plan with the largest sizes, at most these, that limits allow; None if there is
    none. The last of overlapping calls costs as much as one of the next larger legal size.
    """
    cut, done = list(sizes), list(extents)
    for name, positions in fit.iterators.items():
        limit = fit.instruction.limits.get(name)
        if limit is None:
            continue
        if len(positions) > 1:
            lines = _cut_lines(limit, [sizes[i] for i in positions])
            if lines is None:
                return None
            for i, size in zip(positions, lines, strict=True):
                cut[i] = size
            continue
        found = {i: _most(limit, sizes[i], i in overlapping) for i in positions}
        wrong = [sizes[i] for i, size in found.items() if not size]
        wrong += [] if positions or _most(limit, 1, False) else [1]
        if wrong:
            # If a size is not whole, a larger one may do.
            if all(sizes[i] == extents[i] for i in positions):
                told, kept = f"expected {name} {limit}, found {wrong[0]}", sum(n > 1 for n in sizes)
                misfits.append(Misfit(fit.instruction, told, Reached.SIZES, kept))
            return None
        for i, size in found.items():
            cut[i], done[i] = size, -(-extents[i] // limit.step) * limit.step
    return Plan(fit, tuple(cut), cycles_of_block(fit, cut, done))


def _cut_lines(limit: Limit, sizes: Sequence[int]) -> list[int] | None:
    """Cuts the extents of a chain of iterators into the lines that one call takes: all of the last
    ones, as many as a limit allows. None where these are no more than those of the last one.
    """
    cut, lines = [1] * len(sizes), 1
    for at, size in reversed([*enumerate(sizes)]):
        left = Limit(limit.most // lines, limit.step // gcd(limit.step, lines))
        cut[at] = _most(left, size, False)
        if not cut[at]:
            return None
        lines *= cut[at]
        if cut[at] < size:
            break
    return cut if lines > sizes[-1] else None


def _most(limit: Limit, extent: int, overlaps: bool) -> int:
    """Finds the largest size that a limit allows and, unless calls may overlap, that leaves a
    remainder which it allows, too; 0 if there is none.
    """
    if extent % limit.step and not overlaps:
        return 0
    return min(extent - extent % limit.step, limit.most - limit.most % limit.step)


_ALL, _ONE = np.ones((), np.bool_), np.ones((), np.int64)


def least_cycles(
    machine: Machine,
    block: BlockOp,
    extents: Sequence[Ints],
    asked: Asked,
    may_be: Callable[[Fit, Sequence[Ints]], Bools],
    lines: Sequence[Ints] | None = None,
) -> dict[str, Floats]:
    """Counts, for blocks as large as these arrays say, the cycles of the plan that `plans_of` puts
    first, by the unit, and by the channel, that it keeps busy; infinitely many where there is no
    plan. Each block has two points or more of each iterator. `may_be` marks where calls may have
    such sizes. Of iterators that run over `lines`, calls take whole ones: one or multiples of so
    many points.
    """
    shape = np.broadcast_shapes(*(each.shape for each in extents))
    least, of = np.full(shape, inf), np.zeros(shape, np.int64)
    instructions, counts = list[Instruction](), list[Ints]()
    search = _Search(machine, block, asked)
    some = [2 if np.any(each > 1) else 1 for each in extents]
    for kept in search.choices(some):
        ones = tuple(2 if i in kept else 1 for i in range(len(extents)))
        live = reduce(np.logical_and, (extents[i] > 1 for i in kept), _ALL)
        for fit in search.tried(ones):
            if isinstance(fit, Misfit):
                continue
            sizes, legal = _cut(fit, [n if i in kept else _ONE for i, n in enumerate(extents)])
            if lines is not None:
                pairs = zip(sizes, lines, strict=True)
                sizes = [np.maximum(size - size % line, 1) for size, line in pairs]
            legal = legal & live & may_be(fit, sizes)
            cycles = np.where(legal, cycles_of_calls(fit, sizes, extents, legal), inf)
            instructions.append(fit.instruction)
            counts.append(count_calls(sizes, extents))
            of, least = np.where(cycles < least, len(counts), of), np.minimum(cycles, least)
    found = dict[str, Floats]()
    for number, (instruction, count) in enumerate(zip(instructions, counts, strict=True), 1):
        for name, cycles in instruction.shares(least, count).items():
            found[name] = found.get(name, 0) + np.where(of == number, cycles, 0)
    undone = of == 0
    return {**found, "": np.where(undone, inf, 0)} if undone.any() else found


def _cut(fit: Fit, sizes: Sequence[Ints]) -> tuple[list[Ints], Bools]:
    """Finds the largest sizes, at most these, that limits allow, and marks where there are any."""
    cut, legal = list(sizes), _ALL
    for name, positions in fit.iterators.items():
        limit = fit.instruction.limits.get(name)
        if limit is None:
            continue
        legal = legal & (bool(positions) or limit.allows(1))
        for i in positions:
            legal = legal & (sizes[i] % limit.step == 0)
            cut[i] = np.minimum(sizes[i], limit.most - limit.most % limit.step)
    return cut, legal
