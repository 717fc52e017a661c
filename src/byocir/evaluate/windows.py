"""Counts the values that each pool window covers."""

from __future__ import annotations

from functools import reduce

import numpy as np

from byocir.dialects.graph import PoolOp
from byocir.dialects.graph.base import int_tuple
from byocir.dialects.types import shape_of
from byocir.evaluate.room import ask_for


def window_counts(op: PoolOp, include_pads: bool) -> np.ndarray:
    """Counts the positions of each window that lie in the input, or in the padded input: int64 of
    the result's spatial shape. Positions past the padded input, which windows of ceil_mode reach,
    never count. Raises ByocirError B140 for more windows than there is memory for."""
    sizes = shape_of(op.result.type)[2:]
    ask_for(op, sizes, np.dtype(np.int64))
    per_axis = [_axis_counts(op, axis, len(sizes), include_pads) for axis in range(len(sizes))]
    return reduce(np.multiply.outer, per_axis)


def _axis_counts(op: PoolOp, axis: int, rank: int, include_pads: bool) -> np.ndarray:
    """Positions of a window that are before the end, without those that are before the first."""
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
