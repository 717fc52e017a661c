"""The numpy rule of graph.resize: along one dimension after the other, sums of weighted elements.

An element of the result lies somewhere between two of the input, where `coordinates` says, and is
made of those around: its taps. onnx's reference finds these again after it has moved the coordinate
by a whole number, which rounds: what lies just behind an element is made of those before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from byocir.dialects.graph import ResizeOp
from byocir.dialects.graph.resize import Taps, taps_along
from byocir.evaluate.scalar import saturate

Rounding = Callable[[np.ndarray], np.ndarray]


def resize(op: ResizeOp, operands: Sequence[np.ndarray]) -> np.ndarray:
    """Resizes an array: the nearest elements keep their bits, others are sums of doubles. Integers
    are rounded in the end, ties to even, and saturate."""
    (made,) = operands
    taps = {axis: found for axis in range(made.ndim) if (found := taps_along(op, axis)) is not None}
    for axis, along in taps.items():
        is_copied = op.mode.data == "nearest"
        made = np.take(made, along.indices[:, 0], axis) if is_copied else _sums(made, along, axis)
    made = _as(operands[0].dtype, made, np.rint)
    number = _as(made.dtype, np.array(op.extrapolation_value.value.data), np.trunc)
    for axis, along in taps.items():
        if along.beyond.any():
            made = np.where(_column(along.beyond, made.ndim - axis), number, made)
    return made


def _sums(x: np.ndarray, along: Taps, axis: int) -> np.ndarray:
    """Gives the sums of weighted taps along a dimension, as doubles."""
    wide, rank = x.astype(np.float64, copy=False), x.ndim - axis
    total = np.take(wide, along.indices[:, 0], axis) * _column(along.weights[:, 0], rank)
    for tap in range(1, along.weights.shape[1]):
        part = np.take(wide, along.indices[:, tap], axis)
        total += part * _column(along.weights[:, tap], rank)
    return total


def _column(values: np.ndarray, rank: int) -> np.ndarray:
    """Gives values along the first of so many dimensions."""
    return values.reshape([-1, *(1 for _ in range(rank - 1))])


def _as(dtype: np.dtype, values: np.ndarray, rounded: Rounding) -> np.ndarray:
    """Doubles, or what is of that type already, in another type: rounded so if it has integers."""
    if values.dtype == dtype:
        return values
    if dtype == np.bool_:
        return saturate(rounded(values), np.dtype(np.uint8)).astype(dtype)
    return saturate(rounded(values), dtype) if dtype.kind in "iu" else values.astype(dtype)
