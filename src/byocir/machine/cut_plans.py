"""Plans that cut a block of any size into calls of one instruction: along which iterators, and
at which cost."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from math import prod

from xdsl.ir import Attribute

from byocir.dialects.tir import BlockOp
from byocir.machine.description import Machine
from byocir.machine.find_instruction import Asked, Misfit, fits, pattern_key, sized
from byocir.machine.instructions import Fit, Instruction
from byocir.machine.parts import Limit, Sizes


@dataclass(frozen=True)
class Plan:
    """A block as calls of an instruction: how many points of each of its iterators, by position, a
    call has at most, and the cycles of all calls together."""

    fit: Fit
    sizes: tuple[int, ...]
    cycles: float

    @property
    def instruction(self) -> Instruction:
        return self.fit.instruction


def plans_of(
    machine: Machine,
    block: BlockOp,
    extents: Sequence[int],
    asked: Asked,
    reasons: list[str],
    start: Attribute | None = None,
    only: Instruction | None = None,
) -> list[Plan]:
    """Gives the ways in which instructions, or only one, do a block over these extents, the
    cheapest first. With
    `start` each call begins with that number, and sums are whole. `reasons` gets why others do not.
    Where patterns alone are asked for, tiles may overlap: what an extent leaves need not be legal.
    """
    found: list[Plan] = []
    key = pattern_key(block)
    overlapping = frozenset(block.parallels if asked == "pattern" else ())
    for kept in _choices(machine, block, extents, only):
        sizes = tuple(n if i in kept else 1 for i, n in enumerate(extents))
        for fit in _said(machine, block, key, sizes, start, asked, only):
            if isinstance(fit, Misfit):
                reasons += [f"{fit.instruction.name}: {fit.reason}"] if fit.reason else []
                continue
            plan = _planned(fit, sizes, extents, reasons, overlapping)
            whole = start is None or all(
                plan and plan.sizes[i] == extents[i] for i in block.reductions
            )
            if plan is not None and whole:
                found.append(plan)
    return sorted(found, key=lambda plan: plan.cycles)


def _said(
    machine: Machine,
    block: BlockOp,
    key: Hashable,
    sizes: Sequence[int],
    start: Attribute | None,
    asked: Asked,
    only: Instruction | None,
) -> list[Fit | Misfit]:
    """Fits each instruction to a block, limits aside: to them an iterator has one point or more."""
    least = tuple(min(size, 2) for size in sizes)
    question = ("fits", key, least, start, asked, only)

    def found() -> list[Fit | Misfit]:
        return list(fits(machine, sized(block, least), start=start, asked=asked, only=only))

    return machine.answer(question, found)


def _choices(
    machine: Machine, block: BlockOp, extents: Sequence[int], only: Instruction | None
) -> Iterator[frozenset[int]]:
    """Gives the iterators that one call may run over: as many as patterns name, or fewer."""
    live = [i for i, extent in enumerate(extents) if extent > 1]
    parallel = [i for i in live if i not in block.reductions]
    reduced = [i for i in live if i in block.reductions]
    shapes: set[tuple[int, int]] = set()
    instructions = machine.instructions if only is None else [only]
    for form in (form for each in instructions for form in each.forms):
        names = form.iterators
        rows = len(parallel) if names.parallel_groups else len(names.parallel)
        sums = len(reduced) if names.reduction_groups else len(names.reduction)
        if len(form.reads) == len(block.ins):
            most = range(min(rows, len(parallel)) + 1), range(min(sums, len(reduced)) + 1)
            shapes.update(product(*most))
    seen: set[frozenset[int]] = set()
    for rows, sums in sorted(shapes, reverse=True):
        for first in combinations(parallel[::-1], rows):
            for second in combinations(reduced, sums):
                kept = frozenset((*first, *second))
                if kept not in seen:
                    seen.add(kept)
                    yield kept


def _planned(
    fit: Fit,
    sizes: Sequence[int],
    extents: Sequence[int],
    reasons: list[str],
    overlapping: frozenset[int],
) -> Plan | None:
    """Gives the plan with the largest sizes, at most these, that limits allow; None without any. The
    last of overlapping calls costs what one of the next size that is legal does."""
    cut, done = list(sizes), list(extents)
    for name, positions in fit.iterators.items():
        limit = fit.instruction.limits.get(name)
        if limit is None:
            continue
        found = {i: _most(limit, sizes[i], i in overlapping) for i in positions}
        wrong = [sizes[i] for i, size in found.items() if not size]
        wrong += [] if positions or _most(limit, 1, False) else [1]
        if wrong:
            if all(sizes[i] == extents[i] for i in positions):  # else a larger size may do
                reasons.append(f"{fit.instruction.name}: expected {name} {limit}, found {wrong[0]}")
            return None
        for i, size in found.items():
            cut[i], done[i] = size, -(-extents[i] // limit.step) * limit.step
    return Plan(fit, tuple(cut), cost_of(fit, cut, done))


def _most(limit: Limit, extent: int, overlaps: bool) -> int:
    """Gives the largest size that a limit allows and, unless calls may overlap, that leaves a rest
    that it allows; 0 if none."""
    if extent % limit.step and not overlaps:
        return 0
    return min(extent - extent % limit.step, limit.most - limit.most % limit.step)


def cost_of(fit: Fit, sizes: Sequence[int], extents: Sequence[int]) -> float:
    """Gives the cycles of all calls that do a block over these extents in pieces of these sizes;
    those that find what stays in the unit come one after the other."""
    keeps = bool(fit.instruction.keeps)
    cost = fit.instruction.cost_kept if keeps else fit.instruction.cost
    pieces = [_pieces(extent, size) for extent, size in zip(extents, sizes, strict=True)]
    total = _summed(fit, pieces, cost)
    if keeps:
        inner = {i for i in range(len(pieces)) if i not in fit.turns}
        first = [[(side[0][0], 1)] if i in inner else side for i, side in enumerate(pieces)]
        total += _summed(fit, first, fit.instruction.cost) - _summed(fit, first, cost)
    return total


def _summed(
    fit: Fit, pieces: Sequence[Sequence[tuple[int, int]]], cost: Callable[[Sizes], float]
) -> float:
    """Gives the cycles of calls of all combinations of these pieces."""
    named = {i for positions in fit.iterators.values() for i in positions}
    order, total = sorted(named), 0.0
    sides = [side for i, side in enumerate(pieces) if i not in named]
    outside = prod(sum(times for _, times in side) for side in sides)
    for chosen in product(*(pieces[i] for i in order)):
        size_of: Mapping[int, int] = {i: n for i, (n, _) in zip(order, chosen, strict=True)}
        count = prod(times for _, times in chosen)
        own = [size_of.get(i, 1) for i in range(len(pieces))]
        total += count * cost(fit.sizes(own))
    return total * outside


def _pieces(extent: int, size: int) -> list[tuple[int, int]]:
    """Gives the sizes that an extent is cut into, and how often each comes."""
    whole, rest = divmod(extent, size)
    return [*([(size, whole)] if whole else []), *([(rest, 1)] if rest else [])]
