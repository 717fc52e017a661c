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

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


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
