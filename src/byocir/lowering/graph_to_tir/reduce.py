"""Ops that look along whole dimensions: means and softmax."""

from __future__ import annotations

from math import prod

from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr

from byocir.dialects.graph import GlobalAveragePoolOp, ReduceMeanOp, SoftmaxOp
from byocir.dialects.graph.base import int_tuple
from byocir.dialects.tir.scalar import Emitted
from byocir.dialects.types import Shape, element_type_of, shape_of
from byocir.lowering.graph_to_tir.emit import ZERO, Emitter, Index, Read, Space, accumulator_of
from byocir.lowering.graph_to_tir.pool import lowest
from byocir.lowering.graph_to_tir.registry import lowers


def _along(shape: Shape, axes: tuple[int, ...]) -> tuple[Space, Index]:
    """The elements of an array with these axes as reductions, and where each element is."""
    kept = {f"i{axis}": size for axis, size in enumerate(shape) if axis not in axes}
    space = Space(kept, {f"r{axis}": shape[axis] for axis in axes})
    names = [f"r{axis}" if axis in axes else f"i{axis}" for axis in range(len(shape))]
    return space, [space[name] for name in names]


def _mean(emit: Emitter, op: GlobalAveragePoolOp | ReduceMeanOp, axes: tuple[int, ...]) -> SSAValue:
    """The sum, in a type that is wide enough, divided by the number of elements."""
    source, shape = shape_of(op.input.type), shape_of(op.result.type)
    element = element_type_of(op.result.type)
    wide, count = accumulator_of(element), prod(source[axis] for axis in axes)
    space, index = _along(source, axes)
    keeps = len(shape) == len(source)
    out = [ZERO if axis in axes else index[axis] for axis in range(len(source))]
    total = emit.block(
        space,
        [Read(op.input, index)],
        emit.fill(0, wide, shape),
        lambda x, acc: acc + x.to(wide),
        out if keeps else None,
    )
    return emit.elementwise(shape, element, [total], lambda x: (x / count).to(element))


@lowers(GlobalAveragePoolOp)
def _global_average_pool(emit: Emitter, op: GlobalAveragePoolOp) -> SSAValue:
    return _mean(emit, op, tuple(range(2, len(shape_of(op.input.type)))))


@lowers(ReduceMeanOp)
def _reduce_mean(emit: Emitter, op: ReduceMeanOp) -> SSAValue:
    return _mean(emit, op, int_tuple(op.axes))


@lowers(SoftmaxOp)
def _softmax(emit: Emitter, op: SoftmaxOp) -> SSAValue:
    """The greatest value, subtracted first, keeps exp from overflowing."""
    shape, element = shape_of(op.result.type), element_type_of(op.result.type)
    wide, axis = accumulator_of(element), op.axis.value.data
    rest = tuple(size for i, size in enumerate(shape) if i != axis)
    space, index = _along(shape, (axis,))
    others = [AffineExpr.dimension(i) for i in range(len(shape)) if i != axis]

    def combine(value: SSAValue, init: SSAValue, name: str) -> SSAValue:
        def body(x: Emitted, acc: Emitted) -> Emitted:
            return acc.binary(name, x.to(wide))

        return emit.block(space, [Read(value, index)], init, body)

    greatest = combine(op.input, emit.fill(lowest(wide), wide, rest), "max")
    powers = emit.elementwise(
        shape, wide, [op.input, Read(greatest, others)], lambda x, m: (x.to(wide) - m).exp()
    )
    total = combine(powers, emit.fill(0, wide, rest), "add")
    return emit.elementwise(
        shape, element, [powers, Read(total, others)], lambda x, s: (x / s).to(element)
    )
