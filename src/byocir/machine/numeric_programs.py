"""Converts programs of machines to numbers, for the engines of `byocir.machine_sim`: these find
when each call runs, and which calls nothing keeps apart.

Cycles and limits are those of the description, reads and writes the rows that calls touch.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from byocir.dialects.locations import place
from byocir.errors import ByocirError
from byocir.machine import parts
from byocir.machine.calls import Calls, IssuedCalls
from byocir.machine.description import Machine
from byocir.machine.operand_places import Place
from byocir.machine.parts import InOrder, Tokens
from byocir.machine_sim import (
    Accesses,
    Hazard,
    MachineModel,
    Program,
    Times,
    TokenQueue,
    Transfer,
    Unit,
    Wait,
    hazards,
    run_times,
)

Index = NDArray[np.int64]
_Pair = tuple[int, int]
"""An instruction, by its number in the program, and a queue."""


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
    guarded = frozenset(memory.scope for memory in machine.guarded)
    return MachineModel(units, tokens, guarded, [each.name for each in machine.channels])


def numbers_of(
    machine: Machine, calls: IssuedCalls, scopes: Collection[str] | None = None
) -> Program:
    """Describes the calls of a program as the engines know them, with their accesses to the
    memories of these scopes or, if none are given, to all.
    """
    return _Numbers(machine, scopes).of(calls)


def timed_numbers_of(machine: Machine, calls: IssuedCalls) -> Program:
    """Describes the calls of a program as far as time needs it: what takes time is ordered by
    hardware or by what calls wait for, so that few accesses matter.
    """
    return numbers_of(machine, calls, model_of(machine).guarded)


def times_of(machine: Machine, calls: IssuedCalls) -> Times:
    """Computes the times at which the calls of a program run."""
    return run_times(model_of(machine), timed_numbers_of(machine, calls))


def hazards_of(machine: Machine, calls: IssuedCalls) -> list[Hazard]:
    """Finds accesses that nothing orders, reads of rows that nothing wrote, and tokens that nobody
    pops.
    """
    fresh = [memory.scope for memory in machine.memories]
    return hazards(model_of(machine), numbers_of(machine, calls), fresh=fresh)


def check_order(machine: Machine, calls: IssuedCalls) -> None:
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
    """Makes numbers of calls, with their accesses to the memories of these scopes, or to all."""

    def __init__(self, machine: Machine, scopes: Collection[str] | None) -> None:
        self._scopes, self._order = scopes, machine.ordered
        self._channels = {each: number for number, each in enumerate(machine.channels)}
        self._units = {unit.name: number for number, unit in enumerate(machine.units)}
        pairs = machine.ordered.pairs if isinstance(machine.ordered, Tokens) else ()
        self._tokens = {(a.name, b.name): number for number, (a, b) in enumerate(pairs)}
        self._known: dict[Hashable, _Reached] = {}

    def of(self, calls: IssuedCalls) -> Program:
        alone = isinstance(self._order, InOrder)
        units = [0 if alone else self._units[op.unit.name] for op in calls.ops]
        cycles, kept = (calls.of_each([_cycles(op, i) for op in calls.ops]) for i in (0, 1))
        spent = np.where(calls.is_kept, kept, cycles)
        waits, pops, pushes = self._ordered(calls)
        return Program(
            np.array(units, np.int64)[calls.op],
            spent,
            self._accesses(calls),
            pops,
            pushes,
            waits,
            transfers=self._transfers(calls, spent),
        )

    def _transfers(self, calls: IssuedCalls, cycles: Index) -> Mapping[int, Transfer]:
        """Lists what calls move over channels, by the number of the call; nothing where calls run
        one after the other.
        """
        found: dict[int, Transfer] = {}
        if isinstance(self._order, InOrder):
            return found
        made: dict[tuple[parts.Transfer, int], Transfer] = {}
        for number, op in enumerate(calls.ops):
            told = op.transfer
            if told is None:
                continue
            turns = calls.turns_of(number)
            for turn, spent in zip(turns.tolist(), cycles[turns].tolist(), strict=True):
                key = told, spent
                if key not in made:
                    channel = self._channels[told.channel]
                    made[key] = Transfer(channel, spent - told.lead, told.lead, told.rank)
                found[turn] = made[key]
        return found

    def _ordered(
        self, calls: IssuedCalls
    ) -> tuple[list[tuple[int, Wait]], list[_Pair], list[_Pair]]:
        """Lists what calls wait for, and the tokens that they pop and push: the first call of an
        op, and the last one.
        """
        waits, pops, pushes = list[tuple[int, Wait]](), list[_Pair](), list[_Pair]()
        for op, begin in zip(calls.ops, calls.begins.tolist(), strict=True):
            first, last = (int(calls.turns[at]) for at in (begin, begin + op.count - 1))
            unit, told = op.unit.name, op.op
            waits += [(first, Wait(self._units[other], n)) for other, n in told.counts.items()]
            pops += [(first, self._tokens[other.data, unit]) for other in told.pops or ()]
            pushes += [(last, self._tokens[unit, other.data]) for other in told.pushes or ()]
        return sorted(waits, key=_index), sorted(pops, key=_index), sorted(pushes, key=_index)

    def _accesses(self, calls: IssuedCalls) -> Accesses:
        """Lists the accesses of all calls."""
        columns: list[list[Index]] = [[_NOTHING] for _ in range(5)]
        numbers: dict[str, int] = {}
        for number in calls.in_turn:
            begin = calls.begins[number]
            for part in calls.ops[number].parts:
                places = [whole for whole, _ in part.arrays]
                named = [self._memory(whole) for whole in places]
                reached = self._reached(part, named)
                memory = [numbers.setdefault(each, len(numbers)) if each else -1 for each in named]
                moved = np.array([each.first for each in places], np.int64)[reached.operand]
                columns[0].append(calls.turns[begin + reached.call])
                columns[1].append(reached.writes)
                columns[2].append(np.array(memory, np.int64)[reached.operand])
                columns[3].append(reached.start + moved)
                columns[4].append(reached.stop + moved)
        index, writes, memory, start, stop = (np.concatenate(column) for column in columns)
        found = Accesses(index, writes == 1, memory, start, stop, tuple(numbers))
        return found.at(np.argsort(index, kind="stable"))

    def _memory(self, whole: Place) -> str | None:
        """Names the memory of an operand; None for one that does not matter."""
        matters = self._scopes is None or whole.memory.scope in self._scopes
        return whole.home if matters and not whole.memory.hidden else None

    def _reached(self, op: Calls, named: Sequence[str | None]) -> _Reached:
        """Gives what the calls of an op access in the memories that have a name, once for all ops
        that differ by the first rows of their buffers at most.
        """
        pairs = zip(op.arrays, named, strict=True)
        at = tuple((whole.shape, starts) if name else None for (whole, starts), name in pairs)
        key = op.alike, at
        if key not in self._known:
            self._known[key] = _Reached.of(op, [name is not None for name in named])
        return self._known[key]


def _index(pair: tuple[int, object]) -> int:
    return pair[0]


def _cycles(op: Calls, kept: int) -> Index:
    """Gives the cycles of each call of an op: 0 for all, 1 for those of calls that find in the unit
    what stays there."""
    found = [part.course.cycles[kept] for part in op.parts]
    return sum(found[1:], start=found[0])


_NOTHING: Index = np.empty(0, np.int64)


@dataclass(frozen=True)
class _Reached:
    """Lists the accesses of the calls of an op, of each reads before writes: the number of the
    call, whether it writes (1), its operand, and from which row to which of the operand's buffer.
    """

    call: Index
    writes: Index
    operand: Index
    start: Index
    stop: Index

    @staticmethod
    def of(op: Calls, matters: Sequence[bool]) -> _Reached:
        """Lists those to the operands that matter."""
        parts = [(_NOTHING, _NOTHING, _NOTHING)]
        for kind, numbers, own in op.course.groups:
            read = own if kind.reads_old else own[:, :-1]
            for writes, boxes in ((0, read), (1, own[:, -1:])):
                call = np.repeat(numbers, boxes.shape[1])
                parts.append((call, np.full(len(call), writes), boxes.reshape(-1)))
        call, writes, box = (np.concatenate(column) for column in zip(*parts, strict=True))
        order = np.argsort(2 * call + writes, kind="stable")
        call, writes, box = call[order], writes[order], box[order]
        operands = [each.operand for each in op.course.boxes]
        pairs = zip(op.boxes, operands, strict=True)
        rows = [at.own_rows if matters[operand] else () for at, operand in pairs]
        counts = np.array([len(each) for each in rows], np.int64)
        length, begin = counts[box], (np.cumsum(counts) - counts)[box]
        access = np.repeat(np.arange(len(box)), length)
        within = np.arange(len(access)) - np.repeat(np.cumsum(length) - length - begin, length)
        spans = np.array([span for each in rows for span in each], np.int64).reshape(-1, 2)[within]
        operand = np.array(operands, np.int64)[box[access]]
        return _Reached(call[access], writes[access], operand, spans[:, 0], spans[:, 1])
