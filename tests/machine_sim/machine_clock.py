"""When instructions run, the slow way: every part of a machine looks at the world in every cycle.

Written from what `byocir.machine_sim.model` says and not from the engine: no times are computed
ahead, and nobody knows which push is whose pop.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from machine_programs import Program, conflict

from byocir.machine_sim import Instruction

LIMIT = 5000


@dataclass
class Asked:
    """A transfer that is asked for; `client` is a unit, or the sequencer, which comes last."""

    rank: int
    arrival: int
    client: int
    left: int

    @property
    def turn(self) -> tuple[int, int, int]:
        return self.rank, self.arrival, self.client


@dataclass
class Part:
    """A unit: its queue, what it runs since when, and the tokens for which it lacks room."""

    queue: list[int] = field(default_factory=list[int])
    running: int | None = None
    since: int = 0
    transfer: Asked | None = None
    pushing: list[int] = field(default_factory=list[int])
    done: int = 0


class Clock:
    """Runs a program; `delivered`, `start`, `end` by instruction. `stuck` if it never ends."""

    def __init__(self, program: Program) -> None:
        self.model, self.program = program.model, program.instructions
        count = len(self.program)
        self.parts = [Part() for _ in self.model.units]
        self.delivered, self.start, self.end, self.done = ([-1] * count for _ in range(4))
        self.now, self.stuck = 0, False
        self.issued, self.read, self.spent = 0, 0, 0
        self.chunk: Asked | None = None
        self.there: list[list[int]] = [[] for _ in self.model.tokens]
        self.taken = [0] * len(self.model.tokens)

    def run(self) -> Clock:
        while not self.stuck:
            while any([self.hand_over(), *(self.step(unit) for unit in range(len(self.parts)))]):
                pass
            busy = any(part.running is not None or part.pushing for part in self.parts)
            if self.issued == len(self.program) and not busy and not any(self.queues()):
                return self
            self.tick()
        return self

    def queues(self) -> list[list[int]]:
        return [part.queue for part in self.parts]

    def finished(self, index: int) -> bool:
        return 0 <= self.done[index] <= self.now

    # -- the sequencer

    def hand_over(self) -> bool:
        sequencer = self.model.sequencer
        if self.issued == len(self.program):
            return False
        if sequencer.chunk and self.issued == self.read and self.chunk is None:
            size = min(sequencer.chunk, len(self.program) - self.read)
            arrival, last = self.now + sequencer.latency, len(self.parts)
            self.chunk = Asked(sequencer.rank, arrival, last, sequencer.beats[size])
        if self.chunk is not None:
            if self.chunk.left or self.now < self.chunk.arrival:
                return False
            self.read += min(sequencer.chunk, len(self.program) - self.read)
            self.chunk = None
            return True
        instruction = self.program[self.issued]
        part, depth = self.parts[instruction.unit], self.model.units[instruction.unit].depth
        if self.held() or self.spent < sequencer.cycles or (depth and len(part.queue) >= depth):
            return False
        part.queue.append(self.issued)
        self.delivered[self.issued] = self.now
        self.issued, self.spent = self.issued + 1, 0
        return True

    def held(self) -> bool:
        left = [self.program[i].unit for i in range(self.issued) if not self.finished(i)]
        if any(not self.model.units[unit].depth for unit in left):
            return True
        return any(left.count(w.unit) > w.most for w in self.program[self.issued].waits)

    # -- units

    def step(self, unit: int) -> bool:
        part = self.parts[unit]
        if part.running is not None:
            return self.finish(part)
        for queue in part.pushing:
            capacity = self.model.tokens[queue].capacity
            if capacity is None or len(self.there[queue]) - self.taken[queue] < capacity:
                self.there[queue].append(max(part.done, self.now))
                part.pushing.remove(queue)
                return True
        if part.pushing or not part.queue or not self.may_start(part.queue[0]):
            return False
        part.running, part.since = part.queue.pop(0), self.now
        instruction = self.program[part.running]
        for queue in instruction.pops:
            self.taken[queue] += 1
        self.start[part.running] = self.now
        if instruction.transfer and instruction.transfer.beats:
            t = instruction.transfer
            part.transfer = Asked(t.rank, self.now + t.lead, unit, t.beats)
        return True

    def may_start(self, index: int) -> bool:
        instruction = self.program[index]
        for queue in instruction.pops:
            last = self.taken[queue] + instruction.pops.count(queue)
            if len(self.there[queue]) < last or max(self.there[queue][:last]) > self.now:
                return False
        return not any(
            self.program[i].unit != instruction.unit
            and not self.finished(i)
            and conflict(self.program[i], instruction, self.model.guarded)
            for i in range(index)
        )

    def finish(self, part: Part) -> bool:
        assert part.running is not None
        instruction = self.program[part.running]
        if (part.transfer and part.transfer.left) or self.now < part.since + least(instruction):
            return False
        part.done = max(self.now + instruction.latency, part.done)
        self.end[part.running], self.done[part.running] = self.now, part.done
        part.pushing = list(instruction.pushes)
        part.running = part.transfer = None
        return True

    # -- time

    def tick(self) -> None:
        """One cycle passes: each channel moves a beat of the first request, the sequencer works."""
        asked: list[list[Asked]] = [[] for _ in self.model.channels]
        for part in self.parts:
            if part.transfer is not None and part.running is not None:
                transfer = self.program[part.running].transfer
                assert transfer is not None
                asked[transfer.channel].append(part.transfer)
        if self.chunk is not None and self.model.channels:
            asked[self.model.sequencer.channel].append(self.chunk)
        for requests in asked:
            here = [r for r in requests if r.left and r.arrival <= self.now]
            if here:
                min(here, key=lambda request: request.turn).left -= 1
        if self.issued < len(self.program) and self.chunk is None and not self.held():
            self.spent += 1
        self.now += 1
        self.stuck = self.now > LIMIT


def least(instruction: Instruction) -> int:
    """Cycles from the start to the end of an instruction, if its transfer is over before."""
    transfer = instruction.transfer
    if transfer is None or transfer.beats:
        return instruction.cycles
    return max(instruction.cycles, transfer.lead)
