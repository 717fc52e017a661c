"""Groups a machine's program into steps: what is brought in, then what is done with it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from xdsl.ir import SSAValue

from byocir.machine import Calls


@dataclass
class Step:
    """Calls that only bring something into the machine's memories, and those that follow them up to
    the next such call."""

    loads: list[Calls] = field(default_factory=list[Calls])
    work: list[Calls] = field(default_factory=list[Calls])


def is_load(call: Calls, brought: Collection[SSAValue]) -> bool:
    """Tells whether a call moves something into a buffer from main memory, or from where such calls
    brought it, or sets a buffer to a number.
    """
    *inputs, result = call.places.values()
    if result.memory.is_main or result in call.read:
        return False
    if any(not place.memory.is_main for place in inputs) and call.instruction.moves is None:
        return False
    return all(place.memory.is_main or place.buffer in brought for place in inputs)


def steps_of(calls: Sequence[Calls]) -> list[Step]:
    """Groups the calls of a program into steps, in order."""
    steps, brought = [Step()], set[SSAValue]()
    for call in calls:
        if not is_load(call, brought):
            steps[-1].work.append(call)
            continue
        if steps[-1].work:
            steps.append(Step())
        steps[-1].loads.append(call)
        brought.add(call.result.buffer)
    return steps


def depend(first: Calls, second: Calls) -> bool:
    """Tells whether a call must stay behind an earlier one: one writes what the other accesses."""
    return (
        any(first.result.overlaps(place) for place in second.read)
        or any(second.result.overlaps(place) for place in first.read)
        or first.result.overlaps(second.result)
    )
