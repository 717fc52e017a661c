"""Pads: with a number one block, with elements a block for each stretch."""

from __future__ import annotations

from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr

from byocir.dialects import graph as g
from byocir.dialects.graph.base import int_tuple
from byocir.dialects.tir.bodies import first
from byocir.dialects.tir.emit import Emitter, Index, Read, Space
from byocir.dialects.types import Shape, element_type_of, shape_of
from byocir.lowering.graph_to_tir.lookup import looked_up
from byocir.lowering.graph_to_tir.registry import lowers
from byocir.lowering.graph_to_tir.select import Table


@lowers(g.PadOp)
def _pad(emit: Emitter, op: g.PadOp) -> SSAValue:
    shape, element = shape_of(op.result.type), element_type_of(op.result.type)
    if op.mode.data != "constant":
        return _extended_by(emit, op)
    pads = int_tuple(op.pads)
    index = [i - begin for i, begin in zip(Space.over(shape).parallel, pads, strict=False)]
    value = op.value.data.values().item() if op.value is not None else 0
    if 0 in shape_of(op.input.type):
        return emit.fill(value, element, shape)
    return emit.elementwise(shape, element, [Read(op.input, index, pad=value)], lambda x: x)


def _extended_by(emit: Emitter, op: g.PadOp) -> SSAValue:
    """One dimension after the other: what is kept of it, then what stands before and behind."""
    pads, source = int_tuple(op.pads), shape_of(op.input.type)
    value, rank = op.input, len(source)
    for axis in range(rank):  # cuts first: what is left is mirrored, continued or wrapped around
        value = _cut(emit, value, axis, -min(pads[axis], 0), -min(pads[rank + axis], 0))
    if 0 in shape_of(value.type):
        return emit.empty(element_type_of(value.type), shape_of(op.result.type))
    for axis in range(rank):
        begin, end = max(pads[axis], 0), max(pads[rank + axis], 0)
        if begin or end:
            value = _extended(emit, value, axis, begin, end, op.mode.data)
    return value


def _part(
    emit: Emitter, value: SSAValue, into: SSAValue, axis: int, size: int, to: int, index: Index
) -> SSAValue:
    """Writes `size` elements along a dimension, from `to` on, of what is at `index`, in which the
    dimension counts from 0."""
    shape = list(shape_of(value.type))
    shape[axis] = size
    space = Space.over(tuple(shape))
    out = list(space.parallel)
    out[axis] = out[axis] + to
    return emit.block(space, [Read(value, index)], into, first, out)


def _along(shape: Shape, axis: int, expr: AffineExpr) -> Index:
    index = list(Space.over(shape).parallel)
    index[axis] = expr
    return index


def _cut(emit: Emitter, value: SSAValue, axis: int, begin: int, end: int) -> SSAValue:
    if not (begin or end):
        return value
    shape, element = list(shape_of(value.type)), element_type_of(value.type)
    shape[axis] -= begin + end
    index = _along(tuple(shape), axis, AffineExpr.dimension(axis) + begin)
    return emit.elementwise(tuple(shape), element, [Read(value, index)], lambda x: x)


def _extended(
    emit: Emitter, value: SSAValue, axis: int, begin: int, end: int, mode: str
) -> SSAValue:
    shape, element = shape_of(value.type), element_type_of(value.type)
    size, i = shape[axis], AffineExpr.dimension(axis)
    most = {"reflect": size - 1, "wrap": size}.get(mode)
    if most is not None and max(begin, end) > most:  # more than once
        return looked_up(emit, value, axis, _repeated(size, begin, end, mode))
    before = {"edge": AffineExpr.constant(0), "reflect": i * -1 + begin, "wrap": i + size - begin}
    behind = {"edge": AffineExpr.constant(size - 1), "reflect": i * -1 + size - 2, "wrap": i}
    result = emit.empty(element, (*shape[:axis], begin + size + end, *shape[axis + 1 :]))
    parts = [(size, begin, i), (begin, 0, before[mode]), (end, begin + size, behind[mode])]
    for count, to, expr in parts:
        if count:
            index = _along(shape, axis, expr)
            result = _part(emit, value, result, axis, count, to, index)
    return result


def _repeated(size: int, begin: int, end: int, mode: str) -> Table:
    """Lists the source index of each element of a padded dimension: size 3 with 1 before and after,
    reflected → [1, 0, 1, 2, 1]."""
    period = size if mode == "wrap" else max(2 * (size - 1), 1)
    found = [i % period for i in range(-begin, size + end)]
    return found if mode == "wrap" else [min(i, period - i) if size > 1 else 0 for i in found]
