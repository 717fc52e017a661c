"""Defines normalisations: by batch statistics, over instances, groups, layers and neighbours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from math import prod

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    operand_def,
    opt_operand_def,
    prop_def,
    result_def,
)
from xdsl.utils.exceptions import VerifyException

from byocir.dialects.checks import expect
from byocir.dialects.definition import irdl_op_definition
from byocir.dialects.graph.base import (
    FLOAT,
    INT,
    ByBatch,
    GraphOp,
    OneInputOp,
    broadcast,
    dims,
    expect_axis,
    expect_float,
)
from byocir.dialects.graph.nn import spatial_names
from byocir.dialects.graph.open_sizes import Dims, is_open
from byocir.dialects.graph.operands import accumulator_of, axis_read
from byocir.dialects.graph.reducing import others, reduced
from byocir.dialects.tir.affine import divided
from byocir.dialects.tir.emit import Emitter, Index, Read, Space, broadcast_index
from byocir.dialects.tir.scalar import Emitted
from byocir.dialects.types import Shape, element_type_of, f32, f64, shape_of, tensor


def _expect_channels(x: SSAValue, **parameters: SSAValue) -> TensorType:
    """Gives the type of `x` [N,C,…] of floats; raises VerifyException unless each parameter is
    [C].
    """
    element, shape = expect_float(x), shape_of(x.type)
    expect(len(shape) >= 2, f"expected an input of rank >= 2, found {dims(shape)}")
    wanted = tensor(element, shape[1:2])
    for name, value in parameters.items():
        if value.type != wanted:
            raise VerifyException(f"expected {name} {wanted}, found {value.type}")
    return tensor(element, shape)


@irdl_op_definition
class BatchNormOp(ByBatch, GraphOp):
    """Computes `(x - mean) / sqrt(variance + epsilon) * scale + bias` with given statistics for
    each channel of `[N,C,spatial…]`, e.g. `graph.batch_norm %x, %scale, %bias, %mean, %variance
    {epsilon = 1.0e-05 : f32} : (tensor<1x4x8x8xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>,
    tensor<4xf32>) -> tensor<1x4x8x8xf32>`.
    """

    name = "graph.batch_norm"

    input = operand_def(TensorType)
    scale = operand_def(TensorType)
    bias = operand_def(TensorType)
    mean = operand_def(TensorType)
    variance = operand_def(TensorType)
    epsilon = prop_def(FLOAT)
    result = result_def(TensorType)

    def infer(self) -> Sequence[TensorType]:
        return [
            _expect_channels(
                self.input,
                scale=self.scale,
                bias=self.bias,
                mean=self.mean,
                variance=self.variance,
            )
        ]

    def define(self, emit: Emitter) -> SSAValue:
        shape, element = shape_of(self.result.type), element_type_of(self.result.type)
        wide, epsilon = accumulator_of(element), self.epsilon.value.data
        columns = [self.scale, self.bias, self.mean, self.variance]

        def body(x: Emitted, *column: Emitted) -> Emitted:
            scale, bias, mean, variance = (value.to(wide) for value in column)
            return ((x.to(wide) - mean) / (variance + epsilon).sqrt() * scale + bias).to(element)

        reads = [self.input, *(axis_read(value, 1) for value in columns)]
        return emit.elementwise(shape, element, reads, body)


class ChannelNormOp(ByBatch, GraphOp):
    """Defines what normalisations by channel share, with a scale and a bias for each channel."""

    input = operand_def(TensorType)
    scale = operand_def(TensorType)
    bias = operand_def(TensorType)
    epsilon = prop_def(FLOAT)
    result = result_def(TensorType)


@irdl_op_definition
class InstanceNormOp(ChannelNormOp):
    """Brings each channel of each instance of `[N,C,spatial…]` to mean 0 and variance 1, then
    applies a scale and a bias for each channel, e.g. `graph.instance_norm %x, %scale, %bias
    {epsilon = 1.0e-05 : f32} : (tensor<1x4x8x8xf32>, tensor<4xf32>, tensor<4xf32>) ->
    tensor<1x4x8x8xf32>`.
    """

    name = "graph.instance_norm"

    def infer(self) -> Sequence[TensorType]:
        type_ = _expect_channels(self.input, scale=self.scale, bias=self.bias)
        x = shape_of(type_)
        expect(len(x) >= 3, f"expected an input of rank >= 3, found {dims(x)}")
        expect(math.prod(x[2:]) > 0, f"expected values to average, found {dims(x)}")
        return [type_]

    def define(self, emit: Emitter) -> SSAValue:
        """Defines the op as a group norm with one channel in each group."""
        return _group_norm(emit, self, shape_of(self.result.type)[1])


@irdl_op_definition
class GroupNormOp(ChannelNormOp):
    """Normalises as instance_norm does, over groups of `C / num_groups` neighbouring channels, e.g.
    `graph.group_norm %x, %scale, %bias {epsilon = 1.0e-05 : f32, num_groups = 2 : i64} :
    (tensor<1x4x8x8xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<1x4x8x8xf32>`."""

    name = "graph.group_norm"

    num_groups = prop_def(INT)

    def infer(self) -> Sequence[TensorType]:
        type_ = _expect_channels(self.input, scale=self.scale, bias=self.bias)
        x, groups = shape_of(type_), self.num_groups.value.data
        expect(
            groups >= 1 and x[1] % groups == 0,
            f"expected num_groups that divides {x[1]} channels, found {groups}",
        )
        expect(math.prod(x[1:]) > 0, f"expected values to average, found {dims(x)}")
        return [type_]

    def define(self, emit: Emitter) -> SSAValue:
        return _group_norm(emit, self, self.num_groups.value.data)


class TailNormOp(GraphOp):
    """Defines what normalisations over the dimensions from `axis` on share."""

    axis = prop_def(INT)
    epsilon = prop_def(FLOAT)
    result = result_def(TensorType)

    def open_dims(self, *dims: Dims) -> Sequence[Dims] | None:
        return None if is_open(dims[0][self.axis.value.data :]) else [dims[0]]


def _expect_tail(axis: int, x: SSAValue, **parameters: SSAValue) -> TensorType:
    """Gives the type of `x`; raises VerifyException unless each parameter has its element type and
    broadcasts to its dimensions from `axis` on.
    """
    element, shape = expect_float(x), shape_of(x.type)
    expect_axis(axis, len(shape))
    tail = shape[axis:]
    for name, value in parameters.items():
        found, given = expect_float(value), shape_of(value.type)
        expect(found == element, f"expected {name} of {element}, found {found}")
        expect(
            broadcast(tail, given) == tail,
            f"expected {name} that broadcasts to {dims(tail)}, found {dims(given)}",
        )
    return tensor(element, shape)


@irdl_op_definition
class LayerNormOp(TailNormOp):
    """Brings the elements of the dimensions from `axis` on to mean 0 and variance 1, in f32, then
    multiplies by scale and adds an optional bias, e.g. `graph.layer_norm %x, %scale, %bias {axis =
    1 : i64, epsilon = 1.0e-05 : f32} : (tensor<8x16xf32>, tensor<16xf32>, tensor<16xf32>) ->
    tensor<8x16xf32>`.
    """

    name = "graph.layer_norm"

    input = operand_def(TensorType)
    scale = operand_def(TensorType)
    bias = opt_operand_def(TensorType)

    def infer(self) -> Sequence[TensorType]:
        bias = {"bias": self.bias} if self.bias else {}
        return [_expect_tail(self.axis.value.data, self.input, scale=self.scale, **bias)]

    def define(self, emit: Emitter) -> SSAValue:
        shape, element = shape_of(self.result.type), element_type_of(self.result.type)
        wide, axis = _computed_in(element), self.axis.value.data
        if 0 in shape:
            return emit.empty(element, shape)
        rows = Space(
            {f"i{i}": size for i, size in enumerate(shape[:axis])},
            {f"r{i}": size for i, size in enumerate(shape[axis:], axis)},
        )
        index = [rows[f"i{i}" if i < axis else f"r{i}"] for i in range(len(shape))]
        moments = _moments(emit, self.input, rows, index, shape[:axis], wide)
        values = [self.scale, *([self.bias] if self.bias else [])]
        at = Space.over(shape).parallel[:axis]
        return _normalised(emit, self, moments, at, _tail_reads(shape, values), wide)


@irdl_op_definition
class RmsNormOp(TailNormOp):
    """Computes `x / sqrt(mean(x^2) + epsilon) * scale`, in f32, over the dimensions from `axis` on,
    e.g. `graph.rms_norm %x, %scale {axis = 1 : i64, epsilon = 1.0e-05 : f32} : (tensor<8x16xf32>,
    tensor<16xf32>) -> tensor<8x16xf32>`.
    """

    name = "graph.rms_norm"

    input = operand_def(TensorType)
    scale = operand_def(TensorType)

    def infer(self) -> Sequence[TensorType]:
        return [_expect_tail(self.axis.value.data, self.input, scale=self.scale)]

    def define(self, emit: Emitter) -> SSAValue:
        shape, element = shape_of(self.result.type), element_type_of(self.result.type)
        wide, axes = _computed_in(element), range(self.axis.value.data, len(shape))
        if 0 in shape:
            return emit.empty(element, shape)
        count, epsilon = prod(shape[axis] for axis in axes), self.epsilon.value.data
        total = reduced(
            emit, [self.input], shape, axes, 0, wide, lambda x, acc: acc + x.to(wide) * x.to(wide)
        )

        def body(x: Emitted, total: Emitted, scale: Emitted) -> Emitted:
            return (x.to(wide) / (total / count + epsilon).sqrt() * scale.to(wide)).to(element)

        at = Read(total, others(len(shape), axes))
        return emit.elementwise(
            shape, element, [self.input, at, *_tail_reads(shape, [self.scale])], body
        )


@irdl_op_definition
class LrnOp(ByBatch, OneInputOp):
    """Normalises by the local response: computes `x / (bias + alpha / size * s)^beta`, where s is
    the sum of the squares of `size` neighbouring channels, e.g. `graph.lrn %x {alpha = 1.0e-04 :
    f32, beta = 0.75 : f32, bias = 1.0 : f32, size = 3 : i64} : (tensor<1x4x8x8xf32>) ->
    tensor<1x4x8x8xf32>`.
    """

    name = "graph.lrn"

    alpha = prop_def(FLOAT)
    beta = prop_def(FLOAT)
    bias = prop_def(FLOAT)
    size = prop_def(INT)

    def infer(self) -> Sequence[TensorType]:
        expect(self.size.value.data >= 1, f"expected size >= 1, found {self.size.value.data}")
        return [_expect_channels(self.input)]

    def define(self, emit: Emitter) -> SSAValue:
        """Sums the squares of neighbouring channels as a window does; beyond the last channel there
        are none.
        """
        shape, element = shape_of(self.result.type), element_type_of(self.result.type)
        wide, size = accumulator_of(element), self.size.value.data
        space = Space({f"i{i}": n for i, n in enumerate(shape)}, {"r": size})
        index = list(space.parallel)
        index[1] = index[1] + space["r"] - (size - 1) // 2

        def add(x: Emitted, acc: Emitted) -> Emitted:
            return acc + x.to(wide) * x.to(wide)

        read = Read(self.input, index, pad=0)
        squares = emit.block(space, [read], emit.fill(0, wide, shape), add)
        alpha, beta, bias = (value.value.data for value in (self.alpha, self.beta, self.bias))

        def body(x: Emitted, s: Emitted) -> Emitted:
            return (x.to(wide) / (s * (alpha / size) + bias).binary("pow", beta)).to(element)

        return emit.elementwise(shape, element, [self.input, squares], body)


def _group_norm(emit: Emitter, op: InstanceNormOp | GroupNormOp, groups: int) -> SSAValue:
    shape, element = shape_of(op.result.type), element_type_of(op.result.type)
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


def _moments(
    emit: Emitter, value: SSAValue, space: Space, index: Index, rest: Shape, wide: Attribute
) -> tuple[SSAValue, SSAValue]:
    """Computes mean and variance of each group: the sum of its elements over their number, and that
    of their squared distances to the mean. `rest` is the shape of the groups, over which the
    parallel iterators run.
    """
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
    op: InstanceNormOp | GroupNormOp | LayerNormOp,
    moments: tuple[SSAValue, SSAValue],
    at: Index,
    parameters: Sequence[Read],
    wide: Attribute,
) -> SSAValue:
    """Computes `(x - mean) / sqrt(variance + epsilon)`, times scale and plus bias if there is
    one.
    """
    shape, element = shape_of(op.result.type), element_type_of(op.result.type)
    epsilon = op.epsilon.value.data

    def body(x: Emitted, mean: Emitted, variance: Emitted, *given: Emitted) -> Emitted:
        y = (x.to(wide) - mean) / (variance + epsilon).sqrt() * given[0].to(wide)
        return (y + given[1].to(wide) if len(given) > 1 else y).to(element)

    reads = [op.input, *(Read(moment, at) for moment in moments), *parameters]
    return emit.elementwise(shape, element, reads, body)


def _tail_reads(shape: Shape, values: Sequence[SSAValue]) -> list[Read]:
    """Reads parameters that broadcast to the last dimensions."""
    return [Read(value, broadcast_index(shape_of(value.type), shape)) for value in values]


def _computed_in(element: Attribute) -> Attribute:
    """Gives the type in which a normalisation computes, ONNX's stash type: f32, but f64 for
    itself.
    """
    return f64 if element == f64 else f32
