"""Puts copies between blocks of a composite where one reads what another leaves in a memory that
its instruction does not reach, as sums that a vector unit must have in registers first.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Block, SSAValue

from byocir.dialects.tir import BlockOp, EmptyOp
from byocir.dialects.tir.moves import axes, moving
from byocir.dialects.types import element_type_of, shape_of, tensor
from byocir.dialects.uses import put_before, set_operand
from byocir.machine import MAIN, Machine, Memory
from byocir.machine.cut_plans import Plan
from byocir.rewrites.machine.whole_blocks import homes_in_place, plans_for


def bridge_memories(machine: Machine, body: Block) -> None:
    """Puts copies in front of blocks on tensors that would find an operand in another memory."""
    homes: dict[SSAValue, Memory] = {}
    for op in [op for op in body.ops if isinstance(op, BlockOp)]:
        plan = _fed(machine, op, homes)
        if plan is None:
            continue
        for position, memory in enumerate(plan.fit.memories[:-1]):
            _bring(machine, op, position, memory, homes)
        homes.update((result, plan.instruction.into) for result in op.results)


def _fed(machine: Machine, op: BlockOp, homes: dict[SSAValue, Memory]) -> Plan | None:
    """Finds the plan of a block that needs the fewest copies of what other blocks make; None where
    no copies lead there.
    """
    found, begun = list[tuple[int, Plan]](), homes_in_place(machine, op)
    for plan in plans_for(machine, op, op.extents):
        if begun is not None and plan.instruction.into not in begun:
            continue
        start = homes.get(op.outs[0], MAIN)
        pairs = zip(op.ins, plan.fit.memories, strict=False)
        ways = [machine.path(homes.get(value, MAIN), memory) for value, memory in pairs]
        if start in (MAIN, plan.instruction.into) and None not in ways:
            made = [way for way in ways if way is not None and not way[0].is_main]
            found.append((sum(len(way) - 1 for way in made), plan))
    return min(found, key=lambda each: each[0], default=(0, None))[1]


def _bring(
    machine: Machine, op: BlockOp, position: int, memory: Memory, homes: dict[SSAValue, Memory]
) -> None:
    """Copies an operand that another block makes, from one memory to the next, to this one."""
    value = op.ins[position]
    shape = shape_of(value.type)
    for step in _steps(machine, homes.get(value, MAIN), memory):
        empty = put_before(op, EmptyOp.of(tensor(element_type_of(value.type), shape)))
        move = moving(value, empty.results[0], axes(len(shape)), op.location)
        value = put_before(op, move).results[0]
        homes[value] = step
    set_operand(op, position, value)


def _steps(machine: Machine, home: Memory, memory: Memory) -> Sequence[Memory]:
    """Lists the memories on the way; none from main memory, from which operands are staged."""
    return () if home.is_main else (machine.path(home, memory) or ())[1:]
