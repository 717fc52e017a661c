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
from xdsl.ir import Block, Operation
from xdsl.passes import ModulePass

from byocir.dialects.tir import AllocOp, CopyOp, FillOp, ForOp, scope_of
from byocir.dialects.types import element_type_of
from byocir.dialects.uses import replace_op
from byocir.machine import Machine
from byocir.rewrites.bufferize import inline_composites
from byocir.rewrites.machine import machines_in
from byocir.rewrites.schedule.blocks import block_of_copy, block_of_fill, body_of, retile
from byocir.rewrites.schedule.index import IndexBuilder


@dataclass(frozen=True)
class RouteCopiesPass(ModulePass):
    """Lets copies go by way of the memories of a machine."""

    name = "route-copies"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function, machine in machines_in(op):
            inline_composites(function)
            body = function.body.block
            for copy in [each for each in _movers(body) if isinstance(each, CopyOp)]:
                _route(machine, copy)
            for mover in _movers(body):
                _make_block(mover)


def _movers(body: Block) -> list[Operation]:
    """Yields the copies and fills of a body and of the loops in it."""
    found: list[Operation] = []
    for op in body.ops:
        if isinstance(op, ForOp):
            found += _movers(op.body.block)
        elif isinstance(op, CopyOp | FillOp):
            found.append(op)
    return found


def _route(machine: Machine, op: CopyOp) -> None:
    """Replaces a copy that no instruction does at once by copies through the memories between."""
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
    replace_op(op, last)


def _make_block(op: Operation) -> None:
    if isinstance(op, FillOp):
        replace_op(op, block_of_fill(op))
        return
    assert isinstance(op, CopyOp)
    made, bases = block_of_copy(op)
    if any(base is not None for base in bases):
        zero = IndexBuilder(body_of(op), op.location).number(0)
        retile(made, made.extents, [zero if base is None else base for base in bases])
    replace_op(op, made)
