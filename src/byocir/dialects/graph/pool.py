"""Windows: the pools."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Self

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def, traits_def
from xdsl.traits import Pure

from byocir.dialects.checks import expect
from byocir.dialects.graph.base import (
    INT,
    INTS,
    Exact,
    GraphOp,
    dims,
    expect_flag,
    expect_float,
    int_tuple,
)
from byocir.dialects.graph.nn import BYTES, window_shape
from byocir.dialects.types import element_type_of, i32, is_float, shape_of, tensor


class PoolOp(GraphOp):
    """Base of the pools: one window slides over the spatial dimensions of `[N,C,spatial…]`."""

    input = operand_def(TensorType)
    kernel_shape = prop_def(INTS)
    strides = prop_def(INTS)
    pads = prop_def(INTS)
    dilations = prop_def(INTS)
    ceil_mode = prop_def(INT)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$input attr-dict `:` functional-type(operands, results)"

    @classmethod
    def over_all(cls, x: SSAValue) -> Self:
        """Builds a pool of one window, as large as its input [N, C, …]."""
        kernel = shape_of(x.type)[2:]
        ones, zeros = [1] * len(kernel), [0] * 2 * len(kernel)
        return cls.make(
            x, kernel_shape=kernel, strides=ones, pads=zeros, dilations=ones, ceil_mode=0
        )

    def element(self) -> Attribute:
        """The result's element type; raises VerifyException for an input that is not allowed."""
        raise NotImplementedError

    def infer(self) -> Sequence[TensorType]:
        x = shape_of(self.input.type)
        expect(len(x) >= 3, f"expected an input of rank >= 3, found {dims(x)}")
        ceil = expect_flag("ceil_mode", self.ceil_mode)
        spatial = window_shape(
            x[2:],
            int_tuple(self.kernel_shape),
            int_tuple(self.strides),
            int_tuple(self.pads),
            int_tuple(self.dilations),
            bool(ceil),
        )
        return [tensor(self.element(), (*x[:2], *spatial))]


@irdl_op_definition
class MaxPoolOp(Exact, PoolOp):
    """The greatest value of each window; pads never win, e.g. `graph.max_pool %x
    {kernel_shape = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>,
    dilations = array<i64: 1, 1>, ceil_mode = 0 : i64} : (tensor<1x4x8x8xi8>) ->
    tensor<1x4x4x4xi8>`."""

    name = "graph.max_pool"

    def element(self) -> Attribute:
        element = element_type_of(self.input.type)
        expect(
            is_float(element) or element in BYTES,
            f"expected a floating-point or 8-bit input, found {element}",
        )
        return element


@irdl_op_definition
class AveragePoolOp(PoolOp):
    """The mean of each window; pads count as zeros if `count_include_pad` is 1, else not at all,
    e.g. `graph.average_pool %x {kernel_shape = array<i64: 2, 2>, strides = array<i64: 2, 2>,
    pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, ceil_mode = 0 : i64,
    count_include_pad = 0 : i64} : (tensor<1x4x8x8xf32>) -> tensor<1x4x4x4xf32>`."""

    name = "graph.average_pool"

    count_include_pad = prop_def(INT)

    def element(self) -> Attribute:
        expect_flag("count_include_pad", self.count_include_pad)
        return expect_float(self.input)


@irdl_op_definition
class SumPoolOp(Exact, PoolOp):
    """The sum of each window of 8-bit integers, in i32; pads count as zeros. It is the integer half
    of an average pool, e.g. `graph.sum_pool %x {kernel_shape = array<i64: 2, 2>, strides =
    array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, ceil_mode =
    0 : i64} : (tensor<1x4x8x8xi8>) -> tensor<1x4x4x4xi32>`."""

    name = "graph.sum_pool"

    def element(self) -> Attribute:
        element = element_type_of(self.input.type)
        expect(element in BYTES, f"expected an 8-bit input, found {element}")
        return i32


@irdl_op_definition
class LpPoolOp(PoolOp):
    """The p-norm of each window, the p-th root of the sum of `|x|^p`; pads count as zeros, e.g.
    `graph.lp_pool %x {kernel_shape = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads =
    array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, ceil_mode = 0 : i64, p = 2 : i64} :
    (tensor<1x4x8x8xf32>) -> tensor<1x4x4x4xf32>`."""

    name = "graph.lp_pool"

    p = prop_def(INT)

    def element(self) -> Attribute:
        expect(self.p.value.data >= 1, f"expected p >= 1, found {self.p.value.data}")
        return expect_float(self.input)


class GlobalPoolOp(GraphOp):
    """Base of the pools over all spatial dimensions of `[N,C,spatial…]`, which stay with size 1."""

    input = operand_def(TensorType)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$input attr-dict `:` functional-type(operands, results)"

    def infer(self) -> Sequence[TensorType]:
        x = shape_of(self.input.type)
        expect(len(x) >= 3, f"expected an input of rank >= 3, found {dims(x)}")
        expect(math.prod(x[2:]) > 0, f"expected values to pool, found {dims(x)}")
        return [tensor(expect_float(self.input), (*x[:2], *(1 for _ in x[2:])))]


@irdl_op_definition
class GlobalAveragePoolOp(GlobalPoolOp):
    """The mean over all spatial dimensions, e.g. `graph.global_average_pool %x :
    (tensor<1x4x8x8xf32>) -> tensor<1x4x1x1xf32>`."""

    name = "graph.global_average_pool"


@irdl_op_definition
class GlobalMaxPoolOp(Exact, GlobalPoolOp):
    """The greatest value over all spatial dimensions, e.g. `graph.global_max_pool %x :
    (tensor<1x4x8x8xf32>) -> tensor<1x4x1x1xf32>`."""

    name = "graph.global_max_pool"
