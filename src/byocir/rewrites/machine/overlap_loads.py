"""overlap-loads: moves loads into a machine's memories forward, beside the work of earlier steps.

Does: moves the loads of each step so many steps forward as their memories have room for, so that
they run while units work on what came before. Their calls are issued by turns with those of that
work: neither fills the queues in front of the other. Where loads move, stores of more calls than
their queue holds are issued by turns with the work behind them, too. A load that takes long beside
the work of a step, and may stand beside that of several, is parted, so that what is needed sooner
comes between. What a unit that computes loads itself stays where it is, as part of the work.

Requires: functions whose ops are instructions, as `select-instructions` leaves them.

Guarantees: the same results, bit for bit. A load stays behind what writes its source, the order of
loads into one buffer or one FIFO is kept, and that of all other calls but stores and work that does
not depend on them. The function can be allocated if it could be before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from math import ceil

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.ir import Block
from xdsl.passes import ModulePass

from byocir.dialects.tir import AllocOp
from byocir.machine import Calls, InOrder, Machine, Memory
from byocir.machine.calls import buffers_in, ops_in
from byocir.rewrites.machine import machines_in
from byocir.rewrites.machine.lifetimes import Lives, full_memories
from byocir.rewrites.machine.part_loads import part
from byocir.rewrites.machine.steps import Step, depend, loads_of, steps_of

MOST = 8
"""Steps that a load comes earlier at most: more than a queue holds is of no use."""
LONG, PARTS = 1 / 2, 4
"""Loads that take longer than this share of the work of a step are parted, and so many parts fit
beside that work."""


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
    loads, steps = _steps_in(machine, body)
    if _part_long(steps):
        loads, steps = _steps_in(machine, body)
    pending = _pending(steps)
    depths = {load.memory: min(MOST, len(steps) - 1) for load in pending}
    while any(depths.values()):
        order = _Order(steps, pending, depths).calls()
        full = full_memories(Lives(order, loads).of)
        if not full:
            _put(machine, body, order)
            return
        for memory in [each for each in full if depths.get(each)] or depths:
            depths[memory] = max(depths[memory] - 1, 0)
    for step in steps:
        for call in (*step.loads, *step.work):
            call.op.beside = None


def _steps_in(machine: Machine, body: Block) -> tuple[set[Calls], list[Step]]:
    """Lists the loads of a program, and its steps."""
    calls = ops_in(machine, body)
    loads = loads_of(calls)
    return loads, steps_of(calls, loads, apart=True)


def _part_long(steps: Sequence[Step]) -> bool:
    """Parts the loads that may stand beside the work of several steps, and take long beside that of
    one; tells if there were any.
    """
    work = sum(call.cycles for step in steps for call in step.work) / len(steps)
    parted = [
        part(load.calls, ceil(PARTS * load.calls.cycles / work))
        for load in _pending(steps)
        if load.step - load.earliest > 1 and load.calls.cycles > LONG * work > 0
    ]
    return any(parted)


@dataclass(frozen=True)
class _Load:
    """Describes a load: the step that needs it, the first step in front of which it may stand, and
    the numbers of loads that stay in front of it.
    """

    calls: Calls
    step: int
    earliest: int
    behind: Sequence[int]

    @property
    def memory(self) -> Memory:
        return self.calls.into[1].storage


def _pending(steps: Sequence[Step]) -> list[_Load]:
    """Lists the loads of a program, in order. None may stand in front of work that it depends on,
    or more than MOST steps in front of its own. Loads keep their order where they access the same
    buffer, or the same FIFO.
    """
    found: list[_Load] = []
    used = [{value for call in step.work for value, _ in call.operands} for step in steps]
    latest: dict[AllocOp | Memory, int] = {}
    for number, step in enumerate(steps):
        for load in step.loads:
            at = max(number - MOST, 0)
            own = {value for value, _ in load.operands}
            for other in range(number - 1, at - 1, -1):
                if not own.isdisjoint(used[other]) and any(
                    depend(work, load) for work in steps[other].work
                ):
                    at = other + 1
                    break
            shared = [memory if memory.fifo else buffer for buffer, memory in load.buffers]
            behind = [latest[each] for each in shared if each in latest]
            latest.update(dict.fromkeys(shared, len(found)))
            found.append(_Load(load, number, at, behind))
    return found


class _Order:
    """Orders calls with loads earlier than the steps that need them, by at most as many steps as
    `depths` has for their memory: those that a step needs come in front of its work, those of the
    next step beside it, and more while units that load would be idle.
    """

    def __init__(
        self, steps: Sequence[Step], loads: Sequence[_Load], depths: Mapping[Memory, int]
    ) -> None:
        self._steps, self._depths = steps, depths
        self._pending = dict(enumerate(loads))
        self._found: list[Calls] = []
        self._loaded = self._worked = 0.0
        self._ready: dict[int, float] = {}
        """The cycle at which the loads of a step have ended."""

    def calls(self) -> list[Calls]:
        """Gives the calls in their new order; those that take turns with others are marked so."""
        for number, step in enumerate(self._steps):
            self._add([self._take(key) for key, _ in self._until(number)], None)
            self._worked = max(self._worked, self._ready.get(number, 0))
            longest = max(step.work, key=lambda call: call.cycles, default=None)
            for work in step.work:
                self._bring(number, work, more=work is longest)
                self._found.append(work)
                self._worked += work.cycles
        _let_stores_take_turns(self._found)
        return self._found

    def _until(self, step: int) -> list[tuple[int, _Load]]:
        """Lists the loads that are still to come of all steps up to this one."""
        return [*takewhile(lambda each: each[1].step <= step, self._pending.items())]

    def _bring(self, number: int, work: Calls, *, more: bool) -> None:
        """Moves loads beside the work of a step, with `more` at least those of the next step. Those
        into memories that hold few steps come last: their rows are the last to become free.
        """
        end = self._worked + work.cycles
        self._loaded = max(self._loaded, self._worked)
        if self._loaded >= end and not more:
            return
        brought: list[_Load] = []
        depths: dict[int, int] = {}
        for key, load in self._until(number + MOST):
            if self._loaded >= end and not (more and load.step == number + 1):
                break
            if self._may_come(load, number) and load.calls.unit != work.unit:
                near = [depths[each] for each in load.behind if each in depths]
                depths[key] = min([self._depths[load.memory], *near])
                brought.append(self._take(key))
        order = sorted(zip(depths.values(), brought, strict=True), key=lambda pair: -pair[0])
        self._add([load for _, load in order], work)

    def _may_come(self, load: _Load, number: int) -> bool:
        """Tells if a load may stand beside the work of a step."""
        is_near = load.step <= number + self._depths[load.memory]
        return is_near and load.earliest <= number and self._pending.keys().isdisjoint(load.behind)

    def _take(self, key: int) -> _Load:
        load = self._pending.pop(key)
        self._loaded += load.calls.cycles
        self._ready[load.step] = max(self._ready.get(load.step, 0), self._loaded)
        return load

    def _add(self, loads: Sequence[_Load], work: Calls | None) -> None:
        for load in loads:
            load.calls.op.beside = _BESIDE if work else None
            self._found.append(load.calls)


_BESIDE = UnitAttr()
"""The attribute, which ops share."""


def _let_stores_take_turns(calls: Sequence[Calls]) -> None:
    """Marks stores of more calls than their queue holds to take turns with the work behind them: it
    would not be issued before most of them had begun. That work may depend neither on them nor on
    the loads that take turns with them.
    """
    stores = {call: _fills_queue(call) for call in calls if call.into[1].is_main}
    for store in stores:
        store.op.beside = None
    behind: Calls | None = None
    for at in reversed(range(len(calls))):
        call = calls[at]
        if behind is not None and stores.get(call) and call.unit != behind.unit:
            before = (calls[i] for i in reversed(range(at)))
            group = [call, *takewhile(lambda each: each.is_beside, before)]
            if not any(depend(each, behind) for each in group):
                call.op.beside = _BESIDE
        if not call.is_beside:
            behind = call


def _fills_queue(store: Calls) -> bool:
    """Tells if a store fills the queue of its unit. One that makes room in a FIFO does not count:
    the work behind it may need the room.
    """
    frees = any(memory.fifo for _, memory in store.buffers)
    return store.count > store.unit.queue and not frees


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
