"""Defines the pools, which reduce windows."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from math import prod
from typing import Self

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineExpr
from xdsl.irdl import prop_def

from byocir.dialects.checks import expect
from byocir.dialects.definition import irdl_op_definition
from byocir.dialects.graph.base import (
    INT,
    INTS,
    ByBatch,
    Exact,
    OneInputOp,
    dims,
    expect_flag,
    expect_float,
    int_tuple,
)
from byocir.dialects.graph.nn import BYTES, kernel_names, spatial_names, window, window_shape
from byocir.dialects.graph.operands import accumulator_of
from byocir.dialects.graph.reducing import Step, along, extreme, lowest
from byocir.dialects.tir.bodies import widen_add
from byocir.dialects.tir.emit import ZERO, Emitter, Read, Space
from byocir.dialects.tir.scalar import Emitted, Number
from byocir.dialects.types import (
    dtype_of,
    element_type_of,
    i32,
    is_float,
    is_unsigned,
    shape_of,
    tensor,
)


class PoolOp(ByBatch, OneInputOp):
    """Defines what pools share: one window slides over the spatial dimensions of
    `[N,C,spatial…]`."""

    kernel_shape = prop_def(INTS)
    strides = prop_def(INTS)
    pads = prop_def(INTS)
    dilations = prop_def(INTS)
    ceil_mode = prop_def(INT)

    @classmethod
    def over_all(cls, x: SSAValue) -> Self:
        """Builds a pool of one window, as large as its input [N, C, …]."""
        kernel = shape_of(x.type)[2:]
        ones, zeros = [1] * len(kernel), [0] * 2 * len(kernel)
        return cls.make(
            x, kernel_shape=kernel, strides=ones, pads=zeros, dilations=ones, ceil_mode=0
        )

    def element(self) -> Attribute:
        """Gives the result's element type; raises VerifyException for an input that is not
        allowed."""
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
    """Gives the greatest value of each window; pads never win, e.g. `graph.max_pool %x
    {kernel_shape = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>,
    dilations = array<i64: 1, 1>, ceil_mode = 0 : i64} : (tensor<1x4x8x8xi8>) ->
    tensor<1x4x4x4xi8>`.
    """

    name = "graph.max_pool"

    def element(self) -> Attribute:
        element = element_type_of(self.input.type)
        expect(
            is_float(element) or element in BYTES,
            f"expected a floating-point or 8-bit input, found {element}",
        )
        return element

    def define(self, emit: Emitter) -> SSAValue:
        element = element_type_of(self.result.type)
        wide = i32 if is_unsigned(element) else element

        def body(x: Emitted, acc: Emitted) -> Emitted:
            return acc.to(wide).max(x.to(wide)).to(element)

        return _pool(emit, self, element, lowest(element), body)


@irdl_op_definition
class AveragePoolOp(PoolOp):
    """Computes the mean of each window; pads count as zeros if `count_include_pad` is 1, else not
    at all, e.g. `graph.average_pool %x {kernel_shape = array<i64: 2, 2>, strides = array<i64: 2,
    2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, ceil_mode = 0 : i64,
    count_include_pad = 0 : i64} : (tensor<1x4x8x8xf32>) -> tensor<1x4x4x4xf32>`.
    """

    name = "graph.average_pool"

    count_include_pad = prop_def(INT)

    def element(self) -> Attribute:
        expect_flag("count_include_pad", self.count_include_pad)
        return expect_float(self.input)

    def define(self, emit: Emitter) -> SSAValue:
        """Emits sums over windows and their division by counts. The count is a number in the body
        where it is the same for all windows, else an array with one for each window.
        """
        shape, element = shape_of(self.result.type), element_type_of(self.result.type)
        wide = accumulator_of(element)
        total = _pool(emit, self, wide, 0, lambda x, acc: acc + x.to(wide))
        counts = window_counts(self, bool(self.count_include_pad.value.data))
        if counts.size and counts.min() == counts.max():
            count = int(counts.flat[0])
            return emit.elementwise(shape, element, [total], lambda x: (x / count).to(element))
        divisor = emit.constant(counts.astype(dtype_of(wide)))
        index = [AffineExpr.dimension(axis) for axis in range(2, len(shape))]
        reads = [total, Read(divisor, index)]
        return emit.elementwise(shape, element, reads, lambda x, count: (x / count).to(element))


@irdl_op_definition
class SumPoolOp(Exact, PoolOp):
    """Computes the sum of each window of 8-bit integers, in i32; pads count as zeros. It is the
    integer half of an average pool, e.g. `graph.sum_pool %x {kernel_shape = array<i64: 2, 2>,
    strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>,
    ceil_mode = 0 : i64} : (tensor<1x4x8x8xi8>) -> tensor<1x4x4x4xi32>`.
    """

    name = "graph.sum_pool"

    def element(self) -> Attribute:
        element = element_type_of(self.input.type)
        expect(element in BYTES, f"expected an 8-bit input, found {element}")
        return i32

    def define(self, emit: Emitter) -> SSAValue:
        return _pool(emit, self, i32, 0, widen_add)


@irdl_op_definition
class LpPoolOp(PoolOp):
    """Computes the p-norm of each window, the p-th root of the sum of `|x|^p`; pads count as zeros,
    e.g. `graph.lp_pool %x {kernel_shape = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads =
    array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, ceil_mode = 0 : i64, p = 2 : i64} :
    (tensor<1x4x8x8xf32>) -> tensor<1x4x4x4xf32>`.
    """

    name = "graph.lp_pool"

    p = prop_def(INT)

    def element(self) -> Attribute:
        expect(self.p.value.data >= 1, f"expected p >= 1, found {self.p.value.data}")
        return expect_float(self.input)

    def define(self, emit: Emitter) -> SSAValue:
        shape, element = shape_of(self.result.type), element_type_of(self.result.type)
        wide, p = accumulator_of(element), self.p.value.data

        def power(x: Emitted, acc: Emitted) -> Emitted:
            size = x.to(wide).abs()
            return acc + (size if p == 1 else size * size if p == 2 else size.binary("pow", p))

        def root(x: Emitted) -> Emitted:
            return (x if p == 1 else x.sqrt() if p == 2 else x.binary("pow", 1 / p)).to(element)

        return emit.elementwise(shape, element, [_pool(emit, self, wide, 0, power)], root)


class GlobalPoolOp(ByBatch, OneInputOp):
    """Defines what pools over all spatial dimensions of `[N,C,spatial…]` share: these dimensions
    stay with size 1."""

    def infer(self) -> Sequence[TensorType]:
        x = shape_of(self.input.type)
        expect(len(x) >= 3, f"expected an input of rank >= 3, found {dims(x)}")
        expect(math.prod(x[2:]) > 0, f"expected values to pool, found {dims(x)}")
        return [tensor(expect_float(self.input), (*x[:2], *(1 for _ in x[2:])))]


@irdl_op_definition
class GlobalAveragePoolOp(GlobalPoolOp):
    """Computes the mean over all spatial dimensions, e.g. `graph.global_average_pool %x :
    (tensor<1x4x8x8xf32>) -> tensor<1x4x1x1xf32>`.
    """

    name = "graph.global_average_pool"

    def define(self, emit: Emitter) -> SSAValue:
        element, source = element_type_of(self.result.type), shape_of(self.input.type)
        wide, count = accumulator_of(element), prod(source[2:])
        return _over_plane(
            emit, self, 0, wide, lambda x, acc: acc + x.to(wide), lambda x: (x / count).to(element)
        )


@irdl_op_definition
class GlobalMaxPoolOp(Exact, GlobalPoolOp):
    """Gives the greatest value over all spatial dimensions, e.g. `graph.global_max_pool %x :
    (tensor<1x4x8x8xf32>) -> tensor<1x4x1x1xf32>`.
    """

    name = "graph.global_max_pool"

    def define(self, emit: Emitter) -> SSAValue:
        element = element_type_of(self.result.type)
        initial, step = extreme("max", element)
        return _over_plane(emit, self, initial, element, step, None)


def _pool(
    emit: Emitter,
    op: PoolOp,
    element: Attribute,
    initial: Number,
    body: Callable[[Emitted, Emitted], Emitted],
) -> SSAValue:
    """Reduces windows by `body(x, acc)`, starting from `initial`, which is also what is read from
    pads.
    """
    shape = shape_of(op.result.type)
    spatial, kernel = spatial_names(len(shape) - 2), kernel_names(len(shape) - 2)
    space = Space(
        dict(zip(["n", "c", *spatial], shape, strict=True)),
        dict(zip(kernel, int_tuple(op.kernel_shape), strict=True)),
    )
    rows = window(space, int_tuple(op.strides), int_tuple(op.dilations), int_tuple(op.pads))
    x = Read(op.input, [space["n"], space["c"], *rows], pad=initial)
    return emit.block(space, [x], emit.fill(initial, element, shape), body)


def _over_plane(
    emit: Emitter,
    op: GlobalAveragePoolOp | GlobalMaxPoolOp,
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


def window_counts(op: PoolOp, include_pads: bool) -> np.ndarray:
    """Counts the positions of each window that lie in the input, or in the padded input: int64 of
    the result's spatial shape. Positions past the padded input, which windows of ceil_mode reach,
    never count. Raises ByocirError B140 for more windows than there is memory for."""
    sizes = shape_of(op.result.type)[2:]
    op.ask_for(sizes, np.dtype(np.int64))
    per_axis = [_axis_counts(op, axis, len(sizes), include_pads) for axis in range(len(sizes))]
    return functools.reduce(np.multiply.outer, per_axis)


def _axis_counts(op: PoolOp, axis: int, rank: int, include_pads: bool) -> np.ndarray:
    """Counts, for each window along an axis, its positions that lie in the input, or in the padded
    input.
    """
    size, windows = shape_of(op.input.type)[2 + axis], shape_of(op.result.type)[2 + axis]
    kernel, stride = int_tuple(op.kernel_shape)[axis], int_tuple(op.strides)[axis]
    pads, dilation = int_tuple(op.pads), int_tuple(op.dilations)[axis]
    before, after = pads[axis], pads[axis + rank]
    first, end = (-before, size + after) if include_pads else (0, size)
    reach = max(size + before + after, windows * stride, kernel * dilation)
    dtype = np.int64 if reach < 2**60 else object  # Python's integers do not overflow
    starts = np.arange(windows, dtype=dtype) * stride - before
    lows, highs = (np.clip(-((starts - edge) // dilation), 0, kernel) for edge in (first, end))
    return (highs - lows).astype(np.int64)


def reached_beyond(op: PoolOp) -> list[int]:
    """Counts the positions that windows reach past the input: before it along each spatial
    dimension, then behind it along each."""
    sizes = shape_of(op.input.type)[2:]
    pads, kernel = int_tuple(op.pads), int_tuple(op.kernel_shape)
    windows = zip(int_tuple(op.strides), int_tuple(op.dilations), kernel, strict=True)
    behind: list[int] = []
    for axis, (stride, dilation, taps) in enumerate(windows):
        last = (shape_of(op.result.type)[2 + axis] - 1) * stride + (taps - 1) * dilation
        behind.append(max(last + 1 - pads[axis] - sizes[axis], 0))
    return [*pads[: len(sizes)], *behind]
