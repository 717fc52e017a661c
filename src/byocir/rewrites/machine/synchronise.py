"""synchronise: what each instruction of a machine waits for, as its units are kept in order.

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
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from byocir.dialects.locations import place
from byocir.errors import ByocirError
from byocir.machine import Calls, InOrder, Machine, Memory, Place, Tokens
from byocir.machine.calls import issued, ops_in
from byocir.rewrites.machine import machines_in
from byocir.rewrites.unit_order import (
    Effects,
    History,
    Ordering,
    Touched,
    TouchedMemory,
    UnorderedError,
)


@dataclass(frozen=True)
class SynchronisePass(ModulePass):
    """Says what instructions of a machine wait for."""

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
    accesses = (_access(units, call, machine.guarded) for call in calls)
    if isinstance(order, Tokens):
        _exchange(order, units, calls, accesses)
    else:
        _count(units, calls, accesses)


def _access(units: Sequence[str], call: Calls, watched: Collection[Memory]) -> Effects:
    """Gathers what a call reads and writes, but for memories that the machine itself watches."""

    def touched(places: Sequence[Place]) -> Touched:
        return [each for at in places if at.memory not in watched for each in _touched(at)]

    return Effects(units.index(call.unit.name), touched(call.read), touched([call.result]))


def _touched(place_: Place) -> Touched:
    memory = place_.memory
    if memory.is_main:
        return [
            (TouchedMemory(place_.buffer, place_.shape), tuple(slice(*side) for side in place_.box))
        ]
    return [(TouchedMemory(memory.scope, memory.rows), slice(*rows)) for rows in place_.rows()]


def _count(units: Sequence[str], calls: Sequence[Calls], accesses: Iterable[Effects]) -> None:
    """Waits until few enough calls of a unit are outstanding. Calls are issued in order: what one
    has waited for, all later ones have."""
    history, needs = History(len(units)), list[dict[int, int]]()
    for at, access in enumerate(accesses):
        needs.append(history.conflicts(access))
        history.note(access, at)
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
    order: Tokens, units: Sequence[str], calls: Sequence[Calls], accesses: Iterable[Effects]
) -> None:
    """Lets calls pop tokens that those before them pushed."""
    pairs = [(units.index(one.name), units.index(other.name)) for one, other in order.pairs]
    ordering = Ordering(len(units), pairs)
    for at, access in enumerate(accesses):
        try:
            ordering.add(access, at)
        except UnorderedError as error:
            raise _unordered(calls[at], calls[error.first.source or 0]) from None
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
