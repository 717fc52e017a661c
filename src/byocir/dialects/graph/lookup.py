"""Makes blocks that take elements of one dimension by index, for definitions of ops: by index maps
where the indices are a regular table, else by look-ups in bodies.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr

from byocir.dialects.tir.affine import divided
from byocir.dialects.tir.bodies import first
from byocir.dialects.tir.emit import Emitter, Index, Read, Space
from byocir.dialects.tir.scalar import Emitted
from byocir.dialects.types import element_type_of, i64, shape_of

MOST_RUNS = 16
"""Blocks that one dimension may be put together from."""

Table = Sequence[int]
"""The index into the input for each index into the result."""


def selected(emit: Emitter, value: SSAValue, axis: int, table: Table) -> SSAValue:
    """Takes the elements of a dimension that a regular table names, in its order, by index maps."""
    shape, element = shape_of(value.type), element_type_of(value.type)
    result = (*shape[:axis], len(table), *shape[axis + 1 :])
    at = AffineExpr.dimension(axis)
    whole = _as_quotient(table, at)
    if whole is not None:
        read = Read(value, at_axis(result, axis, whole))
        return emit.elementwise(result, element, [read], lambda x: x)
    made = emit.empty(element, result)
    for start, run in _runs(table):
        part = (*shape[:axis], len(run), *shape[axis + 1 :])
        step = run[1] - run[0] if len(run) > 1 else 0
        reads = [Read(value, at_axis(part, axis, at * step + run[0]))]
        into = at_axis(part, axis, at + start)
        made = emit.block(Space.over(part), reads, made, first, into)
    return made


def at_axis(shape: Sequence[int], axis: int, expr: AffineExpr) -> Index:
    """Gives the index of each element of `shape`, with this expression in place of the iterator of
    one axis.
    """
    index = list(Space.over(tuple(shape)).parallel)
    index[axis] = expr
    return index


def is_regular(table: Table) -> bool:
    """Tells if a few index maps read the elements that a table names."""
    if _as_quotient(table, AffineExpr.dimension(0)) is not None:
        return True
    return sum(1 for _ in _runs(table)) <= MOST_RUNS


def _as_quotient(table: Table, index: AffineExpr) -> AffineExpr | None:
    """Writes a table as `(index * a + b) floordiv d`; None if it has no such form. Tried are ratios
    a / d near the table's mean step.
    """
    if not table:
        return None
    count, span = len(table), table[-1] - table[0] + 1
    ratios = {Fraction(span, count), Fraction(max(span - 1, 0), max(count - 1, 1))}
    for ratio in sorted(ratios):
        a, d = ratio.numerator, ratio.denominator
        for b in range(table[0] * d, table[0] * d + d):
            if all((i * a + b) // d == wanted for i, wanted in enumerate(table)):
                inner = index * a + b
                return divided(inner, d) if d > 1 else inner
    return None


def _runs(table: Table) -> Iterator[tuple[int, Table]]:
    """Yields the parts of a table with equal steps, each with the place where it begins: [0, 2, 4,
    9] → (0, [0, 2, 4]), (3, [9]).
    """
    start = 0
    while start < len(table):
        stop = start + 1
        step = table[stop] - table[start] if stop < len(table) else 0
        while stop < len(table) and table[stop] - table[stop - 1] == step:
            stop += 1
        yield start, table[start:stop]
        start = stop


def counter(emit: Emitter, size: int, at: AffineExpr) -> Read:
    """Reads an index as a number, which bodies cannot see otherwise: from an array of 0, 1, …"""
    return Read(emit.constant(np.arange(size, dtype=np.int64)), [at])


def looked_up(emit: Emitter, value: SSAValue, axis: int, table: Table) -> SSAValue:
    """Takes the elements of a dimension that a table names, in its order."""
    if is_regular(table):
        return selected(emit, value, axis, table)
    indices = emit.constant(np.asarray(table, np.int64))
    return take(emit, value, axis, indices, wrap=False)


def take(
    emit: Emitter, value: SSAValue, axis: int, indices: SSAValue, *, wrap: bool = True
) -> SSAValue:
    """Takes the elements of a dimension at these indices, the shape of which replaces the
    dimension; negative ones count from the end.
    """
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


def weighted(
    emit: Emitter, value: SSAValue, axis: int, indices: np.ndarray, weights: np.ndarray
) -> SSAValue:
    """Sums along a dimension the elements at `indices` [count,taps] times `weights`, whose type
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
