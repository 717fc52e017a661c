"""Gives each node of a model a name of its own, and checks that all text is UTF-8."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

import onnx

from byocir.frontend.onnx.detached_weights import graphs_in, inner_graphs, nodes_in


def name_nodes(model: onnx.ModelProto) -> None:
    """Names nodes without a name `OpType_index`, and renames all but the first of several nodes
    with one name. A node of an inner graph has the path to it in its name, e.g. `loop/body/conv_3`.
    """
    taken: set[str] = set()
    pending = deque([("", list(model.graph.node))])
    for function in model.functions:
        pending += [inside for node in function.node for inside in _inside(node)]
    while pending:
        path, nodes = pending.popleft()
        _name(nodes, path, taken)
        pending += [inside for node in nodes for inside in _inside(node)]


def _inside(node: onnx.NodeProto) -> Iterator[tuple[str, list[onnx.NodeProto]]]:
    """Yields the path to each graph of a node, and the nodes there."""
    for name, graph in inner_graphs(node):
        yield f"{node.name}/{name}/", list(graph.node)


def listed_nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """Yields the nodes of a graph, each followed by those inside it."""
    for node in graph.node:
        yield node
        for _, inner in inner_graphs(node):
            yield from listed_nodes(inner)


def _name(nodes: list[onnx.NodeProto], path: str, taken: set[str]) -> None:
    wanted = [node.name or f"{node.op_type}_{index}" for index, node in enumerate(nodes)]
    wanted = [n if n.startswith(path) else path + n.removeprefix("/") for n in wanted]
    given = {name for name, node in zip(wanted, nodes, strict=True) if node.name}
    for index, (node, name) in enumerate(zip(nodes, wanted, strict=True)):
        unnamed = not node.name
        while name in taken or (unnamed and name in given):
            name, unnamed = f"{name}_{index}", True
        taken.add(name)
        node.name = name


def used_names(model: onnx.ModelProto) -> frozenset[str]:
    """Collects the names that some node or output of a model uses."""
    used: set[str] = set()
    for node in nodes_in(model):
        used.update(node.input)
    for graph in graphs_in(model):
        used.update(value.name for value in graph.output)
    return frozenset(used)


def broken_text(model: onnx.ModelProto) -> bytes | None:
    """Finds a name of a model that is not UTF-8 (protobuf hands those out as bytes), if there is
    one.
    """
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
