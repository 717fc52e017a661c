"""Normalisations: by batch statistics, over instances, groups, layers and neighbours."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from byocir.dialects.checks import expect
from byocir.dialects.graph.base import (
    FLOAT,
    INT,
    GraphOp,
    broadcast,
    dims,
    expect_axis,
    expect_float,
)
from byocir.dialects.types import Shape, shape_of, tensor


def _expect_channels(x: SSAValue, **parameters: SSAValue) -> TensorType:
    """The type of `x` [N,C,…] of floats; raises VerifyException unless each parameter is [C]."""
    element, shape = expect_float(x), shape_of(x.type)
    expect(len(shape) >= 2, f"expected an input of rank >= 2, found {dims(shape)}")
    wanted = tensor(element, shape[1:2])
    for name, value in parameters.items():
        if value.type != wanted:
            raise VerifyException(f"expected {name} {wanted}, found {value.type}")
    return tensor(element, shape)


@irdl_op_definition
class BatchNormOp(GraphOp):
    """`(x - mean) / sqrt(variance + epsilon) * scale + bias` with given statistics for each channel
    of `[N,C,spatial…]`, e.g. `graph.batch_norm %x, %scale, %bias, %mean, %variance {epsilon =
    1.0e-05 : f32} : (tensor<1x4x8x8xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>,
    tensor<4xf32>) -> tensor<1x4x8x8xf32>`."""

    name = "graph.batch_norm"

    input = operand_def(TensorType)
    scale = operand_def(TensorType)
    bias = operand_def(TensorType)
    mean = operand_def(TensorType)
    variance = operand_def(TensorType)
    epsilon = prop_def(FLOAT)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = (
        "$input `,` $scale `,` $bias `,` $mean `,` $variance attr-dict `:` "
        "functional-type(operands, results)"
    )

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


@irdl_op_definition
class InstanceNormOp(GraphOp):
    """Each channel of each instance of `[N,C,spatial…]` to mean 0 and variance 1, then scale and
    bias for each channel, e.g. `graph.instance_norm %x, %scale, %bias {epsilon = 1.0e-05 : f32} :
    (tensor<1x4x8x8xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<1x4x8x8xf32>`."""

    name = "graph.instance_norm"

    input = operand_def(TensorType)
    scale = operand_def(TensorType)
    bias = operand_def(TensorType)
    epsilon = prop_def(FLOAT)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$input `,` $scale `,` $bias attr-dict `:` functional-type(operands, results)"

    def infer(self) -> Sequence[TensorType]:
        type_ = _expect_channels(self.input, scale=self.scale, bias=self.bias)
        x = shape_of(type_)
        expect(len(x) >= 3, f"expected an input of rank >= 3, found {dims(x)}")
        expect(math.prod(x[2:]) > 0, f"expected values to average, found {dims(x)}")
        return [type_]


@irdl_op_definition
class GroupNormOp(GraphOp):
    """As instance_norm, over groups of `C / num_groups` neighbouring channels, e.g.
    `graph.group_norm %x, %scale, %bias {epsilon = 1.0e-05 : f32, num_groups = 2 : i64} :
    (tensor<1x4x8x8xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<1x4x8x8xf32>`."""

    name = "graph.group_norm"

    input = operand_def(TensorType)
    scale = operand_def(TensorType)
    bias = operand_def(TensorType)
    epsilon = prop_def(FLOAT)
    num_groups = prop_def(INT)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$input `,` $scale `,` $bias attr-dict `:` functional-type(operands, results)"

    def infer(self) -> Sequence[TensorType]:
        type_ = _expect_channels(self.input, scale=self.scale, bias=self.bias)
        x, groups = shape_of(type_), self.num_groups.value.data
        expect(
            groups >= 1 and x[1] % groups == 0,
            f"expected num_groups that divides {x[1]} channels, found {groups}",
        )
        expect(math.prod(x[1:]) > 0, f"expected values to average, found {dims(x)}")
        return [type_]


def _expect_tail(x: Shape, axis: int, name: str, value: SSAValue) -> None:
    """A parameter that broadcasts to the dimensions from `axis` on."""
    tail, found = x[axis:], shape_of(value.type)
    expect(
        broadcast(tail, found) == tail,
        f"expected {name} that broadcasts to {dims(tail)}, found {dims(found)}",
    )


@irdl_op_definition
class LayerNormOp(GraphOp):
    """The dimensions from `axis` on to mean 0 and variance 1, in f32, then times scale and plus an
    optional bias, e.g. `graph.layer_norm %x, %scale, %bias {axis = 1 : i64, epsilon = 1.0e-05 :
    f32} : (tensor<8x16xf32>, tensor<16xf32>, tensor<16xf32>) -> tensor<8x16xf32>`."""

    name = "graph.layer_norm"

    input = operand_def(TensorType)
    scale = operand_def(TensorType)
    bias = opt_operand_def(TensorType)
    axis = prop_def(INT)
    epsilon = prop_def(FLOAT)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = (
        "$input `,` $scale (`,` $bias^)? attr-dict `:` functional-type(operands, results)"
    )

    def infer(self) -> Sequence[TensorType]:
        element, x, axis = expect_float(self.input), shape_of(self.input.type), self.axis.value.data
        expect_axis(axis, len(x))
        parameters = {"scale": self.scale} | ({"bias": self.bias} if self.bias else {})
        for name, value in parameters.items():
            found = expect_float(value)
            expect(found == element, f"expected {name} of {element}, found {found}")
            _expect_tail(x, axis, name, value)
        return [tensor(element, x)]


@irdl_op_definition
class RmsNormOp(GraphOp):
    """`x / sqrt(mean(x^2) + epsilon) * scale`, in f32, over the dimensions from `axis` on, e.g.
    `graph.rms_norm %x, %scale {axis = 1 : i64, epsilon = 1.0e-05 : f32} : (tensor<8x16xf32>,
    tensor<16xf32>) -> tensor<8x16xf32>`."""

    name = "graph.rms_norm"

    input = operand_def(TensorType)
    scale = operand_def(TensorType)
    axis = prop_def(INT)
    epsilon = prop_def(FLOAT)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$input `,` $scale attr-dict `:` functional-type(operands, results)"

    def infer(self) -> Sequence[TensorType]:
        element, x, axis = expect_float(self.input), shape_of(self.input.type), self.axis.value.data
        expect_axis(axis, len(x))
        found = expect_float(self.scale)
        expect(found == element, f"expected scale of {element}, found {found}")
        _expect_tail(x, axis, "scale", self.scale)
        return [tensor(element, x)]


@irdl_op_definition
class LrnOp(GraphOp):
    """Local response normalisation, `x / (bias + alpha / size * s)^beta`, where s is the sum of the
    squares of `size` neighbouring channels, e.g. `graph.lrn %x {alpha = 1.0e-04 : f32, beta =
    0.75 : f32, bias = 1.0 : f32, size = 3 : i64} : (tensor<1x4x8x8xf32>) ->
    tensor<1x4x8x8xf32>`."""

    name = "graph.lrn"

    input = operand_def(TensorType)
    alpha = prop_def(FLOAT)
    beta = prop_def(FLOAT)
    bias = prop_def(FLOAT)
    size = prop_def(INT)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$input attr-dict `:` functional-type(operands, results)"

    def infer(self) -> Sequence[TensorType]:
        expect(self.size.value.data >= 1, f"expected size >= 1, found {self.size.value.data}")
        return [_expect_channels(self.input)]
