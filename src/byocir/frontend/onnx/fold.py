"""Arithmetic on shapes: nodes on small integer constants are computed at import.

Exporters write a reshape to a computed shape as Shape, Gather, Concat, Reshape. All shapes are
static here, so the chain is known; no graph op is needed for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import onnx

from byocir.dialects.array import Array
from byocir.frontend.onnx.reader import Value
from byocir.frontend.onnx.reference import NotComputed, Reference

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
"""Operators that shapes are computed with, beside those that the op table reads. None gives
much more than it takes."""

LIMIT = 1024
"""The most elements of an array that is taken for a shape."""


def fold_integers(
    node: onnx.NodeProto, sources: Sequence[Value | None], opset: int
) -> Array | None:
    """The result of shape arithmetic on constants; None if this node is something else, or is
    wrong."""
    if node.op_type not in OPERATORS or not sources or node.domain not in ("", "ai.onnx"):
        return None
    feeds: dict[str, np.ndarray] = {}
    for name, source in zip(node.input, sources, strict=True):
        if source is None:
            continue
        if not isinstance(source, Array) or source.size > LIMIT or source.dtype.kind not in "iub":
            return None
        feeds[name] = source.values()
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
    if not isinstance(made, np.ndarray):
        return None
    values = cast("np.ndarray[Any, Any]", made)
    return Array.of(values) if values.dtype.kind in "iub" and values.size <= LIMIT else None
