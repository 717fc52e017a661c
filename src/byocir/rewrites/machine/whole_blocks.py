"""Asks what instructions of a machine say to the whole of a block on tensors, their rules included:
which of them does it, in how many cycles, and why the others do not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from math import inf, isfinite

import numpy as np
from xdsl.ir import Attribute, Block, SSAValue

from byocir.dialects.tir import BlockOp, FillOp, buffer
from byocir.dialects.tir.scalar import Emitted, number_attr
from byocir.dialects.types import element_type_of, shape_of
from byocir.evaluate.scalar import number
from byocir.machine import MAIN, Machine, Memory
from byocir.machine.cut_plans import Plan, plans_of
from byocir.machine.find_instruction import fits
from byocir.machine.instructions import Fit, Instruction
from byocir.machine.local_blocks import on_its_own
from byocir.machine.nearest_misses import Misfit, Reached, nearest_first
from byocir.rewrites.machine.copies import Copies
from byocir.rewrites.machine.pieces import each_element
from byocir.rewrites.schedule.blocks import reads_old


def done_by(machine: Machine, block: BlockOp, instruction: Instruction) -> Plan | None:
    """Gives the plan by which an instruction does a block on tensors, its rules included; None
    where it does not.
    """
    plans = plans_of(machine, block, block.extents, "pattern", only=instruction)
    return plans[0] if plans and not _broken(machine, block, plans[0].fit) else None


def why_not_done_by(machine: Machine, block: BlockOp, instruction: Instruction) -> Misfit | None:
    """Says why an instruction does not do a block on tensors; None where nothing is known."""
    misfits = list[Misfit]()
    plans = plans_of(machine, block, block.extents, "pattern", misfits, only=instruction)
    if not plans:
        return next(iter(nearest_first(misfits)), None)
    broken = _broken(machine, block, plans[0].fit)
    kept = sum(extent > 1 for extent in block.extents)
    return Misfit(instruction, broken, Reached.SIZES, kept) if broken else None


def _broken(machine: Machine, block: BlockOp, fit: Fit) -> str:
    """Names a rule of an instruction that its smallest call for a block breaks; empty if it breaks
    none.
    """
    extents = [1] * len(block.extents)
    for name, positions in fit.iterators.items():
        limit = fit.instruction.limits.get(name)
        for i in positions:
            extents[i] = min(limit.least if limit else 1, block.extents[i])
    values = zip([*block.ins, *block.outs], fit.memories, strict=True)
    types = [buffer(element_type_of(v.type), shape_of(v.type), m.scope) for v, m in values]
    iterators = [it.resized(n) for it, n in zip(block.iterators, extents, strict=True)]
    maps = [attr.data for attr in block.maps]
    own = on_its_own(block, iterators, types, maps)
    said = next(fits(machine, own, own.extents, only=fit.instruction))
    return said.reason if isinstance(said, Misfit) else ""


def is_done(machine: Machine, block: BlockOp) -> bool:
    """Tells whether one instruction does a block as a whole."""
    return any(_can_be_fed(block, plan) for plan in _done(machine, block))


def cycles_of_whole(machine: Machine, block: BlockOp) -> float:
    """Counts the cycles of the instruction that does a block as a whole; infinitely many where none
    does.
    """
    return min((plan.cycles for plan in _done(machine, block)), default=inf)


def _done(machine: Machine, block: BlockOp) -> Iterator[Plan]:
    """Yields the plan of each instruction that does a block on tensors."""
    plans = plans_of(machine, block, block.extents, "pattern")
    for instruction in dict.fromkeys(plan.instruction for plan in plans):
        plan = done_by(machine, block, instruction)
        if plan is not None:
            yield plan


def _can_be_fed(block: BlockOp, plan: Plan) -> bool:
    """Tells whether what a plan reads can be where it reads it: a single number cannot be copied,
    so it must be in main memory or come from another block.
    """
    return all(
        memory.is_main or shape_of(value.type) or isinstance(value.owner, BlockOp)
        for value, memory in zip(block.ins, plan.fit.memories, strict=False)
    )


def plans_for(
    machine: Machine, block: BlockOp, extents: Sequence[int], misfits: list[Misfit] | None = None
) -> list[Plan]:
    """Gives the ways in which instructions do a block of a composite, over these extents, from what
    it begins with or, if none adds to that, from a number; `misfits`, if they are asked for, get
    why others do not.
    """
    found = plans_of(machine, block, extents, "pattern", misfits)
    if found or not reads_old(block) or isinstance(block.outs[0].owner, BlockOp):
        return found
    return plans_of(machine, block, extents, "pattern", misfits, _start_of(block))


def _start_of(block: BlockOp) -> Attribute:
    """Gives the number that the result of a block begins with: zero unless a fill sets another."""
    fill = block.outs[0].owner
    zero = number_attr(0, element_type_of(block.outs[0].type))
    return fill.value if isinstance(fill, FillOp) else zero


def why_not_begun(machine: Machine, block: BlockOp, plan: Plan) -> str:
    """Says why sums cannot begin with their number in the memory that a plan has them in, as no
    instruction begins with it or sets elements to it, and no copy brings it; empty if they can.
    """
    into = plan.instruction.into
    path = machine.path(MAIN, into)
    if not reads_old(block) or (path is not None and len(path) <= 2):
        return ""
    start, ones = _start_of(block), (1,) * len(block.extents)
    begun = fits(machine, block, ones, start=start, asked="pattern")
    if any(isinstance(each, Fit) and each.instruction.into == into for each in begun):
        return ""
    value = number(start).item()
    cycles = cycles_in_place(machine, block.outs[0].type, into, lambda old: old.constant(value))
    return "" if isfinite(cycles) else f"nothing sets elements of {into.called} to {value}"


def cycles_in_place(
    machine: Machine, type_: Attribute, into: Memory, body: Callable[[Emitted], Emitted]
) -> float:
    """Counts the cycles in which an instruction computes each element of an array in a memory of
    what was in its place; infinitely many where none does.
    """
    outside = Block(arg_types=[type_])
    block = each_element(outside.args[0], body)
    outside.add_op(block)
    plans = [plan for plan in _done(machine, block) if plan.instruction.into == into]
    return min((plan.cycles for plan in plans), default=inf)


def homes_in_place(machine: Machine, block: BlockOp) -> set[Memory] | None:
    """Gives the memories in which another block, which begins with the result of this one, adds to
    it; None where none does.
    """
    use = user_in_place(block)
    if use is None:
        return None
    return {plan.instruction.into for plan in plans_for(machine, use, use.extents)}


def user_in_place(block: BlockOp) -> BlockOp | None:
    """Finds the block that begins with the result of this one, if one does."""
    use = block.results[0].get_user_of_unique_use()
    return use if isinstance(use, BlockOp) and block.results[0] in use.outs else None


def home_of(machine: Machine, value: SSAValue) -> Memory:
    """Gives the memory in which an array is made: main memory unless a block makes it."""
    if not isinstance(value.owner, BlockOp):
        return MAIN
    plans = plans_for(machine, value.owner, value.owner.extents)
    return plans[0].instruction.into if plans else MAIN


def cycles_of_moving(machine: Machine, type_: Attribute, home: Memory, memory: Memory) -> float:
    """Counts the cycles of moving a whole array to a memory, or of one step where only tiles of it
    can be moved.
    """
    shape = [np.array(size, np.int64) for size in shape_of(type_)]
    steps = pairwise(machine.path(home, memory) or ())
    copies = [Copies(element_type_of(type_), shape, *step) for step in steps]
    found = sum(float(each.total(machine)) for each in copies)
    return found if isfinite(found) else 1.0
