"""Reads an ONNX model and brings it to the working opset.

Guarantees: the model is valid for onnx's checker, every node has a name of its own, and the default
domain is at `OPSET`. Codes of the errors:

| code | what is wrong |
| --- | --- |
| B101 | there is no such file |
| B102 | the bytes are not an ONNX model |
| B103 | the model is not valid, or part of it is missing |
| B104 | its opset is too old or too new |
| B105 | an operator, attribute or type that byocir does not support |
| B106 | input shapes |
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import onnx
from google.protobuf.message import DecodeError
from onnx import external_data_helper, version_converter

from byocir.errors import ByocirError
from byocir.frontend.onnx.fold import OPERATORS
from byocir.frontend.onnx.opset import OLDEST_OPSET, OPSET
from byocir.frontend.onnx.table import reader_of

Model = str | Path | bytes | onnx.ModelProto


class Loaded(NamedTuple):
    """A model at the working opset, and (name, operator) of each node that its file has."""

    proto: onnx.ModelProto
    nodes: list[tuple[str, str]]


def load_model(model: Model) -> Loaded:
    """The model, checked and at the working opset; never the caller's own object. Raises
    ByocirError B101 to B105."""
    proto, where = _read(model)
    if not proto.HasField("graph") or not proto.opset_import:
        raise ByocirError(
            "B102", "expected an ONNX model, found no graph in it", where=where, help=_NOT_ONNX
        )
    _check_text(proto, where)
    name_nodes(proto.graph.node)
    _check_opset(proto, where)
    _check_operators(proto)
    try:
        onnx.checker.check_model(proto)  # pyright: ignore[reportUnknownMemberType]
    except (onnx.checker.ValidationError, ValueError) as error:
        raise ByocirError(
            "B103", f"expected a valid model, found: {_first_line(error)}", where=where
        ) from error
    nodes = [(node.name, node.op_type) for node in proto.graph.node]
    converted = _convert(proto, where)
    name_nodes(converted.graph.node)  # those that the conversion added
    return Loaded(converted, nodes)


_NOT_ONNX = "pass a file written by an ONNX exporter; it may be cut off or of another format"


def _read(model: Model) -> tuple[onnx.ModelProto, str]:
    """The model as it is in the file, with its weights, and a name for it in messages."""
    if isinstance(model, onnx.ModelProto):
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        return copy, "model"
    if isinstance(model, bytes):
        proto = _decode(model, "model")
        if any(external_data_helper.uses_external_data(t) for t in proto.graph.initializer):
            raise ByocirError(
                "B103",
                "expected a model that holds its weights, found external data",
                help="pass the path of the file: the weights are read from its folder",
            )
        return proto, "model"
    path = Path(model)
    if not path.is_file():
        found = "a folder" if path.is_dir() else "nothing"
        raise ByocirError("B101", f"expected a file, found {found}", where=str(path))
    proto = _decode(path.read_bytes(), str(path))
    try:
        external_data_helper.load_external_data_for_model(proto, str(path.parent))
    except (OSError, ValueError, onnx.checker.ValidationError) as error:
        raise ByocirError(
            "B103",
            f"expected the weights beside the model, found: {_first_line(error)}",
            where=str(path),
        ) from error
    return proto, str(path)


def _decode(content: bytes, where: str) -> onnx.ModelProto:
    try:
        return onnx.load_model_from_string(content)
    except DecodeError as error:
        raise ByocirError(
            "B102", "expected an ONNX model, found other bytes", where=where, help=_NOT_ONNX
        ) from error


def _check_text(proto: onnx.ModelProto, where: str) -> None:
    """Refuses names that are not UTF-8; protobuf hands those out as bytes."""
    graph = proto.graph
    texts: list[str | bytes] = [o.domain for o in proto.opset_import]
    for values in (graph.input, graph.output, graph.value_info, graph.initializer):
        texts.extend(value.name for value in values)
    for node in graph.node:
        texts += [node.name, node.op_type, node.domain, *node.input, *node.output]
        texts.extend(attribute.name for attribute in node.attribute)
    for text in texts:
        if isinstance(text, bytes):
            raise ByocirError(
                "B102", f"expected names in UTF-8, found {text!r}", where=where, help=_NOT_ONNX
            )


def name_nodes(nodes: Iterable[onnx.NodeProto]) -> None:
    """Gives nodes without a name `OpType_index`, and a second node of a name one of its own."""
    nodes = list(nodes)
    given = {node.name for node in nodes}
    taken: set[str] = set()
    for index, node in enumerate(nodes):
        name = node.name or f"{node.op_type}_{index}"
        while name in taken or (name in given and name != node.name):
            name = f"{name}_{index}"
        taken.add(name)
        node.name = name


def _check_opset(proto: onnx.ModelProto, where: str) -> None:
    newest = onnx.defs.onnx_opset_version()
    opsets = [o.version for o in proto.opset_import if o.domain in ("", "ai.onnx")]
    if opsets and OLDEST_OPSET <= opsets[0] <= newest:
        return
    old = not opsets or opsets[0] < OLDEST_OPSET
    raise ByocirError(
        "B104",
        f"expected opset {OLDEST_OPSET} to {newest}, found {opsets[0] if opsets else 'none'}",
        where=where,
        help="export the model again with a newer opset, or use onnx.version_converter"
        if old
        else "export the model again with an older opset, or install a newer onnx",
    )


def _check_operators(proto: onnx.ModelProto) -> None:
    """Refuses operators without a form at graph level, before the checker and the version converter
    complain about them without naming the node."""
    foreign = [node for node in proto.graph.node if not _is_known(node)]
    if foreign:
        error = unsupported_operator(foreign[0])
        others = sorted({node.op_type for node in foreign} - {foreign[0].op_type})
        also = f"the model also has {', '.join(others)}" if others else ""
        raise ByocirError(error.code, error.message, where=error.where, help=also)


def _is_known(node: onnx.NodeProto) -> bool:
    default = node.domain in ("", "ai.onnx")
    return reader_of(node) is not None or (default and node.op_type in OPERATORS)


def unsupported_operator(node: onnx.NodeProto) -> ByocirError:
    """The error for a node whose operator byocir has no form of."""
    domain = f" of domain {node.domain}" if node.domain else ""
    return unsupported(node, f"expected a supported operator, found {node.op_type}{domain}")


def unsupported(node: onnx.NodeProto, message: str) -> ByocirError:
    """The error for a node that cannot be imported, with this reason."""
    return ByocirError("B105", message, where=f"node '{node.name}' ({node.op_type})")


def _convert(proto: onnx.ModelProto, where: str) -> onnx.ModelProto:
    versions = {o.domain: o.version for o in proto.opset_import}
    if versions.get("", versions.get("ai.onnx")) == OPSET:
        return proto
    try:
        return version_converter.convert_version(proto, OPSET)
    except (RuntimeError, ValueError, version_converter.ConvertError) as error:
        raise ByocirError(
            "B104",
            f"expected a model that converts to opset {OPSET}, found: {_first_line(error)}",
            where=where,
            help=f"export the model again with opset {OPSET}",
        ) from error


def _first_line(error: Exception) -> str:
    """What onnx says, without the C++ assertion that it may begin with."""
    return str(error).strip().split("\n")[0].split(" failed: ")[-1].rstrip(".")
