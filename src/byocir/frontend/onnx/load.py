"""Reads an ONNX model, checks it, inlines its functions and detaches its weights.

Guarantees: the model is valid for onnx's checker and every node has a name of its own. Codes of the
errors:

| code | what is wrong |
| --- | --- |
| B101 | there is no such file, or it cannot be read |
| B102 | the bytes are not an ONNX model |
| B103 | the model is not valid, or part of it is missing |
| B104 | its opset is too new |
| B105 | an operator, attribute or type that ONNX does not have, or that cannot be held |
| B106 | input shapes |
"""

from __future__ import annotations

import re
from io import BytesIO
from os import PathLike
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np
import onnx
import onnx.inliner
from google.protobuf.message import DecodeError, EncodeError

from byocir.errors import ByocirError
from byocir.files import read_whole
from byocir.frontend.onnx.detached_weights import DetachedWeights, graphs_in, nodes_in
from byocir.frontend.onnx.names import broken_text, name_nodes
from byocir.frontend.onnx.opset import OLDEST_OPSET
from byocir.frontend.onnx.protobuf_weights import SplitModel, split_weights
from byocir.frontend.onnx.tensors import Unsupported
from byocir.memory import expect_memory

Model = str | Path | bytes | onnx.ModelProto

ALWAYS_INLINED, MOST_TIMES = 2**12, 64
"""Functions are inlined if that gives no more nodes than this, or no more than so many times those
that the file has: functions that call each other double with each call."""


class Loaded(NamedTuple):
    """Holds a model without its weights, the weights, and the opset of each domain."""

    proto: onnx.ModelProto
    weights: DetachedWeights
    opsets: dict[str, int]


def load_model(model: Model) -> Loaded:
    """Loads a model and checks it; the caller's own object stays as it is. Raises ByocirError B101
    to B105.
    """
    proto, where, folder, raw = _read(model)
    if not proto.HasField("graph") or not proto.opset_import:
        raise ByocirError(
            "B102", "expected an ONNX model, found no graph in it", where=where, help=_NOT_ONNX
        )
    text = broken_text(proto)
    if text is not None:
        raise ByocirError(
            "B102", f"expected names in UTF-8, found {text!r}", where=where, help=_NOT_ONNX
        )
    weights = DetachedWeights()
    try:
        weights.strip(proto, folder, raw)
    except Unsupported as error:
        raise ByocirError("B103", str(error), where=where, help=_weights_help(error)) from error
    _open_sizes(proto.graph)
    name_nodes(proto)
    _check_opset(proto, where)
    _check_operators(proto)
    _check(proto, where)
    if proto.functions:
        proto = _inline(proto, where)
        weights.adopt(proto)
        name_nodes(proto)
    _check_references(proto)
    weights.restore()
    opsets = {_domain(each.domain): each.version for each in proto.opset_import}
    return Loaded(proto, weights, opsets)


def _open_sizes(graph: onnx.GraphProto) -> None:
    """Leaves sizes open that a model gives as -1, which some exporters write and ONNX Runtime
    accepts.
    """
    for value in (*graph.input, *graph.output, *graph.value_info):
        for size in value.type.tensor_type.shape.dim:
            if size.HasField("dim_value") and size.dim_value == -1:
                size.ClearField("dim_value")


_NOT_ONNX = "pass a file written by an ONNX exporter; it may be cut off or of another format"


def _weights_help(error: Unsupported) -> str:
    if "found external data" in str(error):
        return "pass the path of the file: the weights are read from its folder"
    return ""


def _domain(domain: str) -> str:
    return "" if domain == "ai.onnx" else domain


class _Found(NamedTuple):
    """Holds a model as its file has it, a name for it in messages, its folder, and the large
    weights that were lifted out of it.
    """

    proto: onnx.ModelProto
    where: str
    folder: Path | None
    raw: dict[int, np.ndarray]


def _read(model: Model) -> _Found:
    if isinstance(model, onnx.ModelProto):
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        return _Found(copy, "model", None, {})
    if isinstance(model, bytes | bytearray | memoryview):
        lifted = split_weights(BytesIO(model), len(model)) or SplitModel(bytes(model), {})
        return _Found(_decode(lifted.content, "model"), "model", None, lifted.raw)
    given = cast(object, model)
    if not isinstance(given, (str, PathLike)):
        raise ByocirError(
            "B101", f"expected a path, bytes or an onnx.ModelProto, found {type(given).__name__}"
        )
    path = Path(model)
    try:
        if not path.is_file():
            found = "a folder" if path.is_dir() else "nothing"
            raise ByocirError("B101", f"expected a file, found {found}", where=str(path))
        with path.open("rb") as file:
            size = path.stat().st_size
            expect_memory(size, "a model", str(path))
            lifted = split_weights(file, size)
        if lifted is None:
            lifted = SplitModel(read_whole(path), {})
    except OSError as error:
        raise ByocirError(
            "B101", f"expected a file that can be read, found: {error.strerror}", where=str(path)
        ) from error
    return _Found(_decode(lifted.content, str(path)), str(path), path.parent, lifted.raw)


def _decode(content: bytes, where: str) -> onnx.ModelProto:
    try:
        return onnx.load_model_from_string(content)
    except DecodeError as error:
        raise ByocirError(
            "B102", "expected an ONNX model, found other bytes", where=where, help=_NOT_ONNX
        ) from error


def _check_opset(proto: onnx.ModelProto, where: str) -> None:
    newest = onnx.defs.onnx_opset_version()
    versions = [each.version for each in proto.opset_import if not _domain(each.domain)]
    if all(OLDEST_OPSET <= version <= newest for version in versions):
        return
    raise ByocirError(
        "B104",
        f"expected opset {OLDEST_OPSET} to {newest}, found {versions[0]}",
        where=where,
        help="export the model again with an older opset, or install a newer onnx",
    )


def _check_operators(proto: onnx.ModelProto) -> None:
    """Refuses unknown operators before the checker does, which would not name the node."""
    functions = {(_domain(f.domain), f.name) for f in proto.functions}
    unknown = [
        node
        for node in nodes_in(proto)
        if not _domain(node.domain)
        and ("", node.op_type) not in functions
        and not _has_schema(node.op_type)
    ]
    if not unknown:
        return
    others = sorted({node.op_type for node in unknown} - {unknown[0].op_type})
    also = f"the model also has {', '.join(others)}" if others else ""
    error = unsupported(
        unknown[0], f"expected an operator of ONNX, found {unknown[0].op_type or 'none'}"
    )
    raise ByocirError(error.code, error.message, where=error.where, help=also)


def _has_schema(op_type: str) -> bool:
    try:
        onnx.defs.get_schema(op_type)
    except onnx.defs.SchemaError:
        return False
    return True


def unsupported(node: onnx.NodeProto, message: str) -> ByocirError:
    """Makes the error for a node that cannot be imported, with this reason."""
    return ByocirError("B105", message, where=_where(node))


def _where(node: onnx.NodeProto) -> str:
    return f"node '{node.name}' ({node.op_type})" if node.name else f"operator {node.op_type}"


def _check(proto: onnx.ModelProto, where: str) -> None:
    shapeless = [
        value.type.tensor_type
        for value in (*proto.graph.input, *proto.graph.output)
        if value.type.HasField("tensor_type") and not value.type.tensor_type.HasField("shape")
    ]
    for type_ in shapeless:  # the checker asks for shapes, ONNX Runtime and exporters do not
        type_.shape.SetInParent()
    try:
        onnx.checker.check_model(proto)
    except (onnx.checker.ValidationError, ValueError, EncodeError, RuntimeError) as error:
        text, node = _sentence(error)
        raise ByocirError(
            "B103", f"expected a valid model, found: {text}", where=f"{where}{node}"
        ) from error
    for type_ in shapeless:
        type_.ClearField("shape")


def _check_references(proto: onnx.ModelProto) -> None:
    """Refuses attributes that refer to those of a function where there is no function."""
    for graph in graphs_in(proto):
        for node in graph.node:
            for attribute in node.attribute:
                if attribute.ref_attr_name:
                    raise ByocirError(
                        "B103",
                        f"expected a value of attribute {attribute.name}, found a reference to "
                        f"'{attribute.ref_attr_name}' outside a function",
                        where=_where(node),
                    )


def _inline(proto: onnx.ModelProto, where: str) -> onnx.ModelProto:
    """Replaces the calls of a model's own functions by their bodies."""
    count = _inlined_size(proto, where)
    most = max(ALWAYS_INLINED, MOST_TIMES * sum(1 for _ in nodes_in(proto)))
    if count > most:
        raise ByocirError(
            "B103",
            f"expected at most {most:,} nodes with functions inlined, found {count:,}",
            where=where,
        )
    try:
        return onnx.inliner.inline_local_functions(proto)
    except (RuntimeError, ValueError, EncodeError) as error:
        raise ByocirError(
            "B103",
            f"expected functions that can be inlined, found: {_sentence(error)[0]}",
            where=where,
        ) from error


def _inlined_size(proto: onnx.ModelProto, where: str) -> int:
    """Counts the nodes of the model after its functions are inlined; raises ByocirError B103 for
    functions that call themselves.
    """
    functions = {(_domain(f.domain), f.name): f for f in proto.functions}
    sizes: dict[tuple[str, str], int] = {}

    def size(nodes: list[onnx.NodeProto], open_calls: tuple[tuple[str, str], ...]) -> int:
        total = 0
        for node in nodes:
            key = (_domain(node.domain), node.op_type)
            if key in open_calls:
                raise ByocirError(
                    "B103",
                    f"expected functions that do not call themselves, found {node.op_type}",
                    where=where,
                )
            if key in functions and key not in sizes:
                sizes[key] = size(list(functions[key].node), (*open_calls, key))
            total += sizes.get(key, 1)
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    total += size(list(attribute.g.node), open_calls)
        return total

    return size(list(proto.graph.node), ())


_CONTEXT = re.compile(r"\s*==> Context: Bad node spec for node\. Name: (.*) OpType: (.*)")


def _sentence(error: Exception) -> tuple[str, str]:
    """Takes onnx's message, on one line and without the C++ assertion in front, and the node where
    it arose, if it names one.
    """
    text = str(error).strip().split(" failed: ")[-1]
    found = _CONTEXT.search(text)
    node = f", node '{found[1]}' ({found[2]})" if found else ""
    return " ".join(text[: found.start() if found else None].split()).rstrip("."), node
