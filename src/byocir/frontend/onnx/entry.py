"""Defines an entry of the op table, and makes those of regular ops from a declaration."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import DenseArrayBase, FloatAttr, IntegerAttr, StringAttr
from xdsl.ir import Attribute

from byocir.dialects.array import ArrayAttr
from byocir.dialects.graph import GraphOp
from byocir.dialects.graph.base import PropertyValue
from byocir.frontend.onnx.reader import NodeReader, Value
from byocir.frontend.onnx.writer import GraphWriter, NodeAttribute, onnx_type

Read = Callable[[NodeReader], Value | Sequence[Value]]
"""Imports a node: emits ops and gives its outputs, or its only one."""

Write = Callable[[GraphOp, GraphWriter], str | Sequence[str]]
"""Exports an op: writes nodes and gives the names of its results, or of its only one."""

Property = Callable[[NodeReader], PropertyValue | None]
"""Reads a property of a graph op from a node; None leaves an optional property out."""


@dataclass(frozen=True)
class Entry:
    """Holds one line of the table: ONNX operator `onnx` is imported by `read`, and graph op `op` is
    exported by `write`. An operator that becomes several ops has no `op`; an op without an ONNX
    operator has no `onnx`.
    """

    onnx: str = ""
    read: Read | None = None
    op: type[GraphOp] | None = None
    write: Write | None = None


def regular(
    onnx: str,
    op: type[GraphOp],
    properties: Mapping[str, Property] | None = None,
    *,
    operands: int | None = 1,
    as_inputs: Sequence[str] = (),
    ignored: Sequence[str] = (),
    read: Read | None = None,
    write: Write | None = None,
) -> Entry:
    """Makes the entry of an op that is one ONNX node with the same operands in the same order.

    `properties` says how each property is read; all go out under their own names, those in
    `as_inputs` as constant inputs behind the operands, the others as attributes. `operands` is how
    many operands come first (absent ones allowed at the end), None for all inputs. Attributes
    `ignored` have no meaning here. `read` or `write` replaces one direction.
    """
    readers = properties or {}

    def read_regular(node: NodeReader) -> Sequence[Value]:
        node.ignore(*ignored)
        count = len(node.sources) if operands is None else operands
        read = {name: reader(node) for name, reader in readers.items()}
        values = [node.optional(index) for index in range(count)]
        return node.emit_all(op, *values, **{k: v for k, v in read.items() if v is not None})

    def write_regular(this: GraphOp, graph: GraphWriter) -> Sequence[str]:
        inputs = [graph.name(value) for value in this.operands]
        for name in as_inputs:
            value = this.properties.get(name)
            inputs.append("" if value is None else graph.array(_array(value)))
        attributes = {
            name: _plain(value) for name, value in this.properties.items() if name not in as_inputs
        }
        return graph.node_of(onnx, inputs, len(this.results), **attributes)

    return Entry(onnx, read or read_regular, op, write or write_regular)


def _plain(value: Attribute) -> NodeAttribute:
    """Converts a property to ONNX's attribute; an element type becomes its number."""
    if isinstance(value, IntegerAttr | FloatAttr):
        return value.value.data
    if isinstance(value, StringAttr):
        return value.data
    if isinstance(value, DenseArrayBase):
        return [int(number) for number in value.get_values()]
    return onnx_type(value)


def _array(value: Attribute) -> np.ndarray:
    """Converts a property to ONNX's constant input."""
    if isinstance(value, ArrayAttr):
        return value.data.values()
    return np.array(_plain(value), np.int64)
