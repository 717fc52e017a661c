"""Folds arithmetic on shapes: computes nodes on small constants at import.

Exporters write a reshape to a computed shape as Shape, Gather, Concat, Reshape; the sizes of a
Resize or the end of a Range are floats on the way: Shape, Gather, Cast, Mul, Floor, Cast. All
shapes are static here, so the chain is known; no graph op is needed for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import onnx

from byocir.dialects.array import Array
from byocir.dialects.graph.movement import sliced
from byocir.frontend.onnx.reader import Value
from byocir.frontend.onnx.reference import Reference
from byocir.vendor.engine import NotComputed

OPERATORS = frozenset(
    {
        "Abs",
        "Add",
        "And",
        "Cast",
        "Concat",
        "Div",
        "Equal",
        "Gather",
        "Greater",
        "GreaterOrEqual",
        "Less",
        "LessOrEqual",
        "Max",
        "Min",
        "Mod",
        "Mul",
        "Neg",
        "Not",
        "Or",
        "ReduceMax",
        "ReduceMin",
        "ReduceProd",
        "ReduceSum",
        "Reshape",
        "Slice",
        "Squeeze",
        "Sub",
        "Transpose",
        "Unsqueeze",
        "Where",
    }
)
"""Operators that shapes are computed with in integers, beside those that the op table reads. None
gives much more than it takes."""

OF_FLOATS = frozenset(
    {
        "Add",
        "Cast",
        "Ceil",
        "Concat",
        "Div",
        "Floor",
        "Gather",
        "Mul",
        "Reshape",
        "Round",
        "Slice",
        "Squeeze",
        "Sub",
        "Unsqueeze",
    }
)
"""Operators that shapes are computed with in floats: all give the float nearest to the result."""

LIMIT, FLOAT_LIMIT = 1024, 16
"""The most elements of an array that is taken for a shape, and of floats on the way to one."""


def fold_shape_arithmetic(
    node: onnx.NodeProto, sources: Sequence[Value | None], opset: int
) -> Array | None:
    """Computes a node that is shape arithmetic on constants; gives None for another node, or a
    wrong one.
    """
    known = node.op_type in OPERATORS | OF_FLOATS
    if not known or not sources or node.domain not in ("", "ai.onnx"):
        return None
    feeds: dict[str, np.ndarray] = {}
    for name, source in zip(node.input, sources, strict=True):
        if source is None:
            continue
        if not isinstance(source, Array) or source.size > LIMIT or source.dtype.kind not in "iubf":
            return None
        feeds[name] = source.values()
    if not all(_is_taken(node, value) for value in feeds.values()):
        return None
    sliced_here = node.op_type == "Slice" and len(node.input) > 2
    made = _slice(node, feeds) if sliced_here else _by_reference(node, feeds, opset)
    if made is None or made.size > LIMIT or not _is_taken(node, made):
        return None
    is_cut = made.dtype.kind in "iu" and not all(_fits(each, made.dtype) for each in feeds.values())
    return None if is_cut else Array.of(made)


def _is_taken(node: onnx.NodeProto, value: np.ndarray) -> bool:
    """Tells if an array is small and of a type for this node's arithmetic."""
    if value.dtype.kind in "iub":
        return node.op_type in OPERATORS
    is_wide = value.dtype in (np.dtype(np.float32), np.dtype(np.float64))
    is_small = node.op_type in OF_FLOATS and value.size <= FLOAT_LIMIT
    return is_wide and is_small and bool(np.isfinite(value).all())


def _fits(value: np.ndarray, integers: np.dtype) -> bool:
    """Tells if integers of a type hold what floats are cut off to; others fit."""
    info = np.iinfo(integers)
    is_inside = (value > float(info.min) - 1) & (value < float(info.max) + 1)
    return value.dtype.kind != "f" or bool(is_inside.all())


def _by_reference(
    node: onnx.NodeProto, feeds: Mapping[str, np.ndarray], opset: int
) -> np.ndarray | None:
    """Computes a node in onnx's reference evaluator; gives None where that cannot."""
    inputs = [onnx.ValueInfoProto(name=name) for name in feeds]
    outputs = [onnx.ValueInfoProto(name=node.output[0])]
    model = onnx.helper.make_model(
        onnx.helper.make_graph([node], "shape", inputs, outputs),
        opset_imports=[onnx.helper.make_opsetid("", opset)],
    )
    try:
        (made,) = Reference(model).run(feeds)
    except NotComputed:
        return None
    return cast("np.ndarray[Any, Any]", made) if isinstance(made, np.ndarray) else None


def _slice(node: onnx.NodeProto, feeds: Mapping[str, np.ndarray]) -> np.ndarray | None:
    """Computes a Slice with starts and ends as inputs; gives None for a wrong one. It is not left
    to onnx's reference, which gives nothing where a slice steps back from before the first element.
    """
    names = [*node.input, "", ""][:5]
    data, starts, ends, axes, steps = (feeds.get(name) for name in names)
    if data is None or starts is None or ends is None or starts.ndim != 1:
        return None
    axes = np.arange(starts.size) if axes is None else axes
    steps = np.ones_like(starts) if steps is None else steps
    if not starts.shape == ends.shape == axes.shape == steps.shape or not steps.all():
        return None
    if any(not -data.ndim <= axis < data.ndim for axis in axes):
        return None
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        taken = sliced(int(start), int(end), int(step), data.shape[axis])
        data = data.take(np.array(taken, np.int64), axis=int(axis))
    return data
