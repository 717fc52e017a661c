"""Finds, for nodes that only quantise, the op that is quantised by them."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator
from typing import NamedTuple

import onnx

from byocir.frontend.onnx.detached_weights import inner_graphs
from byocir.frontend.onnx.names import listed_nodes

QUANTISES, DEQUANTISES = "QuantizeLinear", "DequantizeLinear"
"""ONNX's operators that stand around the op that is quantised."""


class _Edge(NamedTuple):
    """Describes a value that one node makes and another reads, as its input of this position."""

    maker: onnx.NodeProto
    reader: onnx.NodeProto
    position: int


def quantised_ops(graph: onnx.GraphProto) -> dict[str, str]:
    """Maps each node that quantises or dequantises to the op that it belongs to, both by name. What
    quantises belongs to the op that made the value, what dequantises to the first that reads it,
    past others of these nodes: `DQ, Conv, Q, DQ, Relu, Q` gives Conv, Conv, Relu, Relu. Where there
    is no op on that side, as none makes an input of the model, it belongs to the one on the other
    side; without any op it is left out.
    """
    nodes = [node for node in listed_nodes(graph) if _changes_grid(node)]
    edges = [*_edges(graph, ChainMap())] if nodes else []
    before: dict[str, str] = {}
    behind: dict[str, str] = {}
    for maker, reader, position in edges:
        op = before.get(maker.name) if _changes_grid(maker) else maker.name
        if op and position == 0 and _changes_grid(reader):
            before[reader.name] = op
    for maker, reader, _ in reversed(edges):
        op = behind.get(reader.name) if _changes_grid(reader) else reader.name
        if op and _changes_grid(maker):
            behind[maker.name] = op
    found: dict[str, str] = {}
    for node in nodes:
        near, far = (before, behind) if node.op_type == QUANTISES else (behind, before)
        op = near.get(node.name) or far.get(node.name)
        if op:
            found[node.name] = op
    return found


def _edges(graph: onnx.GraphProto, made: ChainMap[str, onnx.NodeProto]) -> Iterator[_Edge]:
    """Yields the edges of a graph and of those inside its nodes, in the order of their readers;
    `made` has the nodes outside by the values that they make. Constants are no ops that make
    values.
    """
    for node in graph.node:
        for position, name in enumerate(node.input):
            if name in made:
                yield _Edge(made[name], node, position)
        for _, inner in inner_graphs(node):
            yield from _edges(inner, made.new_child())
        if node.op_type != "Constant":
            made.update(dict.fromkeys(filter(None, node.output), node))


def _changes_grid(node: onnx.NodeProto) -> bool:
    return node.op_type in (QUANTISES, DEQUANTISES)
