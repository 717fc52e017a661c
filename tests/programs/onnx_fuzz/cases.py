"""A random graph as a case: nodes, what they are given, and what a reference made of each value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import onnx
from onnx import helper, numpy_helper

IR_VERSION = 10

Data = Any
"""An array, or a list of arrays for a sequence."""


@dataclass(frozen=True)
class Value:
    """A tensor, or a sequence of tensors, with how far from it another computation may be, by
    element; None where all must agree on its bits."""

    data: Data
    dtype: np.dtype
    slack: np.ndarray | None = None

    @property
    def is_sequence(self) -> bool:
        return isinstance(self.data, list)

    @property
    def is_exact(self) -> bool:
        return self.slack is None

    def type_proto(self, *, shaped: bool = True) -> onnx.TypeProto:
        """Its type in ONNX; tensors with their sizes if they are to be `shaped`."""
        element = element_of(self.dtype)
        if self.is_sequence:
            return helper.make_sequence_type_proto(helper.make_tensor_type_proto(element, None))
        shape = self.data.shape if shaped else None
        return helper.make_tensor_type_proto(element, shape)


def element_of(dtype: np.dtype) -> int:
    """Gives the ONNX element type of arrays of a dtype; objects are strings."""
    if dtype.kind == "O":
        return onnx.TensorProto.STRING
    return helper.np_dtype_to_tensor_dtype(dtype)


@dataclass
class Case:
    """A graph as it grows: its nodes, the values that it is given by its caller or holds as
    constants, and what nodes made of them; names begin with letters that say which."""

    opset: int
    nodes: list[onnx.NodeProto] = field(default_factory=list[onnx.NodeProto])
    given: dict[str, Value] = field(default_factory=dict[str, Value])
    constants: dict[str, Value] = field(default_factory=dict[str, Value])
    made: dict[str, Value] = field(default_factory=dict[str, Value])
    shown: set[str] = field(default_factory=set[str])
    """Values that are outputs though a node reads them."""
    shaped: bool = True
    """Tells whether the types of its outputs have sizes."""

    @property
    def values(self) -> dict[str, Value]:
        return {**self.given, **self.constants, **self.made}

    @property
    def outputs(self) -> list[str]:
        """The values that no node reads, and those that are shown."""
        read = {name for node in self.nodes for name in names_read(node)}
        return [name for name in self.made if name not in read or name in self.shown]

    @property
    def feeds(self) -> dict[str, Data]:
        return {name: value.data for name, value in self.given.items()}

    def model(self) -> onnx.ModelProto:
        """Gives the case as an ONNX model."""
        values = self.values
        outputs = [
            helper.make_value_info(name, values[name].type_proto(shaped=self.shaped))
            for name in self.outputs
        ]
        return model_of(self.nodes, self.given, self.constants, outputs, self.opset)

    def without_unused(self) -> Case:
        """Gives the same without inputs and constants that no node reads."""
        read = {name for node in self.nodes for name in names_read(node)}
        given = {name: value for name, value in self.given.items() if name in read}
        constants = {name: value for name, value in self.constants.items() if name in read}
        nodes, made, shown = list(self.nodes), dict(self.made), set(self.shown)
        return Case(self.opset, nodes, given, constants, made, shown, self.shaped)

    def text(self) -> str:
        """Gives the case as a person reads it, or writes it into a test."""
        lines = [f"opset {self.opset}"]
        for title, values in (("input", self.given), ("constant", self.constants)):
            lines += [f"{title} {name} = {_told(value)}" for name, value in values.items()]
        lines += [_node_text(node) for node in self.nodes]
        return "\n".join([*lines, f"output {', '.join(self.outputs)}"])


def model_of(
    nodes: Sequence[onnx.NodeProto],
    given: Mapping[str, Value],
    constants: Mapping[str, Value],
    outputs: Iterable[onnx.ValueInfoProto],
    opset: int,
) -> onnx.ModelProto:
    """Gives a model of these nodes."""
    graph = helper.make_graph(
        nodes,
        "fuzz",
        [helper.make_value_info(name, value.type_proto()) for name, value in given.items()],
        list(outputs),
        [numpy_helper.from_array(value.data, name) for name, value in constants.items()],
    )
    domains = sorted({node.domain for node in all_nodes(nodes)} | {""})
    imports = [
        helper.make_opsetid(each, opset if not each else version_of(each)) for each in domains
    ]
    return helper.make_model(graph, opset_imports=imports, ir_version=IR_VERSION)


def version_of(domain: str) -> int:
    """Gives the version of a domain beside ONNX's own."""
    return {"ai.onnx.ml": 5}.get(domain, 1)


def all_nodes(nodes: Iterable[onnx.NodeProto]) -> Iterable[onnx.NodeProto]:
    """Nodes and those in their graphs."""
    for node in nodes:
        yield node
        for graph in graphs_of(node):
            yield from all_nodes(graph.node)


def graphs_of(node: onnx.NodeProto) -> list[onnx.GraphProto]:
    """Gives the graphs that a node holds."""
    return [attribute.g for attribute in node.attribute if attribute.HasField("g")]


def names_read(node: onnx.NodeProto) -> list[str]:
    """Gives the values that a node takes, and those that its graphs take from around it."""
    names = [name for name in node.input if name]
    for graph in graphs_of(node):
        own = {each.name for each in (*graph.input, *graph.initializer)}
        own |= {name for inner in graph.node for name in inner.output}
        inner = [name for each in graph.node for name in names_read(each)]
        inner += [output.name for output in graph.output]
        names += [name for name in inner if name not in own]
    return list(dict.fromkeys(names))


def _told(value: Value) -> str:
    if value.is_sequence:
        parts = cast(list[np.ndarray], value.data)
        return f"[{', '.join(_array(part) for part in parts)}] of {value.dtype}"
    return _array(value.data)


def _array(array: np.ndarray) -> str:
    with np.printoptions(threshold=64, linewidth=200, floatmode="unique"):
        text = " ".join(str(array.tolist() if array.size <= 64 else array).split())
    return f"{array.dtype}{list(array.shape)} {text}"


def _node_text(node: onnx.NodeProto) -> str:
    attributes = ", ".join(
        f"{a.name}={helper.get_attribute_value(a)!r}"
        if not a.HasField("g")
        else f"{a.name}={{{onnx.printer.to_text(a.g)}}}"
        for a in node.attribute
    )
    name = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
    return f"{', '.join(node.output)} = {name}({', '.join(node.input)}; {attributes})"
