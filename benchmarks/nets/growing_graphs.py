"""Graphs of any number of nodes, in the shapes that cost compilers more than linear time.

`SHAPES` has a function for each, which adds that many nodes to a `Graph` and gives its outputs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import byocir
from byocir.patterns import Composite, op, wildcard

IR_VERSION, OPSET = 10, 21
SIZE = 4
"""Elements of a value."""


@dataclass(frozen=True)
class Npu(byocir.Target):
    """Takes sums and relus; the rest stays on the host."""

    name: ClassVar[str] = "npu"
    patterns: ClassVar[tuple[Composite, ...]] = (
        Composite("npu.add", (op("graph.add", wildcard(), wildcard()),)),
        Composite("npu.relu", (op("graph.relu", wildcard()),)),
    )


class Graph:
    """Nodes under construction. Without others its inputs are `x` and `y`, vectors of f32."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.inputs = {"x": SIZE, "y": SIZE}

    def add(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        """Adds a node; gives the name of its output."""
        return self.split(op_type, *inputs, parts=1, **attributes)[0]

    def split(self, op_type: str, *inputs: str, parts: int, **attributes: Any) -> list[str]:
        """Adds a node with several outputs; gives their names."""
        name = f"node_{len(self.nodes)}"
        outputs = [f"{name}_{i}" for i in range(parts)]
        self.nodes.append(helper.make_node(op_type, inputs, outputs, name, **attributes))
        return outputs

    def model(self, outputs: list[str]) -> onnx.ModelProto:
        """The model of all nodes, with these outputs."""
        inputs = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, [size])
            for name, size in self.inputs.items()
        ]
        results = [helper.make_tensor_value_info(o, TensorProto.FLOAT, None) for o in outputs]
        weights = [numpy_helper.from_array(np.array([SIZE, SIZE]), "square")]
        graph = helper.make_graph(self.nodes, "growing", inputs, results, weights)
        opsets = [helper.make_opsetid("", OPSET)]
        return helper.make_model(graph, ir_version=IR_VERSION, opset_imports=opsets)


def chain(graph: Graph, nodes: int) -> list[str]:
    """One op after the other, all for the target."""
    value = "x"
    for i in range(nodes):
        value = graph.add("Relu", value) if i % 2 else graph.add("Add", value, "y")
    return [value]


def alternating(graph: Graph, nodes: int) -> list[str]:
    """Ops of the target and of the host in turns."""
    value = "x"
    for i in range(nodes):
        value = graph.add("Add", value, "y") if i % 2 else graph.add("Softmax", value)
    return [value]


def elementwise(graph: Graph, nodes: int) -> list[str]:
    """Ops with one input, which a host may compute all in one loop."""
    value = "x"
    for i in range(nodes):
        value = graph.add("Neg" if i % 2 else "Tanh", value)
    return [value]


def every_third(graph: Graph, nodes: int) -> list[str]:
    """A chain with every third op on the host."""
    value = "x"
    for i in range(nodes):
        value = graph.add("Softmax", value) if i % 3 == 2 else graph.add("Add", value, "y")
    return [value]


def diamonds(graph: Graph, nodes: int) -> list[str]:
    """Forks with one of two ways through the host."""
    value = "x"
    for _ in range(nodes // 4):
        fork = graph.add("Relu", value)
        left, right = graph.add("Add", fork, "y"), graph.add("Softmax", fork)
        value = graph.add("Add", left, right)
    return [value]


def wide(graph: Graph, nodes: int) -> list[str]:
    """Short branches side by side, no two alike, summed up by a tree."""
    count = max(nodes // 4, 1)
    ends = [graph.add("LeakyRelu", "x", alpha=(i + 1) / count) for i in range(count)]
    ends = [graph.add("Add", graph.add("Softmax", end), "y") for end in ends]
    while len(ends) > 1:
        pairs = zip(ends[::2], ends[1::2], strict=False)
        ends = [*(graph.add("Add", *pair) for pair in pairs), *ends[len(ends) // 2 * 2 :]]
    return ends


def fan_out(graph: Graph, nodes: int) -> list[str]:
    """One value with thousands of users, no two alike, summed up one after the other."""
    fork, count = graph.add("Relu", "x"), max(nodes // 2, 1)
    value = "y"
    for i in range(count):
        value = graph.add("Add", value, graph.add("LeakyRelu", fork, alpha=(i + 1) / count))
    return [value]


def equal(graph: Graph, nodes: int) -> list[str]:
    """Thousands of ops that compute the same, each on its own."""
    return [graph.add("Max", *(graph.add("Tanh", "x") for _ in range(nodes - 1)))]


def shape_ops(graph: Graph, nodes: int) -> list[str]:
    """A chain of ops that move elements, of which none is left."""
    graph.inputs = {"x": SIZE * SIZE}
    value = graph.add("Reshape", "x", "square")
    for _ in range(nodes - 1):
        value = graph.add("Transpose", value)
    return [value]


def idle(graph: Graph, nodes: int) -> list[str]:
    """One value with thousands of users that return it, of which none is left."""
    fork, count = graph.add("Relu", "x"), max(nodes // 3, 1)
    value = "y"
    for i in range(count):
        same = graph.add("Transpose", fork, perm=[0])
        value = graph.add("Add", value, graph.add("LeakyRelu", same, alpha=(i + 1) / count))
    return [value]


def many_outputs(graph: Graph, nodes: int) -> list[str]:
    """A chain of which every value is an output."""
    values = ["x"]
    for i in range(nodes):
        last = values[-1]
        values.append(graph.add("Add", last, "y") if i % 2 else graph.add("Sigmoid", last))
    return values[1:]


def wide_concat(graph: Graph, nodes: int) -> list[str]:
    """A chain of which every value goes into one concat."""
    return [graph.add("Concat", *many_outputs(graph, nodes - 1), axis=0)]


def wide_split(graph: Graph, nodes: int) -> list[str]:
    """One split, whose parts are the outputs."""
    graph.inputs = {"x": nodes}
    return graph.split("Split", "x", parts=nodes, axis=0, num_outputs=nodes)


SHAPES: dict[str, Callable[[Graph, int], list[str]]] = {
    "chain": chain,
    "alternating": alternating,
    "elementwise": elementwise,
    "every third on host": every_third,
    "diamonds": diamonds,
    "wide": wide,
    "fan-out": fan_out,
    "equal ops": equal,
    "shape ops": shape_ops,
    "idle ops": idle,
    "many outputs": many_outputs,
    "wide concat": wide_concat,
    "wide split": wide_split,
}


def growing(shape: str, nodes: int) -> onnx.ModelProto:
    """The model of a shape with that many nodes."""
    graph = Graph()
    return graph.model(SHAPES[shape](graph, nodes))
