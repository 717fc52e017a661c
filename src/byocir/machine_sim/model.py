"""Describes a machine and a program for it as numbers, for both engines.

Units run side by side, each its own instructions in program order. A sequencer hands instructions
to the queues of units. Who waits for whom is said in four ways, which may be mixed:

- one unit: its instructions run one after the other, and see what earlier ones wrote;
- tokens: an instruction pops from queues before it starts, and pushes to queues when it is done;
- hardware: accesses to a guarded memory that conflict are made in program order;
- counted waits: the sequencer holds an instruction, and all later ones, until a unit has at most so
  many unfinished.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Index = NDArray[np.int64]


@dataclass(frozen=True)
class Unit:
    """Describes a part that runs one instruction at a time. `depth` is how many its queue holds
    beside the one that runs; with 0 the sequencer itself waits until the unit has finished, as a
    processor that calls a function does.
    """

    name: str
    depth: int = 1


@dataclass(frozen=True)
class TokenQueue:
    """Describes a queue of tokens from one unit to one unit; it holds at most `capacity`, or any
    number with None. A unit that finds no room keeps its instruction until there is some.
    """

    name: str
    capacity: int | None = None


@dataclass(frozen=True)
class Sequencer:
    """Hands instructions to units in program order, `cycles` for each.

    With a `chunk` it fetches them first, so many at a time, when all earlier ones are handed over:
    the request of n instructions arrives `latency` cycles later at `channel`, as important as
    `rank` says, and takes `beats[n]` cycles of it.
    """

    cycles: int = 0
    chunk: int = 0
    latency: int = 0
    beats: Sequence[int] = ()
    channel: int = 0
    rank: int = 0


@dataclass(frozen=True)
class MachineModel:
    """Describes the parts of a machine. In the memories of `guarded`, hardware keeps conflicting
    accesses in program order; `channels` names what transfers share, such as the port to DRAM.
    """

    units: Sequence[Unit]
    tokens: Sequence[TokenQueue] = ()
    guarded: frozenset[str] = frozenset()
    channels: Sequence[str] = ()
    sequencer: Sequencer = field(default_factory=Sequencer)


class Access(NamedTuple):
    """Names elements [start, stop) of a memory."""

    memory: str
    start: int
    stop: int


@dataclass(frozen=True)
class Wait:
    """Holds the sequencer until the instructions of `unit` that it has handed over are finished,
    but for at most the last `most` of them."""

    unit: int
    most: int = 0


@dataclass(frozen=True)
class Transfer:
    """Describes a transfer: it takes `beats` cycles of a channel, which it asks for `lead` cycles
    after the start of the instruction. The lowest `rank` goes first, and interrupts others.
    """

    channel: int
    beats: int
    lead: int = 0
    rank: int = 0


class Instruction(NamedTuple):
    """Describes one instruction of a program. `unit`, `pops`, `pushes`, and what `waits` and
    `transfer` name, are indices into the model.

    It keeps its unit for `cycles`, longer while its transfer lasts; others find its results, and
    the tokens that it pushes, `latency` cycles after that, though not before those of earlier
    instructions of its unit.
    """

    unit: int
    cycles: int = 1
    latency: int = 0
    reads: Sequence[Access] = ()
    writes: Sequence[Access] = ()
    pops: Sequence[int] = ()
    pushes: Sequence[int] = ()
    waits: Sequence[Wait] = ()
    transfer: Transfer | None = None


@dataclass(frozen=True)
class Accesses:
    """Lists the accesses of a program in the order of its instructions, of each reads before
    writes: which instruction it is that accesses elements [start, stop) of a memory, and whether it
    writes. Memories are indices into `memories`.
    """

    index: Index
    writes: NDArray[np.bool_]
    memory: Index
    start: Index
    stop: Index
    memories: Sequence[str]

    @staticmethod
    def of(rows: Iterable[tuple[int, bool, str, Sequence[tuple[int, int]]]]) -> Accesses:
        """Makes the columns of accesses from rows, in order: the instruction, whether it writes,
        the memory, and of each access there the first element and the one past the last.
        """
        numbers: dict[str, int] = {}
        told, spans = list[tuple[int, bool, int, int]](), list[tuple[int, int]]()
        for number, writes, memory, own in rows:
            told.append((number, writes, numbers.setdefault(memory, len(numbers)), len(own)))
            spans += own
        columns = np.array(told, np.int64).reshape(-1, 4)
        index, written, memories = np.repeat(columns[:, :3], columns[:, 3], axis=0).T
        start, stop = np.array(spans, np.int64).reshape(-1, 2).T
        return Accesses(index, written == 1, memories, start, stop, tuple(numbers))

    def within(self, memories: Collection[str]) -> Accesses:
        """Keeps those to some memories that touch any element."""
        named = np.array([each in memories for each in self.memories], np.bool_)
        return self.at(np.flatnonzero(named[self.memory] & (self.start < self.stop)))

    def at(self, rows: Index) -> Accesses:
        """Gives the accesses with these numbers, in their order."""
        index, writes, memory = self.index[rows], self.writes[rows], self.memory[rows]
        return Accesses(index, writes, memory, self.start[rows], self.stop[rows], self.memories)


@dataclass(frozen=True)
class Program:
    """Holds the instructions of a program as columns, as most of them wait for nothing: of N
    instructions the unit and the cycles of each, all accesses, and by its index what one says
    beside that.
    """

    unit: Index
    cycles: Index
    accesses: Accesses
    pops: Sequence[tuple[int, int]] = ()
    """The instructions that pop tokens, in order, each with the queue."""
    pushes: Sequence[tuple[int, int]] = ()
    waits: Sequence[tuple[int, Wait]] = ()
    latency: Mapping[int, int] = field(default_factory=dict[int, int])
    transfers: Mapping[int, Transfer] = field(default_factory=dict[int, Transfer])

    def __len__(self) -> int:
        return len(self.unit)

    @staticmethod
    def of(instructions: Sequence[Instruction]) -> Program:
        """Makes the columns of a program from its instructions."""
        numbered = list(enumerate(instructions))
        return Program(
            np.array([each.unit for each in instructions], np.int64),
            np.array([each.cycles for each in instructions], np.int64),
            Accesses.of(
                (index, writes, access.memory, [(access.start, access.stop)])
                for index, each in numbered
                for writes, accesses in ((False, each.reads), (True, each.writes))
                for access in accesses
            ),
            [(index, queue) for index, each in numbered for queue in each.pops],
            [(index, queue) for index, each in numbered for queue in each.pushes],
            [(index, wait) for index, each in numbered for wait in each.waits],
            {index: each.latency for index, each in numbered if each.latency},
            {index: each.transfer for index, each in numbered if each.transfer},
        )
