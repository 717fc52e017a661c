"""allocate-memories: rows of a machine's memories for its buffers.

Does: gives each buffer the first row that it takes, as `{row = 128 : i64}`. Buffers that are not
used at once share rows; as long as there is room, those of neighbouring steps do not, so that units
need not wait for each other.

Requires: functions whose ops are instructions. Raises ByocirError B272 where a memory does not hold
what is used at once, with the rows wanted and there, and the buffers.

Guarantees: the same results. Buffers begin at granules, lie in one bank, and end in their memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.ir import Block
from xdsl.passes import ModulePass

from byocir.dialects.locations import place
from byocir.dialects.tir import AllocOp
from byocir.dialects.types import shape_of
from byocir.errors import ByocirError
from byocir.machine import Calls, Machine, Memory
from byocir.machine.calls import ops_in
from byocir.machine.places import ROW
from byocir.rewrites.machine import machines_in
from byocir.rewrites.machine.arrange import Overfull, Rows, arranged, lives_of

MOST = 8
"""Steps for which rows are not taken again, at most."""


@dataclass(frozen=True)
class AllocateMemoriesPass(ModulePass):
    """Gives buffers rows of the memories of a machine."""

    name = "allocate-memories"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function, machine in machines_in(op):
            for buffer, row in allocated(machine, function.body.block).items():
                buffer.attributes[ROW] = IntegerAttr(row, i64)


def allocated(machine: Machine, body: Block) -> Rows:
    """The rows of the buffers of a body; raises ByocirError B272."""
    calls = ops_in(machine, body)
    found: dict[AllocOp, int] = {}
    for memory in machine.memories:
        found |= _rows(memory, calls)
    return found


def _rows(memory: Memory, calls: Sequence[Calls]) -> Rows:
    """The rows of the buffers of one memory, each kept as long as there is room."""
    for slack in range(MOST, 0, -1):
        found = arranged([memory], lives_of(calls, slack))
        if not isinstance(found, Overfull):
            return found
    found = arranged([memory], lives_of(calls))
    if isinstance(found, Overfull):
        raise _full(found)
    return found


def _full(found: Overfull) -> ByocirError:
    memory = found.memory
    shapes = [
        f"{'x'.join(map(str, shape_of(life.buffer.result.type)))} ({life.rows} rows)"
        for life in found.alive
    ]
    banks = f" in {memory.banks} banks" if memory.banks > 1 else ""
    return ByocirError(
        "B272",
        f"expected {memory.scope} to hold the buffers of a tile, found {found.wanted} rows wanted "
        f"at once and {memory.rows} there{banks}: {', '.join(shapes)}",
        where=place(found.alive[0].buffer.location),
        help="smaller tiles take fewer rows: see the schedule of the composite",
    )
