"""cut-to-instructions: blocks in loops over what one instruction of a machine can do.

Does: puts the ops of composites back into the function, makes blocks of copies and fills, and tiles
each block as the instruction limits that does it with the fewest cycles; a guard keeps the last
calls inside.

Requires: functions in memory whose blocks find their operands where instructions do. Raises
ByocirError B271 for a block that no instruction does, with what each of them says to it.

Guarantees: the same results, bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation
from xdsl.passes import ModulePass

from byocir.dialects.locations import place
from byocir.dialects.tir import AllocOp, BlockOp, CopyOp, FillOp, ForOp, scope_of
from byocir.dialects.tir.scalar import number_attr
from byocir.dialects.types import element_type_of
from byocir.errors import ByocirError
from byocir.machine import Machine
from byocir.machine.fits import block_key
from byocir.machine.plans import Plan, plans_of
from byocir.rewrites.bufferize import inline_composites
from byocir.rewrites.machine import machines_in
from byocir.rewrites.schedule.blocks import block_of_copy, block_of_fill, body_of, reads_old
from byocir.rewrites.schedule.index import Indices
from byocir.rewrites.schedule.tile import tile


@dataclass(frozen=True)
class CutToInstructionsPass(ModulePass):
    """Tiles blocks to the sizes of the instructions of a machine."""

    name = "cut-to-instructions"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function, machine in machines_in(op):
            inline_composites(function)
            body = function.body.block
            for copy in [each for each in _movers(body) if isinstance(each, CopyOp)]:
                _route(machine, copy)
            for block in [b for each in _movers(body) for b in _as_block(each)]:
                _cut(machine, block)


def _movers(body: Block) -> list[Operation]:
    """The blocks, copies and fills of a body and of the loops in it."""
    found: list[Operation] = []
    for op in body.ops:
        if isinstance(op, ForOp):
            found += _movers(op.body.block)
        elif isinstance(op, BlockOp | CopyOp | FillOp):
            found.append(op)
    return found


def _route(machine: Machine, op: CopyOp) -> None:
    """Copies by way of the memories between, where no instruction copies at once."""
    ends = [machine.memory_of(scope_of(v.type)) for v in (op.source, op.destination)]
    source, into = ends
    path = machine.path(source, into) if source is not None and into is not None else None
    home, at = op.parent, op.source
    if path is None or len(path) <= 2 or home is None:
        return
    for memory in path[1:-1]:
        element = element_type_of(op.source.type)
        between = AllocOp.of(element, op.box, memory.scope, op.location)
        between.result.name_hint = op.source.name_hint
        bases = op.source_bases if at is op.source else ()
        pad = op.pad if at is op.source else None
        made = CopyOp.of(at, between.result, op.box, source_bases=bases, pad=pad)
        made.location = op.location
        home.insert_ops_before([between, made], op)
        at = between.result
    last = CopyOp.of(at, op.destination, op.box, destination_bases=op.destination_bases)
    last.location = op.location
    home.insert_op_before(last, op)
    op.detach()
    op.erase()


def _as_block(op: Operation) -> list[BlockOp]:
    if isinstance(op, BlockOp):
        return [op]
    assert isinstance(op, CopyOp | FillOp)
    assert op.parent is not None
    is_fill = isinstance(op, FillOp)
    made = block_of_fill(op) if is_fill else block_of_copy(op, Indices(body_of(op), op.location))
    op.parent.insert_op_before(made, op)
    op.detach()
    op.erase()
    return [made]


def _cut(machine: Machine, block: BlockOp) -> None:
    if not block.ins and not reads_old(block):
        return  # a number, which may be how another instruction begins
    plan = best_plan(machine, block)
    sizes = {
        name: size
        for name, size, extent in zip(block.names, plan.sizes, block.extents, strict=True)
        if size < extent
    }
    if sizes:
        tile(block, sizes, remainder="guard")


def best_plan(machine: Machine, block: BlockOp) -> Plan:
    """Plans the calls that do a block, or the block with a number as initial value, in the fewest
    cycles. Raises ByocirError B271 where no instruction does it."""
    key = block_key(block)
    if key not in machine.plans.blocks:
        reasons: list[str] = []
        plans = plans_of(machine, block, block.extents, "memories", reasons)
        if not plans and reads_old(block):
            zero = number_attr(0, element_type_of(block.outs[0].type))
            plans = plans_of(machine, block, block.extents, "memories", reasons, zero)
        machine.plans.blocks[key] = plans[0] if plans else tuple(dict.fromkeys(reasons))
    plan = machine.plans.blocks[key]
    if isinstance(plan, Plan):
        return plan
    told = f"expected a block that an instruction of {machine.name} does, found none that does it"
    raise ByocirError("B271", told, where=place(block.location), help="; ".join(plan))
