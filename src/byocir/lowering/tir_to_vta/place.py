"""Places the buffers of a composite in VTA's scratchpads, each time that its loops meet them.

One tile after another should land somewhere else, so that the load of the next can overlap the
computation of the last. Three ways are tried, one after the other, until all buffers find room:

- in rotation: next-fit, alternating between the last addresses that a buffer had;
- apart: each buffer has two addresses of its own if it is in a loop, else one. That is what
  `vta-tile` makes room for, so it fails only where tiles are unrolled;
- lowest: first-fit, where one tile waits for another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from xdsl.ir import Block, Operation

from byocir.dialects.byoc import CompositeOp
from byocir.dialects.tir import AllocOp, ForOp, IntrinsicOp, scope_of
from byocir.errors import ByocirError
from byocir.lowering.tir_to_vta.allocate import Scratchpad
from byocir.lowering.tir_to_vta.composites import unsupported
from byocir.lowering.tir_to_vta.tensorise_blocks import MEMORIES, elements_of
from byocir.rewrites.liveness import last_uses
from byocir.vta_sim import Memory, VTAConfig

SLOTS = 2
"""Over how many addresses the instances of one buffer alternate. Two let loads overlap
computation; more would need the same micro-ops for more addresses, so that loops would keep loading
micro-ops, which the compute module waits for."""

Places = Mapping[AllocOp, Sequence[int]]
"""The addresses of each buffer, in the order in which the loops meet it."""


@dataclass(frozen=True)
class Room:
    """What a buffer takes: elements of a scratchpad."""

    memory: Memory
    size: int


@dataclass(frozen=True)
class _Loop:
    """What happens to buffers in a body that runs `count` times, in order."""

    count: int
    steps: tuple[_Loop | AllocOp | _End, ...]


@dataclass(frozen=True)
class _End:
    """A buffer is not used any more."""

    alloc: AllocOp


class Placer:
    """Places the composites of one function; rotation goes on from one to the next."""

    def __init__(self, config: VTAConfig) -> None:
        self._config = config
        self._scratchpads: dict[Memory, Scratchpad] = {}
        self._empty()

    def places(self, composite: CompositeOp) -> Places:
        """The addresses of a composite's buffers; raises ByocirError B331 where they find no room,
        and B335 for one in another scope."""
        body = self._loop(composite.body.block, 1)
        rooms = {op: self.room(op) for op in composite.walk() if isinstance(op, AllocOp)}
        first: ByocirError | None = None
        for way in (self._in_rotation, self._apart(body, rooms), self._lowest):
            found: dict[AllocOp, list[int]] = {op: [] for op in rooms}
            try:
                self._run(body, rooms, found, way)
                return found
            except _Full as error:
                first = first or self._refused(error, rooms[error.alloc])
                self._empty()
        assert first is not None
        raise first

    def room(self, op: AllocOp) -> Room:
        """What a buffer takes; raises ByocirError B335 for one in another scope."""
        scope = scope_of(op.result.type)
        if scope not in MEMORIES:
            choices = ", ".join(MEMORIES)
            raise unsupported("B335", f"expected a buffer in {choices}, found {scope}", op)
        return Room(MEMORIES[scope], elements_of(op.result, self._config))

    def _empty(self) -> None:
        self._scratchpads = {m: Scratchpad(self._config.depth(m)) for m in MEMORIES.values()}

    def _loop(self, block: Block, count: int) -> _Loop:
        return _Loop(count, tuple(self._steps(block)))

    def _steps(self, block: Block) -> Iterator[_Loop | AllocOp | _End]:
        ends = last_uses(block)
        for op in block.ops:
            if isinstance(op, AllocOp):
                yield op
            elif isinstance(op, ForOp | IntrinsicOp):
                count = op.extent.value.data if isinstance(op, ForOp) else 1
                inner = self._loop(op.body.block, count)
                if inner.steps:
                    yield inner
            yield from map(_End, ends.get(op, ()))

    def _run(
        self,
        loop: _Loop,
        rooms: Mapping[AllocOp, Room],
        found: Mapping[AllocOp, list[int]],
        way: _Way,
    ) -> None:
        for _ in range(loop.count):
            for step in loop.steps:
                if isinstance(step, _Loop):
                    self._run(step, rooms, found, way)
                elif isinstance(step, _End):
                    op = step.alloc
                    self._scratchpads[rooms[op].memory].free(found[op][-1])
                else:
                    start = way(step, rooms[step], found[step])
                    if start is None:
                        raise _Full(step, self._scratchpads[rooms[step].memory].used)
                    found[step].append(start)

    def _in_rotation(self, op: AllocOp, room: Room, used: Sequence[int]) -> int | None:
        scratchpad = self._scratchpads[room.memory]
        start = used[-SLOTS] if len(used) >= SLOTS else None
        if start is not None and scratchpad.allocate_at(start, room.size):
            return start
        return scratchpad.allocate(room.size)

    def _apart(self, body: _Loop, rooms: Mapping[AllocOp, Room]) -> _Way:
        ends, slots = dict.fromkeys(MEMORIES.values(), 0), dict[AllocOp, list[int]]()
        for op, repeats in _repeated(body, 1):
            room = rooms[op]
            count = SLOTS if repeats > 1 else 1
            slots[op] = [ends[room.memory] + i * room.size for i in range(count)]
            ends[room.memory] += count * room.size

        def place(op: AllocOp, room: Room, used: Sequence[int]) -> int | None:
            start = slots[op][len(used) % len(slots[op])]
            free = self._scratchpads[room.memory].allocate_at(start, room.size)
            return start if free else None

        return place

    def _lowest(self, op: AllocOp, room: Room, used: Sequence[int]) -> int | None:
        return self._scratchpads[room.memory].allocate_lowest(room.size)

    def _refused(self, error: _Full, room: Room) -> ByocirError:
        depth = self._config.depth(room.memory)
        return unsupported(
            "B331",
            f"expected {room.size} free elements in a row in {room.memory.name}, found "
            f"{error.used} of {depth} in use",
            error.alloc,
            help="the tiles are too large for the scratchpads of this configuration",
        )


_Way = Callable[[AllocOp, Room, Sequence[int]], int | None]
"""Finds the next address of a buffer, which it hands out; from the buffer, its room, and the
addresses that it had."""


@dataclass(frozen=True)
class _Full(Exception):
    """A buffer found no room where so many elements were in use."""

    alloc: AllocOp
    used: int


def _repeated(loop: _Loop, times: int) -> Iterator[tuple[AllocOp, int]]:
    """The buffers of a loop, and how often each is met."""
    for step in loop.steps:
        if isinstance(step, _Loop):
            yield from _repeated(step, times * step.count)
        elif isinstance(step, Operation):
            yield step, times
