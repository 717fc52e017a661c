"""Makes blocks read through the padding of what they read."""

from __future__ import annotations

from dataclasses import replace

from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineDimExpr

from byocir.dialects.locations import fuse
from byocir.dialects.tir import BlockOp, EmptyOp
from byocir.dialects.tir.affine import linear
from byocir.dialects.types import shape_of
from byocir.rewrites.driver import erase_dead
from byocir.rewrites.schedule.blocks import Parts


def read_through_pads(op: BlockOp, *, cuts: bool = False) -> None:
    """Makes a block that reads a copy of an array with a number around it read the array itself,
    and that number outside of it; with `cuts` also where the copy is of a part only. A copy that
    nothing else reads is erased.
    """
    for position, value in enumerate(op.ins):
        padding = _padding(value)
        if padding is None or op.pad_values[position] is not None:
            continue
        if not cuts and padding.pad_values[0] is None:
            continue
        _read_through(op, position, padding)


def _padding(value: SSAValue) -> BlockOp | None:
    """Finds the block that makes a value by nothing but padding, moving all elements by the same
    offsets; None if there is none.
    """
    op = value.owner
    if not isinstance(op, BlockOp) or not op.in_value_form or not op.moves or op.bases:
        return None
    if op.reductions or op.where is not None or len(op.outs) != 1:
        return None
    starts = isinstance(op.outs[0].owner, EmptyOp)
    out, shape = op.out_maps[0].results, shape_of(value.type)
    is_whole = all(
        isinstance(expr, AffineDimExpr) and expr.position == i and op.extents[i] == size
        for i, (expr, size) in enumerate(zip(out, shape, strict=True))
    )
    forms = [linear(expr) for expr in op.in_maps[0].results]
    shifts = all(form is not None and form.terms == ((i, 1),) for i, form in enumerate(forms))
    return op if starts and not op.whole and is_whole and shifts else None


def _read_through(op: BlockOp, position: int, padding: BlockOp) -> None:
    """Makes a block read the array that was padded."""
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
