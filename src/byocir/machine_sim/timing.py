"""Times each instruction of a program: units and their sequencer run as concurrent servers.

But for channels, every time is a maximum of sums of earlier times. So each server runs ahead as far
as the times it depends on are known. When all of them wait, the only unknown times are the ends of
transfers, and whatever follows from the first one to end lies after it: its channel may be served
until then. No event queue is needed, and the work is linear in N.

Instructions of a unit that follow each other in the program, of which only the first waits for
others and only for the last one others wait, are a run: each starts when the one before it ends, as
it was handed over by then. So servers go from run to run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from byocir.machine_sim.accesses import conflicts
from byocir.machine_sim.channel import Channel, Request
from byocir.machine_sim.model import MachineModel, Program
from byocir.machine_sim.order import NEVER, holds_of, token_users

Cycles = NDArray[np.int64]
UNKNOWN = -1
NONE = -1


@dataclass(frozen=True)
class Costs:
    """Lists what each of N instructions costs by itself; see ``Instruction``, ``Transfer``.

    One that takes no beats ends ``max(busy, lead)`` after its start; one that does ends with them,
    at least ``busy`` after its start.
    """

    busy: list[int]
    lead: list[int]
    beats: list[int]
    rank: list[int]
    channel: list[int]
    latency: list[int]


class Push(NamedTuple):
    """Describes a token that is pushed: its event, and the instruction whose start makes room for
    it, or NONE, or NEVER.
    """

    event: int
    room: int


@dataclass(frozen=True)
class Waits:
    """Lists the events that instructions wait for. Event ``i`` below N is that instruction ``i`` is
    done, the others are tokens. ``starts`` lists, by instruction, those that must be before its
    start, ``pushes`` those that its end brings about, ``holds`` those that must be before it is
    handed over.
    """

    starts: Mapping[int, Sequence[int]]
    pushes: Mapping[int, Sequence[Push]]
    events: int
    holds: Mapping[int, Sequence[int]] = field(default_factory=dict[int, Sequence[int]])

    @staticmethod
    def of(
        count: int,
        after: Mapping[int, Sequence[int]],
        holds: Mapping[int, Sequence[int]],
        queues: Sequence[tuple[Sequence[int], Sequence[int], int | None]],
    ) -> Waits:
        """Makes the waits of a program of so many instructions, of which some start ``after``
        others are done, and which use token queues: those that push, those that pop, and the
        capacity of each."""
        starts = {index: list(waits) for index, waits in after.items()}
        pushes: dict[int, list[Push]] = {}
        events = count
        for pushing, popping, capacity in queues:
            for number, index in enumerate(pushing):
                room = NONE
                if capacity is not None and number >= capacity:
                    freed = number - capacity
                    room = popping[freed] if freed < len(popping) else NEVER
                pushes.setdefault(index, []).append(Push(events + number, room))
            for number, index in enumerate(popping):
                starts.setdefault(index, []).append(events + number)
            events += max(len(pushing), len(popping))
        return Waits(starts, pushes, events, holds)


@dataclass(frozen=True)
class Halt:
    """Says where the sequencer (`unit` None) or a unit stands in a deadlock: at which instruction,
    and for which cause: an `order` that does not come, or room in a full `queue` of instructions or
    tokens.
    """

    unit: int | None
    index: int
    cause: str


class Stuck(Exception):
    """Says that units wait for each other, after so many instructions `ran`."""

    def __init__(self, halts: list[Halt], ran: int) -> None:
        super().__init__(f"a deadlock after {ran} instructions")
        self.halts, self.ran = halts, ran


@dataclass(frozen=True)
class UnitCycles:
    """Counts the cycles of one unit by cause; the six add up to the cycles of the run.

    ``busy``: it works. Else it waits: for others, as the ``order`` wants; for a ``channel``
    (latency, and others' turns); for the sequencer to ``issue``; for room in a full ``queue`` of
    instructions or tokens; or it is ``drained``, with nothing left to do.
    """

    busy: int
    order: int
    channel: int
    issue: int
    queue: int
    drained: int


@dataclass(frozen=True)
class Times:
    """Lists the times at which N instructions run, in cycles; int64 [N] arrays are in program
    order.

    ``delivered``: when the sequencer hands the instruction to its unit; ``start``, ``end``: when it
    runs; ``waits``: by cause (``order``, ``channel``, ``issue``, ``queue``), what its unit waited
    before, in (``channel``) or after (``queue``) it; ``cycles``: the whole run; ``units``: of each
    unit and of the sequencer, where its cycles go; ``channels``: of each channel int64 [S, 3]
    spans: client (a unit's index, or for the sequencer how many units there are), first cycle, last
    cycle + 1.
    """

    delivered: Cycles
    start: Cycles
    end: Cycles
    waits: dict[str, Cycles]
    cycles: int
    units: list[UnitCycles]
    sequencer: UnitCycles
    channels: list[NDArray[np.int64]]


def run_times(model: MachineModel, program: Program) -> Times:
    """Computes the times of a program; raises Stuck for one that cannot end."""
    queues = [
        (*token_users(program, number), queue.capacity) for number, queue in enumerate(model.tokens)
    ]
    after, holds = conflicts(program, model.guarded), holds_of(model, program)
    waits = Waits.of(len(program), after, holds, queues)
    return times_of(model, program.unit.tolist(), waits, costs_of(program))


def costs_of(program: Program) -> Costs:
    """Collects the costs of instructions as lists."""
    busy: list[int] = program.cycles.tolist()
    lead, beats, rank, channel, latency = ([0] * len(busy) for _ in range(5))
    for index, transfer in program.transfers.items():
        lead[index], beats[index] = transfer.lead, transfer.beats
        rank[index], channel[index] = transfer.rank, transfer.channel
    for index, cycles in program.latency.items():
        latency[index] = cycles
    return Costs(busy, lead, beats, rank, channel, latency)


def times_of(model: MachineModel, unit: Sequence[int], waits: Waits, costs: Costs) -> Times:
    """Computes the times of a program whose waits and costs are known; `unit` is that of each
    instruction. Raises Stuck.
    """
    servers = _Servers(model, unit, waits, costs)
    servers.run()
    return servers.times()


class _Servers:
    """Holds the state of one run of a program: units and their sequencer as servers. All lists are
    indexed by instruction but `events` and those whose names begin with unit; `runs` has the first
    instructions of the runs of each unit. A run of several instructions is `delivered`, and held
    back, as its first one, and has the `end` of its last one; all of it has a `start`.
    """

    def __init__(
        self, model: MachineModel, unit: Sequence[int], waits: Waits, costs: Costs
    ) -> None:
        count, units = len(unit), len(model.units)
        self.model, self.sequencer, self.count = model, model.sequencer, count
        self.waits, self.starts, self.pushes = waits, waits.starts, waits.pushes
        self.costs, self.busy, self.latency = costs, costs.busy, costs.latency
        self.lead, self.beats = costs.lead, costs.beats
        self.span = list(map(max, costs.lead, costs.busy))
        unit_of = np.array(unit, np.int64)
        self.rows = [np.flatnonzero(unit_of == own) for own in range(units)]
        self.room = self._room()
        begins = self._begins(unit_of)
        firsts = np.flatnonzero(begins)
        lengths = np.diff(firsts, append=count)
        self.first: list[int] = np.repeat(firsts, lengths).tolist()
        self.last: list[int] = np.repeat(firsts + lengths - 1, lengths).tolist()
        self.runs: list[list[int]] = [row[begins[row]].tolist() for row in self.rows]
        self.ready, self.delivered, self.held = [UNKNOWN] * count, [UNKNOWN] * count, 0
        self.start, self.end, self.freed = ([UNKNOWN] * count for _ in range(3))
        self.events = [UNKNOWN] * waits.events
        self.unit_heads, self.unit_free, self.unit_done = ([0] * units for _ in range(3))
        self.next, self.read, self.reading, self.sequencer_free = 0, 0, False, 0
        if not self.sequencer.chunk:
            self.read = count
        self.channels = [Channel() for _ in model.channels or ("none",)]
        self.steps = 0

    def _begins(self, unit: Cycles) -> NDArray[np.bool_]:
        """Tells of each instruction whether a run begins with it."""
        if self.sequencer.cycles or self.sequencer.chunk:
            return np.ones(self.count, np.bool_)
        begins = np.diff(unit, prepend=-1) != 0
        alone = np.array(self.beats, np.bool_) | np.array(self.latency, np.bool_)
        waits, holds = self.starts, self.waits.holds
        begins[[*waits, *holds]] = True
        ends = alone.copy()
        awaited = (event for events in (*waits.values(), *holds.values()) for event in events)
        ends[[event for event in awaited if event < self.count]] = True
        ends[[*self.pushes]] = True
        begins[1:] |= ends[:-1]
        return begins | alone

    def _room(self) -> list[int]:
        """Gives, for each instruction, the one whose start makes room for it in the queue of its
        unit, or NONE.
        """
        result = np.full(self.count, NONE, np.int64)
        for unit, row in zip(self.model.units, self.rows, strict=True):
            if unit.depth:
                result[row[unit.depth :]] = row[: -unit.depth]
        return result.tolist()

    def run(self) -> None:
        """Fills the lists of times. Raises Stuck if the servers wait for each other."""
        while True:
            self._settle()
            channel = self._first_to_end()
            if channel is None:
                break
            self._finish_transfer(channel)
        if any(head < len(row) for head, row in zip(self.unit_heads, self.runs, strict=True)):
            raise Stuck(self._halts(), self._ran())

    def _settle(self) -> None:
        """Lets all servers run as far as known times allow: in turns, until each has run since
        anything became known.
        """
        turn, idle, units = -1, 0, len(self.rows)
        while idle <= units:
            before = self.steps
            if turn < 0:
                self._hand_over()
            else:
                self._advance(turn)
            idle = idle + 1 if self.steps == before else 1
            turn = turn + 1 if turn + 1 < units else -1

    def _first_to_end(self) -> Channel | None:
        """Gives the channel whose transfer ends first, if any has one."""
        pending = self.channels
        if len(pending) > 1 or not pending[0].pending:
            pending = [channel for channel in self.channels if channel.pending]
        if len(pending) > 1:
            return min(pending, key=Channel.next_end)
        return pending[0] if pending else None

    def _finish_transfer(self, channel: Channel) -> None:
        client, now = channel.complete()
        if client == len(self.rows):
            self._chunk_arrived(now)
            return
        index = self.runs[client][self.unit_heads[client]]
        self.end[index] = max(now, self.start[index] + self.busy[index])

    def _hand_over(self) -> None:
        """Hands over what was read, and reads the next chunk when all of it is handed over. Of a
        run, all others have been when its last one has.
        """
        start, holds, cycles = self.start, self.waits.holds, self.sequencer.cycles
        while self.next < self.count:
            index = self.next
            if index == self.read:
                if self.reading:
                    return
                self._read_chunk()
                continue
            room = self.room[index]
            cleared = start[room] if room != NONE else 0
            begin = self._held(index) if holds else self.sequencer_free
            if cleared == UNKNOWN or begin == UNKNOWN:
                return
            self.held += begin - self.sequencer_free
            self.ready[index] = ready = begin + cycles
            self.sequencer_free = self.delivered[index] = max(ready, cleared)
            last = self.last[index]
            self.next = last if index < last else index + 1
            self.steps += 1

    def _held(self, index: int) -> int:
        """Gives the time when the sequencer is free and all that an instruction is held for is
        done; UNKNOWN if it is not known yet.
        """
        ends = [self.events[wait] for wait in self.waits.holds.get(index, ())]
        return UNKNOWN if UNKNOWN in ends else max([self.sequencer_free, *ends])

    def _read_chunk(self) -> None:
        sequencer = self.sequencer
        size = min(sequencer.chunk, self.count - self.read)
        arrival = self.sequencer_free + sequencer.latency
        if sequencer.beats[size]:
            request = Request(sequencer.rank, arrival, sequencer.beats[size], len(self.rows))
            self.channels[sequencer.channel].pending.append(request)
            self.reading = True
        else:
            self._chunk_arrived(arrival)
        self.steps += 1

    def _chunk_arrived(self, now: int) -> None:
        self.sequencer_free, self.reading = now, False
        self.read = min(self.read + self.sequencer.chunk, self.count)

    def _advance(self, unit: int) -> None:
        """Runs a unit as far as known times allow."""
        runs, heads, start, end = self.runs[unit], self.unit_heads, self.start, self.end
        while heads[unit] < len(runs):
            first = runs[heads[unit]]
            last = self.last[first]
            if start[first] == UNKNOWN and not self._begin(unit, first, last):
                return
            if end[last] == UNKNOWN or not self._release(unit, last):
                return

    def _begin(self, unit: int, index: int, last: int) -> bool:
        """Starts a run if its first instruction was handed over and all that it waits for is there;
        tells if it started.
        """
        begin = self.delivered[index]
        if begin == UNKNOWN:
            return False
        begin, events = max(begin, self.unit_free[unit]), self.events
        for event in self.starts.get(index, ()):
            at = events[event]
            if at == UNKNOWN:
                return False
            if at > begin:
                begin = at
        self.start[index : last + 1] = accumulate(self.span[index:last], initial=begin)
        if self.beats[index]:
            arrival = begin + self.lead[index]
            request = Request(self.costs.rank[index], arrival, self.beats[index], unit)
            self.channels[self.costs.channel[index]].pending.append(request)
        else:
            self.end[last] = self.start[last] + self.span[last]
        self.steps += 1
        return True

    def _release(self, unit: int, index: int) -> bool:
        """Pushes the tokens of an instruction that has ended, each as soon as it finds room."""
        freed, stuck, events = self.end[index], False, self.events
        done = freed + self.latency[index]
        if done < self.unit_done[unit]:
            done = self.unit_done[unit]
        events[index] = self.unit_done[unit] = done
        for event, room in self.pushes.get(index, ()):
            cleared = 0
            if room != NONE:
                cleared = UNKNOWN if room == NEVER else self.start[room]
            if cleared == UNKNOWN:
                stuck = True
                continue
            if cleared > freed:
                freed = cleared
            if events[event] == UNKNOWN:
                events[event] = max(done, cleared)
                self.steps += 1
        if stuck:
            return False
        self.freed[index] = self.unit_free[unit] = freed
        self.unit_heads[unit] += 1
        self.steps += 1
        return True

    def _ran(self) -> int:
        """Counts the instructions that have ended in a deadlock."""
        ran = 0
        for head, firsts in zip(self.unit_heads, self.runs, strict=True):
            ran += sum(self.last[first] + 1 - first for first in firsts[:head])
            if head < len(firsts) and self.start[firsts[head]] != UNKNOWN:
                ran += self.last[firsts[head]] - firsts[head]
        return ran

    def _halts(self) -> list[Halt]:
        """Lists where sequencer and units stand still in a deadlock."""
        halts: list[Halt] = []
        if self.next < self.count:
            held = self._held(self.next) == UNKNOWN
            halts.append(Halt(None, self._handing(), "order" if held else "queue"))
        for unit, firsts in enumerate(self.runs):
            if self.unit_heads[unit] < len(firsts):
                first = firsts[self.unit_heads[unit]]
                if self.end[self.last[first]] != UNKNOWN:
                    halts.append(Halt(unit, self.last[first], "queue"))
                elif self.delivered[first] != UNKNOWN:
                    halts.append(Halt(unit, first, "order"))
        return halts

    def _handing(self) -> int:
        """Gives the instruction that the sequencer is to hand over next: of a run whose first one
        it has, the first one without room.
        """
        for index in range(self.first[self.next] + 1, self.next):
            if self.room[index] != NONE and self.start[self.room[index]] == UNKNOWN:
                return index
        return self.next

    # -- what the run took

    def times(self) -> Times:
        """Gives the times as arrays, and where cycles went."""
        ready, delivered, start, end, freed = self._of_all()
        busy = np.array(self.busy, np.int64)
        free = np.zeros_like(freed)
        for row in self.rows:
            free[row[1:]] = freed[row[:-1]]
        waits = {
            "order": start - np.maximum(free, delivered),
            "channel": end - start - busy,
            "issue": np.maximum(delivered - free, 0),
            "queue": freed - end,
        }
        cycles = max([*self.unit_free, *self.unit_done], default=0)
        units: list[UnitCycles] = []
        for row in self.rows:
            waited = {cause: int(times[row].sum()) for cause, times in waits.items()}
            works = int(busy[row].sum())
            units.append(UnitCycles(works, drained=cycles - works - sum(waited.values()), **waited))
        channels = self.channels[: len(self.model.channels)]
        spans = [np.array(c.spans, np.int64).reshape(-1, 3) for c in channels]
        last = int(delivered.max(initial=0))
        sequencer = self._sequencer_time(cycles, last, int((delivered - ready).sum()))
        return Times(delivered, start, end, waits, cycles, units, sequencer, spans)

    def _of_all(self) -> tuple[Cycles, Cycles, Cycles, Cycles, Cycles]:
        """Gives when each instruction was ready to be handed over, handed over, started, ended and
        left its unit: of runs, for those between the first and the last, too.
        """
        columns = (self.ready, self.delivered, self.start, self.end, self.freed)
        ready, delivered, start, end, freed = (np.array(each, np.int64) for each in columns)
        first, index = np.array(self.first, np.int64), np.arange(self.count)
        later, room = np.flatnonzero(first != index), np.array(self.room, np.int64)
        cleared = np.where(room == NONE, 0, start[room])[later]
        delivered[later] = np.maximum(delivered[first[later]], cleared)
        ready[later] = delivered[later - 1]
        end[later - 1] = freed[later - 1] = start[later]
        return ready, delivered, start, end, freed

    def _sequencer_time(self, cycles: int, last: int, queue: int) -> UnitCycles:
        """Says where the cycles of the sequencer go, which hands over the last instruction at some
        time and waited so long for queues."""
        busy = self.count * self.sequencer.cycles
        if self.sequencer.chunk:
            chunks, rest = divmod(self.count, self.sequencer.chunk)
            beats = self.sequencer.beats
            busy += chunks * beats[-1] + (beats[rest] if rest else 0)
        channel = last - busy - self.held - queue
        return UnitCycles(busy, self.held, channel, 0, queue, drained=cycles - last)
