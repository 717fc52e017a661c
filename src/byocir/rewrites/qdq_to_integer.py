"""qdq-to-integer: float ops between dequantize and quantize become integer ops and requantize.

Does: conv, matmul (with or without an added bias), average pools and plain changes of grid, each
with any relu and clip behind it, become ops on 8-bit integers that accumulate in i32, then
`graph.requantize` with `#graph.float_half_even`. A relu stays before the requantize; clip bounds
become integers after it. Residual adds stay in float: ONNX adds floats and rounds once (see
fix-point).

Requires: normalize-qdq has run, else shape ops and max_pool between dequantize and quantize hide
what is behind them. What does not fit keeps its float form: zero points other than 0, scales that
are no constants, per-channel inputs, a bias whose scale is not the product of the other two within
1e-6, sums that might not fit in i32, a value that something besides quantize ops uses.

Guarantees: no value is more than one step off. The float form rounds each product and each partial
sum to f32, the integer form only the final sum, so a value may land on the other side of a tie: in
contractions less than one in 10,000 does. Average pools meet ties often where the two scales are
related (on one scale, a quarter of all sums of a 2x2 window are ties), and there the float form's
rounding decides at random: about one in 20 such values differs. Where all scales are powers of two
and sums stay below 2^24, nothing changes. Locations are kept.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from byocir.dialects.graph import (
    AddOp,
    AveragePoolOp,
    ConvOp,
    DequantizeOp,
    FloatHalfEvenAttr,
    GlobalAveragePoolOp,
    MatmulOp,
    QuantizeOp,
    RequantizeOp,
    SumPoolOp,
)
from byocir.dialects.types import element_type_of, i32, shape_of
from byocir.rewrites.activation import (
    clip_after,
    only_quantized,
    quantized_bounds,
    relu_before,
    through_activations,
)
from byocir.rewrites.driver import NewOps, Pattern, rewrite_module
from byocir.rewrites.grid import (
    Grid,
    constant_array,
    dequantized,
    grid_of,
    integer_range,
    symmetric_bytes,
)
from byocir.rewrites.windows import window_counts

BIAS_SCALE_TOLERANCE = 1e-6
"""How far, relatively, a bias scale may be from input scale times weight scale."""

_ONE = np.ones((), np.float32)


@dataclass(frozen=True)
class QdqToIntegerPass(ModulePass):
    """Turns float ops between dequantize and quantize into integer ops and requantize."""

    name = "qdq-to-integer"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite_module(op, [QuantizedFloatToInteger()])


@dataclass(frozen=True)
class Integers:
    """Integers that stand for `value * scale / count`.

    `scale` and `count` (both f32) broadcast to the value. They are kept apart because dividing by
    the count of a pool is exact only after multiplying by the scale, as ONNX does.
    """

    value: SSAValue
    scale: np.ndarray
    count: np.ndarray


class QuantizedFloatToInteger(Pattern):
    """`quantize(clip(conv(dequantize(x), dequantize(w))))` and its like."""

    roots = (QuantizeOp,)

    def rewrite(self, op: Operation, new: NewOps) -> Sequence[SSAValue] | None:
        assert isinstance(op, QuantizeOp)
        grid = grid_of(op)
        if grid is None or not (grid.per_tensor and grid.symmetric and grid.is_8_bit):
            return None
        activations, start = through_activations(op.input)
        bounds = quantized_bounds(activations, grid)
        if bounds is None or not only_quantized(start, activations):
            return None
        integers = _integers(start, new)
        if integers is None:
            return None
        value = relu_before(integers.value, bounds, grid, new)
        value = _requantize(Integers(value, integers.scale, integers.count), grid, new)
        return [clip_after(value, bounds, grid, new)]


def _requantize(integers: Integers, grid: Grid, new: NewOps) -> SSAValue:
    if _is_on(integers, grid):
        return integers.value
    scales = (integers.scale, (grid.scale * integers.count).astype(np.float32))
    rounding = FloatHalfEvenAttr()
    operands = [new.constant(scale) for scale in scales]
    op = RequantizeOp.make(integers.value, *operands, rounding=rounding, to=grid.element)
    return new.add(op).result


def _is_on(integers: Integers, grid: Grid) -> bool:
    """Whether the integers are on this grid already."""
    return (
        element_type_of(integers.value.type) == grid.element
        and np.array_equal(integers.scale, grid.scale)
        and bool(np.all(integers.count == 1))
    )


def _integers(value: SSAValue, new: NewOps) -> Integers | None:
    """The integers that a float value stands for, computed without floats, or None."""
    match value.owner:
        case ConvOp() as op:
            return _conv(op, new)
        case MatmulOp() as op:
            return _matmul(op, None, new)
        case AddOp() as op:
            return _biased_matmul(op, new)
        case AveragePoolOp() as op:
            return _average_pool(op, new)
        case GlobalAveragePoolOp() as op:
            return _global_average_pool(op, new)
        case DequantizeOp() as op:
            return _dequantized(op)
        case _:
            return None


def _dequantized(op: DequantizeOp) -> Integers | None:
    grid = grid_of(op)
    if grid is None or not (grid.per_tensor and grid.symmetric):
        return None
    if not (grid.is_8_bit or grid.element == i32):
        return None
    return Integers(op.input, grid.scale, _ONE)


# --- contractions -------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Factors:
    """The integer operands of a contraction and the scale of its sums, a scalar or per column."""

    data: SSAValue
    weight: SSAValue
    scale: np.ndarray


def _factors(data: SSAValue, weight: SSAValue, weight_axis: int) -> _Factors | None:
    x, w = symmetric_bytes(data), symmetric_bytes(weight)
    if x is None or w is None or not x[1].per_tensor or w[1].axis not in (None, weight_axis):
        return None
    return _Factors(x[0], w[0], np.multiply(x[1].scale, w[1].scale, dtype=np.float32))


def _conv(op: ConvOp, new: NewOps) -> Integers | None:
    factors = _factors(op.input, op.weight, 0)
    if factors is None:
        return None
    bias = None if op.bias is None else _bias(op.bias, factors.scale)
    if (op.bias is not None and bias is None) or not _sums_fit(factors, 0, bias):
        return None
    conv = new.again(op, factors.data, factors.weight, *([] if bias is None else [bias]))
    per_channel = (1,) * (len(shape_of(op.input.type)) - 2)
    scale = factors.scale
    return Integers(conv, scale.reshape(-1, *per_channel) if scale.ndim else scale, _ONE)


def _matmul(op: MatmulOp, bias: SSAValue | None, new: NewOps) -> Integers | None:
    rhs = shape_of(op.rhs.type)
    columns = len(rhs) - 1
    factors = _factors(op.lhs, op.rhs, columns)
    if factors is None or (factors.scale.ndim and len(rhs) == 1):
        return None
    integers = None if bias is None else _bias(bias, factors.scale)
    if (bias is not None and integers is None) or not _sums_fit(factors, columns, integers):
        return None
    result = new.add(MatmulOp.make(factors.data, factors.weight)).result
    if integers is not None:
        result = new.add(AddOp.make(result, integers)).result
    return Integers(result, factors.scale, _ONE)


def _biased_matmul(op: AddOp, new: NewOps) -> Integers | None:
    for product, bias in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        if isinstance(product.owner, MatmulOp) and product.type == op.result.type:
            return _matmul(product.owner, bias, new) if product.has_one_use() else None
    return None


def _bias(value: SSAValue, scale: np.ndarray) -> SSAValue | None:
    """The constant i32 integers of a dequantised bias on the grid of the sums it is added to."""
    found = dequantized(value)
    if found is None or constant_array(found[0]) is None:
        return None
    integers, grid = found
    if grid.element != i32 or not grid.symmetric:
        return None
    if not grid.per_tensor and grid.axis != len(shape_of(integers.type)) - 1:
        return None
    close = np.isclose(grid.scale, scale, rtol=BIAS_SCALE_TOLERANCE, atol=0.0)
    return integers if bool(np.all(close)) else None


def _sums_fit(factors: _Factors, columns: int, bias: SSAValue | None) -> bool:
    """Whether no sum of products leaves i32: at worst every input is the farthest from 0."""
    worst = _farthest(factors.data) * _largest_column(factors.weight, columns)
    added = None if bias is None else constant_array(bias)
    if added is not None:
        worst += int(np.abs(added.values().astype(np.int64)).max(initial=0))
    return worst < 2**31


def _largest_column(weight: SSAValue, columns: int) -> int:
    """The largest sum of magnitudes over one index of the dimension `columns`; an upper bound of it
    where the weight is no constant or its values were not supplied."""
    array, shape = constant_array(weight), shape_of(weight.type)
    if array is None or not array.present:
        return _farthest(weight) * math.prod(shape[:columns] + shape[columns + 1 :])
    others = tuple(axis for axis in range(len(shape)) if axis != columns)
    return int(np.abs(array.values().astype(np.int64)).sum(axis=others).max(initial=0))


def _farthest(value: SSAValue) -> int:
    return max(abs(end) for end in integer_range(element_type_of(value.type)))


# --- average pools ------------------------------------------------------------------------------


def _average_pool(op: AveragePoolOp, new: NewOps) -> Integers | None:
    found = symmetric_bytes(op.input)
    counts = window_counts(op, include_pads=bool(op.count_include_pad.value.data))
    if found is None or not found[1].per_tensor or not counts.all():
        return None  # a window over pads alone has no mean
    pool = SumPoolOp.make(
        found[0],
        kernel_shape=op.kernel_shape,
        strides=op.strides,
        pads=op.pads,
        dilations=op.dilations,
        ceil_mode=op.ceil_mode,
    )
    count = counts if counts.min() < counts.max() else counts.max()
    return Integers(new.add(pool).result, found[1].scale, np.asarray(count, np.float32))


def _global_average_pool(op: GlobalAveragePoolOp, new: NewOps) -> Integers | None:
    found = symmetric_bytes(op.input)
    if found is None or not found[1].per_tensor:
        return None
    kernel = shape_of(op.input.type)[2:]
    ones, zeros = [1] * len(kernel), [0] * 2 * len(kernel)
    pool = SumPoolOp.make(
        found[0], kernel_shape=kernel, strides=ones, pads=zeros, dilations=ones, ceil_mode=0
    )
    count = np.array(math.prod(kernel), np.float32)
    return Integers(new.add(pool).result, found[1].scale, count)
