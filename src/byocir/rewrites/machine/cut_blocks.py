"""Cuts blocks into parts, each done by calls of one instruction.

One part is the whole block where it can be; ragged ends, and the first of sums that begin with a
number, may need parts of their own.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import product
from math import inf

from xdsl.ir import Attribute

from byocir.dialects.locations import place
from byocir.dialects.tir import BlockOp
from byocir.dialects.tir.reductions import is_unordered, keeps_order
from byocir.dialects.types import Shape
from byocir.errors import ByocirError
from byocir.machine import Machine
from byocir.machine.block_keys import reaches_beyond
from byocir.machine.cut_plans import Plan, none_does, plans_of
from byocir.machine.find_instruction import kind_of
from byocir.machine.instructions import Kind
from byocir.machine.nearest_misses import Misfit, Reached
from byocir.machine.row_starts import begins_inside_row
from byocir.rewrites.schedule.write_out import PaddedBox

_Sides = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Part:
    """Describes a box of a block that calls of one instruction do. Each call does at most as many
    points of each iterator as `cut` says; calls follow the iterators in this `order`, the slowest
    first, in front those with which the operand moves that stays in the unit. In a part that
    `begins`, sums start from a number. All calls together take so many `cycles`.
    """

    sides: _Sides
    name: str
    cut: Shape
    order: Sequence[int]
    numbers: Mapping[str, int]
    begins: bool
    cycles: float


def cycles_of(parts: Iterable[Part]) -> float:
    return sum(part.cycles for part in parts)


def expect_parts(machine: Machine, block: BlockOp, number: Attribute | None) -> Sequence[Part]:
    """Cuts a block into parts; raises ByocirError B271 where no instruction does one of them."""
    found = parts_of(machine, block, number)
    if found is not None:
        return found
    told = f"expected a block that an instruction of {machine.name} does, found none that does it"
    raise undone(machine, block, number, told)


def undone(machine: Machine, block: BlockOp, number: Attribute | None, told: str) -> ByocirError:
    """Makes the error B271 for a block without parts, with what each instruction says to it."""
    inside, misfits = begins_inside_row(machine, block), list[Misfit]()
    _Cuts(machine, misfits).of(PaddedBox.of(block), number)
    return none_does(told, misfits, place(block.location), [inside] if inside else ())


def parts_of(machine: Machine, block: BlockOp, number: Attribute | None) -> Sequence[Part] | None:
    """Cuts a block without loops around it into parts, None where there are none; if there is a
    number, its result begins with it.
    """

    def found() -> Sequence[Part] | None:
        return _Cuts(machine, None).of(PaddedBox.of(block), number)

    if begins_inside_row(machine, block):
        return None
    return machine.answer(("parts", machine.keys.block(block), number), found)


class _Cuts:
    """Cuts boxes of one block into parts. Many ways to cut it lead to the same boxes, each of which
    is cut once. `misfits` gets why instructions do not do what was tried; None where nobody
    asks."""

    def __init__(self, machine: Machine, misfits: list[Misfit] | None) -> None:
        self.machine, self.misfits = machine, misfits
        self._known: dict[tuple[_Sides, bool], list[Part] | None] = {}

    def of(self, box: PaddedBox, number: Attribute | None) -> list[Part] | None:
        """Gives the parts of a box that take the fewest cycles; None if there are none."""
        key = tuple(box.sides), number is not None
        if key not in self._known:
            self._known[key] = self._best(box, number)
        return self._known[key]

    def _best(self, box: PaddedBox, number: Attribute | None) -> list[Part] | None:
        block = box.made([*box.op.ins, *box.op.outs])
        if begins_inside_row(self.machine, block):
            return None
        plans = self._plans(block, number)
        if any(self._refused(plan, block, number) for plan in plans):
            plans = self._plans(block, number, every=True)
        best, least = None, inf
        for plan in plans:
            if plan.cycles >= least:
                continue
            told = self._refused(plan, block, number)
            if self.misfits is not None:
                self.misfits += [Misfit(plan.instruction, why, Reached.ROWS) for why in told]
            whole = [_part_of(plan, box, block, number)]
            found = self._in_two(plan, box, block, number) if told else whole
            if found and cycles_of(found) < least:
                best, least = found, cycles_of(found)
        return best

    def _plans(
        self, block: BlockOp, number: Attribute | None, *, every: bool = False
    ) -> list[Plan]:
        """Lists the plans of a block, in memories as they are; if there is a number, also those
        that begin with it."""
        starts = [None] if number is None else [None, number]
        asked = self.machine, block, block.extents, "memories", self.misfits
        return [plan for start in starts for plan in plans_of(*asked, start, every=every)]

    def _refused(self, plan: Plan, block: BlockOp, number: Attribute | None) -> list[str]:
        """Lists why there are no calls of some kinds that a plan has."""
        kinds = _kinds(self.machine, plan, block, self.machine.keys.block(block), number)
        return [each for each in kinds if isinstance(each, str)]

    def _in_two(
        self, plan: Plan, box: PaddedBox, block: BlockOp, number: Attribute | None
    ) -> list[Part] | None:
        """Cuts a box in two where calls of a plan do not do the whole of it, and each again."""
        for one, other, begins in _split(box, block, plan, number is not None):
            first = self.of(one, number)
            rest = first and self.of(other, number if begins else None)
            if first and rest:
                return [*first, *rest]
        return None


def _part_of(plan: Plan, box: PaddedBox, block: BlockOp, number: Attribute | None) -> Part:
    """Makes the part that is the whole of a box, whose block is given."""
    cut = dict(zip(box.kept, plan.sizes, strict=True))
    whole = tuple(cut.get(i, 1) for i in range(len(box.sides)))
    turns = {box.kept[i] for i in _moving_first(block, plan.fit.turns)}
    order = sorted(range(len(box.sides)), key=lambda i: i not in turns)
    name, numbers = plan.instruction.name, plan.fit.numbers
    return Part(box.sides, name, whole, order, numbers, number is not None, plan.cycles)


def _moving_first(block: BlockOp, turns: AbstractSet[int]) -> AbstractSet[int]:
    """Selects, of the iterators with which the kept operand moves, those that may become the outer
    ones. Where the order of sums counts, a sum may not move out past one that stays.
    """
    sums = [] if is_unordered(block) else block.reductions
    stay = next((at for at, i in enumerate(sums) if i not in turns), len(sums))
    return turns - {*sums[stay:]}


def _kinds(
    machine: Machine, plan: Plan, block: BlockOp, key: Hashable, number: Attribute | None
) -> Iterator[Kind | str]:
    """Lists all kinds of calls that a plan has, or says why there are none."""
    if any(plan.sizes[i] < block.extents[i] for i in reaches_beyond(block)):
        yield "expected a box with its pads in whole, found several calls, with other pads each"
        return
    pieces = [_pieces(size, n) for size, n in zip(block.extents, plan.sizes, strict=True)]
    seen: set[tuple[Shape, bool]] = set()
    for piece in product(*pieces):
        begins = number is not None and all(piece[i][1] for i in block.reductions)
        found = tuple(size for size, _ in piece), begins
        if found not in seen:
            seen.add(found)
            start = number if begins else None
            yield kind_of(machine, plan.instruction.name, block, key, found[0], start)


def _pieces(size: int, most: int) -> set[tuple[int, bool]]:
    """Lists the sizes of the pieces of an iterator, each with whether it is the first one."""
    later = {(min(most, size - at), False) for at in range(most, size, most)}
    return {(min(most, size), True), *later}


def _split(
    box: PaddedBox, block: BlockOp, plan: Plan, begins: bool
) -> Iterator[tuple[PaddedBox, PaddedBox, bool]]:
    """Yields the ways to part a box in two, one after the other: behind its first sums or the first
    call along iterators that lead to pads, or before its ragged ends, if sums keep their order.
    Tells whether sums begin in the second part, too, if they do in the first.
    """
    extents, beyond = block.extents, reaches_beyond(block)
    for n, (i, most) in enumerate(zip(box.kept, plan.sizes, strict=True)):
        low, high = box.sides[i]
        if most >= high - low:
            continue
        is_sum = i in box.op.reductions
        at = low + most if (begins and is_sum) or n in beyond else high - (high - low) % most
        if at < high and keeps_order(block, [*extents[:n], at - low, *extents[n + 1 :]], extents):
            yield box.over(i, (low, at)), box.over(i, (at, high)), begins and not is_sum
