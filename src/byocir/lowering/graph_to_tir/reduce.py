"""Ops that look along whole dimensions: reductions, softmax, norms of vectors and running sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf, prod

from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineExpr

from byocir.dialects import graph as g
from byocir.dialects.graph.base import int_tuple
from byocir.dialects.tir.emit import ZERO, Emitter, Index, Read, ScalarBody, Space
from byocir.dialects.tir.scalar import Emitted, Number
from byocir.dialects.types import (
    Shape,
    element_type_of,
    i64,
    is_float,
    is_unsigned,
    shape_of,
    width_of,
)
from byocir.lowering.graph_to_tir.operands import accumulator_of
from byocir.lowering.graph_to_tir.pool import lowest
from byocir.lowering.graph_to_tir.registry import lowers
from byocir.lowering.graph_to_tir.unary import absolute

Step = Callable[[Emitted, Emitted], Emitted]
"""A new accumulator from an element and the one so far."""


def along(shape: Shape, axes: Sequence[int]) -> tuple[Space, Index]:
    """The elements of an array with these axes as reductions, and where each element is."""
    kept = {f"i{axis}": size for axis, size in enumerate(shape) if axis not in axes}
    space = Space(kept, {f"r{axis}": shape[axis] for axis in axes})
    names = [f"r{axis}" if axis in axes else f"i{axis}" for axis in range(len(shape))]
    return space, [space[name] for name in names]


def others(rank: int, axes: Sequence[int]) -> Index:
    """In blocks over whole arrays: where what was reduced along these axes is read."""
    return [AffineExpr.dimension(i) for i in range(rank) if i not in axes]


def reduced(
    emit: Emitter,
    reads: Sequence[SSAValue | Read],
    shape: Shape,
    axes: Sequence[int],
    initial: Number,
    element: Attribute,
    body: ScalarBody,
) -> SSAValue:
    """`body` of all elements along axes of `shape`, from `initial` on, without these axes. Values
    are read where the element is."""
    space, index = along(shape, axes)
    rest = tuple(size for axis, size in enumerate(shape) if axis not in axes)
    at = [read if isinstance(read, Read) else Read(read, index) for read in reads]
    return emit.block(space, at, emit.fill(initial, element, rest), body)


def greatest(element: Attribute) -> Number:
    """The number above all others of a type."""
    if is_float(element):
        return inf
    return 2 ** (width_of(element) - (0 if is_unsigned(element) else 1)) - 1


def extreme(name: str, element: Attribute) -> tuple[Number, Step]:
    """Gives the start and the step of a search for the greatest or the least element."""

    def step(x: Emitted, acc: Emitted) -> Emitted:
        if is_unsigned(element):
            return x.compare("gt" if name == "max" else "lt", acc).select(x, acc)
        return acc.binary(name, x)

    return (lowest if name == "max" else greatest)(element), step


# -- reductions


@dataclass(frozen=True)
class _Reduction:
    """`finish` of the sum or product of `term` of all elements."""

    term: Callable[[Emitted], Emitted] = lambda x: x
    combine: str = "add"
    finish: Callable[[Emitted], Emitted] = lambda x: x


_REDUCTIONS: dict[type[g.ReduceOp], _Reduction] = {
    g.ReduceL1Op: _Reduction(absolute),
    g.ReduceL2Op: _Reduction(lambda x: x * x, finish=lambda x: x.sqrt()),
    g.ReduceLogSumOp: _Reduction(finish=lambda x: x.unary("log")),
    g.ReduceProdOp: _Reduction(combine="mul"),
    g.ReduceSumOp: _Reduction(),
    g.ReduceSumSquareOp: _Reduction(lambda x: x * x),
}


@lowers(*_REDUCTIONS)
def _reduce(emit: Emitter, op: g.ReduceOp) -> SSAValue:
    """Unsigned integers are combined in a signed type: the low bits are the same."""
    element, how = element_type_of(op.result.type), _REDUCTIONS[type(op)]
    wide = i64 if is_unsigned(element) else accumulator_of(element)
    initial = 0 if how.combine == "add" else 1

    def body(x: Emitted, acc: Emitted) -> Emitted:
        return acc.binary(how.combine, how.term(x.to(wide)))

    return _finished(emit, op, initial, wide, body, lambda x: how.finish(x).to(element))


@lowers(g.ReduceMaxOp, g.ReduceMinOp)
def _extremes(emit: Emitter, op: g.ReduceOp) -> SSAValue:
    element = element_type_of(op.result.type)
    name = "max" if isinstance(op, g.ReduceMaxOp) else "min"
    return _finished(emit, op, *_swapped(extreme(name, element), element), None)


def _swapped(how: tuple[Number, Step], element: Attribute) -> tuple[Number, Attribute, Step]:
    return how[0], element, how[1]


def _finished(
    emit: Emitter,
    op: g.ReduceOp,
    initial: Number,
    wide: Attribute,
    body: Step,
    finish: Callable[[Emitted], Emitted] | None,
) -> SSAValue:
    """The reduction with its axes kept or not, `finish` applied in the end."""
    source, axes = shape_of(op.input.type), int_tuple(op.axes)
    shape, element = shape_of(op.result.type), element_type_of(op.result.type)
    space, index = along(source, axes)
    keeps = len(shape) == len(source)
    out = [ZERO if axis in axes else index[axis] for axis in range(len(source))]
    init = emit.fill(initial, wide, shape)
    total = emit.block(space, [Read(op.input, index)], init, body, out if keeps else None)
    if finish is None:
        return total
    return emit.elementwise(shape, element, [total], finish)


@lowers(g.ReduceMeanOp)
def _reduce_mean(emit: Emitter, op: g.ReduceMeanOp) -> SSAValue:
    """The sum, in a type that is wide enough, divided by the number of elements; 0 of nothing."""
    element, source = element_type_of(op.result.type), shape_of(op.input.type)
    wide, count = accumulator_of(element), prod(source[axis] for axis in int_tuple(op.axes)) or 1
    return _finished(
        emit, op, 0, wide, lambda x, acc: acc + x.to(wide), lambda x: (x / count).to(element)
    )


@lowers(g.ReduceLogSumExpOp)
def _log_sum_exp(emit: Emitter, op: g.ReduceLogSumExpOp) -> SSAValue:
    """The greatest value, subtracted first, keeps exp from overflowing; one that is infinite is
    not subtracted, for `inf - inf` is NaN."""
    source, axes = shape_of(op.input.type), int_tuple(op.axes)
    shape, element = shape_of(op.result.type), element_type_of(op.result.type)
    if 0 in source:
        return emit.fill(-inf, element, shape)
    wide = accumulator_of(element)
    most = _most(emit, op.input, axes, wide)
    rest = shape_of(most.type)

    def finite(m: Emitted) -> Emitted:
        infinite = m.compare("eq", inf).binary("or", m.compare("eq", -inf))
        return infinite.select(m.constant(0), m)

    shift = emit.elementwise(rest, wide, [most], finite)
    total = _sum_of_powers(emit, op.input, shift, axes, wide)
    logs = emit.elementwise(
        rest, element, [total, shift], lambda s, m: (s.unary("log") + m).to(element)
    )
    return logs if shape == rest else _with_ones(emit, logs, shape, axes)


def _with_ones(emit: Emitter, value: SSAValue, shape: Shape, axes: Sequence[int]) -> SSAValue:
    read = Read(value, others(len(shape), axes))
    return emit.elementwise(shape, element_type_of(value.type), [read], lambda x: x)


def _most(emit: Emitter, value: SSAValue, axes: Sequence[int], wide: Attribute) -> SSAValue:
    """The greatest value along these axes, which it lacks."""
    return reduced(
        emit,
        [value],
        shape_of(value.type),
        axes,
        lowest(wide),
        wide,
        lambda x, acc: acc.max(x.to(wide)),
    )


def _sum_of_powers(
    emit: Emitter, value: SSAValue, shift: SSAValue, axes: Sequence[int], wide: Attribute
) -> SSAValue:
    """The sum of `e^(x - shift)` along these axes, which it lacks, as the shift does."""
    shape = shape_of(value.type)
    _, index = along(shape, axes)
    at = [expr for axis, expr in enumerate(index) if axis not in axes]

    def body(x: Emitted, m: Emitted, acc: Emitted) -> Emitted:
        return acc + (x.to(wide) - m).exp()

    return reduced(emit, [value, Read(shift, at)], shape, axes, 0, wide, body)


@lowers(g.GlobalAveragePoolOp)
def _global_average_pool(emit: Emitter, op: g.GlobalAveragePoolOp) -> SSAValue:
    element, source = element_type_of(op.result.type), shape_of(op.input.type)
    wide, count = accumulator_of(element), prod(source[2:])
    return _over_plane(
        emit, op, 0, wide, lambda x, acc: acc + x.to(wide), lambda x: (x / count).to(element)
    )


@lowers(g.GlobalMaxPoolOp)
def _global_max_pool(emit: Emitter, op: g.GlobalMaxPoolOp) -> SSAValue:
    element = element_type_of(op.result.type)
    return _over_plane(emit, op, *_swapped(extreme("max", element), element), None)


def _over_plane(
    emit: Emitter,
    op: g.GlobalAveragePoolOp | g.GlobalMaxPoolOp,
    initial: Number,
    wide: Attribute,
    body: Step,
    finish: Callable[[Emitted], Emitted] | None,
) -> SSAValue:
    source, shape = shape_of(op.input.type), shape_of(op.result.type)
    axes = range(2, len(source))
    space, index = along(source, axes)
    init = emit.fill(initial, wide, shape)
    out = [*index[:2], *(ZERO for _ in axes)]
    total = emit.block(space, [Read(op.input, index)], init, body, out)
    if finish is None:
        return total
    return emit.elementwise(shape, element_type_of(op.result.type), [total], finish)


# -- along one axis


@lowers(g.SoftmaxOp)
def _softmax(emit: Emitter, op: g.SoftmaxOp) -> SSAValue:
    """The greatest value, subtracted first, keeps exp from overflowing."""
    shape, element = shape_of(op.result.type), element_type_of(op.result.type)
    wide, axis = accumulator_of(element), op.axis.value.data
    most = _most(emit, op.input, [axis], wide)
    at = others(len(shape), [axis])
    powers = emit.elementwise(
        shape, wide, [op.input, Read(most, at)], lambda x, m: (x.to(wide) - m).exp()
    )
    total = reduced(emit, [powers], shape, [axis], 0, wide, lambda x, acc: acc + x)
    return emit.elementwise(
        shape, element, [powers, Read(total, at)], lambda x, s: (x / s).to(element)
    )


@lowers(g.LogSoftmaxOp)
def _log_softmax(emit: Emitter, op: g.LogSoftmaxOp) -> SSAValue:
    shape, element = shape_of(op.result.type), element_type_of(op.result.type)
    wide, axis = accumulator_of(element), op.axis.value.data
    most = _most(emit, op.input, [axis], wide)
    total = _sum_of_powers(emit, op.input, most, [axis], wide)
    at = others(len(shape), [axis])

    def body(x: Emitted, m: Emitted, s: Emitted) -> Emitted:
        return ((x.to(wide) - m) - s.unary("log")).to(element)

    return emit.elementwise(shape, element, [op.input, Read(most, at), Read(total, at)], body)


@lowers(g.LpNormOp)
def _lp_norm(emit: Emitter, op: g.LpNormOp) -> SSAValue:
    shape, element = shape_of(op.result.type), element_type_of(op.result.type)
    wide, axis, p = accumulator_of(element), op.axis.value.data, op.p.value.data

    def add(x: Emitted, acc: Emitted) -> Emitted:
        value = x.to(wide)
        return acc + (value.unary("abs") if p == 1 else value * value)

    total = reduced(emit, [op.input], shape, [axis], 0, wide, add)

    def body(x: Emitted, total: Emitted) -> Emitted:
        norm = total if p == 1 else total.sqrt()
        return norm.compare("eq", 0).select(norm, x.to(wide) / norm).to(element)

    return emit.elementwise(
        shape, element, [op.input, Read(total, others(len(shape), [axis]))], body
    )


@lowers(g.CumSumOp)
def _cum_sum(emit: Emitter, op: g.CumSumOp) -> SSAValue:
    """The sum, at each place, of the elements that a guard lets through."""
    shape, element = shape_of(op.result.type), element_type_of(op.result.type)
    wide = i64 if is_unsigned(element) else accumulator_of(element)
    axis = op.axis.value.data
    space = Space({f"i{i}": size for i, size in enumerate(shape)}, {"r": shape[axis]})
    index = list(space.parallel)
    at, other = index[axis], space["r"]
    index[axis] = other
    before = other + at * -1 if op.reverse.value.data else at + other * -1
    init = emit.fill(0, wide, shape)

    def add(x: Emitted, acc: Emitted) -> Emitted:
        return acc + x.to(wide)

    where = [before - op.exclusive.value.data]
    total = emit.block(space, [Read(op.input, index)], init, add, where=where)
    return emit.elementwise(shape, element, [total], lambda x: x.to(element))
