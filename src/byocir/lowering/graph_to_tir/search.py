"""Ops that look for elements: indices of extremes, one-hot vectors."""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from byocir.dialects import graph as g
from byocir.dialects.tir.emit import ZERO, Emitter, Read, Space
from byocir.dialects.tir.scalar import Emitted
from byocir.dialects.types import (
    dtype_of,
    element_type_of,
    i64,
    is_float,
    shape_of,
    ui64,
)
from byocir.lowering.graph_to_tir.reduce import along, extreme, others, reduced
from byocir.lowering.graph_to_tir.registry import cannot_lower, lowers

DEEPEST = 2**32
"""One-hot vectors of more elements are more than memory holds."""


def _index_of(emit: Emitter, value: SSAValue, axis: int, name: str, *, last: bool) -> SSAValue:
    """The index of the first, or last, greatest or least element along an axis, which it lacks:
    the least, or greatest, index of an element that equals it. NaN is beyond all others."""
    shape, element = shape_of(value.type), element_type_of(value.type)
    initial, step = extreme(name, element)
    most = reduced(emit, [value], shape, [axis], initial, element, step)
    space, index = along(shape, [axis])
    counter = emit.constant(np.arange(shape[axis], dtype=np.int64))
    nowhere = -1 if last else shape[axis]
    at = [expr for i, expr in enumerate(index) if i != axis]

    def body(x: Emitted, m: Emitted, place: Emitted, acc: Emitted) -> Emitted:
        found = x.compare("eq", m)
        if is_float(element):
            found = found.binary("or", x.compare("ne", x))
        here = found.select(place, nowhere)
        return acc.max(here) if last else acc.min(here)

    reads = [Read(value, index), Read(most, at), Read(counter, [space[f"r{axis}"]])]
    return reduced(emit, reads, shape, [axis], nowhere, i64, body)


@lowers(g.ArgMaxOp, g.ArgMinOp)
def _arg(emit: Emitter, op: g.ArgMaxOp | g.ArgMinOp) -> SSAValue:
    name, axis = "max" if isinstance(op, g.ArgMaxOp) else "min", op.axis.value.data
    last = bool(op.select_last_index.value.data)
    found = _index_of(emit, op.input, axis, name, last=last)
    shape = shape_of(op.result.type)
    if not op.keepdims.value.data:
        return found
    return emit.elementwise(
        shape, i64, [Read(found, others(len(shape), [axis]))], lambda place: place
    )


@lowers(g.HardmaxOp)
def _hardmax(emit: Emitter, op: g.HardmaxOp) -> SSAValue:
    shape, element, axis = shape_of(op.result.type), element_type_of(op.input.type), op.axis
    axis = op.axis.value.data
    if 0 in shape:
        return emit.empty(element, shape)
    found = _index_of(emit, op.input, axis, "max", last=False)
    counter = emit.constant(np.arange(shape[axis], dtype=np.int64))
    here = Space.over(shape).parallel[axis]
    reads = [Read(found, others(len(shape), [axis])), Read(counter, [here])]
    return emit.elementwise(
        shape, element, reads, lambda place, i: place.compare("eq", i).to(element)
    )


@lowers(g.OneHotOp)
def _one_hot(emit: Emitter, op: g.OneHotOp) -> SSAValue:
    shape, element = shape_of(op.result.type), element_type_of(op.result.type)
    kind, axis, depth = element_type_of(op.indices.type), op.axis.value.data, op.depth.value.data
    if depth > DEEPEST:
        raise cannot_lower(op, f"a depth of {depth} is more than memory holds")
    wide = kind if is_float(kind) or kind == ui64 else i64
    counter = emit.constant(np.arange(depth).astype(dtype_of(wide)))
    at = Space.over(shape).parallel
    reads = [
        Read(op.indices, [*at[:axis], *at[axis + 1 :]]),
        Read(counter, [at[axis]]),
        Read(op.values, [ZERO]),
        Read(op.values, [ZERO + 1]),
    ]

    def body(i: Emitted, place: Emitted, off: Emitted, on: Emitted) -> Emitted:
        index = i.to(wide)
        if kind == ui64:
            return index.compare("eq", place).select(on, off)
        from_end = index.compare("eq", place - depth)
        return index.compare("eq", place).binary("or", from_end).select(on, off)

    return emit.elementwise(shape, element, reads, body)
