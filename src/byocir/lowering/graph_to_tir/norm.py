"""Normalisations: chains of blocks for mean, variance and the normalised elements."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.ir import Attribute, SSAValue

from byocir.dialects import graph as g
from byocir.dialects.tir.affine import divided
from byocir.dialects.tir.emit import Emitter, Index, Read, Space, broadcast_index
from byocir.dialects.tir.scalar import Emitted
from byocir.dialects.types import Shape, element_type_of, f32, f64, shape_of
from byocir.lowering.graph_to_tir.contraction import spatial_names
from byocir.lowering.graph_to_tir.operands import accumulator_of, axis_read
from byocir.lowering.graph_to_tir.reduce import others, reduced
from byocir.lowering.graph_to_tir.registry import lowers


@lowers(g.BatchNormOp)
def _batch_norm(emit: Emitter, op: g.BatchNormOp) -> SSAValue:
    shape, element = shape_of(op.result.type), element_type_of(op.result.type)
    wide, epsilon = accumulator_of(element), op.epsilon.value.data
    columns = [op.scale, op.bias, op.mean, op.variance]

    def body(x: Emitted, *column: Emitted) -> Emitted:
        scale, bias, mean, variance = (value.to(wide) for value in column)
        return ((x.to(wide) - mean) / (variance + epsilon).sqrt() * scale + bias).to(element)

    reads = [op.input, *(axis_read(value, 1) for value in columns)]
    return emit.elementwise(shape, element, reads, body)


def _moments(
    emit: Emitter, value: SSAValue, space: Space, index: Index, rest: Shape, wide: Attribute
) -> tuple[SSAValue, SSAValue]:
    """The sum of a group's elements over their number, and that of their squared distances to it;
    `rest` is the shape of the groups, over which the parallel iterators run."""
    count = prod(space.extents[len(rest) :])

    def mean(total: SSAValue) -> SSAValue:
        return emit.elementwise(rest, wide, [total], lambda x: x / count)

    def squares(x: Emitted, m: Emitted, acc: Emitted) -> Emitted:
        distance = x.to(wide) - m
        return acc + distance * distance

    zeros = emit.fill(0, wide, rest)
    total = emit.block(space, [Read(value, index)], zeros, lambda x, acc: acc + x.to(wide))
    centre = mean(total)
    reads = [Read(value, index), Read(centre, space.parallel)]
    return centre, mean(emit.block(space, reads, emit.fill(0, wide, rest), squares))


def _normalised(
    emit: Emitter,
    op: g.InstanceNormOp | g.GroupNormOp | g.LayerNormOp,
    moments: tuple[SSAValue, SSAValue],
    at: Index,
    parameters: Sequence[Read],
    wide: Attribute,
) -> SSAValue:
    """`(x - mean) / sqrt(variance + epsilon)`, times scale and plus bias if there is one."""
    shape, element = shape_of(op.result.type), element_type_of(op.result.type)
    epsilon = op.epsilon.value.data

    def body(x: Emitted, mean: Emitted, variance: Emitted, *given: Emitted) -> Emitted:
        y = (x.to(wide) - mean) / (variance + epsilon).sqrt() * given[0].to(wide)
        return (y + given[1].to(wide) if len(given) > 1 else y).to(element)

    reads = [op.input, *(Read(moment, at) for moment in moments), *parameters]
    return emit.elementwise(shape, element, reads, body)


@lowers(g.InstanceNormOp, g.GroupNormOp)
def _group_norm(emit: Emitter, op: g.InstanceNormOp | g.GroupNormOp) -> SSAValue:
    """An instance norm is a group norm with one channel in each group."""
    shape, element = shape_of(op.result.type), element_type_of(op.result.type)
    groups = op.num_groups.value.data if isinstance(op, g.GroupNormOp) else shape[1]
    if 0 in shape:
        return emit.empty(element, shape)
    wide, inner = accumulator_of(element), shape[1] // groups
    names = spatial_names(len(shape) - 2)
    plane = dict(zip(names, shape[2:], strict=True))
    space = Space({"n": shape[0], "g": groups}, {"c": inner, **plane})
    channel = space["g"] * inner + space["c"]
    index = [space["n"], channel, *(space[name] for name in names)]
    moments = _moments(emit, op.input, space, index, (shape[0], groups), wide)
    n, c = Space.over(shape).parallel[:2]
    parameters = [axis_read(op.scale, 1), axis_read(op.bias, 1)]
    return _normalised(emit, op, moments, [n, divided(c, inner)], parameters, wide)


def _tail_reads(shape: Shape, values: Sequence[SSAValue]) -> list[Read]:
    """Parameters that broadcast to the last dimensions."""
    return [Read(value, broadcast_index(shape_of(value.type), shape)) for value in values]


def _computed_in(element: Attribute) -> Attribute:
    """ONNX's stash type: f32, but f64 keeps its own."""
    return f64 if element == f64 else f32


@lowers(g.LayerNormOp)
def _layer_norm(emit: Emitter, op: g.LayerNormOp) -> SSAValue:
    shape, element = shape_of(op.result.type), element_type_of(op.result.type)
    wide, axis = _computed_in(element), op.axis.value.data
    if 0 in shape:
        return emit.empty(element, shape)
    rows = Space(
        {f"i{i}": size for i, size in enumerate(shape[:axis])},
        {f"r{i}": size for i, size in enumerate(shape[axis:], axis)},
    )
    index = [rows[f"i{i}" if i < axis else f"r{i}"] for i in range(len(shape))]
    moments = _moments(emit, op.input, rows, index, shape[:axis], wide)
    values = [op.scale, *([op.bias] if op.bias is not None else [])]
    at = Space.over(shape).parallel[:axis]
    return _normalised(emit, op, moments, at, _tail_reads(shape, values), wide)


@lowers(g.RmsNormOp)
def _rms_norm(emit: Emitter, op: g.RmsNormOp) -> SSAValue:
    shape, element = shape_of(op.result.type), element_type_of(op.result.type)
    wide, axes = _computed_in(element), range(op.axis.value.data, len(shape))
    if 0 in shape:
        return emit.empty(element, shape)
    count, epsilon = prod(shape[axis] for axis in axes), op.epsilon.value.data
    total = reduced(
        emit, [op.input], shape, axes, 0, wide, lambda x, acc: acc + x.to(wide) * x.to(wide)
    )

    def body(x: Emitted, total: Emitted, scale: Emitted) -> Emitted:
        return (x.to(wide) / (total / count + epsilon).sqrt() * scale.to(wide)).to(element)

    at = Read(total, others(len(shape), axes))
    return emit.elementwise(shape, element, [op.input, at, *_tail_reads(shape, [op.scale])], body)


@lowers(g.LrnOp)
def _lrn(emit: Emitter, op: g.LrnOp) -> SSAValue:
    """The squares of neighbouring channels are a window; there are none beyond the last."""
    shape, element = shape_of(op.result.type), element_type_of(op.result.type)
    wide, size = accumulator_of(element), op.size.value.data
    space = Space({f"i{i}": n for i, n in enumerate(shape)}, {"r": size})
    index = list(space.parallel)
    index[1] = index[1] + space["r"] - (size - 1) // 2

    def add(x: Emitted, acc: Emitted) -> Emitted:
        return acc + x.to(wide) * x.to(wide)

    read = Read(op.input, index, pad=0)
    squares = emit.block(space, [read], emit.fill(0, wide, shape), add)
    alpha, beta, bias = (value.value.data for value in (op.alpha, op.beta, op.bias))

    def body(x: Emitted, s: Emitted) -> Emitted:
        return (x.to(wide) / (s * (alpha / size) + bias).binary("pow", beta)).to(element)

    return emit.elementwise(shape, element, [op.input, squares], body)
