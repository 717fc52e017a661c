"""Imports and exports recurrent ops: absent operands are written out, time comes first."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import SSAValue

from byocir.dialects import graph as g
from byocir.dialects.graph.base import PropertyValue
from byocir.dialects.types import dtype_of, element_type_of, shape_of
from byocir.frontend.onnx.entry import Read
from byocir.frontend.onnx.reader import NodeReader, Value
from byocir.frontend.onnx.tensors import Unsupported
from byocir.frontend.onnx.writer import GraphWriter, NodeAttribute, shape

_ACTIVATIONS: dict[type[g.RecurrentOp], tuple[str, ...]] = {
    g.RnnOp: ("Tanh",),
    g.GruOp: ("Sigmoid", "Tanh"),
    g.LstmOp: ("Sigmoid", "Tanh", "Tanh"),
}


def recurrent(op: type[g.RecurrentOp]) -> Read:
    """Reads a recurrent operator with ONNX's default activations."""
    return lambda node: _read(node, op)


def _read(node: NodeReader, op: type[g.RecurrentOp]) -> Sequence[Value]:
    direction = node.text("direction", "forward")
    directions = 2 if direction == "bidirectional" else 1
    _expect_defaults(node, op, directions)
    batch_first = node.integer("layout", 0) == 1
    ranks = [len(node.shape(index)) for index in range(3)]
    if ranks != [3, 3, 3]:
        raise Unsupported(f"expected operands of rank 3, found {ranks}")
    x = _transposed(node, node.operand(0), [1, 0, 2], batch_first)
    steps, batch, _ = shape_of(x.type)
    hidden = node.shape(2)[2]
    node.ignore("hidden_size")
    dtype = dtype_of(element_type_of(x.type))

    def given(index: int, *sizes: int) -> SSAValue:
        value = node.optional(index)
        return node.constant(np.zeros(sizes, dtype)) if value is None else value

    def state(index: int) -> SSAValue:
        if node.source(index) is None:
            return node.constant(np.zeros((directions, batch, hidden), dtype))
        return _transposed(node, node.operand(index), [1, 0, 2], batch_first)

    lengths = node.optional(4)
    if lengths is None:
        lengths = node.constant(np.full(batch, steps, np.int32))
    operands = [x, node.operand(1), node.operand(2), given(3, directions, 2 * op.GATES * hidden)]
    operands += [lengths, state(5)]
    properties: dict[str, PropertyValue] = {"direction": direction}
    if op is g.LstmOp:
        operands += [state(6), given(7, directions, 3 * hidden)]
    if op is g.GruOp:
        properties["linear_before_reset"] = node.integer("linear_before_reset", 0)
    states, *lasts = node.emit_all(op, *operands, **properties)
    return [
        _transposed(node, states, [2, 0, 1, 3], batch_first),
        *(_transposed(node, last, [1, 0, 2], batch_first) for last in lasts),
    ]


def _expect_defaults(node: NodeReader, op: type[g.RecurrentOp], directions: int) -> None:
    names = [name.decode() for name in node.attribute("activations", [])]
    default = [*_ACTIVATIONS[op]] * directions
    if names and [name.lower() for name in names] != [name.lower() for name in default]:
        raise Unsupported(f"expected the activations {', '.join(default)}, found {names}")
    for name in ("activation_alpha", "activation_beta"):
        node.ignore(name)  # the default activations have no parameters
    if node.attribute("clip", None) is not None:
        raise Unsupported("expected no clip, found one")
    if node.integer("input_forget", 0) != 0:
        raise Unsupported("expected input_forget 0, found 1")


def _transposed(node: NodeReader, value: SSAValue, perm: Sequence[int], wanted: bool) -> SSAValue:
    return node.emit(g.TransposeOp, value, perm=perm) if wanted else value


def write_recurrent(onnx: str, op: g.GraphOp, graph: GraphWriter) -> Sequence[str]:
    assert isinstance(op, g.RecurrentOp)
    attributes: dict[str, NodeAttribute] = {
        name: value.value.data if isinstance(value, IntegerAttr) else op.direction.data
        for name, value in op.properties.items()
    }
    attributes["hidden_size"] = shape(op.recurrence)[2]
    inputs = [graph.name(value) for value in op.operands]
    return graph.node_of(onnx, inputs, len(op.results), **attributes)
