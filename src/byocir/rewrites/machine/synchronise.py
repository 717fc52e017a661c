"""synchronise: says what each instruction of a machine waits for, by what keeps its units in order.

Does: finds from what instructions read and write those that must not overlap, and says so as the
machine's order demands: `waits(dma = 1)` where instructions count what is outstanding, `pops(load)`
and `pushes(compute)` where they exchange tokens, nothing where the machine itself holds them back.

Requires: functions whose ops are instructions with buffers that have rows. Raises ByocirError B273
for two units that must wait for each other and cannot.

Guarantees: whatever the units' speed, the results are those of the program's order. What one wait
implies is not waited for again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from byocir.dialects.locations import place
from byocir.errors import ByocirError
from byocir.machine import Calls, InOrder, Machine, Memory, Place, Tokens
from byocir.machine.calls import issued, ops_in
from byocir.machine_sim import Shadow, Touch, conflicting
from byocir.machine_sim.accesses import Box
from byocir.rewrites.machine import machines_in
from byocir.rewrites.unit_order import Ordering, UnorderedError


@dataclass(frozen=True)
class SynchronisePass(ModulePass):
    """Notes on the instructions of a machine what they wait for."""

    name = "synchronise"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function, machine in machines_in(op):
            synchronise(machine, ops_in(machine, function.body.block))


def synchronise(machine: Machine, calls: Sequence[Calls]) -> None:
    """Sets what each call waits for. Raises ByocirError B273."""
    order = machine.ordered
    if isinstance(order, InOrder):
        return
    units = [unit.name for unit in machine.units]
    touches = _Touches(machine, calls)
    program = ((units.index(call.unit.name), list(touches.of(call))) for call in calls)
    needs = list(conflicting(program))
    if isinstance(order, Tokens):
        _exchange(order, units, calls, needs)
    else:
        _count(units, calls, needs)


class _Touches:
    """Lists what calls read and write, without memories that the machine itself watches, and arrays
    that no call writes."""

    def __init__(self, machine: Machine, calls: Sequence[Calls]) -> None:
        self._units, self._watched = range(len(machine.units)), machine.guarded
        self._written = {call.result.buffer for call in calls}
        self._shadows: dict[SSAValue | Memory, Shadow] = {}

    def of(self, call: Calls) -> Iterator[Touch]:
        for places, writes in ((call.read, False), ([call.result], True)):
            for at in places:
                alone = at.memory.is_main and at.buffer not in self._written
                if at.memory not in self._watched and not alone:
                    shadow = self._shadow(at)
                    yield from (Touch(shadow, box, writes) for box in _boxes(at))

    def _shadow(self, at: Place) -> Shadow:
        key, shape = (at.buffer, at.shape) if at.memory.is_main else (at.memory, at.memory.rows)
        if key not in self._shadows:
            self._shadows[key] = Shadow(shape, self._units, self._units)
        return self._shadows[key]


def _boxes(at: Place) -> Sequence[Box | slice]:
    """Lists the elements of an array in main memory, or the rows of another memory, as boxes."""
    if at.memory.is_main:
        return [tuple(slice(*side) for side in at.box)]
    return [slice(*rows) for rows in at.rows()]


def _count(units: Sequence[str], calls: Sequence[Calls], needs: Sequence[dict[int, int]]) -> None:
    """Makes calls wait until few enough calls of a unit are outstanding. Calls are issued in order:
    what one has waited for, all later ones have.
    """
    outstanding: Counter[int] = Counter()
    number: dict[int, int] = {}
    known: dict[int, int] = {}
    for at in issued(calls):
        unit = units.index(calls[at].unit.name)
        if at not in number:
            waits = {each: last for each, last in needs[at].items() if last > known.get(each, -1)}
            known |= waits
            counts = {each: outstanding[each] - number[last] for each, last in waits.items()}
            calls[at].op.set_order({units[each]: counts[each] for each in sorted(counts)})
        outstanding[unit] += 1
        number[at] = outstanding[unit]


def _exchange(
    order: Tokens, units: Sequence[str], calls: Sequence[Calls], needs: Sequence[dict[int, int]]
) -> None:
    """Makes calls pop tokens that earlier calls push."""
    pairs = [(units.index(one.name), units.index(other.name)) for one, other in order.pairs]
    ordering = Ordering(len(units), pairs)
    for call, before in zip(calls, needs, strict=True):
        try:
            ordering.add(units.index(call.unit.name), before)
        except UnorderedError as error:
            raise _unordered(call, calls[error.first.source or 0]) from None
    for call, step in zip(calls, ordering.steps, strict=True):
        pops, pushes = ([units[each] for each in side] for side in (step.pops, step.pushes))
        call.op.set_order({}, pops, pushes)


def _unordered(call: Calls, before: Calls) -> ByocirError:
    return ByocirError(
        "B273",
        f"expected tokens from unit {before.unit.name} to unit {call.unit.name}, on which "
        f"{before.instruction.name} and then {call.instruction.name} access the same rows, found "
        "no such pair",
        where=place(call.op.location),
        help="name the pair in Tokens, or let one unit run both",
    )
