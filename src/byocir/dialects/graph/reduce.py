"""Ops that look along whole dimensions: reductions, softmax and running sums."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def, traits_def
from xdsl.traits import Pure

from byocir.dialects.checks import expect
from byocir.dialects.graph.base import (
    INT,
    INTS,
    Exact,
    ExactOnIntegers,
    GraphOp,
    expect_axes,
    expect_axis,
    expect_flag,
    expect_float,
    int_tuple,
    is_number,
)
from byocir.dialects.types import element_type_of, i64, shape_of, tensor


class ReduceOp(GraphOp):
    """Base of the reductions along `axes`, which stay with size 1 if `keepdims` is 1; on floats,
    unless a subclass says otherwise."""

    input = operand_def(TensorType)
    axes = prop_def(INTS)
    keepdims = prop_def(INT)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$input attr-dict `:` functional-type(operands, results)"

    def element(self) -> Attribute:
        """The result's element type; raises VerifyException for an input that is not allowed."""
        return expect_float(self.input)

    def infer(self) -> Sequence[TensorType]:
        x, axes = shape_of(self.input.type), int_tuple(self.axes)
        expect_axes(axes, len(x))
        keep = expect_flag("keepdims", self.keepdims)
        kept = [1 if i in axes else d for i, d in enumerate(x) if keep or i not in axes]
        return [tensor(self.element(), kept)]


class NumberReduceOp(ReduceOp):
    """Base of the reductions of all numbers."""

    def element(self) -> Attribute:
        element = element_type_of(self.input.type)
        expect(is_number(element), f"expected an input of numbers, found {element}")
        return element


class ExtremeReduceOp(Exact, NumberReduceOp):
    """Base of the reductions to one of the elements."""

    def element(self) -> Attribute:
        x, axes = shape_of(self.input.type), int_tuple(self.axes)
        expect(all(x[axis] for axis in axes), "expected elements to choose from, found none")
        return super().element()


@irdl_op_definition
class ReduceSumOp(ExactOnIntegers, NumberReduceOp):
    """The sum along `axes`, e.g. `graph.reduce_sum %x {axes = array<i64: 2, 3>, keepdims = 0 :
    i64} : (tensor<1x4x8x8xf32>) -> tensor<1x4xf32>`."""

    name = "graph.reduce_sum"


@irdl_op_definition
class ReduceMeanOp(ReduceOp):
    """The mean along `axes`, e.g. `graph.reduce_mean %x {axes = array<i64: 2, 3>, keepdims = 0 :
    i64} : (tensor<1x4x8x8xf32>) -> tensor<1x4xf32>`."""

    name = "graph.reduce_mean"


@irdl_op_definition
class ReduceMaxOp(ExtremeReduceOp):
    """The greatest element along `axes`, e.g. `graph.reduce_max %x {axes = array<i64: 2, 3>,
    keepdims = 0 : i64} : (tensor<1x4x8x8xf32>) -> tensor<1x4xf32>`."""

    name = "graph.reduce_max"


@irdl_op_definition
class ReduceMinOp(ExtremeReduceOp):
    """The least element along `axes`, e.g. `graph.reduce_min %x {axes = array<i64: 2, 3>, keepdims
    = 0 : i64} : (tensor<1x4x8x8xf32>) -> tensor<1x4xf32>`."""

    name = "graph.reduce_min"


@irdl_op_definition
class ReduceProdOp(ExactOnIntegers, NumberReduceOp):
    """The product along `axes`, e.g. `graph.reduce_prod %x {axes = array<i64: 2, 3>, keepdims = 0
    : i64} : (tensor<1x4x8x8xf32>) -> tensor<1x4xf32>`."""

    name = "graph.reduce_prod"


@irdl_op_definition
class ReduceL1Op(ExactOnIntegers, NumberReduceOp):
    """The sum of absolute values along `axes`, e.g. `graph.reduce_l1 %x {axes = array<i64: 2, 3>,
    keepdims = 0 : i64} : (tensor<1x4x8x8xf32>) -> tensor<1x4xf32>`."""

    name = "graph.reduce_l1"


@irdl_op_definition
class ReduceL2Op(ReduceOp):
    """The square root of the sum of squares along `axes`, e.g. `graph.reduce_l2 %x {axes =
    array<i64: 2, 3>, keepdims = 0 : i64} : (tensor<1x4x8x8xf32>) -> tensor<1x4xf32>`."""

    name = "graph.reduce_l2"


@irdl_op_definition
class ReduceSumSquareOp(ExactOnIntegers, NumberReduceOp):
    """The sum of squares along `axes`, e.g. `graph.reduce_sum_square %x {axes = array<i64: 2, 3>,
    keepdims = 0 : i64} : (tensor<1x4x8x8xf32>) -> tensor<1x4xf32>`."""

    name = "graph.reduce_sum_square"


@irdl_op_definition
class ReduceLogSumOp(ReduceOp):
    """The logarithm of the sum along `axes`, e.g. `graph.reduce_log_sum %x {axes = array<i64: 2,
    3>, keepdims = 0 : i64} : (tensor<1x4x8x8xf32>) -> tensor<1x4xf32>`."""

    name = "graph.reduce_log_sum"


@irdl_op_definition
class ReduceLogSumExpOp(ReduceOp):
    """The logarithm of the sum of `e^x` along `axes`, e.g. `graph.reduce_log_sum_exp %x {axes =
    array<i64: 2, 3>, keepdims = 0 : i64} : (tensor<1x4x8x8xf32>) -> tensor<1x4xf32>`."""

    name = "graph.reduce_log_sum_exp"


class ArgOp(Exact, GraphOp):
    """Base of the searches along one axis for the index of an element, of several equal ones the
    first, or the last if `select_last_index` is 1."""

    input = operand_def(TensorType)
    axis = prop_def(INT)
    keepdims = prop_def(INT)
    select_last_index = prop_def(INT)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$input attr-dict `:` functional-type(operands, results)"

    def infer(self) -> Sequence[TensorType]:
        x, axis = list(shape_of(self.input.type)), self.axis.value.data
        element = element_type_of(self.input.type)
        expect(is_number(element), f"expected an input of numbers, found {element}")
        expect_axis(axis, len(x))
        expect(x[axis] > 0, "expected elements to choose from, found none")
        expect_flag("select_last_index", self.select_last_index)
        kept = [1] if expect_flag("keepdims", self.keepdims) else []
        return [tensor(i64, [*x[:axis], *kept, *x[axis + 1 :]])]


@irdl_op_definition
class ArgMaxOp(ArgOp):
    """The index of the greatest element along `axis`, e.g. `graph.arg_max %x {axis = 1 : i64,
    keepdims = 0 : i64, select_last_index = 0 : i64} : (tensor<8x10xf32>) -> tensor<8xi64>`."""

    name = "graph.arg_max"


@irdl_op_definition
class ArgMinOp(ArgOp):
    """The index of the least element along `axis`, e.g. `graph.arg_min %x {axis = 1 : i64,
    keepdims = 0 : i64, select_last_index = 0 : i64} : (tensor<8x10xf32>) -> tensor<8xi64>`."""

    name = "graph.arg_min"


class AlongOp(GraphOp):
    """Base of the ops on floats that keep the shape and look along one axis."""

    input = operand_def(TensorType)
    axis = prop_def(INT)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$input attr-dict `:` functional-type(operands, results)"

    def infer(self) -> Sequence[TensorType]:
        x = shape_of(self.input.type)
        expect_axis(self.axis.value.data, len(x))
        return [tensor(expect_float(self.input), x)]


@irdl_op_definition
class SoftmaxOp(AlongOp):
    """`exp(x) / sum(exp(x))` along one axis, e.g. `graph.softmax %x {axis = 1 : i64} :
    (tensor<8x10xf32>) -> tensor<8x10xf32>`."""

    name = "graph.softmax"


@irdl_op_definition
class LogSoftmaxOp(AlongOp):
    """`log(exp(x) / sum(exp(x)))` along one axis, e.g. `graph.log_softmax %x {axis = 1 : i64} :
    (tensor<8x10xf32>) -> tensor<8x10xf32>`."""

    name = "graph.log_softmax"


@irdl_op_definition
class HardmaxOp(Exact, AlongOp):
    """1 at the first greatest element, else 0, along one axis, e.g. `graph.hardmax %x {axis = 1 :
    i64} : (tensor<8x10xf32>) -> tensor<8x10xf32>`."""

    name = "graph.hardmax"


@irdl_op_definition
class LpNormOp(AlongOp):
    """The input divided by its norm along `axis`: the sum of absolute values with `p = 1`, the root
    of the sum of squares with `p = 2`; 0 where the norm is 0, e.g. `graph.lp_norm %x {axis =
    1 : i64, p = 2 : i64} : (tensor<8x10xf32>) -> tensor<8x10xf32>`."""

    name = "graph.lp_norm"

    p = prop_def(INT)

    def infer(self) -> Sequence[TensorType]:
        expect(self.p.value.data in (1, 2), f"expected p 1 or 2, found {self.p.value.data}")
        return super().infer()


@irdl_op_definition
class CumSumOp(ExactOnIntegers, GraphOp):
    """The sum of the elements up to each along `axis`, without itself if `exclusive` is 1, from the
    end if `reverse` is 1, e.g. `graph.cum_sum %x {axis = 1 : i64, exclusive = 0 : i64, reverse =
    0 : i64} : (tensor<8x10xf32>) -> tensor<8x10xf32>`."""

    name = "graph.cum_sum"

    input = operand_def(TensorType)
    axis = prop_def(INT)
    exclusive = prop_def(INT)
    reverse = prop_def(INT)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$input attr-dict `:` functional-type(operands, results)"

    def infer(self) -> Sequence[TensorType]:
        x, element = shape_of(self.input.type), element_type_of(self.input.type)
        expect(is_number(element), f"expected an input of numbers, found {element}")
        expect_axis(self.axis.value.data, len(x))
        expect_flag("exclusive", self.exclusive)
        expect_flag("reverse", self.reverse)
        return [tensor(element, x)]
