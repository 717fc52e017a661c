"""Random programs for random machines, kept in order as each kind of machine wants it; and a
machine that runs them by rules alone, in any order that these allow."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random

from byocir import machine_sim
from byocir.machine_sim import (
    Access,
    Instruction,
    MachineModel,
    Sequencer,
    TokenQueue,
    Transfer,
    Unit,
    Wait,
    conflicts,
)
from byocir.testing.choose import Choose, pick

SIZES = {"near": 9, "far": 6, "host": 5}
KINDS = ("tokens", "hardware", "counted", "one unit", "mixed")


@dataclass(frozen=True)
class Program:
    model: MachineModel
    instructions: list[Instruction]

    @property
    def columns(self) -> machine_sim.Program:
        return machine_sim.Program.of(self.instructions)

    def changed(self, index: int, **fields: object) -> Program:
        """The same with other fields of one instruction."""
        instructions = list(self.instructions)
        instructions[index] = instructions[index]._replace(**fields)
        return Program(self.model, instructions)


def random_access(choose: Choose) -> Access:
    memory = pick(choose, list(SIZES))
    start = choose(0, SIZES[memory] - 1)
    return Access(memory, start, choose(start + 1, SIZES[memory]))


def bare(choose: Choose, units: int) -> list[Instruction]:
    """Instructions that wait for nothing."""
    return [
        Instruction(
            choose(0, units - 1),
            cycles=choose(1, 6),
            latency=choose(0, 1) * choose(0, 9),
            reads=[random_access(choose) for _ in range(choose(0, 2))],
            writes=[random_access(choose) for _ in range(choose(0, 1))],
        )
        for _ in range(choose(2, 10))
    ]


def ordered(choose: Choose, kind: str) -> Program:
    """A program that is kept in order by one kind, or by several: `host` then by counted waits."""
    units = 1 if kind == "one unit" else choose(2, 4)
    instructions = bare(choose, units)
    model = MachineModel([Unit(f"u{i}", choose(1, 3)) for i in range(units)])
    if kind == "tokens":
        return with_tokens(Program(model, instructions))
    if kind == "counted":
        return with_waits(Program(model, instructions), set(SIZES))
    if kind == "hardware":
        return Program(replace(model, guarded=frozenset(SIZES)), instructions)
    if kind == "mixed":
        model = replace(model, guarded=frozenset({"near", "far"}))
        return with_waits(Program(model, instructions), {"host"})
    return Program(model, instructions)


def with_waits(program: Program, memories: set[str]) -> Program:
    """With a counted wait for each conflict in some memories."""
    result = program
    units = [each.unit for each in program.instructions]
    for index, earlier in conflicts(program.columns, memories).items():
        waits = [Wait(units[e], units[e + 1 : index].count(units[e])) for e in earlier]
        result = result.changed(index, waits=waits)
    return result


def with_tokens(program: Program) -> Program:
    """With a token for each conflict that no earlier one orders, and a queue for each pair."""
    units = len(program.model.units)
    queues = [TokenQueue(f"{a} to {b}") for a in range(units) for b in range(units)]
    result = Program(replace(program.model, tokens=queues), program.instructions)
    known: dict[int, int] = {}
    for index, earlier in conflicts(program.columns).items():
        for other in earlier:
            queue = program.instructions[other].unit * units + program.instructions[index].unit
            if known.get(queue, -1) < other:
                known[queue] = other
                both = result.instructions
                result = result.changed(other, pushes=[*both[other].pushes, queue])
                result = result.changed(index, pops=[*both[index].pops, queue])
    return result


def careless(choose: Choose) -> Program:
    """A program whose waits mean nothing: it may race, lose tokens, or stop for ever."""
    units, queues = choose(2, 3), choose(0, 2)
    model = MachineModel(
        [Unit(f"u{i}", choose(0, 3)) for i in range(units)],
        [TokenQueue(f"q{i}") for i in range(queues)],
        frozenset(name for name in SIZES if not choose(0, 3)),
    )
    ends = [(choose(0, units - 1), choose(0, units - 1)) for _ in range(queues)]
    instructions = [
        each._replace(
            pushes=[q for q, (unit, _) in enumerate(ends) if unit == each.unit and choose(0, 1)],
            pops=[q for q, (_, unit) in enumerate(ends) if unit == each.unit and not choose(0, 3)],
            waits=[Wait(choose(0, units - 1), choose(0, 2))] if not choose(0, 3) else [],
        )
        for each in bare(choose, units)
    ]
    return Program(model, instructions)


def timed(choose: Choose) -> Program:
    """Any program on a machine of which everything takes time."""
    program = ordered(choose, pick(choose, KINDS)) if choose(0, 2) else careless(choose)
    channels = choose(0, 2)
    chunk = choose(0, 3) if channels else 0
    beats = [choose(0, 3) * size for size in range(chunk + 1)]
    sequencer = Sequencer(choose(0, 2), chunk, choose(0, 4), beats, 0, choose(0, 1))
    queues = [replace(q, capacity=pick(choose, [None, 1, 2])) for q in program.model.tokens]
    model = replace(
        program.model,
        tokens=queues,
        channels=[f"c{i}" for i in range(channels)],
        sequencer=sequencer,
    )
    instructions = [
        each._replace(transfer=_transfer(choose, channels)) if channels and choose(0, 1) else each
        for each in program.instructions
    ]
    return Program(model, instructions)


def in_runs(choose: Choose) -> Program:
    """A program whose instructions often follow each other on a unit without waiting."""
    program = ordered(choose, pick(choose, ["hardware", "counted", "tokens"]))
    instructions: list[Instruction] = []
    for each in program.instructions:
        alike = Instruction(each.unit, choose(0, 6), choose(0, 1) * choose(0, 1))
        before = [alike] * choose(0, 3) if not each.waits else []
        instructions += [*before, each, *[alike] * choose(0, 3)]
    return Program(program.model, instructions)


def _transfer(choose: Choose, channels: int) -> Transfer:
    return Transfer(choose(0, channels - 1), choose(0, 8), choose(0, 5), choose(0, 2))


# -- a machine that knows the rules only

Action = int
ISSUE = -1


def conflict(
    one: Instruction, other: Instruction, memories: Sequence[str] | frozenset[str]
) -> bool:
    """Whether two instructions touch the same elements of some memories, one of them writing."""

    def meet(left: Sequence[Access], right: Sequence[Access]) -> bool:
        return any(
            a.memory == b.memory and a.memory in memories and a.start < b.stop and b.start < a.stop
            for a in left
            for b in right
        )

    return (
        meet(one.writes, other.writes)
        or meet(one.writes, other.reads)
        or meet(one.reads, other.writes)
    )


class Machine:
    """Runs a program, one action at a time: the sequencer hands over, or a unit runs what is first
    in its queue. Every instruction writes what depends on itself and on all that it read."""

    def __init__(self, program: Program) -> None:
        self.model, self.program = program.model, program.instructions
        self.issued, self.ran = 0, list[int]()
        self.queues: list[deque[int]] = [deque() for _ in self.model.units]
        self.tokens = [0] * len(self.model.tokens)
        self.memory = {name: [-1 - i for i in range(size)] for name, size in SIZES.items()}

    def run(self, choose: Callable[[list[Action]], Action]) -> Machine:
        while actions := self.actions():
            self.act(choose(actions))
        return self

    @property
    def whole(self) -> bool:
        return len(self.ran) == len(self.program)

    def actions(self) -> list[Action]:
        heads = [queue[0] for queue in self.queues if queue]
        return [ISSUE] * self._may_issue() + [head for head in heads if self._may_run(head)]

    def act(self, action: Action) -> None:
        if action == ISSUE:
            self.queues[self.program[self.issued].unit].append(self.issued)
            self.issued += 1
            return
        instruction = self.program[action]
        for queue in instruction.pops:
            self.tokens[queue] -= 1
        seen = [self.memory[a.memory][a.start : a.stop] for a in instruction.reads]
        value = hash((action, *(number for part in seen for number in part)))
        for access in instruction.writes:
            for element in range(access.start, access.stop):
                self.memory[access.memory][element] = value
        for queue in instruction.pushes:
            self.tokens[queue] += 1
        self.queues[instruction.unit].popleft()
        self.ran.append(action)

    def _may_issue(self) -> bool:
        if self.issued == len(self.program):
            return False
        left = [self.program[i].unit for i in range(self.issued) if i not in self.ran]
        idle = not any(self.model.units[unit].depth == 0 for unit in left)
        waits = self.program[self.issued].waits
        return idle and all(left.count(wait.unit) <= wait.most for wait in waits)

    def _may_run(self, index: int) -> bool:
        instruction = self.program[index]
        if any(self.tokens[q] < instruction.pops.count(q) for q in instruction.pops):
            return False
        return not any(
            earlier not in self.ran
            and self.program[earlier].unit != instruction.unit
            and conflict(self.program[earlier], instruction, self.model.guarded)
            for earlier in range(index)
        )


def at_random(seed: int) -> Callable[[list[Action]], Action]:
    return Random(seed).choice


def putting_off(index: int) -> Callable[[list[Action]], Action]:
    """Runs an instruction only when nothing else is possible."""
    return lambda actions: min(actions, key=lambda action: action == index)
