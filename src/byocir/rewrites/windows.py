"""How many values each pool window covers."""

from __future__ import annotations

from functools import reduce

import numpy as np

from byocir.dialects.graph import PoolOp
from byocir.dialects.graph.base import int_tuple
from byocir.dialects.types import shape_of


def window_counts(op: PoolOp, include_pads: bool) -> np.ndarray:
    """How many positions of each window lie in the input, or in the padded input: int64 of the
    result's spatial shape. Positions past the padded input, which windows of ceil_mode reach, never
    count."""
    rank = len(shape_of(op.input.type)) - 2
    per_axis = [_axis_counts(op, axis, rank, include_pads) for axis in range(rank)]
    return reduce(np.multiply.outer, per_axis)


def _axis_counts(op: PoolOp, axis: int, rank: int, include_pads: bool) -> np.ndarray:
    size, windows = shape_of(op.input.type)[2 + axis], shape_of(op.result.type)[2 + axis]
    kernel, stride = int_tuple(op.kernel_shape)[axis], int_tuple(op.strides)[axis]
    pads, dilation = int_tuple(op.pads), int_tuple(op.dilations)[axis]
    before, after = pads[axis], pads[axis + rank]
    starts = np.arange(windows)[:, np.newaxis] * stride - before
    positions = starts + np.arange(kernel) * dilation
    first, end = (-before, size + after) if include_pads else (0, size)
    return np.count_nonzero((positions >= first) & (positions < end), axis=1)


def reached_beyond(op: PoolOp) -> list[int]:
    """How many positions windows reach past the input along each spatial dimension: before all of
    them, then behind all."""
    sizes = shape_of(op.input.type)[2:]
    pads, kernel = int_tuple(op.pads), int_tuple(op.kernel_shape)
    windows = zip(int_tuple(op.strides), int_tuple(op.dilations), kernel, strict=True)
    behind: list[int] = []
    for axis, (stride, dilation, taps) in enumerate(windows):
        last = (shape_of(op.result.type)[2 + axis] - 1) * stride + (taps - 1) * dilation
        behind.append(max(last + 1 - pads[axis] - sizes[axis], 0))
    return [*pads[: len(sizes)], *behind]
