"""Names: each node of a model has one of its own, and all text is text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import onnx

from byocir.frontend.onnx.stripped import graphs_in, nodes_in


def name_nodes(model: onnx.ModelProto) -> None:
    """Gives nodes without a name `OpType_index`, and a second node of a name one of its own; so
    first in the main graph, then in the graphs inside."""
    taken: set[str] = set()
    for graph in graphs_in(model):
        _name(list(graph.node), taken)


def _name(nodes: list[onnx.NodeProto], taken: set[str]) -> None:
    given = {node.name for node in nodes}
    for index, node in enumerate(nodes):
        name = node.name or f"{node.op_type}_{index}"
        while name in taken or (name in given and name != node.name):
            name = f"{name}_{index}"
        taken.add(name)
        node.name = name


def used_names(model: onnx.ModelProto) -> frozenset[str]:
    """The names that some node or output of a model uses."""
    used: set[str] = set()
    for node in nodes_in(model):
        used.update(node.input)
    for graph in graphs_in(model):
        used.update(value.name for value in graph.output)
    return frozenset(used)


def broken_text(model: onnx.ModelProto) -> bytes | None:
    """A name of a model that is not UTF-8 (protobuf hands those out as bytes), if there is one."""
    return next((text for text in _texts(model) if isinstance(text, bytes)), None)


def _texts(model: onnx.ModelProto) -> Iterator[str | bytes]:
    yield from (each.domain for each in model.opset_import)
    for graph in graphs_in(model):
        named: Iterable[Iterable[onnx.ValueInfoProto | onnx.TensorProto]] = (
            graph.input,
            graph.output,
            graph.value_info,
            graph.initializer,
        )
        for values in named:
            yield from (value.name for value in values)
    for node in nodes_in(model):
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
        yield from (attribute.name for attribute in node.attribute)
    for function in model.functions:
        yield from (function.name, function.domain, *function.input, *function.output)
