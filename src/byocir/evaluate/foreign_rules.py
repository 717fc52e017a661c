"""Numpy rules of ONNX operators that no graph op stands for, where onnx's reference is wrong.

It wants the numbers of NonMaxSuppression as vectors, takes unsorted values of Unique along the
first dimension whatever the axis, and gives the statistics of LayerNormalization in the type of its
input.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np
import onnx
from xdsl.dialects.builtin import FloatAttr, IntegerAttr

from byocir.dialects.graph import ForeignOp
from byocir.evaluate.suppression import non_max_suppression

ForeignRule = Callable[[ForeignOp, Sequence[np.ndarray | None]], Sequence[np.ndarray]]
"""Computes all outputs of an operator, also those that nobody wants. Raises ValueError for inputs
that it does not take."""


def _number(op: ForeignOp, name: str, default: float) -> float:
    found = op.attrs.data.get(name)
    if not isinstance(found, IntegerAttr | FloatAttr):
        return default
    return cast("IntegerAttr[Any]", found).value.data


def _integer(op: ForeignOp, name: str, default: int) -> int:
    return int(_number(op, name, default))


def _non_max_suppression(
    op: ForeignOp, inputs: Sequence[np.ndarray | None]
) -> Sequence[np.ndarray]:
    boxes, scores = cast("Sequence[np.ndarray]", inputs[:2])
    if scores.ndim != 3 or boxes.shape != (scores.shape[0], scores.shape[2], 4):
        raise ValueError(f"boxes of {boxes.shape} for scores of {scores.shape}")
    zero = np.zeros((), np.float32)
    numbers = [zero if value is None else value for value in [*inputs[2:], None, None, None][:3]]
    has_least = len(inputs) > 4 and inputs[4] is not None
    is_center = bool(_integer(op, "center_point_box", 0))
    return non_max_suppression([boxes, scores, *numbers], is_center, has_least)[:1]


def _unique(op: ForeignOp, inputs: Sequence[np.ndarray | None]) -> Sequence[np.ndarray]:
    """Sorted, or in the order in which they come first."""
    (x,) = cast("Sequence[np.ndarray]", inputs)
    is_flat = "axis" not in op.attrs.data
    axis = 0 if is_flat else _integer(op, "axis", 0)
    if not is_flat and not -x.ndim <= axis < x.ndim:
        raise ValueError(f"axis {axis} of {x.ndim} dimensions")
    given = x.ravel() if is_flat else x
    text = given.astype(np.str_) if x.dtype == object else given  # numpy sorts no rows of objects
    _, first, places, counts = np.unique(
        text, return_index=True, return_inverse=True, return_counts=True, axis=axis
    )
    if not _integer(op, "sorted", 1):
        order = np.argsort(first)
        first, counts, places = first[order], counts[order], np.argsort(order)[places]
    made = np.take(given, first, axis)
    return [made, *(np.asarray(each, np.int64).ravel() for each in (first, places, counts))]


def _layer_norm(op: ForeignOp, inputs: Sequence[np.ndarray | None]) -> Sequence[np.ndarray]:
    """Gives the result, and the mean and inverse deviation in the type of `stash_type`."""
    x, scale = cast("Sequence[np.ndarray]", inputs[:2])
    bias = inputs[2] if len(inputs) > 2 else None
    stash = _integer(op, "stash_type", onnx.TensorProto.FLOAT)
    stashed = onnx.helper.tensor_dtype_to_np_dtype(stash)
    wide = x.astype(np.promote_types(x.dtype, np.promote_types(stashed, np.float32)))
    axis = _integer(op, "axis", -1)
    if not -x.ndim <= axis < x.ndim:
        raise ValueError(f"axis {axis} of {x.ndim} dimensions")
    axes = tuple(range(axis % x.ndim, x.ndim))
    count = wide.dtype.type(np.prod([x.shape[each] for each in axes]))
    apart = wide - wide.sum(axes, keepdims=True) / count
    variance = (apart * apart).sum(axes, keepdims=True) / count
    inverse = 1 / np.sqrt(
        variance + wide.dtype.type(_number(op, "epsilon", float(np.float32(1e-5))))
    )
    made = (apart * inverse).astype(x.dtype) * scale
    made = made if bias is None else made + bias
    mean = wide.sum(axes, keepdims=True) / count
    return [made.astype(x.dtype), mean.astype(stashed), inverse.astype(stashed)]


FOREIGN_RULES: Mapping[str, ForeignRule] = {
    "LayerNormalization": _layer_norm,
    "NonMaxSuppression": _non_max_suppression,
    "Unique": _unique,
}
"""The rule of each operator."""
