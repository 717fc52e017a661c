"""FIFOs in programs of machines: rows must leave in the order in which they came."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from xdsl.ir import Block, SSAValue

from byocir.dialects.locations import place
from byocir.errors import ByocirError
from byocir.machine import Call, Machine, Memory, Place
from byocir.machine.calls import calls_in

_Row = tuple[SSAValue, int]


def check_fifos(machine: Machine, body: Block) -> None:
    """Raises ByocirError B273 for a program that takes rows out of a FIFO in another order than it
    puts them in, or some of them twice. Buffers have no rows yet."""
    if not any(memory.fifo for memory in machine.memories):
        return
    put: dict[Memory, list[_Row]] = defaultdict(list)
    taken: dict[Memory, list[tuple[_Row, Call]]] = defaultdict(list)
    for call in calls_in(machine, body):
        for at in _taken(call):
            taken[at.memory] += [(row, call) for row in _rows(at)]
        if call.result.memory.fifo:
            put[call.result.memory] += _rows(call.result)
    for memory, rows in taken.items():
        for number, (row, call) in enumerate(rows):
            if number >= len(put[memory]) or put[memory][number] != row:
                raise _disordered(memory, call)
        if len(rows) < len(put[memory]):
            raise _disordered(memory, rows[-1][1])


def _taken(call: Call) -> Iterator[Place]:
    """Gives the places in FIFOs whose rows a call takes, in its order."""
    positions = call.kind.fit.operands
    for name in sorted(positions, key=lambda name: positions[name]):
        at = call.places[name]
        is_read = call.kind.reads_old if at is call.result else True
        is_kept = call.is_kept and name == call.instruction.keeps
        if at.memory.fifo and is_read and not is_kept:
            yield at


def _rows(at: Place) -> list[_Row]:
    return [(at.buffer, row) for low, high in at.rows() for row in range(low, high)]


def _disordered(memory: Memory, call: Call) -> ByocirError:
    return ByocirError(
        "B273",
        f"expected rows to leave {memory.scope} in the order in which they came, each once, found "
        f"another in {call.instruction.name}",
        where=place(call.op.location),
        help="let a tile in a FIFO be what one call reads, and bring it in by calls of whole rows",
    )
