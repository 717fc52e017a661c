"""Adapts nodes of other opsets to the form that the op table reads.

Mostly what was an attribute has become an input. Attributes are known at import, so such an input
is an array; no node is added.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

import numpy as np
import onnx
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, SSAValue

from byocir.dialects.array import Array
from byocir.dialects.graph import ReshapeOp
from byocir.dialects.types import dtype_of, element_type_of, holds_numbers, shape_of
from byocir.frontend.onnx.forms import is_newcomer, same_form
from byocir.frontend.onnx.opset import OPSET
from byocir.frontend.onnx.reader import NodeReader, Value
from byocir.frontend.onnx.tensors import Unsupported

Sources = Sequence[Value | None]


class Adapted(NamedTuple):
    """Holds a node of the working opset with its inputs."""

    node: onnx.NodeProto
    sources: Sources


def adapt(node: onnx.NodeProto, sources: Sources, opset: int) -> Adapted | None:
    """Adapts a node of this opset, which may be older or newer, to the working opset; None if it
    has no such form.
    """
    if same_form(node, opset, OPSET) or is_newcomer(node, opset):
        return Adapted(node, sources)
    rule = _RULES.get(node.op_type) if node.domain in ("", "ai.onnx") and opset < OPSET else None
    try:
        made = rule(_Old(node, sources, opset)) if rule is not None else None
    except Unsupported:
        return None
    if made is None or not same_form(made.node, OPSET, OPSET):
        return None
    return made


def _ranked(type_: Attribute) -> Attribute:
    if not isinstance(type_, TensorType) or not holds_numbers(
        element_type_of(cast(Attribute, type_))
    ):
        raise Unsupported(f"expected a tensor of numbers, found {type_}")
    return cast(Attribute, type_)


class _Old:
    """Describes a node of an older opset."""

    def __init__(self, node: onnx.NodeProto, sources: Sources, opset: int) -> None:
        self.node, self.sources, self.opset = node, list(sources), opset
        self.attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}

    @property
    def shape(self) -> Sequence[int]:
        """Gives the first input's shape; raises Unsupported if its rank is open."""
        source = self.sources[0]
        if source is None:
            return ()
        return source.shape if isinstance(source, Array) else shape_of(_ranked(source.type))

    @property
    def dtype(self) -> np.dtype:
        """Gives the first input's element type; raises Unsupported if it is not known."""
        source = self.sources[0]
        assert source is not None
        return (
            source.dtype
            if isinstance(source, Array)
            else dtype_of(element_type_of(_ranked(source.type)))
        )

    def rebuilt(self, sources: Sources, op_type: str = "", **changes: object) -> Adapted:
        """Copies the node with other inputs and attributes; an attribute that is None is
        removed.
        """
        attributes = {**self.attributes, **changes}
        made = onnx.NodeProto(op_type=op_type or self.node.op_type, name=self.node.name)
        made.input.extend(f"input_{i}" if s is not None else "" for i, s in enumerate(sources))
        made.output.extend(self.node.output)
        for name, value in attributes.items():
            if value is not None:
                made.attribute.append(onnx.helper.make_attribute(name, value))
        return Adapted(made, sources)

    def ints(self, name: str) -> Array | None:
        """Turns an attribute of integers into an input."""
        value = self.attributes.get(name)
        return None if value is None else Array.of(np.atleast_1d(np.array(value, np.int64)))

    def scalar(self, name: str) -> Array | None:
        """Turns an attribute that is a number into an input of the first input's type."""
        value = self.attributes.get(name)
        return None if value is None else Array.of(np.array(value, self.dtype))


Rule = Callable[[_Old], Adapted | None]


def _to_inputs(*names: str) -> Rule:
    """Turns attributes of integers into inputs, in this order."""

    def rule(old: _Old) -> Adapted | None:
        if len(old.sources) > 1:
            return None
        added = [old.ints(name) for name in names]
        return old.rebuilt([*old.sources, *added], "", **dict.fromkeys(names))

    return rule


def _split(old: _Old) -> Adapted | None:
    sizes = old.ints("split")
    if sizes is not None:
        return old.rebuilt([old.sources[0], sizes], split=None)
    if len(old.sources) > 1:
        return None
    return old.rebuilt(old.sources, num_outputs=len(old.node.output))


def _clip(old: _Old) -> Adapted | None:
    bounds = [old.scalar("min"), old.scalar("max")]
    return old.rebuilt([old.sources[0], *bounds], min=None, max=None, consumed_inputs=None)


def _pad(old: _Old) -> Adapted | None:
    if len(old.sources) > 1:
        return None
    sources = [old.sources[0], old.ints("pads"), old.scalar("value")]
    return old.rebuilt(sources, pads=None, value=None)


def _dropout(old: _Old) -> Adapted | None:
    if len([name for name in old.node.output if name]) > 1:
        return None
    inference = old.opset >= 7 or bool(old.attributes.get("is_test", 0))
    return (
        old.rebuilt(old.sources[:1], ratio=None, is_test=None, consumed_inputs=None)
        if (inference)
        else None
    )


def _batch_normalization(old: _Old) -> Adapted | None:
    if len([name for name in old.node.output if name]) > 1 or not old.attributes.get("spatial", 1):
        return None
    if old.opset < 7 and not old.attributes.get("is_test", 0):
        return None
    return old.rebuilt(old.sources, spatial=None, is_test=None, consumed_inputs=None)


def _resize(old: _Old) -> Adapted | None:
    """Adapts a Resize, which before opset 11 took the pixel at the floor of index / scale."""
    if old.opset > 10:
        return None
    scales = old.sources[1] if len(old.sources) > 1 else None
    if "scales" in old.attributes:
        scales = Array.of(np.array(old.attributes["scales"], np.float32))
    changes: dict[str, object] = {
        "scales": None,
        "coordinate_transformation_mode": "asymmetric",
        "nearest_mode": "floor",
    }
    return old.rebuilt([old.sources[0], None, scales], "Resize", **changes)


def _scatter(old: _Old) -> Adapted | None:
    return old.rebuilt(old.sources, "ScatterElements")


def _top_k(old: _Old) -> Adapted | None:
    return old.rebuilt([old.sources[0], old.ints("k")], k=None) if "k" in old.attributes else None


def _binary(old: _Old) -> Adapted | None:
    """Adapts an operator that before opset 7 broadcast its second operand only on request, from
    `axis` on.
    """
    if not old.attributes.get("broadcast", 0):
        return old.rebuilt(old.sources, broadcast=None, axis=None, consumed_inputs=None)
    rhs = old.sources[1]
    axis = old.attributes.get("axis")
    if axis is not None:
        if not isinstance(rhs, Array):
            return None
        rank = len(old.shape)
        axis = axis + rank if axis < 0 else axis
        trailing = rank - axis - len(rhs.shape)
        if trailing < 0:
            return None
        rhs = Array.of(rhs.values().reshape(*rhs.shape, *[1] * trailing))
    sources = [old.sources[0], rhs]
    return old.rebuilt(sources, broadcast=None, axis=None, consumed_inputs=None)


def _without(attribute: str) -> Rule:
    """Makes a rule that leaves out an attribute: before opset 7 a Gemm broadcast its third operand
    only on request.
    """
    return lambda old: old.rebuilt(old.sources, "", **{attribute: None})


def _reshape(old: _Old) -> Adapted | None:
    if len(old.sources) > 1 or "shape" not in old.attributes:
        return None
    return old.rebuilt([old.sources[0], old.ints("shape")], shape=None, consumed_inputs=None)


_AXES = _to_inputs("axes")

_RULES: dict[str, Rule] = {
    "Add": _binary,
    "BatchNormalization": _batch_normalization,
    "Clip": _clip,
    "Div": _binary,
    "Dropout": _dropout,
    "Gemm": _without("broadcast"),
    "Mul": _binary,
    "Pad": _pad,
    "Pow": _binary,
    "ReduceL1": _AXES,
    "ReduceL2": _AXES,
    "ReduceLogSum": _AXES,
    "ReduceLogSumExp": _AXES,
    "ReduceMax": _AXES,
    "ReduceMean": _AXES,
    "ReduceMin": _AXES,
    "ReduceProd": _AXES,
    "ReduceSum": _AXES,
    "ReduceSumSquare": _AXES,
    "Relu": _without("consumed_inputs"),
    "Reshape": _reshape,
    "Resize": _resize,
    "Scatter": _scatter,
    "Slice": _to_inputs("starts", "ends", "axes"),
    "Split": _split,
    "Squeeze": _AXES,
    "Sub": _binary,
    "TopK": _top_k,
    "Unsqueeze": _AXES,
    "Upsample": _resize,
}
"""Maps operators of the default domain whose form changed to what brings them to the working
opset."""

JOINED = frozenset({"Hardmax", "LogSoftmax", "Softmax"})
"""Operators that, before opset 13, worked on the dimensions from `axis` on as if they were one."""


def joins(node: onnx.NodeProto, opset: int) -> bool:
    """Tells if a node treats several dimensions as one."""
    return node.op_type in JOINED and node.domain in ("", "ai.onnx") and opset < 13


def read_joined(
    node: NodeReader, read: Callable[[NodeReader], Value | Sequence[Value]]
) -> SSAValue | None:
    """Imports a node that joins dimensions as the newer operator on a matrix; None if the axis is
    out of range.
    """
    shape = node.shape(0)
    axis = node.integer("axis", 1)
    axis = axis + len(shape) if axis < 0 else axis
    if not 0 <= axis <= len(shape):
        return None
    made = onnx.helper.make_node(
        node.node.op_type, ["matrix"], list(node.node.output), name=node.node.name, axis=-1
    )
    joined = axis != len(shape) - 1
    matrix = [math.prod(shape[:axis]), math.prod(shape[axis:])]
    source = node.operand(0)
    if joined:
        source = node.emit(ReshapeOp, source, shape=matrix)
    result = read(NodeReader(made, [source], node.insert, node.emitted))
    if isinstance(result, Sequence):
        (result,) = result
    assert isinstance(result, SSAValue)
    return node.emit(ReshapeOp, result, shape=shape) if joined else result
