"""qdq-to-integer: float ops between dequantize and quantize become integer ops and requantize.

Does: conv, matmul (with or without an added bias) and plain changes of grid, each with any relu and
clip behind it, become ops on 8-bit integers that accumulate in i32, then `graph.requantize` with
`#graph.float_half_even`. A relu stays before the requantize; clip bounds become integers after it.
Residual adds and average pools stay in float: ONNX adds floats and rounds once, which no integers
do (see fix-point).

Requires: normalize-qdq has run, else shape ops and max_pool between dequantize and quantize hide
what is behind them. What does not fit keeps its float form: zero points other than 0, scales that
are no constants, per-channel inputs, a bias whose scale is not the product of the other two within
1e-6, sums that might not fit in i32, a value that something besides quantize ops uses.

Guarantees: no value is more than one step off. The float form rounds each product and each partial
sum to f32, the integer form only the final sum, so a value may land on the other side of a tie:
less than one in 10,000 does. Where all scales are powers of two and sums stay below 2^24, nothing
changes. Locations are kept.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from byocir.dialects.graph import (
    AddOp,
    ConvOp,
    DequantizeOp,
    MatmulOp,
)
from byocir.dialects.types import element_type_of, i32, shape_of
from byocir.rewrites.driver import NewOps, rewrite_module
from byocir.rewrites.grid import (
    constant_array,
    dequantized,
    grid_of,
    integer_range,
    symmetric_bytes,
)
from byocir.rewrites.integers import ONE, Integers, QuantizedToInteger

BIAS_SCALE_TOLERANCE = 1e-6
"""How far, relatively, a bias scale may be from input scale times weight scale."""


@dataclass(frozen=True)
class QdqToIntegerPass(ModulePass):
    """Turns float ops between dequantize and quantize into integer ops and requantize."""

    name = "qdq-to-integer"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite_module(op, [QuantizedFloatToInteger()])


class QuantizedFloatToInteger(QuantizedToInteger):
    """`quantize(clip(conv(dequantize(x), dequantize(w))))` and its like."""

    def integers(self, value: SSAValue, new: NewOps) -> Integers | None:
        match value.owner:
            case ConvOp() as op:
                return _conv(op, new)
            case MatmulOp() as op:
                return _matmul(op, None, new)
            case AddOp() as op:
                return _biased_matmul(op, new)
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
    return Integers(op.input, grid.scale, ONE)


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
    inner = tuple(range(1, len(shape_of(op.weight.type))))
    if (op.bias is not None and bias is None) or not _sums_fit(factors, inner, bias):
        return None
    conv = new.again(op, factors.data, factors.weight, *([] if bias is None else [bias]))
    per_channel = (1,) * (len(shape_of(op.input.type)) - 2)
    scale = factors.scale
    return Integers(conv, scale.reshape(-1, *per_channel) if scale.ndim else scale, ONE)


def _matmul(op: MatmulOp, bias: SSAValue | None, new: NewOps) -> Integers | None:
    rhs = shape_of(op.rhs.type)
    columns, inner = len(rhs) - 1, (max(len(rhs) - 2, 0),)
    factors = _factors(op.lhs, op.rhs, columns)
    if factors is None or (factors.scale.ndim and len(rhs) == 1):
        return None
    integers = None if bias is None else _bias(bias, factors.scale)
    if (bias is not None and integers is None) or not _sums_fit(factors, inner, integers):
        return None
    result = new.add(MatmulOp.make(factors.data, factors.weight)).result
    if integers is not None:
        result = new.add(AddOp.make(result, integers)).result
    return Integers(result, factors.scale, ONE)


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


def _sums_fit(factors: _Factors, inner: tuple[int, ...], bias: SSAValue | None) -> bool:
    """Whether no sum of products leaves i32: at worst every input is the farthest from 0. Sums run
    over the dimensions `inner` of the weights."""
    worst = _farthest(factors.data) * _largest_column(factors.weight, inner)
    added = None if bias is None else constant_array(bias)
    if added is not None:
        worst += int(np.abs(added.values().astype(np.int64)).max(initial=0))
    return worst < 2**31


def _largest_column(weight: SSAValue, inner: tuple[int, ...]) -> int:
    """The largest sum of magnitudes over these dimensions; an upper bound of it where the weight is
    no constant or its values were not supplied."""
    array, shape = constant_array(weight), shape_of(weight.type)
    if array is None or not array.present:
        return _farthest(weight) * math.prod(shape[axis] for axis in inner)
    return int(np.abs(array.values().astype(np.int64)).sum(axis=inner).max(initial=0))


def _farthest(value: SSAValue) -> int:
    return max(abs(end) for end in integer_range(element_type_of(value.type)))
