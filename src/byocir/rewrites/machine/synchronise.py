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
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from byocir.dialects.locations import place
from byocir.errors import ByocirError
from byocir.machine import Calls, InOrder, Interlocked, Machine, Memory, Place, Tokens
from byocir.machine.calls import issued, ops_in
from byocir.rewrites.machine import machines_in


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
    watched = order.memories if isinstance(order, Interlocked) else ()
    needs = Needs(machine, watched).of(calls)
    if isinstance(order, Tokens):
        _exchange(order, calls, needs)
    else:
        _count(calls, needs)


class Needs:
    """For each call the last ones of other units that must have ended when it begins."""

    def __init__(self, machine: Machine, ignored: Sequence[Memory] = ()) -> None:
        self._units = [unit.name for unit in machine.units]
        self._ignored = ignored
        self._reads: dict[tuple[SSAValue | Memory, str], np.ndarray] = {}
        self._writes: dict[tuple[SSAValue | Memory, str], np.ndarray] = {}

    def of(self, calls: Sequence[Calls]) -> list[dict[str, int]]:
        """By the unit's name, the position of the call."""
        return [self._of(at, call) for at, call in enumerate(calls)]

    def _of(self, at: int, call: Calls) -> dict[str, int]:
        found: dict[str, int] = {}
        for unit in self._units:
            if unit == call.unit.name:
                continue
            last = max((self._last(self._writes, p, unit) for p in call.read), default=-1)
            for accesses in (self._reads, self._writes):
                last = max(last, self._last(accesses, call.result, unit))
            if last >= 0:
                found[unit] = last
        for place_ in call.read:
            self._note(self._reads, place_, call.unit.name, at)
        self._note(self._writes, call.result, call.unit.name, at)
        return found

    def _key(self, place_: Place) -> SSAValue | Memory:
        return place_.buffer if place_.memory.is_main else place_.memory

    def _boxes(self, place_: Place) -> list[tuple[slice, ...]]:
        if place_.memory.is_main:
            return [tuple(slice(*side) for side in place_.box)]
        return [(slice(*rows),) for rows in place_.rows()]

    def _last(
        self, accesses: dict[tuple[SSAValue | Memory, str], np.ndarray], place_: Place, unit: str
    ) -> int:
        found = accesses.get((self._key(place_), unit))
        if found is None or place_.memory in self._ignored:
            return -1
        return max(int(found[box].max()) for box in self._boxes(place_))

    def _note(
        self,
        accesses: dict[tuple[SSAValue | Memory, str], np.ndarray],
        place_: Place,
        unit: str,
        at: int,
    ) -> None:
        key = (self._key(place_), unit)
        if key not in accesses:
            shape = place_.shape if place_.memory.is_main else (place_.memory.rows,)
            accesses[key] = np.full(shape, -1, np.int32)
        for box in self._boxes(place_):
            accesses[key][box] = at


def _count(calls: Sequence[Calls], needs: Sequence[dict[str, int]]) -> None:
    """Waits until few enough calls of a unit are outstanding. Calls are issued in order: what one
    has waited for, all later ones have."""
    outstanding: Counter[str] = Counter()
    number: dict[int, int] = {}
    known: dict[str, int] = {}
    for at in issued(calls):
        unit = calls[at].unit.name
        if at not in number:
            waits = {each: last for each, last in needs[at].items() if last > known.get(each, -1)}
            known |= waits
            counts = {each: outstanding[each] - number[last] for each, last in waits.items()}
            calls[at].op.set_order(counts)
        outstanding[unit] += 1
        number[at] = outstanding[unit]


@dataclass
class _Tokens:
    pops: list[str] = field(default_factory=list[str])
    pushes: list[str] = field(default_factory=list[str])


def _exchange(order: Tokens, calls: Sequence[Calls], needs: Sequence[dict[str, int]]) -> None:
    """Lets calls pop tokens that those before them pushed. A unit that pops knows all that the
    other one knew."""
    pairs = {(one.name, other.name) for one, other in order.pairs}
    known: dict[str, dict[str, int]] = {}
    knew: list[dict[str, int]] = []
    tokens = [_Tokens() for _ in calls]
    for at, (call, need) in enumerate(zip(calls, needs, strict=True)):
        own = known.setdefault(call.unit.name, {})
        for unit, last in sorted(need.items(), key=lambda each: -each[1]):
            if last <= own.get(unit, -1):
                continue
            if (unit, call.unit.name) not in pairs:
                raise _unordered(call, calls[last])
            tokens[last].pushes.append(call.unit.name)
            tokens[at].pops.append(unit)
            for other, position in {**knew[last], unit: last}.items():
                own[other] = max(own.get(other, -1), position)
        knew.append(dict(own))
    for call, found in zip(calls, tokens, strict=True):
        call.op.set_order({}, found.pops, found.pushes)


def _unordered(call: Calls, before: Calls) -> ByocirError:
    return ByocirError(
        "B273",
        f"expected tokens from unit {before.unit.name} to unit {call.unit.name}, on which "
        f"{before.instruction.name} and then {call.instruction.name} access the same rows, found "
        "no such pair",
        where=place(call.op.location),
        help="name the pair in Tokens, or let one unit run both",
    )
