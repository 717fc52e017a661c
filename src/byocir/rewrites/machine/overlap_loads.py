"""overlap-loads: moves loads into a machine's memories forward, beside the work of earlier steps.

Does: moves the loads of each step so many steps forward as the memories have room for, so that they
run while units work on what came before. Their calls are issued by turns with those of that work:
neither fills the queues in front of the other. What a unit that computes loads itself stays where
it is, as part of the work.

Requires: functions whose ops are instructions, as `select-instructions` leaves them.

Guarantees: the same results, bit for bit. A load stays behind what writes its source, and the order
of loads and of the rest is kept. The function can be allocated if it could be before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.ir import Block
from xdsl.passes import ModulePass

from byocir.machine import Calls, InOrder, Machine
from byocir.machine.calls import buffers_in, ops_in
from byocir.rewrites.machine import machines_in
from byocir.rewrites.machine.lifetimes import Lives
from byocir.rewrites.machine.steps import Step, depend, loads_of, steps_of

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
    """Moves the loads of a body forward."""
    if isinstance(machine.ordered, InOrder):
        return
    calls = ops_in(machine, body)
    loads = loads_of(calls)
    steps = steps_of(calls, loads, apart=True)
    earliest = _earliest(steps)
    for depth in range(min(MOST, len(steps) - 1), 0, -1):
        order = _Order(steps, earliest, depth).calls()
        if Lives(order, loads).fit():
            _put(machine, body, order)
            return
    for step in steps:
        for load in step.loads:
            load.op.beside = None


def _earliest(steps: Sequence[Step]) -> list[int]:
    """Finds, for each load, the first step in front of which it may stand: not before that of the
    load in front of it, and at most MOST steps earlier.
    """
    found: list[int] = []
    used = [{p.buffer for call in step.work for p in call.places.values()} for step in steps]
    last = 0
    for number, step in enumerate(steps):
        for load in step.loads:
            at = max(number - MOST, 0)
            own = {place.buffer for place in load.places.values()}
            for other in range(number - 1, at - 1, -1):
                if not own.isdisjoint(used[other]) and any(
                    depend(work, load) for work in steps[other].work
                ):
                    at = other + 1
                    break
            last = max(last, at)
            found.append(last)
    return found


class _Order:
    """Orders calls with loads at most `depth` steps earlier: loads that a step needs come in front
    of its work, those of the next step beside it, and more while units that load would be idle.
    """

    def __init__(self, steps: Sequence[Step], earliest: Sequence[int], depth: int) -> None:
        self._steps, self._depth = steps, depth
        loads = [(number, load) for number, step in enumerate(steps) for load in step.loads]
        self._pending = deque(
            (number, at, load) for (number, load), at in zip(loads, earliest, strict=True)
        )
        self._found: list[Calls] = []
        self._loaded = self._worked = 0.0
        self._ready: dict[int, float] = {}
        """The cycle at which the loads of a step have ended."""

    def calls(self) -> list[Calls]:
        """Gives the calls in their new order; those that take turns with others are marked so."""
        for number, step in enumerate(self._steps):
            while self._pending and self._pending[0][0] <= number:
                self._load(None)
            self._worked = max(self._worked, self._ready.get(number, 0))
            longest = max(step.work, key=lambda call: call.cycles, default=None)
            for work in step.work:
                self._bring(number, work, more=work is longest)
                self._found.append(work)
                self._worked += work.cycles
        return self._found

    def _bring(self, number: int, work: Calls, *, more: bool) -> None:
        """Moves loads beside the work of a step, with `more` at least those of the next step."""
        end = self._worked + work.cycles
        self._loaded = max(self._loaded, self._worked)
        while self._pending:
            step, earliest, load = self._pending[0]
            is_next = more and step == number + 1
            if earliest > number or step > number + self._depth or load.unit == work.unit:
                return
            if self._loaded >= end and not is_next:
                return
            self._load(work)

    def _load(self, work: Calls | None) -> None:
        step, _, load = self._pending.popleft()
        load.op.beside = UnitAttr() if work else None
        self._loaded += load.cycles
        self._ready[step] = self._loaded
        self._found.append(load)


def _put(machine: Machine, body: Block, order: Sequence[Calls]) -> None:
    """Puts the calls into this order, with the buffers in front of them."""
    end = body.last_op
    buffers = buffers_in(machine, body)
    for op in [*buffers, *(call.op for call in order)]:
        op.detach()
        if end is None:
            body.add_op(op)
        else:
            body.insert_op_before(op, end)
