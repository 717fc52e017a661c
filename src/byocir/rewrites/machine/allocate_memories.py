"""allocate-memories: gives a machine's buffers rows of its memories.

Does: gives each buffer the first row that it takes, as `{row = 128 : i64}`. Buffers that are not
used at once share rows; as long as there is room, those of neighbouring steps do not, so that units
need not wait for each other.

Requires: functions whose ops are instructions. Raises ByocirError B272 where a memory does not hold
what is used at once, with the rows wanted and there, and the buffers, and B273 for rows that do not
leave a FIFO as they came.

Guarantees: the same results. Buffers begin at granules and end in their memory; those that are no
larger than a bank lie in one, others begin with one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.ir import Block
from xdsl.passes import ModulePass

from byocir.dialects.locations import place
from byocir.dialects.tir import AllocOp
from byocir.dialects.types import shape_of
from byocir.errors import ByocirError
from byocir.machine import Machine, Memory
from byocir.machine.calls import ops_in
from byocir.machine.operand_places import ROW
from byocir.rewrites.machine import machines_in
from byocir.rewrites.machine.check_fifos import check_fifos
from byocir.rewrites.machine.lifetimes import Lives
from byocir.rewrites.memory_rows import Full, Life, spread


@dataclass(frozen=True)
class AllocateMemoriesPass(ModulePass):
    """Gives buffers rows of the memories of a machine."""

    name = "allocate-memories"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function, machine in machines_in(op):
            for buffer, row in allocated(machine, function.body.block).items():
                buffer.attributes[ROW] = IntegerAttr(row, i64)


def allocated(machine: Machine, body: Block) -> Mapping[AllocOp, int]:
    """Finds the first row of each buffer of a body; raises ByocirError B272, and B273 for FIFOs."""
    check_fifos(machine, body)
    lives, found = Lives(ops_in(machine, body)), dict[AllocOp, int]()
    for memory, own in lives.of.items():
        buffers = list(own)
        rows = spread(memory.rows, list(own.values()), lives.longer, memory.banks)
        if isinstance(rows, Full):
            raise _overfull(memory, {buffers[i]: own[buffers[i]] for i in rows.alive}, rows.wanted)
        found.update(zip(buffers, rows, strict=True))
    return found


def _overfull(memory: Memory, alive: Mapping[AllocOp, Life], wanted: int) -> ByocirError:
    shapes = {op: "x".join(map(str, shape_of(op.result.type))) for op in alive}
    listed = [f"{shapes[op]} ({life.rows} rows)" for op, life in alive.items()]
    return ByocirError(
        "B272",
        f"expected {memory.scope} to hold the buffers of a tile, found {wanted} rows wanted "
        f"at once and {memory.there}: {', '.join(listed)}",
        where=place(next(iter(alive)).location),
        help="smaller tiles take fewer rows: see the schedule of the composite",
    )
