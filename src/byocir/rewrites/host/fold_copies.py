"""fold-copies: replaces blocks that only move, or widen, the elements of a constant by constants.

Requires: blocks in value form. Looks at functions without `byoc.target`.

Guarantees: no bit changes; constants whose values were not supplied, and blocks on them, stay.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from byocir.dialects.array import Array, SharedMemory
from byocir.dialects.tir import BlockOp, ConstantOp, EmptyOp, blocks_in, ops_around
from byocir.dialects.types import dtype_of, element_type_of, shape_of
from byocir.dialects.uses import erase, replace_op
from byocir.evaluate.tir import update_block
from byocir.rewrites.byoc.host_blocks import host_functions


@dataclass(frozen=True)
class FoldCopiesPass(ModulePass):
    """Evaluates copies of constants."""

    name = "fold-copies"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        memory = SharedMemory()
        for function in host_functions(op):
            for block in blocks_in(function):
                _fold(block, memory)
            for constant in [c for c in ops_around(function) if isinstance(c, ConstantOp)]:
                if not list(constant.result.uses):
                    erase(constant)


def _source(value: SSAValue) -> SSAValue:
    """Gives the value before the sign extensions, in one or more steps, that make this one."""
    while isinstance(value.owner, arith.ExtSIOp):
        value = value.owner.input
    return value


def _fold(op: BlockOp, memory: SharedMemory) -> None:
    body = op.body.block
    if len(op.ins) != 1 or len(op.outs) != 1 or _source(op.yielded[0]) is not body.args[0]:
        return
    owner, start = op.ins[0].owner, op.outs[0].owner
    if not isinstance(owner, ConstantOp) or not isinstance(start, EmptyOp):
        return
    if op.reductions or op.bases or not owner.value.data.present:
        return
    type_ = start.results[0].type
    values = memory.zeros(shape_of(type_), dtype_of(element_type_of(type_)))
    update_block(op, [owner.value.data.values()], [values])
    values.flags.writeable = False  # nothing else holds this array, so no copy is needed
    made = ConstantOp.of(Array.of(values), location=op.location)
    replace_op(op, made)
    if not list(start.results[0].uses):
        erase(start)
