"""Checks attributes against the shapes of operands where onnx's inference does not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import onnx

from byocir.dialects.array import Array
from byocir.dialects.types import Shape, static_shape
from byocir.frontend.onnx.reader import Value

_Shapes = Sequence[Shape | None]


def contradiction(node: onnx.NodeProto, sources: Sequence[Value | None], opset: int) -> str:
    """Says what does not fit in a node with these inputs; empty if nothing is known to be wrong."""
    check = _CHECKS.get(node.op_type) if node.domain in ("", "ai.onnx") else None
    if check is None or opset < _SINCE.get(node.op_type, 0):
        return ""
    shapes = [None if value is None else _shape(value) for value in sources]
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    return check([*shapes, *[None] * 8], attributes)


def _shape(value: Value) -> Shape | None:
    return value.shape if isinstance(value, Array) else static_shape(value.type)


def _recurrent(gates: int) -> Callable[[_Shapes, Mapping[str, Any]], str]:
    """Makes the check of a recurrent operator with this number of gates; its weights have shape
    `[directions, rows, …]`.
    """

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


def _conv_transpose(shapes: _Shapes, attributes: Mapping[str, Any]) -> str:
    x, w, bias = shapes[:3]
    if w is None or len(w) < 3:
        return ""
    kernel, group = attributes.get("kernel_shape"), attributes.get("group", 1)
    if kernel is not None and list(kernel) != list(w[2:]):
        return f"expected kernel_shape {list(w[2:])} as the weight has, found {list(kernel)}"
    if x is not None and len(x) > 1 and x[1] != w[0]:
        return f"expected an input of {w[0]} channels, found {x[1]}"
    if group < 1 or w[0] % group:
        return f"expected inputs in {group} groups, found {w[0]}"
    for name in ("strides", "dilations", "output_padding"):
        given = attributes.get(name)
        if given is not None and len(given) != len(w) - 2:
            return f"expected {len(w) - 2} {name}, found {len(given)}"
    if bias is not None and list(bias) != [w[1] * group]:
        return f"expected a bias of [{w[1] * group}], found {list(bias)}"
    return ""


def _by_channel(shapes: _Shapes, attributes: Mapping[str, Any]) -> str:
    """Checks that every input but the first has a number for each channel."""
    x, *others = shapes
    if x is None or len(x) < 2:
        return ""
    for each in others:
        if each is not None and list(each) != [x[1]]:
            return f"expected inputs of [{x[1]}], one number for each channel, found {list(each)}"
    return ""


def _grouped(shapes: _Shapes, attributes: Mapping[str, Any]) -> str:
    x, groups = shapes[0], attributes.get("num_groups", 1)
    if x is not None and len(x) > 1 and (groups < 1 or x[1] % groups):
        return f"expected channels in {groups} groups, found {x[1]}"
    return _by_channel(shapes, attributes)


def _normalised(shapes: _Shapes, attributes: Mapping[str, Any]) -> str:
    """Checks that scale and bias broadcast to the input."""
    wrong = _axis(-1)(shapes, attributes)
    x = shapes[0]
    if wrong or x is None:
        return wrong
    named = (("scale", shapes[1]), ("bias", shapes[2]))
    return next((text for name, each in named if (text := _spread(name, each, x))), "")


def _gemm(shapes: _Shapes, attributes: Mapping[str, Any]) -> str:
    a, b, c = shapes[:3]
    if a is None or b is None or len(a) != 2 or len(b) != 2:
        return ""
    rows = a[1] if attributes.get("transA", 0) else a[0]
    columns = b[0] if attributes.get("transB", 0) else b[1]
    return _spread("C", c, (rows, columns))


def _prelu(shapes: _Shapes, attributes: Mapping[str, Any]) -> str:
    x, slope = shapes[:2]
    return "" if x is None else _spread("slope", slope, x)


def _spread(name: str, shape: Shape | None, wanted: Shape) -> str:
    """Says that a shape does not broadcast to another."""
    if shape is None:
        return ""
    behind = wanted[len(wanted) - len(shape) :]
    if len(shape) <= len(wanted) and all(n in (1, m) for n, m in zip(shape, behind, strict=True)):
        return ""
    return f"expected {name} to broadcast to {list(wanted)}, found {list(shape)}"


def _axis(default: int, beyond: int = 0) -> Callable[[_Shapes, Mapping[str, Any]], str]:
    """Makes the check of an operator that works along an axis of its input, which may be so many
    beyond the last.
    """

    def check(shapes: _Shapes, attributes: Mapping[str, Any]) -> str:
        x, axis = shapes[0], attributes.get("axis", default)
        if x is None or -len(x) <= axis < max(len(x), 1) + beyond:
            return ""
        return f"expected an axis of {len(x)} dimensions, found {axis}"

    return check


_OLD_AXIS = _axis(1, beyond=1)
"""Checks an axis, which before opset 13 may equal the rank of the input."""

_CHECKS: Mapping[str, Callable[[_Shapes, Mapping[str, Any]], str]] = {
    "BatchNormalization": _by_channel,
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "GRU": _recurrent(3),
    "Gemm": _gemm,
    "GroupNormalization": _grouped,
    "Hardmax": _OLD_AXIS,
    "InstanceNormalization": _by_channel,
    "LSTM": _recurrent(4),
    "LayerNormalization": _normalised,
    "LogSoftmax": _OLD_AXIS,
    "LpNormalization": _axis(-1),
    "PRelu": _prelu,
    "RMSNormalization": _normalised,
    "RNN": _recurrent(1),
    "Softmax": _OLD_AXIS,
}
"""The check of each operator."""

_SINCE: Mapping[str, int] = {
    "BatchNormalization": 9,
    "Gemm": 7,
    "GroupNormalization": 21,
    "PRelu": 7,
}
"""The opset from which on an operator is as it is checked here."""
