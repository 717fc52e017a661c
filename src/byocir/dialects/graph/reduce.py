"""Ops that look along whole dimensions: reduce_mean and softmax."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def, traits_def
from xdsl.traits import Pure

from byocir.dialects.checks import expect
from byocir.dialects.graph.base import (
    INT,
    INTS,
    GraphOp,
    expect_axes,
    expect_axis,
    expect_float,
    int_tuple,
)
from byocir.dialects.types import shape_of, tensor


@irdl_op_definition
class ReduceMeanOp(GraphOp):
    """The mean along `axes`, which stay with size 1 if `keepdims` is 1, e.g. `graph.reduce_mean %x
    {axes = array<i64: 2, 3>, keepdims = 0 : i64} : (tensor<1x4x8x8xf32>) -> tensor<1x4xf32>`."""

    name = "graph.reduce_mean"

    input = operand_def(TensorType)
    axes = prop_def(INTS)
    keepdims = prop_def(INT)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$input attr-dict `:` functional-type(operands, results)"

    def infer(self) -> Sequence[TensorType]:
        x, axes, keep = shape_of(self.input.type), int_tuple(self.axes), self.keepdims.value.data
        expect_axes(axes, len(x))
        expect(keep in (0, 1), f"expected keepdims 0 or 1, found {keep}")
        kept = [1 if i in axes else d for i, d in enumerate(x) if keep or i not in axes]
        return [tensor(expect_float(self.input), kept)]


@irdl_op_definition
class SoftmaxOp(GraphOp):
    """`exp(x) / sum(exp(x))` along one axis, e.g. `graph.softmax %x {axis = 1 : i64} :
    (tensor<8x10xf32>) -> tensor<8x10xf32>`."""

    name = "graph.softmax"

    input = operand_def(TensorType)
    axis = prop_def(INT)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$input attr-dict `:` functional-type(operands, results)"

    def infer(self) -> Sequence[TensorType]:
        x = shape_of(self.input.type)
        expect_axis(self.axis.value.data, len(x))
        return [tensor(expect_float(self.input), x)]
