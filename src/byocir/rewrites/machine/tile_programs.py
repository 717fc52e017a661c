"""Times choices of tiles by coarse programs: all calls that load something for a tile are one
instruction, and so are all that do a stage of it.

A closed form tells how long units are busy. A program tells who waits: for the first tile, for what
others bring over a shared channel, for a buffer to become free, and for the last tile to be stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import prod

from byocir.dialects.tir import ConstantOp
from byocir.dialects.types import Floats, Ints
from byocir.machine import Machine, Memory, Transfer
from byocir.machine_sim import Costs, MachineModel, Unit, Waits, times_of
from byocir.rewrites.machine.schedule_script import Choice
from byocir.rewrites.machine.stages import Staged
from byocir.rewrites.machine.tile_costs import TileCosts
from byocir.rewrites.tiles import at

MOST_SLOTS = 8
"""Tiles that a buffer is filled for ahead of time at most, as `overlap-loads` does."""


def timed_cycles(costs: TileCosts, here: tuple[Ints, ...], choice: Choice) -> int:
    """Computes the cycles of the coarse program of a choice, which has its place among those whose
    costs are known.
    """
    return _TileProgram(costs, here, choice).cycles()


@dataclass
class _Instructions:
    """Lists the instructions of a coarse program as the engine for time takes them."""

    machine: Machine
    unit: list[int] = field(default_factory=list[int])
    costs: Costs = field(default_factory=lambda: Costs([], [], [], [], [], []))
    waits: dict[int, list[int]] = field(default_factory=dict[int, list[int]])

    def put(self, work: _Work, waits: Sequence[int | None]) -> int:
        """Adds an instruction that waits for others; gives its number."""
        number, costs, transfer = len(self.unit), self.costs, work.transfer
        self.unit.append(work.unit)
        costs.busy.append(work.busy)
        costs.beats.append(work.beats)
        costs.lead.append(transfer.lead if transfer else 0)
        costs.rank.append(transfer.rank if transfer else 0)
        costs.channel.append(self.machine.channels.index(transfer.channel) if transfer else 0)
        costs.latency.append(0)
        awaited = sorted({each for each in waits if each is not None})
        if awaited:
            self.waits[number] = awaited
        return number

    def cycles(self) -> int:
        """Computes when the last one ends. Queues hold all of them: what is one instruction here
        are many calls, which are issued by turns with others.
        """
        count = len(self.unit)
        units = [Unit(unit.name, count) for unit in self.machine.units]
        model = MachineModel(units, channels=[each.name for each in self.machine.channels])
        return times_of(model, self.unit, Waits(self.waits, {}, count), self.costs).cycles


@dataclass(frozen=True)
class _Work:
    """Says how long an instruction keeps a unit, and a channel."""

    unit: int
    busy: int
    beats: int
    transfer: Transfer | None

    @staticmethod
    def of(machine: Machine, name: str, busy: Mapping[str, float]) -> _Work:
        """Describes what a unit does, by what is known to be busy with it."""
        unit = next(n for n, each in enumerate(machine.units) if each.name == name)
        transfer = next(
            (
                each.transfer
                for each in machine.instructions
                if each.unit.name == name and each.transfer and busy.get(each.transfer.channel.name)
            ),
            None,
        )
        beats = busy[transfer.channel.name] if transfer else 0
        return _Work(unit, round(busy[name]), round(beats), transfer)

    def repeated(self, times: int) -> _Work:
        """Describes the same so many times, in one transfer."""
        more = (times - 1) * (self.beats if self.transfer else self.busy)
        return replace(self, busy=self.busy + more, beats=self.beats * times)


@dataclass
class _Slots:
    """Follows a buffer that is filled again and again, each time in the next of its slots."""

    count: int
    filled_for: tuple[int, ...] | None = None
    """The iteration of loops for which it was filled last."""
    ready: int | None = None
    """The instruction that brought what it holds."""
    users: list[int | None] = field(default_factory=list[int | None])
    """The last instruction that used it, each time."""

    def fill(self, iteration: tuple[int, ...]) -> int | None:
        """Takes the next slot; gives the instruction that used it last."""
        self.filled_for = iteration
        self.users.append(None)
        before = len(self.users) - 1 - self.count
        return self.users[before] if before >= 0 else None


@dataclass(frozen=True)
class _Load:
    """Describes how an operand of a stage is brought to where it is read: by the hops of its path.
    The first `depth` of the loops around the stage move it.
    """

    depth: int
    hops: Sequence[_Work]
    maker: int | None
    slots: _Slots
    goes_on: bool
    """True for a load that brings on what the one before has brought."""


class _TileProgram:
    """Writes the coarse program of a choice."""

    def __init__(self, costs: TileCosts, here: tuple[Ints, ...], choice: Choice) -> None:
        self.chain, self.costs, self.here, self.choice = costs.chain, costs, here, choice
        self.instructions = _Instructions(self.chain.machine)
        chain, last = self.chain, len(self.chain.stages) - 1
        self.outer = [self._count(last, i) for i in choice.order]
        self.inner = [
            [self._count(s, i) for i in stage.reductions] for s, stage in enumerate(chain.stages)
        ]
        self.work = [
            _Work.of(chain.machine, stage.plan.instruction.unit.name, self._own(of_stage))
            for stage, of_stage in zip(chain.stages, costs.shares, strict=True)
        ]
        count = self._slots()
        self.made = [_Slots(count.get(stage.into.storage, 1)) for stage in chain.stages]
        self.loads = [
            [
                self._load(hop, _Slots(count[hop.path[-1].storage]), is_whole)
                for each in chain.staged
                if each.stage == s
                for hop, is_whole in chain.hops(each, (s, each.operand) in choice.whole)
            ]
            for s in range(last + 1)
        ]

    def _count(self, s: int, i: int) -> int:
        return at(self.costs.count(s, i), self.here).item()

    def _own(self, busy: Mapping[str, Floats]) -> dict[str, float]:
        """Takes the cycles of the choice from those of all."""
        return {name: at(cycles, self.here).item() for name, cycles in busy.items()}

    def _slots(self) -> dict[Memory, int]:
        """Counts the slots that each memory has room for."""
        rows, moving = dict[Memory, int](), dict[Memory, int]()
        for each in self.costs.buffers(self.choice.whole):
            own, memory = at(each.rows, self.here).item(), each.memory.storage
            rows[memory] = rows.get(memory, 0) + own
            moving[memory] = moving.get(memory, 0) + own * at(each.moves, self.here).item()
        left = {memory: memory.rows - own for memory, own in rows.items()}
        return {
            memory: 1 + min(left[memory] // own, MOST_SLOTS) if own else 1
            for memory, own in moving.items()
        }

    def _load(self, each: Staged, slots: _Slots, is_whole: bool) -> _Load:
        stage, machine = self.chain.stages[each.stage], self.chain.machine
        busy = self._own(self.costs.cycles_of_copies(each, is_whole))
        hops = [_Work.of(machine, unit.name, busy) for unit in machine.units if busy.get(unit.name)]
        moved = self.chain.moved(each, self.choice.order, is_whole)
        loops = [*zip([*self.outer, *self.inner[each.stage]], moved, strict=True)]
        moving = (n for n, (count, moves) in enumerate(loops, 1) if moves and count > 1)
        depth = max(moving, default=0)
        is_constant = isinstance(stage.block.ins[each.operand].owner, ConstantOp)
        if depth and is_constant and any(hop.unit == self.work[each.stage].unit for hop in hops):
            parts = prod(count for count, moves in loops if moves)
            hops, depth = [hop.repeated(parts) for hop in hops], 0
        made = stage.made[each.operand]
        return _Load(depth, hops, made, slots, made is None and not each.path[0].is_main)

    def cycles(self) -> int:
        """Computes the cycles of the program."""
        for outer in product(*map(range, self.outer)):
            for s in range(len(self.chain.stages)):
                for inner in product(*map(range, self.inner[s])):
                    self._do(s, outer, (*outer, *inner))
        return self.instructions.cycles()

    def _do(self, s: int, outer: tuple[int, ...], iteration: tuple[int, ...]) -> None:
        """Adds what a stage does in an iteration of all loops around it."""
        sources = [each for each in self.chain.stages[s].made if each is not None]
        made = [self.made[self._first(source)] for source in sources]
        waits = [each.ready for each in made]
        brought = list[int | None]()
        for load in self.loads[s]:
            before = brought[-1:] if load.goes_on else ()
            brought.append(self._bring(load, iteration, before))
        waits += brought
        into = self.made[self._first(s)]
        if into.filled_for != outer:
            waits.append(into.fill(outer))
        into.ready = number = self.instructions.put(self.work[s], waits)
        for each in (into, *made, *(load.slots for load in self.loads[s])):
            each.users[-1] = number

    def _first(self, s: int) -> int:
        """Gives the stage that begins what is in the buffer that a stage writes."""
        first = self.chain.stages[s].made[-1]
        return s if first is None else self._first(first)

    def _bring(
        self, load: _Load, iteration: tuple[int, ...], before: Sequence[int | None]
    ) -> int | None:
        """Adds what brings an operand, unless it is there; gives the instruction that does so."""
        slots, here = load.slots, iteration[: load.depth]
        if slots.filled_for != here:
            waits = [slots.fill(here), *before]
            waits += [] if load.maker is None else [self.made[self._first(load.maker)].ready]
            for hop in load.hops:
                slots.ready = self.instructions.put(hop, waits)
                waits = [slots.ready]
        return slots.ready
