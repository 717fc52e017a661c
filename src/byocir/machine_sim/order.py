"""Finds the orders in which a program may run: which instruction waits for which, and what is
surely done before what.

The units of a machine run in order, the k-th pop of a token queue waits for the k-th push, and
counted waits name a prefix of a unit: so the partial order of a program is fixed before it runs,
and does not depend on time. What only a full queue delays is not part of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from byocir.machine_sim.accesses import conflicts
from byocir.machine_sim.model import MachineModel, Program

NOT_WAITING = -1
NEVER = -2

Clock = list[int]
"""By unit: how many of its instructions, the first ones, are done."""
Choose = Callable[[list[int]], int]
"""Picks one of the instructions that may run next, at most one of each unit."""


@dataclass(frozen=True)
class Order:
    """Holds the order between N instructions on some units.

    `unit`: that of each instruction. `after`: those that are done before each starts; entries may
    be NOT_WAITING, or NEVER for what never comes. `holds`: by instruction, those that are done
    before the sequencer hands over it and all later ones.
    """

    units: int
    unit: Sequence[int]
    after: Sequence[Sequence[int]]
    holds: Mapping[int, Sequence[int]] = field(default_factory=dict[int, Sequence[int]])


def order_of(model: MachineModel, program: Program) -> Order:
    """Collects the order that tokens, hardware, counted waits and units without a queue give a
    program.
    """
    earlier = conflicts(program, model.guarded)
    after = [list(earlier.get(index, ())) for index in range(len(program))]
    for queue in range(len(model.tokens)):
        pushes, pops = token_users(program, queue)
        for number, index in enumerate(pops):
            after[index].append(pushes[number] if number < len(pushes) else NEVER)
    return Order(len(model.units), program.unit.tolist(), after, holds_of(model, program))


def token_users(program: Program, queue: int) -> tuple[Sequence[int], Sequence[int]]:
    """Lists the instructions that push to a token queue, and those that pop from it, once for each
    token.
    """
    pushes = [index for index, own in program.pushes if own == queue]
    pops = [index for index, own in program.pops if own == queue]
    return pushes, pops


def holds_of(model: MachineModel, program: Program) -> dict[int, list[int]]:
    """Gives, by instruction, those that must be done before the sequencer hands it over: those that
    counted waits name, and the one before it on a unit without a queue.
    """
    holds: dict[int, list[int]] = {}
    handed = [np.flatnonzero(program.unit == unit) for unit in range(len(model.units))]
    for index, wait in program.waits:
        finished = int(np.searchsorted(handed[wait.unit], index)) - wait.most
        if finished > 0:
            holds.setdefault(index, []).append(int(handed[wait.unit][finished - 1]))
    queued = np.array([unit.depth > 0 for unit in model.units], np.bool_)
    for index in np.flatnonzero(~queued[program.unit[:-1]]).tolist():
        holds.setdefault(index + 1, []).append(index)
    return holds


def rows_of(order: Order) -> list[list[int]]:
    """Lists the instructions of each unit, in order."""
    rows: list[list[int]] = [[] for _ in range(order.units)]
    for index, unit in enumerate(order.unit):
        rows[unit].append(index)
    return rows


def positions(order: Order) -> list[int]:
    """Gives the place of each instruction among those of its unit, from 1."""
    counts, result = [0] * order.units, [0] * len(order.unit)
    for index, unit in enumerate(order.unit):
        counts[unit] += 1
        result[index] = counts[unit]
    return result


def legal_order(order: Order, choose: Choose = min) -> list[int]:
    """Finds one order in which a program may run, as instruction indices: as close to program order
    as it may be, or as `choose` wants. `choose` is given the instructions that may run next: that
    of the unit that ran last first, then those of the units after it, in a circle. In a deadlock,
    where nothing may run any more, the order is shorter than the program.
    """
    if choose is min and _is_program_order(order):
        return list(range(len(order.unit)))
    rows, heads, done = rows_of(order), [0] * order.units, [False] * len(order.unit)
    result: list[int] = []
    issued, current = 0, 0
    while True:
        issued = _issued(order, done, issued)
        ready: list[int] = []
        for unit in (*range(current, order.units), *range(current)):
            if heads[unit] < len(rows[unit]):
                index = rows[unit][heads[unit]]
                if index < issued and _may_start(order.after[index], done):
                    ready.append(index)
        if not ready:
            return result
        index = choose(ready)
        current = order.unit[index]
        heads[current] += 1
        done[index] = True
        result.append(index)


def _is_program_order(order: Order) -> bool:
    for index, waits in enumerate(order.after):
        for wait in waits:
            if wait >= index or wait == NEVER:
                return False
    return all(wait < index for index, waits in order.holds.items() for wait in waits)


def _issued(order: Order, done: list[bool], issued: int) -> int:
    """Counts how many instructions the sequencer has handed over, from the count before on."""
    if not order.holds:
        return len(done)
    while issued < len(done) and all(done[wait] for wait in order.holds.get(issued, ())):
        issued += 1
    return issued


def _may_start(waits: Iterable[int], done: list[bool]) -> bool:
    return all(wait == NOT_WAITING or (wait != NEVER and done[wait]) for wait in waits)


def clocks(order: Order, run: Sequence[int]) -> list[Clock]:
    """Computes vector clocks: for each instruction those surely done before it starts.

    An instruction knows what its predecessor in the unit knew and had done, and the same of those
    that it waits for. It is ordered after the p-th (from 1) of a unit exactly when its clock has at
    least p there. `run` is a legal order; clocks of instructions that are not in it stay 0.
    """
    known = [[0] * order.units for _ in order.unit]
    now = [[0] * order.units for _ in range(order.units)]
    after: list[Clock] = [[]] * len(known)
    front = [[0] * order.units]
    for index in run:
        unit = order.unit[index]
        clock = now[unit]
        for wait in order.after[index]:
            if wait >= 0:
                clock = list(map(max, clock, after[wait]))
        if order.holds:
            clock = list(map(max, clock, _front(order, after, front, index)))
        known[index] = clock
        clock = clock.copy()
        clock[unit] += 1
        now[unit] = after[index] = clock
    return known


def _front(order: Order, after: list[Clock], front: list[Clock], index: int) -> Clock:
    """Computes the sequencer's clock when it hands over an instruction; `front` has its clock
    before the first, then after each one that was asked for.
    """
    while len(front) <= index + 1:
        clock = front[-1]
        for wait in order.holds.get(len(front) - 1, ()):
            clock = list(map(max, clock, after[wait]))
        front.append(clock)
    return front[index + 1]


@dataclass(frozen=True)
class Blocked:
    """Describes an instruction at the head of its unit in a deadlock, with what it waits for:
    others that do not run either, NEVER for a token that nobody pushes. `held` are those for which
    the sequencer holds it back, if it does.
    """

    index: int
    waits: list[int]
    held: list[int] = field(default_factory=list[int])


def blocked(order: Order, run: Sequence[int]) -> list[Blocked]:
    """Lists the heads of the units where a legal order ended too early; empty if the order is
    whole.
    """
    done = [False] * len(order.unit)
    for index in run:
        done[index] = True
    issued = _issued(order, done, 0)
    found: list[Blocked] = []
    for row in rows_of(order):
        index = next((index for index in row if not done[index]), None)
        if index is None:
            continue
        waits = [w for w in order.after[index] if w == NEVER or (w >= 0 and not done[w])]
        held = [w for w in order.holds.get(issued, ()) if not done[w]] if index >= issued else []
        found.append(Blocked(index, waits, held))
    return found
