"""Pools: a reduction over windows, for the mean followed by a division."""

from __future__ import annotations

import math
from collections.abc import Callable

from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineExpr

from byocir.dialects.graph import AveragePoolOp, LpPoolOp, MaxPoolOp, PoolOp, SumPoolOp
from byocir.dialects.graph.base import int_tuple
from byocir.dialects.tir.bodies import widen_add
from byocir.dialects.tir.emit import Emitter, Read, Space
from byocir.dialects.tir.scalar import Emitted, Number
from byocir.dialects.types import (
    dtype_of,
    element_type_of,
    i32,
    is_float,
    is_unsigned,
    shape_of,
    width_of,
)
from byocir.evaluate.windows import window_counts
from byocir.lowering.graph_to_tir.contraction import kernel_names, spatial_names, window
from byocir.lowering.graph_to_tir.operands import accumulator_of
from byocir.lowering.graph_to_tir.registry import lowers


def _pool(
    emit: Emitter,
    op: PoolOp,
    element: Attribute,
    initial: Number,
    body: Callable[[Emitted, Emitted], Emitted],
) -> SSAValue:
    """Windows reduced by `body(x, acc)` from `initial`, which is also read from pads."""
    shape = shape_of(op.result.type)
    spatial, kernel = spatial_names(len(shape) - 2), kernel_names(len(shape) - 2)
    space = Space(
        dict(zip(["n", "c", *spatial], shape, strict=True)),
        dict(zip(kernel, int_tuple(op.kernel_shape), strict=True)),
    )
    rows = window(space, int_tuple(op.strides), int_tuple(op.dilations), int_tuple(op.pads))
    x = Read(op.input, [space["n"], space["c"], *rows], pad=initial)
    return emit.block(space, [x], emit.fill(initial, element, shape), body)


def lowest(element: Attribute) -> Number:
    """The number below all others of a type."""
    if is_float(element):
        return -math.inf
    return 0 if is_unsigned(element) else -(2 ** (width_of(element) - 1))


@lowers(MaxPoolOp)
def _max_pool(emit: Emitter, op: MaxPoolOp) -> SSAValue:
    element = element_type_of(op.result.type)
    wide = i32 if is_unsigned(element) else element

    def body(x: Emitted, acc: Emitted) -> Emitted:
        return acc.to(wide).max(x.to(wide)).to(element)

    return _pool(emit, op, element, lowest(element), body)


@lowers(SumPoolOp)
def _sum_pool(emit: Emitter, op: SumPoolOp) -> SSAValue:
    return _pool(emit, op, i32, 0, widen_add)


@lowers(AveragePoolOp)
def _average_pool(emit: Emitter, op: AveragePoolOp) -> SSAValue:
    """Emits sums over windows and their division by counts. The count is a number in the body where
    all windows have the same, else an array with one for each window."""
    shape, element = shape_of(op.result.type), element_type_of(op.result.type)
    wide = accumulator_of(element)
    total = _pool(emit, op, wide, 0, lambda x, acc: acc + x.to(wide))
    counts = window_counts(op, bool(op.count_include_pad.value.data))
    if counts.size and counts.min() == counts.max():
        count = int(counts.flat[0])
        return emit.elementwise(shape, element, [total], lambda x: (x / count).to(element))
    divisor = emit.constant(counts.astype(dtype_of(wide)))
    index = [AffineExpr.dimension(axis) for axis in range(2, len(shape))]
    reads = [total, Read(divisor, index)]
    return emit.elementwise(shape, element, reads, lambda x, count: (x / count).to(element))


@lowers(LpPoolOp)
def _lp_pool(emit: Emitter, op: LpPoolOp) -> SSAValue:
    shape, element = shape_of(op.result.type), element_type_of(op.result.type)
    wide, p = accumulator_of(element), op.p.value.data

    def power(x: Emitted, acc: Emitted) -> Emitted:
        size = x.to(wide).unary("abs")
        return acc + (size if p == 1 else size * size if p == 2 else size.binary("pow", p))

    def root(x: Emitted) -> Emitted:
        return (x if p == 1 else x.sqrt() if p == 2 else x.binary("pow", 1 / p)).to(element)

    return emit.elementwise(shape, element, [_pool(emit, op, wide, 0, power)], root)
