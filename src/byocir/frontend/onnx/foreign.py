"""Turns ONNX nodes into foreign ops and back: attributes stay as they are, graphs become
regions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import onnx
from xdsl.dialects.builtin import ArrayAttr as ListAttr
from xdsl.dialects.builtin import (
    BytesAttr,
    DenseArrayBase,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    f32,
    i64,
)
from xdsl.ir import Attribute, Region

from byocir.dialects.array import ArrayAttr
from byocir.dialects.graph import ForeignOp
from byocir.dialects.graph.base import ints
from byocir.dialects.graph.values import FloatsAttr, Strings, StringsAttr
from byocir.frontend.onnx.detached_weights import DetachedWeights
from byocir.frontend.onnx.tensors import Unsupported
from byocir.frontend.onnx.types import proto_of, type_of

_Kind = onnx.AttributeProto


def attributes_of(node: onnx.NodeProto, weights: DetachedWeights) -> dict[str, Attribute]:
    """Reads the attributes of a node except its graphs; raises Unsupported."""
    return {
        attribute.name: _attribute(attribute, weights)
        for attribute in node.attribute
        if attribute.type != _Kind.GRAPH
    }


def _attribute(attribute: onnx.AttributeProto, weights: DetachedWeights) -> Attribute:
    read = _READ.get(attribute.type)
    if read is None or attribute.ref_attr_name:
        kind = onnx.AttributeProto.AttributeType.Name(attribute.type)
        raise Unsupported(f"expected an attribute with a value, found {attribute.name} of {kind}")
    return read(attribute, weights)


def _text(value: bytes) -> StringAttr | BytesAttr:
    try:
        return StringAttr(value.decode())
    except UnicodeDecodeError:
        return BytesAttr(value)


_READ: dict[int, Callable[[onnx.AttributeProto, DetachedWeights], Attribute]] = {
    _Kind.INT: lambda a, _: IntegerAttr(a.i, i64),
    _Kind.FLOAT: lambda a, _: FloatAttr(a.f, f32),
    _Kind.STRING: lambda a, _: _text(a.s),
    _Kind.INTS: lambda a, _: ints(a.ints),
    _Kind.FLOATS: lambda a, _: FloatsAttr(ArrayAttr.of(np.array(a.floats, np.float32))),
    _Kind.STRINGS: lambda a, _: ListAttr([_text(text) for text in a.strings]),
    _Kind.TENSOR: lambda a, weights: weights.attribute(a.t),
    _Kind.TENSORS: lambda a, weights: ListAttr([weights.attribute(t) for t in a.tensors]),
    _Kind.SPARSE_TENSOR: lambda a, weights: ArrayAttr(weights.dense(a.sparse_tensor)),
    _Kind.TYPE_PROTO: lambda a, _: type_of(a.tp),
}
"""The form in a foreign op of each attribute type. A sparse tensor becomes a dense one."""


def node_of(
    op: ForeignOp,
    inputs: list[str],
    outputs: list[str],
    name: str,
    graph: Callable[[Region], onnx.GraphProto],
) -> onnx.NodeProto:
    """Makes the ONNX node of a foreign op; `graph` writes a region."""
    node = onnx.helper.make_node(
        op.op_type.data, inputs, outputs, name=name, domain=op.domain.data or None
    )
    for key, value in op.attrs.data.items():
        node.attribute.append(_attribute_proto(key, value))
    for key, region in op.named_graphs():
        node.attribute.append(onnx.helper.make_attribute(key, graph(region)))
    return node


def _attribute_proto(name: str, value: Attribute) -> onnx.AttributeProto:
    made = onnx.AttributeProto(name=name)
    if isinstance(value, IntegerAttr):
        made.type, made.i = _Kind.INT, cast("IntegerAttr", value).value.data
    elif isinstance(value, FloatAttr):
        made.type, made.f = _Kind.FLOAT, cast("FloatAttr", value).value.data
    elif isinstance(value, StringAttr | BytesAttr):
        made.type, made.s = _Kind.STRING, _bytes(value)
    elif isinstance(value, DenseArrayBase):
        made.type = _Kind.INTS
        made.ints.extend(cast("DenseArrayBase[Any]", value).get_values())
    elif isinstance(value, FloatsAttr):
        made.type = _Kind.FLOATS
        made.floats.extend(value.values.data.values().tolist())
    elif isinstance(value, ArrayAttr | StringsAttr):
        made.type = _Kind.TENSOR
        made.t.CopyFrom(tensor_of(value))
    elif isinstance(value, ListAttr):
        _fill_list(made, list(cast("ListAttr[Attribute]", value)))
    else:
        made.type = _Kind.TYPE_PROTO
        made.tp.CopyFrom(proto_of(value))
    return made


def _fill_list(made: onnx.AttributeProto, members: list[Attribute]) -> None:
    tensors = [m for m in members if isinstance(m, ArrayAttr | StringsAttr)]
    made.type = _Kind.TENSORS if tensors else _Kind.STRINGS
    made.tensors.extend(tensor_of(member) for member in tensors)
    made.strings.extend(_bytes(m) for m in members if isinstance(m, StringAttr | BytesAttr))


def _bytes(value: StringAttr | BytesAttr) -> bytes:
    return value.data.encode() if isinstance(value, StringAttr) else value.data


def tensor_of(value: ArrayAttr | StringsAttr) -> onnx.TensorProto:
    """Makes ONNX's tensor of a constant."""
    if isinstance(value, ArrayAttr):
        return onnx.numpy_helper.from_array(value.data.values())
    shape, elements = value.data
    return onnx.TensorProto(
        data_type=onnx.TensorProto.STRING,
        dims=shape,
        string_data=[text.encode() for text in elements],
    )


def constant_of(strings: Strings, opset: int) -> tuple[dict[str, Attribute], Attribute]:
    """Gives properties and type of the foreign op that holds a tensor of strings, for which no
    graph op exists.
    """
    proto = onnx.TypeProto()
    proto.tensor_type.elem_type = onnx.TensorProto.STRING
    proto.tensor_type.shape.SetInParent()
    for size in strings.shape:
        proto.tensor_type.shape.dim.add().dim_value = size
    attributes: dict[str, Attribute] = {"value": StringsAttr(strings)}
    return ForeignOp.properties_of("Constant", opset, attributes), type_of(proto)
