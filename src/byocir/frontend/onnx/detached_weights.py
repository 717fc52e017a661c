"""Detaches the weights of a model, so that no step copies or prints them.

Large tensors leave the protobuf for numpy arrays; what stays has name, type and shape, and says in
`doc_string` which array it stands for. Checks and inference then cost what the graph is, not what
the weights are.

Weights may lie in files beside the model. Only regular files inside the model's folder are read: no
absolute paths, no way out by `..`, no links of either kind, which could name any file of the
machine. Offset and length are checked against the file. Values are mapped, not copied: a model may
be larger than what protobuf can hold.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath, PureWindowsPath

import numpy as np
import onnx

from byocir.dialects.array import Array, ArrayAttr
from byocir.dialects.graph.values import Strings, StringsAttr
from byocir.dialects.types import strides_of
from byocir.frontend.onnx.protobuf_weights import LARGE
from byocir.frontend.onnx.tensors import Unsupported, any_dtype, is_packed, type_name, values_of

MAX_DENSE = 2**26
"""The most elements that a sparse tensor is made dense for: 256 MiB of f32."""


def graphs_in(model: onnx.ModelProto) -> Iterator[onnx.GraphProto]:
    """Yields all graphs of a model, outer ones first."""
    yield from _graphs(model.graph)
    for function in model.functions:
        for node in function.node:
            yield from _graphs_of_node(node)


def _graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    yield graph
    for node in graph.node:
        yield from _graphs_of_node(node)


def _graphs_of_node(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for _, graph in inner_graphs(node):
        yield from _graphs(graph)


def inner_graphs(node: onnx.NodeProto) -> Iterator[tuple[str, onnx.GraphProto]]:
    """Yields the graphs directly inside a node, each with the attribute that holds it."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.name, attribute.g
        for graph in attribute.graphs:
            yield attribute.name, graph


def nodes_in(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """Yields all nodes of a model, those of functions last."""
    for graph in graphs_in(model):
        yield from graph.node
    for function in model.functions:
        yield from function.node


def tensors_in(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Yields all tensors of a model."""
    for graph in graphs_in(model):
        yield from graph.initializer
        for sparse in graph.sparse_initializer:
            yield from (sparse.values, sparse.indices)
    for node in nodes_in(model):
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            if attribute.HasField("sparse_tensor"):
                yield from (attribute.sparse_tensor.values, attribute.sparse_tensor.indices)


class DetachedWeights:
    """Holds the arrays that were taken out of a model."""

    def __init__(self) -> None:
        self._values: list[np.ndarray] = []
        self._arrays: dict[int, Array] = {}
        self._left: list[tuple[onnx.TensorProto, list[int]]] = []

    def strip(
        self, model: onnx.ModelProto, folder: Path | None, raw: Mapping[int, np.ndarray]
    ) -> None:
        """Takes the large tensors out of a model; `raw` has the bytes of those initializers that
        were lifted. For onnx's checker, which wants all values of a tensor, they have no element
        until `restore`. Raises Unsupported for a tensor that is not complete, naming it."""
        for index, tensor in enumerate(tensors_in(model)):  # the graph's initializers come first
            tensor.ClearField("doc_string")
            try:
                self._strip(tensor, folder, raw.get(index))
            except (Unsupported, OSError) as error:
                raise Unsupported(f"{error} (tensor '{tensor.name}')") from error

    def _strip(self, tensor: onnx.TensorProto, folder: Path | None, raw: np.ndarray | None) -> None:
        dtype = any_dtype(tensor.data_type)
        if raw is not None and (dtype is None or is_packed(dtype)):
            tensor.raw_data, raw = raw.tobytes(), None
        if is_external(tensor):
            if folder is None:
                raise Unsupported("expected a model that holds its weights, found external data")
            values = read_external(tensor, folder)
            tensor.ClearField("data_location")
            tensor.ClearField("external_data")
        elif raw is not None or (
            tensor.data_type != onnx.TensorProto.STRING and _stored(tensor) > LARGE
        ):
            values = values_of(tensor, raw)
            if list(values.shape) != list(tensor.dims):
                raise Unsupported(f"expected shape {list(tensor.dims)}, found {values.shape}")
            for field in _FIELDS:
                tensor.ClearField(field)
        else:
            return
        tensor.doc_string = str(len(self._values))
        self._values.append(values)
        self._left.append((tensor, list(tensor.dims)))
        del tensor.dims[:]
        tensor.dims.append(0)

    def restore(self) -> None:
        """Gives the detached tensors their shapes back."""
        for tensor, dims in self._left:
            del tensor.dims[:]
            tensor.dims.extend(dims)
        self._left.clear()

    def adopt(self, model: onnx.ModelProto) -> None:
        """Replaces the tensors by those of a model that was made from the detached one."""
        shapes = {tensor.doc_string: dims for tensor, dims in self._left}
        self._left = [
            (tensor, shapes[tensor.doc_string]) for tensor in tensors_in(model) if tensor.doc_string
        ]

    def constant(self, tensor: onnx.TensorProto) -> Array | Strings:
        """Reads the values of a tensor of the model; raises Unsupported."""
        if tensor.data_type == onnx.TensorProto.STRING:
            values = values_of(tensor)
            return Strings(values.shape, tuple(str(text) for text in values.reshape(-1)))
        if any_dtype(tensor.data_type) is None:
            raise Unsupported("expected a tensor of numbers or strings, found another")
        if not tensor.doc_string:
            return Array.of(values_of(tensor))
        index = int(tensor.doc_string)
        if index not in self._arrays:
            self._arrays[index] = Array.of(self._values[index])
        return self._arrays[index]

    def attribute(self, tensor: onnx.TensorProto) -> ArrayAttr | StringsAttr:
        """Reads the values of a tensor as an attribute; raises Unsupported."""
        constant = self.constant(tensor)
        return ArrayAttr(constant) if isinstance(constant, Array) else StringsAttr(constant)

    def dense(self, sparse: onnx.SparseTensorProto) -> Array:
        """Makes a dense array of a sparse tensor; raises Unsupported."""
        shape = tuple(sparse.dims)
        size = math.prod(shape)
        values, indices = self.constant(sparse.values), self.constant(sparse.indices)
        if not isinstance(values, Array) or not isinstance(indices, Array):
            raise Unsupported("expected a sparse tensor of numbers, found strings")
        if min(shape, default=0) < 0 or size > MAX_DENSE:
            raise Unsupported(f"expected a sparse tensor of at most {MAX_DENSE} elements")
        at = indices.values()
        if at.ndim == 2 and at.shape[1] == len(shape):
            at = (at * np.array(strides_of(tuple(shape)), np.int64)).sum(axis=1)
        if (
            at.ndim != 1
            or len(at) != values.size
            or (at.size and not 0 <= at.min() <= at.max() < size)
        ):
            raise Unsupported(
                f"expected an index of {list(shape)} for each value of a sparse tensor"
            )
        dense = np.zeros(size, values.dtype)
        dense[at] = values.values().reshape(-1)
        return Array.of(dense.reshape(shape))


_FIELDS = (
    "raw_data",
    "float_data",
    "int32_data",
    "int64_data",
    "double_data",
    "uint64_data",
)


def _stored(tensor: onnx.TensorProto) -> int:
    """Estimates how many bytes the values of a tensor take."""
    if tensor.HasField("raw_data"):
        return len(tensor.raw_data)
    return max(4 * len(getattr(tensor, field)) for field in _FIELDS[1:])


def is_external(tensor: onnx.TensorProto) -> bool:
    """Tells if a tensor's values are in a file of their own."""
    return tensor.data_location == onnx.TensorProto.EXTERNAL


def read_external(tensor: onnx.TensorProto, folder: Path) -> np.ndarray:
    """Reads the values of a tensor from its file, read-only; raises Unsupported with a reason of
    one sentence.
    """
    try:
        return _read(tensor, folder)
    except OSError as error:
        raise Unsupported(f"expected a file that can be read, found: {error.strerror}") from error


def _read(tensor: onnx.TensorProto, folder: Path) -> np.ndarray:
    entries = {entry.key: entry.value for entry in tensor.external_data}
    path = _contained(entries.get("location", ""), folder)
    size = path.stat().st_size
    offset = _number(entries, "offset", 0)
    length = _number(entries, "length", max(size - offset, 0))
    if offset + length > size:
        raise Unsupported(
            f"expected a file of at least {offset + length} bytes, found {size} in "
            f"'{entries['location']}'"
        )
    dtype = any_dtype(tensor.data_type)
    if dtype is None:
        raise Unsupported(f"expected a tensor of numbers, found {type_name(tensor.data_type)}")
    if not is_packed(dtype):
        needed = math.prod(tensor.dims) * dtype.itemsize
        if needed != length:
            raise Unsupported(f"expected {needed} bytes of values, found {length}")
        if not length:
            return np.zeros(tuple(tensor.dims), dtype)
        return np.memmap(path, dtype, "r", offset, tuple(tensor.dims))
    with path.open("rb") as file:
        file.seek(offset)
        packed = onnx.TensorProto(data_type=tensor.data_type, dims=tensor.dims)
        packed.raw_data = file.read(length)
    return values_of(packed)


def _number(entries: dict[str, str], key: str, default: int) -> int:
    text = entries.get(key, "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit()):
        raise Unsupported(f"expected {key} of the external data as a number, found '{text}'")
    return int(text[:20])


def _contained(location: str, folder: Path) -> Path:
    """Finds the file that a location names; raises Unsupported unless it is a regular file inside
    the model's folder.
    """
    relative = PurePosixPath(location)
    absolute = relative.is_absolute() or PureWindowsPath(location).is_absolute()
    if not location or absolute or ".." in relative.parts or "\0" in location:
        raise Unsupported(f"expected a location inside the model's folder, found '{location}'")
    path = folder
    for part in relative.parts:
        path /= part
        if path.is_symlink():
            raise Unsupported(f"expected a file inside the model's folder, found link '{location}'")
    if not path.is_file():
        raise Unsupported(f"expected a file '{location}' beside the model, found none")
    if path.stat().st_nlink > 1:
        raise Unsupported(f"expected a file of one name, found hard link '{location}'")
    return path
