"""overlap-loads: what comes into a machine's memories, before the work of the steps in front of it.

Does: moves the loads of each step so many steps forward as the memories have room for, so that they
run while units work on what came before.

Requires: functions whose ops are instructions, as `select-instructions` leaves them.

Guarantees: the same results, bit for bit. A load stays behind what writes its source, and the order
of loads and of the rest is kept. The function can be allocated if it could be before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block
from xdsl.passes import ModulePass

from byocir.machine import Calls, Machine
from byocir.machine.calls import buffers_in, ops_in
from byocir.rewrites.machine import machines_in
from byocir.rewrites.machine.arrange import Lives
from byocir.rewrites.machine.steps import Step, depend, steps_of

MOST = 8
"""Steps that a load comes earlier at most: more than a queue holds is of no use."""


@dataclass(frozen=True)
class OverlapLoadsPass(ModulePass):
    """Brings loads forward as far as memories have room."""

    name = "overlap-loads"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function, machine in machines_in(op):
            overlap(machine, function.body.block)


def overlap(machine: Machine, body: Block) -> None:
    """Brings the loads of a body forward."""
    steps = steps_of(ops_in(machine, body))
    for depth in range(min(MOST, len(steps) - 1), 0, -1):
        order = _moved(steps, depth)
        if Lives(order).fit():
            _put(machine, body, order)
            return


def _moved(steps: Sequence[Step], depth: int) -> list[Calls]:
    """The calls with each load so many steps earlier, or as many as its source allows."""
    before: list[list[Calls]] = [[] for _ in steps]
    used = [{p.buffer for call in step.work for p in call.places.values()} for step in steps]
    earliest = 0
    for number, step in enumerate(steps):
        for load in step.loads:
            at = max(number - depth, 0)
            own = {place.buffer for place in load.places.values()}
            for other in range(number - 1, at - 1, -1):
                if not own.isdisjoint(used[other]) and any(
                    depend(work, load) for work in steps[other].work
                ):
                    at = other + 1
                    break
            earliest = max(earliest, at)
            before[earliest].append(load)
    return [
        call for loads, step in zip(before, steps, strict=True) for call in [*loads, *step.work]
    ]


def _put(machine: Machine, body: Block, order: Sequence[Calls]) -> None:
    """Puts the calls into this order, in front of them the buffers."""
    end = body.last_op
    buffers = buffers_in(machine, body)
    for op in [*buffers, *(call.op for call in order)]:
        op.detach()
        if end is None:
            body.add_op(op)
        else:
            body.insert_op_before(op, end)
