"""Groups a machine's program into steps: what is brought in, then what is done with it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from xdsl.ir import SSAValue

from byocir.machine import Calls, Unit


@dataclass
class Step:
    """Calls that only bring something into the machine's memories, and those that follow them up to
    the next such call."""

    loads: list[Calls] = field(default_factory=list[Calls])
    work: list[Calls] = field(default_factory=list[Calls])


def _is_load(call: Calls, brought: Collection[SSAValue]) -> bool:
    """Tells whether a call moves something into a buffer from main memory, or from where such calls
    brought it, or sets a buffer to a number.
    """
    *inputs, (_, into) = call.operands
    if into.is_main or call.reads_old:
        return False
    if any(not memory.is_main for _, memory in inputs) and call.instruction.moves is None:
        return False
    if not all(memory.is_main or value in brought for value, memory in inputs):
        return False
    return call.into not in inputs or call.result not in call.read


def steps_of(
    calls: Sequence[Calls], loads: Collection[Calls], *, apart: bool = False
) -> list[Step]:
    """Groups the calls of a program into steps, in order; `loads` are those that only bring
    something in. With `apart` only calls of units that compute nothing are taken for loads: they
    alone can run beside the work.
    """
    steps = [Step()]
    computing = computing_units(calls, loads) if apart else set[Unit]()
    for call in calls:
        if call not in loads or call.unit in computing:
            steps[-1].work.append(call)
            continue
        if steps[-1].work:
            steps.append(Step())
        steps[-1].loads.append(call)
    return steps


def computing_units(calls: Sequence[Calls], loads: Collection[Calls]) -> set[Unit]:
    """Finds the units that do more than to move something; `loads` are those of `loads_of`."""
    return {call.unit for call in calls if call not in loads and _computes(call)}


def loads_of(calls: Sequence[Calls]) -> set[Calls]:
    """Finds the calls of a program that move something in from main memory, directly or by way of
    others. They are the same in any order that keeps the order of the loads."""
    found, brought = set[Calls](), set[SSAValue]()
    for call in calls:
        if _is_load(call, brought):
            found.add(call)
            brought.add(call.into[0])
    return found


def _computes(call: Calls) -> bool:
    """Tells whether a call does more than to move, all of it in the machine's memories."""
    outside = any(memory.is_main for _, memory in call.operands)
    return call.instruction.moves is None and not outside


def depend(first: Calls, second: Calls) -> bool:
    """Tells whether a call must stay behind an earlier one: one writes what the other accesses."""
    return (
        any(first.result.overlaps(place) for place in second.read)
        or any(second.result.overlaps(place) for place in first.read)
        or first.result.overlaps(second.result)
    )
