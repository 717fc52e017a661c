"""Bounds sums of products by their weights, biases and inputs: this is a part of fix-point."""

from __future__ import annotations

import math

import numpy as np
from xdsl.ir import SSAValue

from byocir.dialects.array import column, known_values
from byocir.dialects.graph import (
    AddOp,
    ClipOp,
    ConvOp,
    MatmulOp,
    MaxPoolOp,
    ReluOp,
    RequantizeOp,
    SumPoolOp,
)
from byocir.dialects.graph.base import int_tuple
from byocir.dialects.intervals import Interval, integer_range
from byocir.dialects.types import element_type_of, shape_of
from byocir.rewrites.block_ends import sums_of_products

ChannelEnds = tuple[np.ndarray, np.ndarray]


def reach_of(value: SSAValue, *, computed: bool = False) -> np.ndarray | None:
    """Computes the greatest magnitude of a sum of products, before it is clamped, for each output
    channel (int64, broadcast to the value); None for other values and where numbers are not known.
    With `computed` also that of sums over windows, and of products of two computed arrays.
    """
    while isinstance(value.owner, ReluOp | ClipOp):
        value = value.owner.operands[0]
    ends = _ends(value, computed)
    return None if ends is None else np.maximum(np.abs(ends[0]), np.abs(ends[1]))


def _ends(value: SSAValue, computed: bool) -> ChannelEnds | None:
    owner = value.owner
    if isinstance(owner, AddOp):
        sums, bias = _ends(owner.lhs, computed), _numbers(owner.rhs)
        return None if sums is None or bias is None else (sums[0] + bias, sums[1] + bias)
    if isinstance(owner, MatmulOp):
        weights = _numbers(owner.rhs)
        if weights is not None and weights.ndim == 2:
            return _reduced(owner.lhs, weights.T)
        farthest = _farthest(owner.lhs) * _farthest(owner.rhs) * shape_of(owner.lhs.type)[-1]
        return (np.array(-farthest), np.array(farthest)) if computed else None
    if isinstance(owner, SumPoolOp) and computed:
        farthest = _farthest(owner.input) * math.prod(int_tuple(owner.kernel_shape))
        return np.array(-farthest), np.array(farthest)
    if not isinstance(owner, ConvOp):
        return None
    weights = _numbers(owner.weight)
    bias = np.zeros(1, np.int64) if owner.bias is None else _numbers(owner.bias)
    if weights is None or bias is None:
        return None
    rank = len(shape_of(value.type)) - 1
    low, high = (end + bias for end in _reduced(owner.input, weights))
    return column(low, rank), column(high, rank)


def _reduced(x: SSAValue, weights: np.ndarray) -> ChannelEnds:
    """Bounds the sums over all dimensions of the weights but the first."""
    low, high = sums_of_products(weights.reshape(len(weights), -1), _range_of(x), (1,))
    return low[:, 0], high[:, 0]


def _farthest(value: SSAValue) -> int:
    low, high = _range_of(value)
    return max(-low, high)


def _range_of(value: SSAValue) -> Interval:
    """Bounds the bytes of a value, with the zeros that stand where it has no channels."""
    owner, whole = value.owner, integer_range(element_type_of(value.type))
    if isinstance(owner, MaxPoolOp):
        return _range_of(owner.operands[0])
    if isinstance(owner, ClipOp):
        given = _range_of(owner.operands[0])
        ends = zip((owner.min, owner.max), given, strict=True)
        low, high = (end if array is None else int(array.data.values()) for array, end in ends)
        whole = given.clamped(Interval(low, high))
    elif isinstance(owner, RequantizeOp) and isinstance(owner.input.owner, ReluOp):
        whole = Interval(max(whole.low, owner.zero_point.value.data), whole.high)
    return Interval(min(whole.low, 0), max(whole.high, 0))


def _numbers(value: SSAValue) -> np.ndarray | None:
    found = known_values(value)
    return None if found is None else found.astype(np.int64)
