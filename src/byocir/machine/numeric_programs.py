"""Converts programs of machines to numbers, for the engines of `byocir.machine_sim`: these find
when each call runs, and which calls nothing keeps apart.

Cycles and limits are those of the description, reads and writes the rows that calls touch.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from xdsl.ir import SSAValue

from byocir.dialects.locations import place
from byocir.errors import ByocirError
from byocir.machine.description import Machine
from byocir.machine.instructions import Call
from byocir.machine.operand_places import Place
from byocir.machine.parts import InOrder, Tokens
from byocir.machine_sim import (
    Access,
    Hazard,
    Instruction,
    MachineModel,
    Times,
    TokenQueue,
    Unit,
    Wait,
    hazards,
    run_times,
)


def model_of(machine: Machine) -> MachineModel:
    """Describes the parts of a machine as the engines know them. A machine that runs in order is
    one unit.
    """
    order = machine.ordered
    if isinstance(order, InOrder):
        return MachineModel([Unit(machine.name)])
    units = [Unit(unit.name, unit.queue) for unit in machine.units]
    pairs = order.pairs if isinstance(order, Tokens) else ()
    capacity = order.capacity if isinstance(order, Tokens) else None
    tokens = [TokenQueue(f"{one.name} to {other.name}", capacity) for one, other in pairs]
    return MachineModel(units, tokens, frozenset(memory.scope for memory in machine.guarded))


def numbers_of(machine: Machine, calls: Sequence[Call]) -> list[Instruction]:
    """Describes the calls of a program as the engines know them."""
    return _Numbers(machine).of(calls)


def times_of(machine: Machine, calls: Sequence[Call]) -> Times:
    """Computes the times at which the calls of a program run."""
    model = model_of(machine)
    return run_times(model, _Numbers(machine, model.guarded).of(calls))


def hazards_of(machine: Machine, calls: Sequence[Call]) -> list[Hazard]:
    """Finds accesses that nothing orders, reads of rows that nothing wrote, and tokens that nobody
    pops.
    """
    fresh = [memory.scope for memory in machine.memories]
    return hazards(model_of(machine), numbers_of(machine, calls), fresh=fresh)


def check_order(machine: Machine, calls: Sequence[Call]) -> None:
    """Raises ByocirError B274 for the first hazard of a program."""
    found = hazards_of(machine, calls)
    if not found:
        return
    first = calls[found[0].first]
    second = calls[found[0].second] if found[0].second is not None else None
    others = f"; {len(found) - 1} more" if len(found) > 1 else ""
    told = f"{first.instruction.name} ({found[0].first})"
    if second is not None:
        told += f" and {second.instruction.name} ({found[0].second})"
    raise ByocirError(
        "B274",
        f"expected a program of {machine.name} without hazards, found {found[0].kind}: {told} at "
        f"{found[0].span} of {found[0].memory}{others}",
        where=place(first.op.location),
    )


class _Numbers:
    """Makes numbers of calls, with their accesses to the memories of these scopes or, if none are
    given, to all. What takes time is ordered by hardware or by what calls wait for, so that timing
    needs few accesses.
    """

    def __init__(self, machine: Machine, scopes: frozenset[str] | None = None) -> None:
        self._scopes = scopes
        self._alone = isinstance(machine.ordered, InOrder)
        self._units = {unit.name: number for number, unit in enumerate(machine.units)}
        order = machine.ordered
        pairs = order.pairs if isinstance(order, Tokens) else ()
        self._tokens = {(a.name, b.name): number for number, (a, b) in enumerate(pairs)}
        self._main: dict[SSAValue, str] = {}

    def of(self, calls: Sequence[Call]) -> list[Instruction]:
        # keyed by identity, which is safe while these calls exist
        known: dict[int, list[Access]] = {}
        kinds: dict[tuple[int, bool], tuple[int, int]] = {}
        found: list[Instruction] = []
        for call in calls:
            reached: list[list[Access]] = []
            for at in call.places.values():
                accesses = known.get(id(at))
                if accesses is None:
                    accesses = known[id(at)] = self._accesses_to(at)
                reached.append(accesses)
            kind = id(call.kind), call.is_kept
            if kind not in kinds:
                unit = 0 if self._alone else self._units[call.unit.name]
                kinds[kind] = unit, ceil(call.cycles)
            unit, cycles = kinds[kind]
            read = reached if call.kind.reads_old else reached[:-1]
            reads = [access for each in read for access in each]
            alone = Instruction(unit, cycles, 0, reads, reached[-1])
            found.append(self._ordered(alone, call) if call.is_first or call.is_last else alone)
        return found

    def _ordered(self, alone: Instruction, call: Call) -> Instruction:
        """Gives a call with what it waits for, and tells."""
        unit = call.unit.name
        return alone._replace(
            pops=[self._tokens[other, unit] for other in call.pops],
            pushes=[self._tokens[unit, other] for other in call.pushes],
            waits=[Wait(self._units[other], n) for other, n in call.waits.items()],
        )

    def _accesses_to(self, at: Place) -> list[Access]:
        memory = at.memory.scope
        if self._scopes is not None and memory not in self._scopes:
            return []
        if at.memory.is_main:
            memory = self._main.setdefault(at.buffer, f"main memory, array {len(self._main)}")
        return [Access(memory, start, stop) for start, stop in at.rows()]
