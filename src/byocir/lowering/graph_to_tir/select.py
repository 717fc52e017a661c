"""Ops that take elements at indices known at compile time: gather by constants, nearest resize."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np
from xdsl.ir import Block, SSAValue
from xdsl.ir.affine import AffineExpr

from byocir.dialects import graph as g
from byocir.dialects.graph.base import int_tuple
from byocir.dialects.graph.resize import numbers
from byocir.dialects.types import element_type_of, f32, shape_of, tensor
from byocir.evaluate.graph import evaluate_graph_op
from byocir.lowering.graph_to_tir.emit import Emitter, Index, Read, Space, known_values
from byocir.lowering.graph_to_tir.movement import divided, first
from byocir.lowering.graph_to_tir.registry import lowers

MOST_RUNS = 16
"""Blocks that one dimension may be put together from."""

Table = Sequence[int]
"""For each index of a result the index of the input."""


@lowers(g.GatherOp)
def _gather(emit: Emitter, op: g.GatherOp) -> SSAValue | None:
    """By indices that are a constant, and not too irregular."""
    given = known_values(op.indices)
    if given is None:
        return None
    axis, source = op.axis.value.data, shape_of(op.input.type)
    shape, element = shape_of(op.result.type), element_type_of(op.input.type)
    table = [int(i) + (source[axis] if i < 0 else 0) for i in given.reshape(-1)]
    if not all(0 <= i < source[axis] for i in table) or not _is_regular(table):
        return None
    if 0 in shape:
        return emit.empty(element, shape)
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


@lowers(g.ResizeOp)
def _resize(emit: Emitter, op: g.ResizeOp) -> SSAValue | None:
    """To the nearest element: one dimension after the other."""
    if op.mode.data != "nearest" or op.roi is not None:
        return None
    source, sizes = shape_of(op.input.type), int_tuple(op.sizes)
    tables = [_nearest(op, axis) for axis in range(len(source))]
    if not all(map(_is_regular, tables)):
        return None
    value = op.input
    for axis, table in enumerate(tables):
        if list(table) != list(range(source[axis])):
            value = selected(emit, value, axis, table)
    if value is op.input:
        read = Read(value, Space.over(sizes).parallel)
        return emit.elementwise(sizes, element_type_of(op.input.type), [read], lambda x: x)
    return value


def _nearest(op: g.ResizeOp, axis: int) -> Table:
    """The elements that are taken along a dimension: what the op makes of their numbers."""
    size, count = shape_of(op.input.type)[axis], int_tuple(op.sizes)[axis]
    block = Block(arg_types=[tensor(f32, [size])])
    properties = {**op.properties, "sizes": op.sizes.from_list(op.sizes.elt_type, [count])}
    if op.scales is not None:
        properties["scales"] = numbers([op.scales.get_values()[axis]])
    alone = g.ResizeOp.create(
        operands=block.args, result_types=[tensor(f32, [count])], properties=properties
    )
    (found,) = evaluate_graph_op(alone, [np.arange(size, dtype=np.float32)])
    alone.erase()
    return [int(i) for i in found]


# -- tables as index maps


def selected(emit: Emitter, value: SSAValue, axis: int, table: Table) -> SSAValue:
    """The elements of a dimension that a regular table names, in its order."""
    shape, element = shape_of(value.type), element_type_of(value.type)
    result = (*shape[:axis], len(table), *shape[axis + 1 :])
    at = AffineExpr.dimension(axis)
    whole = _as_quotient(table, at)
    if whole is not None:
        read = Read(value, _at(result, axis, whole))
        return emit.elementwise(result, element, [read], lambda x: x)
    made = emit.empty(element, result)
    for start, run in _runs(table):
        part = (*shape[:axis], len(run), *shape[axis + 1 :])
        step = run[1] - run[0] if len(run) > 1 else 0
        reads = [Read(value, _at(part, axis, at * step + run[0]))]
        into = _at(part, axis, at + start)
        made = emit.block(Space.over(part), reads, made, first, into)
    return made


def _at(shape: Sequence[int], axis: int, expr: AffineExpr) -> Index:
    index = list(Space.over(tuple(shape)).parallel)
    index[axis] = expr
    return index


def _is_regular(table: Table) -> bool:
    if _as_quotient(table, AffineExpr.dimension(0)) is not None:
        return True
    return sum(1 for _ in _runs(table)) <= MOST_RUNS


def _as_quotient(table: Table, index: AffineExpr) -> AffineExpr | None:
    """`(index * a + b) floordiv d`, with the ratio of the last and the first element's distance to
    their number or near it, if that is the table."""
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
    """Stretches of equal steps, with the place where each begins."""
    start = 0
    while start < len(table):
        stop = start + 1
        step = table[stop] - table[start] if stop < len(table) else 0
        while stop < len(table) and table[stop] - table[stop - 1] == step:
            stop += 1
        yield start, table[start:stop]
        start = stop
