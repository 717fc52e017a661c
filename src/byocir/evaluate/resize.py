"""The numpy rule of graph.resize: along one dimension after the other, sums of weighted elements.

An element of the result lies somewhere between two of the input, where `coordinates` says, and is
made of those around: its taps. onnx's reference finds these again after it has moved the coordinate
by a whole number, which rounds: what lies just behind an element is made of those before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from byocir.dialects.graph import ResizeOp
from byocir.dialects.graph.base import int_tuple
from byocir.dialects.graph.coordinates import coordinates
from byocir.dialects.types import shape_of
from byocir.evaluate.room import ask_for
from byocir.evaluate.scalar import saturate

Rounding = Callable[[np.ndarray], np.ndarray]


class Taps(NamedTuple):
    """The elements of one dimension that each element of the result is made of."""

    indices: NDArray[np.int64]
    """[results, taps], all inside of the input."""
    weights: NDArray[np.float64]
    """[results, taps]."""
    beyond: NDArray[np.bool_]
    """[results]: marks those outside of the input, which are extrapolated."""


def taps_along(op: ResizeOp, axis: int) -> Taps | None:
    """The taps of a dimension; None for one that stays as it is."""
    size, made = shape_of(op.input.type)[axis], int_tuple(op.sizes)[axis]
    scale = None if op.scales is None else float(op.scales.get_values()[axis])
    part = (0.0, 1.0)
    if op.roi is not None:
        part = (op.roi.get_values()[axis], op.roi.get_values()[axis - len(int_tuple(op.sizes))])
    if size == made and scale in (None, 1.0) and part == (0.0, 1.0):
        return None
    at = coordinates(op.coordinate_transformation_mode.data, size, made, scale, part)
    beyond = (at < 0) | (at > size - 1) if op.roi is not None else np.zeros(made, np.bool_)
    before = np.ceil(at) - 1
    after = at - before  # above 0, and at most 1: the element before is never the one here
    offsets, weights = _taps(op, after, made / size if scale is None else scale)
    indices = before.astype(np.int64)[:, None] + offsets
    if op.exclude_outside.value.data and op.mode.data != "nearest":
        weights = np.where((indices < 0) | (indices >= size), 0.0, weights)
        weights = weights / weights.sum(axis=1, keepdims=True)
    return Taps(np.clip(indices, 0, size - 1), weights, beyond)


def _taps(
    op: ResizeOp, after: NDArray[np.float64], scale: float
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Finds the taps, counted from the element before, [taps] or [results, taps], and their weights
    [results, taps]. `after` is the distance from that element."""
    if op.mode.data == "nearest":
        return _nearest(op.nearest_mode.data, after)[:, None], np.ones((len(after), 1))
    is_linear, is_smooth = op.mode.data == "linear", bool(op.antialias.value.data)
    support, shrunk = 1 if is_linear else 2, min(scale, 1.0) if is_smooth else 1.0
    first = int(np.floor(-support / shrunk)) + 1
    ask_for(op, (len(after), 2 - 2 * first), np.dtype(np.float64))
    offsets = np.arange(first, 2 - first)
    distances = np.abs(offsets - after[:, None]) * shrunk
    if is_linear:
        weights = np.clip(1 - distances, 0, 1)
    else:
        weights = _cubic(distances, op.cubic_coeff_a.value.data)
    return offsets, weights / weights.sum(axis=1, keepdims=True) if is_smooth else weights


def _nearest(mode: str, after: NDArray[np.float64]) -> NDArray[np.int64]:
    """Finds the nearest element: 0 is the one before, 1 the one behind."""
    least = {"round_prefer_floor": np.nextafter(0.5, 1), "round_prefer_ceil": 0.5, "ceil": 0.0}
    return (after >= least.get(mode, 1.0)).astype(np.int64)


def _cubic(x: NDArray[np.float64], a: float) -> NDArray[np.float64]:
    """The cubic convolution kernel at some distances."""
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0.0))


def resize(op: ResizeOp, operands: Sequence[np.ndarray]) -> np.ndarray:
    """The nearest elements keep their bits, others are sums of doubles. Integers are rounded in the
    end, ties to even, and saturate."""
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
    """The sums of weighted taps along a dimension, as doubles."""
    wide, rank = x.astype(np.float64, copy=False), x.ndim - axis
    total = np.take(wide, along.indices[:, 0], axis) * _column(along.weights[:, 0], rank)
    for tap in range(1, along.weights.shape[1]):
        part = np.take(wide, along.indices[:, tap], axis)
        total += part * _column(along.weights[:, tap], rank)
    return total


def _column(values: np.ndarray, rank: int) -> np.ndarray:
    """Values along the first of so many dimensions."""
    return values.reshape([-1, *(1 for _ in range(rank - 1))])


def _as(dtype: np.dtype, values: np.ndarray, rounded: Rounding) -> np.ndarray:
    """Doubles, or what is of that type already, in another type: rounded so if it has integers."""
    if values.dtype == dtype:
        return values
    return saturate(rounded(values), dtype) if dtype.kind in "iu" else values.astype(dtype)
