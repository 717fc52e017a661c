"""Finds hazards of a program: pairs of conflicting accesses that nothing orders, and deadlocks.

Two instructions of different units that touch the same element, one of them writing, must be
ordered by what the machine promises (``order``): the program runs once, in any legal order, and
each access is compared with the latest ones of other units (``accesses``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from byocir.machine_sim.accesses import (
    Elements,
    Index,
    Segments,
    Shadow,
    indices_of,
    latest_of,
)
from byocir.machine_sim.model import MachineModel, Program
from byocir.machine_sim.order import (
    NEVER,
    Clock,
    Order,
    blocked,
    clocks,
    legal_order,
    order_of,
    positions,
    rows_of,
    token_users,
)

RACE, UNWRITTEN, DEADLOCK, LEAK = "race", "unwritten", "deadlock", "leak"


@dataclass(frozen=True)
class Race:
    """Names two instructions that nothing orders, `first` before `second` in the program, with what
    each does to the `elements` of a memory, which are in ascending order.
    """

    first: int
    second: int
    first_writes: bool
    second_writes: bool
    elements: Index


class RaceDetector:
    """Compares each access of a program, told in a legal order, with the accesses before it."""

    def __init__(self, order: Order, known: Sequence[Clock]) -> None:
        self.order, self._unit, self._known = order, order.unit, known
        self._rows, self._positions = rows_of(order), positions(order)

    def access(self, shadow: Shadow, index: int, elements: Elements, *, writes: bool) -> list[Race]:
        """Finds the races of an access of instruction `index`, and keeps it for those to come."""
        found: list[Race] = []
        known = self._known[index]
        rivals, kept = shadow.sides[self._unit[index], writes]
        for other, others_write, array in rivals:
            latest = array[elements]
            if latest_of(latest) > known[other]:
                late = latest > known[other]
                indices = indices_of(elements)[late]
                places: list[int] = np.unique(latest[late]).tolist()
                for place in places:
                    raced, rival = indices[latest[late] == place], self._rows[other][place - 1]
                    found.append(_race(index, rival, writes, others_write, raced))
        if kept is not None:
            kept[elements] = self._positions[index]
        return found


def _race(index: int, other: int, writes: bool, other_writes: bool, elements: Index) -> Race:
    if other < index:
        return Race(other, index, other_writes, writes, elements)
    return Race(index, other, writes, other_writes, elements)


@dataclass(frozen=True)
class Hazard:
    """Records a finding about one or two instructions, in program order.

    `kind`: a RACE, on elements `span` of `memory` (first, last + 1; not all need be concerned); a
    read of elements that are UNWRITTEN; a DEADLOCK, in which `first` waits for `second`, or for a
    token that nobody pushes; or a LEAK, a token of `memory` that nobody pops.
    """

    kind: str
    first: int
    second: int | None = None
    memory: str = ""
    span: tuple[int, int] | None = None
    writes: tuple[bool, bool] = (False, False)


def hazards(model: MachineModel, program: Program, *, fresh: Collection[str] = ()) -> list[Hazard]:
    """Finds all hazards of a program, in program order. `fresh` memories hold nothing at the start,
    so that what is read there must have been written.
    """
    order = order_of(model, program)
    run = legal_order(order)
    found = [*_leaks(model, program), *_deadlocks(order, run)]
    if len(run) == len(program):
        detector = RaceDetector(order, clocks(order, run))
        found += set(_races(program, run, detector, fresh))
    return sorted(found, key=_position)


def _races(
    program: Program, run: Sequence[int], detector: RaceDetector, fresh: Collection[str]
) -> Iterator[Hazard]:
    accesses = program.accesses.within(program.accesses.memories)
    segments, names = Segments(accesses), accesses.memories
    shadows = segments.shadows(program.unit, fresh)
    columns = (accesses.memory, accesses.writes, segments.first, segments.last)
    rows: list[tuple[int, ...]] = list(zip(*(column.tolist() for column in columns), strict=True))
    begins: list[int] = np.searchsorted(accesses.index, np.arange(len(program) + 1)).tolist()
    for index in run:
        for memory, writes, first, last in rows[begins[index] : begins[index + 1]]:
            shadow, elements, name = shadows[memory], slice(first, last), names[memory]
            if not writes and name in fresh:
                missing = shadow.unwritten(elements)
                if missing.size:
                    yield Hazard(UNWRITTEN, index, None, name, segments.span(memory, missing))
            for race in detector.access(shadow, index, elements, writes=bool(writes)):
                span = segments.span(memory, race.elements)
                does = race.first_writes, race.second_writes
                yield Hazard(RACE, race.first, race.second, name, span, does)


def _deadlocks(order: Order, run: Sequence[int]) -> Iterator[Hazard]:
    for head in blocked(order, run):
        for wait in (*head.waits, *head.held):
            yield Hazard(DEADLOCK, head.index, None if wait == NEVER else wait)


def _position(hazard: Hazard) -> tuple[int, int, str, str, tuple[int, int]]:
    last = hazard.first if hazard.second is None else max(hazard.first, hazard.second)
    return last, hazard.first, hazard.kind, hazard.memory, hazard.span or (0, 0)


def _leaks(model: MachineModel, program: Program) -> list[Hazard]:
    found: list[Hazard] = []
    for number, queue in enumerate(model.tokens):
        pushes, pops = token_users(program, number)
        found += [Hazard(LEAK, index, None, queue.name) for index in pushes[len(pops) :]]
    return found
