"""Ops that look elements up at indices known at run time: bodies that read a whole array."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr

from byocir.dialects import graph as g
from byocir.dialects.tir.emit import Emitter, Read, Space
from byocir.dialects.tir.scalar import Emitted
from byocir.dialects.types import Shape, element_type_of, i64, shape_of
from byocir.lowering.graph_to_tir.operands import known_values
from byocir.lowering.graph_to_tir.registry import lowers
from byocir.lowering.graph_to_tir.select import Table, is_regular, selected


def counter(emit: Emitter, size: int, at: AffineExpr) -> Read:
    """The number of an index itself, as bodies see it."""
    return Read(emit.constant(np.arange(size, dtype=np.int64)), [at])


def looked_up(emit: Emitter, value: SSAValue, axis: int, table: Table) -> SSAValue:
    """The elements of a dimension that a table names, in its order."""
    if is_regular(table):
        return selected(emit, value, axis, table)
    indices = emit.constant(np.asarray(table, np.int64))
    return _take(emit, value, axis, indices, wrap=False)


def _take(
    emit: Emitter, value: SSAValue, axis: int, indices: SSAValue, *, wrap: bool = True
) -> SSAValue:
    """The elements of a dimension at these indices, whose dimensions take its place; negative ones
    count from the end."""
    source, own = shape_of(value.type), shape_of(indices.type)
    shape = (*source[:axis], *own, *source[axis + 1 :])
    at = Space.over(shape).parallel
    kept = [*at[:axis], *at[axis + len(own) :]]
    sizes = [*source[:axis], *source[axis + 1 :]]
    reads = [Read(indices, at[axis : axis + len(own)])]
    reads += [counter(emit, size, expr) for size, expr in zip(sizes, kept, strict=True)]

    def body(index: Emitted, *others: Emitted) -> Emitted:
        *places, table = others
        index = index.to(i64)
        index = index.wrapped(source[axis]) if wrap else index
        return table.read(*places[:axis], index, *places[axis:])

    return emit.elementwise(shape, element_type_of(value.type), [*reads, Read.whole(value)], body)


@lowers(g.GatherOp)
def _gather(emit: Emitter, op: g.GatherOp) -> SSAValue:
    """By regular constants: index maps."""
    given, axis = known_values(op.indices), op.axis.value.data
    source, shape = shape_of(op.input.type), shape_of(op.result.type)
    element = element_type_of(op.input.type)
    if 0 in shape:
        return emit.empty(element, shape)
    table = [] if given is None else [int(i + source[axis] * (i < 0)) for i in given.reshape(-1)]
    inside = given is not None and all(0 <= i < source[axis] for i in table)
    if given is None or not inside or not is_regular(table):
        return _take(emit, op.input, axis, op.indices)
    chosen = selected(emit, op.input, axis, table)
    if given.ndim == 1:
        return chosen
    # The dimensions of the indices are one in what was chosen.
    at = Space.over(shape).parallel
    flat = AffineExpr.constant(0)
    for i, size in enumerate(given.shape):
        flat = flat * size + at[axis + i]
    index = [*at[:axis], flat, *at[axis + given.ndim :]]
    return emit.elementwise(shape, element, [Read(chosen, index)], lambda x: x)


@lowers(g.GatherElementsOp)
def _gather_elements(emit: Emitter, op: g.GatherElementsOp) -> SSAValue:
    axis, source, shape = op.axis.value.data, shape_of(op.input.type), shape_of(op.result.type)
    at = Space.over(shape).parallel
    reads = [
        counter(emit, size, expr) if i != axis else Read(op.indices, at)
        for i, (size, expr) in enumerate(zip(source, at, strict=True))
    ]
    return _looked_up(emit, op.input, shape, reads, [axis])


@lowers(g.GatherNdOp)
def _gather_nd(emit: Emitter, op: g.GatherNdOp) -> SSAValue:
    source, shape = shape_of(op.input.type), shape_of(op.result.type)
    batch, own = op.batch_dims.value.data, shape_of(op.indices.type)
    depth, at = own[-1], Space.over(shape).parallel
    last = batch + depth
    reads = [counter(emit, source[i], at[i]) for i in range(batch)]
    reads += [Read(op.indices, [*at[: len(own) - 1], AffineExpr.constant(i)]) for i in range(depth)]
    tail = zip(source[last:], at[len(own) - 1 :], strict=True)
    reads += [counter(emit, size, expr) for size, expr in tail]
    return _looked_up(emit, op.input, shape, reads, range(batch, last))


def _looked_up(
    emit: Emitter, x: SSAValue, shape: Shape, places: Sequence[Read], indices: Iterable[int]
) -> SSAValue:
    """The elements of an array at these places, one for each dimension; those of the dimensions
    `indices` may be negative, which counts from the end."""
    source = shape_of(x.type)

    def body(*scalars: Emitted) -> Emitted:
        *at, table = scalars
        for i in indices:
            at[i] = at[i].to(i64).wrapped(source[i])
        return table.read(*at)

    return emit.elementwise(shape, element_type_of(x.type), [*places, Read.whole(x)], body)


@lowers(g.ReverseSequenceOp)
def _reverse_sequence(emit: Emitter, op: g.ReverseSequenceOp) -> SSAValue:
    """A step before the length reads the one as far from it; others read themselves."""
    shape, time = shape_of(op.result.type), op.time_axis.value.data
    at = Space.over(shape).parallel
    reads = [counter(emit, size, expr) for size, expr in zip(shape, at, strict=True)]
    lengths = Read(op.lengths, [at[op.batch_axis.value.data]])

    def body(*scalars: Emitted) -> Emitted:
        *places, length, table = scalars
        here = places[time]
        places[time] = here.compare("lt", length).select(length - here - 1, here)
        return table.read(*places)

    element = element_type_of(op.input.type)
    return emit.elementwise(shape, element, [*reads, lengths, Read.whole(op.input)], body)


def weighted(
    emit: Emitter, value: SSAValue, axis: int, indices: np.ndarray, weights: np.ndarray
) -> SSAValue:
    """Along a dimension the sums of elements at `indices` [count,taps] times `weights`, whose type
    is that of the result."""
    source, (count, taps) = shape_of(value.type), indices.shape
    shape = (*source[:axis], count, *source[axis + 1 :])
    space = Space({f"i{i}": size for i, size in enumerate(shape)}, {"t": taps})
    at, given = space.parallel, emit.constant(np.ascontiguousarray(weights))
    element = element_type_of(given.type)
    tap = [at[axis], space["t"]]
    reads = [Read(given, tap), Read(emit.constant(np.ascontiguousarray(indices)), tap)]
    others: Sequence[int] = [i for i in range(len(shape)) if i != axis]
    reads += [counter(emit, shape[i], at[i]) for i in others]

    def body(weight: Emitted, index: Emitted, *rest: Emitted) -> Emitted:
        *places, table, acc = rest
        return acc + weight * table.read(*places[:axis], index, *places[axis:]).to(element)

    zero = emit.fill(0, element, shape)
    return emit.block(space, [*reads, Read.whole(value)], zero, body)
