"""fold-pads: contractions read through the padding of what they read.

Does: where a contraction reads a copy of an array with a number around it, it reads the array, and
that number outside of it. A copy that nothing else reads goes.

Requires: blocks in value form. Looks at functions without `byoc.target`.

Guarantees: the same results, bit for bit; a contraction has the locations of the copies, too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineDimExpr
from xdsl.passes import ModulePass

from byocir.dialects.byoc import TARGET
from byocir.dialects.locations import fuse
from byocir.dialects.tir import BlockOp, EmptyOp
from byocir.dialects.tir.affine import linear
from byocir.dialects.types import shape_of
from byocir.rewrites.driver import erase_dead
from byocir.rewrites.host.contraction import is_contraction
from byocir.rewrites.schedule.blocks import Parts


@dataclass(frozen=True)
class FoldPadsPass(ModulePass):
    """Lets contractions read through padding."""

    name = "fold-pads"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in list(op.body.block.ops):
            if isinstance(function, FuncOp) and TARGET not in function.attributes:
                for block in [b for b in function.walk() if isinstance(b, BlockOp)]:
                    if block.in_value_form and is_contraction(block):
                        _fold(block)


def _fold(op: BlockOp) -> None:
    for position, value in enumerate(op.ins):
        padding = _padding(value)
        if padding is None or op.pad_values[position] is not None:
            continue
        _read_through(op, position, padding)


def _padding(value: SSAValue) -> BlockOp | None:
    """The block that makes a value by nothing but padding: it moves each element by as much."""
    op = value.owner
    if not isinstance(op, BlockOp) or not op.in_value_form or len(op.ins) != 1 or op.bases:
        return None
    if op.reductions or op.where is not None or len(op.outs) != 1 or op.pad_values[0] is None:
        return None
    starts = isinstance(op.outs[0].owner, EmptyOp)
    moves = op.yielded[0] is op.body.block.args[0] and not op.whole
    out, shape = op.out_maps[0].results, shape_of(value.type)
    is_whole = all(
        isinstance(expr, AffineDimExpr) and expr.position == i and op.extents[i] == size
        for i, (expr, size) in enumerate(zip(out, shape, strict=True))
    )
    forms = [linear(expr) for expr in op.in_maps[0].results]
    shifts = all(form is not None and form.terms == ((i, 1),) for i, form in enumerate(forms))
    return op if starts and moves and is_whole and shifts else None


def _read_through(op: BlockOp, position: int, padding: BlockOp) -> None:
    """Lets a contraction read what was padded."""
    parts = Parts.of(op)
    at = list(parts.maps[position].results)
    index = [expr.replace_dims_and_symbols(at, []) for expr in padding.in_maps[0].results]
    pads = list(parts.pads)
    pads[position] = padding.pad_values[0]
    parts = parts.with_operand(position, padding.ins[0]).with_map(position, index)
    replace(parts, pads=tuple(pads)).put(op)
    op.location = fuse(padding.location, op.location)
    if not list(padding.results[0].uses):
        erase_dead(padding)
