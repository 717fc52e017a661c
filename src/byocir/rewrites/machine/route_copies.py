"""route-copies: makes copies between memories go by the ways that a machine has.

Does: puts the ops of composites back into the function, lets copies between memories that no
instruction copies between go by way of others, and makes copies and fills blocks.

Requires: functions in memory.

Guarantees: the same results, bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.passes import ModulePass

from byocir.dialects.tir import AllocOp, BlockOp, CopyOp, FillOp, ForOp, scope_of
from byocir.dialects.types import element_type_of, shape_of
from byocir.dialects.uses import replace_op, set_operand
from byocir.machine import Machine, Memory
from byocir.rewrites.bufferize import inline_composites
from byocir.rewrites.machine import machines_in
from byocir.rewrites.schedule.blocks import block_of_fill, put_block_of_copy


@dataclass(frozen=True)
class RouteCopiesPass(ModulePass):
    """Lets copies go by way of the memories of a machine."""

    name = "route-copies"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function, machine in machines_in(op):
            inline_composites(function)
            body = function.body.block
            for mover in _movers(body):
                if isinstance(mover, BlockOp):
                    _begin_route(machine, mover)
            for copy in [each for each in _movers(body) if isinstance(each, CopyOp)]:
                _route(machine, copy)
            for mover in _movers(body):
                _make_block(mover)


def _movers(body: Block) -> list[Operation]:
    """Yields the copies and fills of a body and of the loops in it, and the blocks that move
    elements to a buffer, of which they write all.
    """
    found: list[Operation] = []
    for op in body.ops:
        if isinstance(op, ForOp):
            found += _movers(op.body.block)
        elif isinstance(op, CopyOp | FillOp) or (isinstance(op, BlockOp) and _fills(op)):
            found.append(op)
    return found


def _fills(op: BlockOp) -> bool:
    """Tells whether a block moves elements, one to each index of a buffer."""
    shape = shape_of(op.outs[0].type)
    in_order = op.out_maps[0].results == AffineMap.identity(len(shape)).results
    return op.moves and in_order and op.where is None and op.extents[: len(shape)] == shape


def _begin_route(machine: Machine, op: BlockOp) -> None:
    """Lets a block move elements to the first of the memories on the way, and a copy move them on,
    where no instruction moves them at once.
    """
    path, into, home = _path(machine, op.ins[0], op.outs[0]), op.outs[0], op.parent
    if len(path) <= 2 or home is None:
        return
    element, shape = element_type_of(into.type), shape_of(into.type)
    between = AllocOp.of(element, shape, path[1].scope, op.location)
    between.result.name_hint = into.name_hint
    copy = CopyOp.of(between.result, into, shape, location=op.location)
    home.insert_op_before(between, op)
    home.insert_op_after(copy, op)
    set_operand(op, 1, between.result)


def _path(machine: Machine, source: SSAValue, into: SSAValue) -> tuple[Memory, ...]:
    """Lists the memories on the way from one buffer to another; none where there is no way."""
    one, other = (machine.memory_of(scope_of(value.type)) for value in (source, into))
    found = machine.path(one, other) if one is not None and other is not None else None
    return tuple(found or ())


def _route(machine: Machine, op: CopyOp) -> None:
    """Replaces a copy that no instruction does at once by copies through the memories between."""
    path = _path(machine, op.source, op.destination)
    home, at = op.parent, op.source
    if len(path) <= 2 or home is None:
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
    replace_op(op, last)


def _make_block(op: Operation) -> None:
    if isinstance(op, FillOp):
        replace_op(op, block_of_fill(op))
    elif isinstance(op, CopyOp):
        put_block_of_copy(op)
