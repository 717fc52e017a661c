"""Resize: one dimension after the other, by the taps of the op's rule."""

from __future__ import annotations

import numpy as np
from xdsl.ir import Attribute, SSAValue

from byocir.dialects import graph as g
from byocir.dialects.tir.emit import Emitter, Read, Space
from byocir.dialects.tir.scalar import Emitted
from byocir.dialects.types import dtype_of, element_type_of, f64, is_float, shape_of
from byocir.evaluate.resize import taps_along
from byocir.lowering.graph_to_tir.contraction import narrowed
from byocir.lowering.graph_to_tir.convert import to_integer
from byocir.lowering.graph_to_tir.lookup import looked_up, weighted
from byocir.lowering.graph_to_tir.operands import accumulator_of
from byocir.lowering.graph_to_tir.registry import lowers


@lowers(g.ResizeOp)
def _resize(emit: Emitter, op: g.ResizeOp) -> SSAValue:
    """Interpolated integers are rounded to even in the end, and saturate."""
    element = element_type_of(op.input.type)
    along = _nearest if op.mode.data == "nearest" else _interpolated
    value = op.input
    for axis in range(len(shape_of(op.input.type))):
        value = along(emit, op, value, axis)
    value = _in_type(emit, value, element)
    if op.roi is not None:
        return _extrapolated(emit, op, value)
    if value is not op.input:
        return value
    return emit.elementwise(shape_of(op.result.type), element, [value], lambda x: x)


def _nearest(emit: Emitter, op: g.ResizeOp, value: SSAValue, axis: int) -> SSAValue:
    found = taps_along(op, axis)
    table = [] if found is None else [int(i) for i in found.indices[:, 0]]
    stays = found is None or table == [*range(shape_of(value.type)[axis])]
    return value if stays else looked_up(emit, value, axis, table)


def _interpolated(emit: Emitter, op: g.ResizeOp, value: SSAValue, axis: int) -> SSAValue:
    """Each element is a weighted sum of those that count."""
    found, size = taps_along(op, axis), shape_of(value.type)[axis]
    if found is None:
        return value
    matrix = np.zeros((len(found.indices), size))
    np.add.at(matrix, (np.arange(len(matrix))[:, None], found.indices), found.weights)
    if matrix.shape == (size, size) and np.array_equal(matrix, np.eye(size)):
        return value
    taps = max(int(np.count_nonzero(matrix, axis=1).max()), 1)
    indices = np.sort(np.argsort(matrix == 0, axis=1, kind="stable")[:, :taps], axis=1)
    weights = np.take_along_axis(matrix, indices, axis=1)
    element = element_type_of(op.input.type)
    wide = dtype_of(accumulator_of(element) if is_float(element) else f64)
    return weighted(emit, value, axis, indices, weights.astype(wide))


def _in_type(emit: Emitter, value: SSAValue, element: Attribute) -> SSAValue:
    if is_float(element) or element_type_of(value.type) == element:
        return narrowed(emit, value, element)
    shape = shape_of(value.type)
    return emit.elementwise(shape, element, [value], lambda x: to_integer(x.roundeven(), element))


def _extrapolated(emit: Emitter, op: g.ResizeOp, value: SSAValue) -> SSAValue:
    """A number where a coordinate along any dimension is outside of the input."""
    shape, element = shape_of(value.type), element_type_of(value.type)
    number = op.extrapolation_value.value.data
    at, reads = Space.over(shape).parallel, [Read(value, Space.over(shape).parallel)]
    for axis in range(len(shape)):
        found = taps_along(op, axis)
        if found is not None and found.beyond.any():
            reads.append(Read(emit.constant(found.beyond), [at[axis]]))

    def body(x: Emitted, *outside: Emitted) -> Emitted:
        for flag in outside:
            x = flag.select(x.constant(number), x)
        return x

    return emit.elementwise(shape, element, reads, body)
