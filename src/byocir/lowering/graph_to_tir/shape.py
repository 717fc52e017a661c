"""Ops that move elements and change none: blocks that copy through an index map."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineExpr

from byocir.dialects.byoc import keep_stored
from byocir.dialects.graph import (
    ConcatOp,
    ConstantOp,
    FlattenOp,
    ReshapeOp,
    SqueezeOp,
    TransposeOp,
    UnsqueezeOp,
)
from byocir.dialects.graph.base import int_tuple
from byocir.dialects.tir.affine import divided, modulo
from byocir.dialects.tir.bodies import first
from byocir.dialects.tir.emit import ZERO, Emitter, Index, Read, Space
from byocir.dialects.types import Shape, element_type_of, shape_of
from byocir.lowering.graph_to_tir.registry import lowers


@lowers(ConstantOp)
def _constant(emit: Emitter, op: ConstantOp) -> SSAValue:
    made = emit.constant(op.value.data)
    assert isinstance(made.owner, Operation)
    keep_stored(op, made.owner)
    return made


def _copy(emit: Emitter, op: ReshapeLike | TransposeOp, index: Index) -> SSAValue:
    """The result whose elements are at `index` in the input."""
    shape, element = shape_of(op.result.type), element_type_of(op.result.type)
    return emit.elementwise(shape, element, [Read(op.input, index)], lambda x: x)


ReshapeLike = FlattenOp | ReshapeOp | SqueezeOp | UnsqueezeOp


@lowers(FlattenOp, ReshapeOp, SqueezeOp, UnsqueezeOp)
def _reshape(emit: Emitter, op: ReshapeLike) -> SSAValue:
    return _copy(emit, op, reshape_index(shape_of(op.input.type), shape_of(op.result.type)))


@lowers(TransposeOp)
def _transpose(emit: Emitter, op: TransposeOp) -> SSAValue:
    perm = int_tuple(op.perm)
    return _copy(emit, op, [AffineExpr.dimension(perm.index(axis)) for axis in range(len(perm))])


@lowers(ConcatOp)
def _concat(emit: Emitter, op: ConcatOp) -> SSAValue:
    """One block for each input, which writes its part and hands the rest on."""
    shape, element = shape_of(op.result.type), element_type_of(op.result.type)
    axis, start = op.axis.value.data, 0
    result = emit.empty(element, shape)
    for value in op.inputs:
        own = shape_of(value.type)
        space = Space.over(own)
        out = list(space.parallel)
        out[axis] = out[axis] + start
        result = emit.block(space, [Read(value, space.parallel)], result, first, out)
        start += own[axis]
    return result


def reshape_index(source: Shape, result: Shape) -> list[AffineExpr]:
    """Gives the index into an array of shape `source` of each element of its reshape to `result`.

    Dimensions that correspond are copied; only where some are split or joined does the index divide
    or take remainders, and within these alone.
    """
    index = [ZERO] * len(source)
    if 0 in source:  # there is nothing to find
        return index
    inner = [axis for axis, size in enumerate(source) if size != 1]
    outer = [axis for axis, size in enumerate(result) if size != 1]
    while inner:
        before, after = _corresponding(inner, source, outer, result)
        flat = _flat_index(after, result)
        for place, axis in enumerate(before):
            stride = prod(source[a] for a in before[place + 1 :])
            index[axis] = _digit(flat, stride, source[axis] if place else None)
        inner, outer = inner[len(before) :], outer[len(after) :]
    return index


def _corresponding(
    inner: Sequence[int], source: Shape, outer: Sequence[int], result: Shape
) -> tuple[Sequence[int], Sequence[int]]:
    """The fewest leading axes on both sides that hold the same number of elements."""
    before, after = 1, 1
    while (have := prod(source[a] for a in inner[:before])) != (
        want := prod(result[a] for a in outer[:after])
    ):
        if have < want:
            before += 1
        else:
            after += 1
    return inner[:before], outer[:after]


def _flat_index(axes: Sequence[int], shape: Shape) -> AffineExpr:
    """The number, in row-major order, of an element among those of these axes."""
    flat = ZERO
    for axis in axes:
        flat = flat * shape[axis] + AffineExpr.dimension(axis)
    return flat


def _digit(flat: AffineExpr, stride: int, size: int | None) -> AffineExpr:
    """`(flat floordiv stride) mod size`; the first digit needs no mod."""
    digit = divided(flat, stride)
    return digit if size is None else modulo(digit, size)
