"""Contractions and windows: conv, matmul and the pools."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure

from byocir.dialects.checks import expect
from byocir.dialects.graph.base import (
    INT,
    INTS,
    Exact,
    ExactOnIntegers,
    GraphOp,
    broadcast,
    dims,
    expect_float,
    int_tuple,
    is_number,
)
from byocir.dialects.types import (
    Shape,
    element_type_of,
    i8,
    i32,
    is_float,
    shape_of,
    tensor,
    ui8,
)

BYTES = (i8, ui8)
"""The element types whose contractions accumulate in i32."""


def accumulator(lhs: Attribute, rhs: Attribute) -> Attribute:
    """The element type that a contraction of these accumulates in: i32 for 8-bit integers, signed
    or not, else the one type of both; raises VerifyException."""
    if lhs in BYTES and rhs in BYTES:
        return i32
    expect(lhs == rhs, f"expected operands of one element type, found {lhs} and {rhs}")
    return lhs


def window_shape(
    sizes: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    ceil: bool = False,
) -> Shape:
    """How many windows fit along each spatial dimension, as ONNX defines it: with `ceil` a window
    may end outside, but not start outside on the right. Raises VerifyException."""
    rank = len(sizes)
    for name, values, count in (
        ("kernel_shape", kernel, rank),
        ("strides", strides, rank),
        ("dilations", dilations, rank),
        ("pads", pads, 2 * rank),
    ):
        expect(len(values) == count, f"expected {count} {name}, found {len(values)}")
        least = 0 if name == "pads" else 1
        expect(min(values) >= least, f"expected {name} >= {least}, found {list(values)}")
    return tuple(
        _windows(sizes[i], (kernel[i] - 1) * dilations[i] + 1, strides[i], pads[i::rank], ceil)
        for i in range(rank)
    )


def _windows(size: int, extent: int, stride: int, pads: Sequence[int], ceil: bool) -> int:
    padded = size + sum(pads)
    expect(extent <= padded, f"expected windows of at most {padded}, found {extent}")
    free = padded - extent
    if not ceil:
        return free // stride + 1
    count = -(-free // stride) + 1
    return count - 1 if (count - 1) * stride >= size + pads[0] else count


@irdl_op_definition
class ConvOp(ExactOnIntegers, GraphOp):
    """Convolution of `[N,C,spatial…]` with `[O,C/group,kernel…]` and an optional bias `[O]`, e.g.
    `graph.conv %x, %w, %b {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>,
    dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x16x8x8xi8>, tensor<32x16x3x3xi8>,
    tensor<32xi32>) -> tensor<1x32x8x8xi32>`. Pads come as in ONNX: all begins, then all ends. 8-bit
    integers accumulate in i32, which the bias has too."""

    name = "graph.conv"

    input = operand_def(TensorType)
    weight = operand_def(TensorType)
    bias = opt_operand_def(TensorType)
    strides = prop_def(INTS)
    pads = prop_def(INTS)
    dilations = prop_def(INTS)
    group = prop_def(INT)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = (
        "$input `,` $weight (`,` $bias^)? attr-dict `:` functional-type(operands, results)"
    )

    def infer(self) -> Sequence[TensorType]:
        x, w = shape_of(self.input.type), shape_of(self.weight.type)
        expect(
            len(x) == len(w) >= 3,
            f"expected input and weight of one rank >= 3, found {dims(x)} and {dims(w)}",
        )
        self._check_channels(x[1], w)
        spatial = window_shape(
            x[2:], w[2:], int_tuple(self.strides), int_tuple(self.pads), int_tuple(self.dilations)
        )
        return [tensor(self._element(w[0]), (x[0], w[0], *spatial))]

    def macs(self) -> int:
        return math.prod(shape_of(self.result.type)) * math.prod(shape_of(self.weight.type)[1:])

    def _check_channels(self, channels: int, weight: Shape) -> None:
        group = self.group.value.data
        expect(group >= 1, f"expected group >= 1, found {group}")
        expect(
            channels == weight[1] * group,
            f"expected {weight[1]} x group {group} input channels, found {channels}",
        )
        expect(
            weight[0] % group == 0,
            f"expected output channels divisible by group {group}, found {weight[0]}",
        )

    def _element(self, channels: int) -> Attribute:
        element = accumulator(element_type_of(self.input.type), element_type_of(self.weight.type))
        expect(
            is_float(element) or element_type_of(self.input.type) in BYTES,
            f"expected floating-point or 8-bit operands, found {element}",
        )
        if self.bias is not None:
            bias = tensor(element, [channels])
            expect(self.bias.type == bias, f"expected bias {bias}, found {self.bias.type}")
        return element


@irdl_op_definition
class MatmulOp(ExactOnIntegers, GraphOp):
    """Matrix product as numpy's and ONNX's MatMul, e.g. `graph.matmul %a, %b :
    (tensor<8x16xi8>, tensor<16x4xi8>) -> tensor<8x4xi32>`. Leading dimensions broadcast; an
    operand of rank 1 is a row on the left, a column on the right. 8-bit integers accumulate in
    i32."""

    name = "graph.matmul"

    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$lhs `,` $rhs attr-dict `:` functional-type(operands, results)"

    def infer(self) -> Sequence[TensorType]:
        lhs, rhs = shape_of(self.lhs.type), shape_of(self.rhs.type)
        element = accumulator(element_type_of(self.lhs.type), element_type_of(self.rhs.type))
        expect(is_number(element), f"expected operands of numbers, found {element}")
        expect(
            len(lhs) >= 1 and len(rhs) >= 1,
            f"expected operands of rank >= 1, found {dims(lhs)} and {dims(rhs)}",
        )
        expect(
            lhs[-1:] == rhs[-2:][:1],
            f"expected inner dimensions to agree, found {dims(lhs)} and {dims(rhs)}",
        )
        batch = broadcast(lhs[:-2], rhs[:-2])
        columns = rhs[-1:] if len(rhs) > 1 else ()
        return [tensor(element, (*batch, *lhs[-2:-1], *columns))]

    def macs(self) -> int:
        return math.prod(shape_of(self.result.type)) * shape_of(self.lhs.type)[-1]


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

    def element(self) -> Attribute:
        """The result's element type; raises VerifyException for an input that is not allowed."""
        raise NotImplementedError

    def infer(self) -> Sequence[TensorType]:
        x = shape_of(self.input.type)
        expect(len(x) >= 3, f"expected an input of rank >= 3, found {dims(x)}")
        ceil = self.ceil_mode.value.data
        expect(ceil in (0, 1), f"expected ceil_mode 0 or 1, found {ceil}")
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
        count = self.count_include_pad.value.data
        expect(count in (0, 1), f"expected count_include_pad 0 or 1, found {count}")
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
class GlobalAveragePoolOp(GraphOp):
    """The mean over all spatial dimensions, which stay with size 1, e.g.
    `graph.global_average_pool %x : (tensor<1x4x8x8xf32>) -> tensor<1x4x1x1xf32>`."""

    name = "graph.global_average_pool"

    input = operand_def(TensorType)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$input attr-dict `:` functional-type(operands, results)"

    def infer(self) -> Sequence[TensorType]:
        x = shape_of(self.input.type)
        expect(len(x) >= 3, f"expected an input of rank >= 3, found {dims(x)}")
        expect(math.prod(x[2:]) > 0, f"expected values to average, found {dims(x)}")
        return [tensor(expect_float(self.input), (*x[:2], *(1 for _ in x[2:])))]
