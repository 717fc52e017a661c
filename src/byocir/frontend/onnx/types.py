"""Converts ONNX's types to MLIR's, and back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import onnx
from xdsl.dialects.builtin import TensorType, UnrankedTensorType
from xdsl.ir import Attribute

from byocir.dialects.graph.values import (
    MapType,
    OptionalType,
    SequenceType,
    SparseTensorType,
    StringType,
    UnknownType,
)
from byocir.dialects.types import (
    DYNAMIC,
    dtype_of,
    element_of,
    element_type_of,
    has_dtype,
    is_core,
    static_shape,
    tensor,
    too_deep,
)
from byocir.frontend.onnx.tensors import Unsupported, type_name
from byocir.frontend.onnx.writer import onnx_type


def type_of(proto: onnx.TypeProto) -> Attribute:
    """Converts a TypeProto: sizes that it leaves open are dynamic, and a type that it leaves out is
    unknown. Raises Unsupported for element types that ONNX does not have.
    """
    kind = proto.WhichOneof("value")
    if kind == "tensor_type":
        return _tensor(proto.tensor_type)
    if kind == "sparse_tensor_type":
        return SparseTensorType(_tensor(proto.sparse_tensor_type))
    if kind == "sequence_type":
        return SequenceType(type_of(proto.sequence_type.elem_type))
    if kind == "optional_type":
        return OptionalType(type_of(proto.optional_type.elem_type))
    if kind == "map_type":
        key = _element(proto.map_type.key_type)
        return MapType(key, type_of(proto.map_type.value_type))
    return UnknownType()


def _tensor(proto: onnx.TypeProto.Tensor | onnx.TypeProto.SparseTensor) -> Attribute:
    if proto.elem_type == onnx.TensorProto.UNDEFINED:
        return UnknownType()
    element = _element(proto.elem_type)
    if not proto.HasField("shape"):
        return UnrankedTensorType(element)
    dims = proto.shape.dim
    if any(size.dim_value < 0 for size in dims):
        raise Unsupported(f"expected sizes of at least 0, found {[s.dim_value for s in dims]}")
    sizes = [size.dim_value if size.HasField("dim_value") else DYNAMIC for size in dims]
    made = tensor(element, sizes)
    if deep := too_deep(made):
        raise Unsupported(deep)
    return made


def _element(data_type: int) -> Attribute:
    if data_type == onnx.TensorProto.STRING:
        return StringType()
    try:
        dtype = onnx.helper.tensor_dtype_to_np_dtype(data_type)
    except KeyError:  # no such type: the checker lets any number pass
        dtype = None
    if dtype is None or not has_dtype(dtype):
        raise Unsupported(f"expected an element type of ONNX, found {type_name(data_type)}")
    return element_of(dtype)


def proto_of(type_: Attribute) -> onnx.TypeProto:
    """Makes the TypeProto of a type; an empty one for an unknown type."""
    proto = onnx.TypeProto()
    if isinstance(type_, TensorType | UnrankedTensorType):
        _fill(proto.tensor_type, cast(Attribute, type_))
    elif isinstance(type_, SparseTensorType):
        _fill(proto.sparse_tensor_type, type_.tensor)
    elif isinstance(type_, SequenceType):
        proto.sequence_type.elem_type.CopyFrom(proto_of(type_.element))
    elif isinstance(type_, OptionalType):
        proto.optional_type.elem_type.CopyFrom(proto_of(type_.element))
    elif isinstance(type_, MapType):
        proto.map_type.key_type = _data_type(type_.key)
        proto.map_type.value_type.CopyFrom(proto_of(type_.value))
    return proto


def _fill(proto: onnx.TypeProto.Tensor | onnx.TypeProto.SparseTensor, type_: Attribute) -> None:
    if not isinstance(type_, TensorType | UnrankedTensorType):
        return
    proto.elem_type = _data_type(type_.element_type)
    if isinstance(type_, UnrankedTensorType):
        return
    proto.shape.SetInParent()
    for size in type_.get_shape():
        dim = proto.shape.dim.add()
        if size >= 0:
            dim.dim_value = size


def _data_type(element: Attribute) -> int:
    return onnx.TensorProto.STRING if isinstance(element, StringType) else onnx_type(element)


def why_not_static(types: Iterable[Attribute]) -> str:
    """Says why graph ops cannot take values of these types; empty if they can."""
    for type_ in types:
        if static_shape(type_) is None:
            return f"expected inputs of static shape, found {type_}"
        try:
            core = is_core(dtype_of(element_type_of(type_)))
        except KeyError:
            core = False
        if not core:
            return f"expected inputs of numbers that graph ops compute on, found {type_}"
    return ""
