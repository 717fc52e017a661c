"""Attributes that contradict the shapes of operands, which onnx's inference does not look at."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import onnx

from byocir.dialects.array import Array
from byocir.dialects.types import Shape, static_shape
from byocir.frontend.onnx.reader import Value

_Shapes = Sequence[Shape | None]


def contradiction(node: onnx.NodeProto, sources: Sequence[Value | None]) -> str:
    """What does not fit in a node with inputs like these; empty if nothing is known not to."""
    check = _CHECKS.get(node.op_type) if node.domain in ("", "ai.onnx") else None
    if check is None:
        return ""
    shapes = [None if value is None else _shape(value) for value in sources]
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    return check([*shapes, *[None] * 8], attributes)


def _shape(value: Value) -> Shape | None:
    return value.shape if isinstance(value, Array) else static_shape(value.type)


def _recurrent(gates: int) -> Callable[[_Shapes, Mapping[str, Any]], str]:
    """The check of an operator whose weights stand for so many gates, `[directions, rows, …]`."""

    def check(shapes: _Shapes, attributes: Mapping[str, Any]) -> str:
        x, w, r, bias = shapes[:4]
        if r is None or len(r) != 3:
            return ""
        hidden = attributes.get("hidden_size", r[2])
        directions = 2 if attributes.get("direction") == b"bidirectional" else 1
        sizes = x[2] if x is not None and len(x) == 3 else None
        wanted = {
            "W": (w, (directions, gates * hidden, sizes)),
            "R": (r, (directions, gates * hidden, hidden)),
            "B": (bias, (directions, 2 * gates * hidden)),
        }
        for name, (found, shape) in wanted.items():
            if found is None or len(found) != len(shape):
                continue
            if any(b not in (None, a) for a, b in zip(found, shape, strict=True)):
                text = "x".join("?" if size is None else str(size) for size in shape)
                seen = "x".join(map(str, found))
                return f"expected {name} of {text} for hidden_size {hidden}, found {seen}"
        return ""

    return check


def _conv(shapes: _Shapes, attributes: Mapping[str, Any]) -> str:
    x, w, bias = shapes[:3]
    if w is None:
        return ""
    kernel, group = attributes.get("kernel_shape"), attributes.get("group", 1)
    if kernel is not None and list(kernel) != list(w[2:]):
        return f"expected kernel_shape {list(w[2:])} as the weight has, found {list(kernel)}"
    if x is not None and len(x) > 1 and x[1] != w[1] * group:
        return f"expected an input of {w[1]} x {group} channels, found {x[1]}"
    if w[0] % max(group, 1):
        return f"expected outputs in {group} groups, found {w[0]}"
    if bias is not None and list(bias) != [w[0]]:
        return f"expected a bias of [{w[0]}], found {list(bias)}"
    return ""


_CHECKS: Mapping[str, Callable[[_Shapes, Mapping[str, Any]], str]] = {
    "Conv": _conv,
    "GRU": _recurrent(3),
    "LSTM": _recurrent(4),
    "RNN": _recurrent(1),
}
"""By operator."""
