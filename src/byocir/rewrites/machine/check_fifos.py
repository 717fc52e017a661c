"""Checks FIFOs in programs of machines: rows must leave in the order in which they came."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator

from xdsl.ir import Block, SSAValue

from byocir.dialects.locations import place
from byocir.errors import ByocirError
from byocir.machine import Call, Machine, Memory, Place
from byocir.machine.calls import calls_in

_Row = tuple[SSAValue, int]


def check_fifos(machine: Machine, body: Block) -> None:
    """Raises ByocirError B273 for a program that takes rows out of a FIFO in another order than it
    puts them in, or too early, twice or never. Buffers have no rows yet.
    """
    if not any(memory.fifo for memory in machine.memories):
        return
    inside: dict[Memory, deque[tuple[_Row, Call]]] = defaultdict(deque)
    for call in calls_in(machine, body):
        for at in _taken(call):
            for row in _rows(at):
                if not inside[at.memory] or inside[at.memory].popleft()[0] != row:
                    raise _disordered(at.memory, "another", call)
        if call.result.memory.fifo:
            inside[call.result.memory].extend((row, call) for row in _rows(call.result))
    for memory, rows in inside.items():
        if rows:
            raise _disordered(memory, "some that nothing takes", rows[0][1])


def _taken(call: Call) -> Iterator[Place]:
    """Lists the places in FIFOs from which a call takes rows, in its order."""
    for part in call.parts:
        positions = part.kind.fit.operands
        for name in sorted(positions, key=lambda name: positions[name]):
            at = part.own[name]
            is_read = part.kind.reads_old if at is call.result else True
            is_kept = part.is_kept and name == part.instruction.keeps
            if at.memory.fifo and is_read and not is_kept:
                yield at


def _rows(at: Place) -> list[_Row]:
    return [(at.buffer, row) for low, high in at.rows() for row in range(low, high)]


def _disordered(memory: Memory, found: str, call: Call) -> ByocirError:
    return ByocirError(
        "B273",
        f"expected rows to leave {memory.scope} in the order in which they came, each once, found "
        f"{found} in {call.instruction.name}",
        where=place(call.op.location),
        help="let a tile in a FIFO be what one call reads, and bring it in by calls of whole rows",
    )
