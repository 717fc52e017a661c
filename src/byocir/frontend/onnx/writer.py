"""Writes ONNX nodes for the entries of the op table."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
from xdsl.ir import Attribute, Operation, SSAValue

from byocir.dialects.array import Array
from byocir.dialects.graph import ConstantOp
from byocir.dialects.types import Shape, dtype_of, element_type_of, shape_of
from byocir.frontend.onnx.forms import Versioned
from byocir.frontend.onnx.opset import OPSET

NodeAttribute = int | float | str | Sequence[int]
"""The value of a node's attribute."""


def onnx_type(element: Attribute) -> int:
    """Gives ONNX's number of an element type (TensorProto.DataType)."""
    return onnx.helper.np_dtype_to_tensor_dtype(dtype_of(element))


def shape(value: SSAValue) -> Shape:
    """Gives the shape of a tensor."""
    return shape_of(value.type)


def element(value: SSAValue) -> Attribute:
    """Gives the element type of a tensor."""
    return element_type_of(value.type)


def _attribute(name: str, value: NodeAttribute) -> onnx.AttributeProto:
    """Makes an attribute; a list without elements is one of integers."""
    empty = isinstance(value, Sequence) and not isinstance(value, str) and not value
    kind = onnx.AttributeProto.INTS if empty else None
    return onnx.helper.make_attribute(name, value, attr_type=kind)


@dataclass
class GraphWriter:
    """Builds an ONNX graph: names of values, nodes, initializers."""

    nodes: list[onnx.NodeProto] = field(default_factory=list[onnx.NodeProto])
    initializers: dict[str, onnx.TensorProto] = field(default_factory=dict[str, onnx.TensorProto])
    prefix: str = "node"
    versioned: list[Versioned] = field(default_factory=list[Versioned])
    """All nodes with the opset of their domain that they are written for."""
    notes: Callable[[Operation], Mapping[str, str]] = lambda op: {}
    """Gives the metadata of an op's nodes."""

    def __post_init__(self) -> None:
        self._names: ChainMap[SSAValue, str] = ChainMap()
        self._taken: set[str] = set()
        self._arrays: dict[Array, str] = {}

    def inner(self) -> GraphWriter:
        """Makes the writer of a graph inside a node: it has nodes and constants of its own, and
        sees all names outside.
        """
        made = GraphWriter(prefix=self.prefix, versioned=self.versioned, notes=self.notes)
        made._names, made._taken = self._names.new_child(), self._taken
        return made

    def fresh(self, wanted: str) -> str:
        """Makes an unused name: the wanted one, with a number added if it is taken."""
        name, count = wanted, 0
        while name in self._taken:
            count += 1
            name = f"{wanted}_{count}"
        self._taken.add(name)
        return name

    def bind(self, value: SSAValue, name: str) -> None:
        """Sets the name of a value."""
        self._names[value] = name

    def name(self, value: SSAValue) -> str:
        """Finds the ONNX name of a value; a constant becomes an initializer when it is first
        used.
        """
        if value not in self._names and isinstance(value.owner, ConstantOp):
            self._names[value] = self.array(value.owner.value.data)
        return self._names[value]

    def array(self, values: np.ndarray | Array) -> str:
        """Makes an initializer with these values and gives its name; equal ones are written
        once.
        """
        array = values if isinstance(values, Array) else Array.of(values)
        if array not in self._arrays:
            name = self.fresh(f"constant_{len(self._arrays)}")
            self._arrays[array] = name
            self.initializers[name] = onnx.numpy_helper.from_array(array.values(), name)
        return self._arrays[array]

    def node(self, op_type: str, inputs: Sequence[str], **attributes: NodeAttribute) -> str:
        """Adds a node of the default domain with one output and gives that output's name. Absent
        inputs are empty names.
        """
        (output,) = self.node_of(op_type, inputs, 1, **attributes)
        return output

    def node_of(
        self, op_type: str, inputs: Sequence[str], outputs: int, **attributes: NodeAttribute
    ) -> Sequence[str]:
        """Adds a node with so many outputs and gives their names. An operator of another domain is
        `domain.operator`.
        """
        inputs = list(inputs)
        while inputs and not inputs[-1]:
            inputs.pop()
        name = self.fresh(self.prefix)
        made = [name, *(self.fresh(f"{name}_result_{index}") for index in range(1, outputs))]
        domain, _, operator = op_type.rpartition(".")
        node = onnx.helper.make_node(operator, inputs, made, name=name, domain=domain)
        node.attribute.extend(_attribute(k, v) for k, v in attributes.items())
        self.add(node, 1 if domain else OPSET)
        return made

    def add(self, node: onnx.NodeProto, opset: int) -> None:
        """Adds a node that is written for this opset of its domain."""
        self.nodes.append(node)
        self.versioned.append((node, opset))
