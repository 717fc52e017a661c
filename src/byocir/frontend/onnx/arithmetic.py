"""Import of element by element operators that are several ops, or an op of another form."""

from __future__ import annotations

from functools import reduce

import numpy as np
from xdsl.ir import Attribute, SSAValue

from byocir.dialects import graph as g
from byocir.dialects.types import dtype_of, element_type_of, i1, is_float
from byocir.frontend.onnx import properties as p
from byocir.frontend.onnx.entry import Read
from byocir.frontend.onnx.reader import NodeReader, Value
from byocir.frontend.onnx.tensors import Unsupported

# -- any number of operands


def _chain(node: NodeReader, op: type[g.BinaryOp]) -> SSAValue:
    operands = [node.operand(index) for index in range(len(node.sources))]
    return reduce(lambda lhs, rhs: node.emit(op, lhs, rhs), operands)


def chain(op: type[g.BinaryOp]) -> Read:
    """Reads an operator of any number of operands as ops of two."""
    return lambda node: _chain(node, op)


def read_mean(node: NodeReader) -> Value:
    total, count = _chain(node, g.AddOp), len(node.sources)
    if count == 1:
        return total
    divisor = np.array(count, dtype_of(element_type_of(total.type)))
    return node.emit(g.DivOp, total, node.constant(divisor))


# -- bounds, types, products


def read_clip(node: NodeReader) -> Value:
    """Reads a Clip; bounds that are computed become a maximum and a minimum."""
    sources = node.source(1), node.source(2)
    if not any(isinstance(source, SSAValue) for source in sources):
        bounds = {"min": p.bound(1)(node), "max": p.bound(2)(node)}
        given = {name: value for name, value in bounds.items() if value is not None}
        return node.emit(g.ClipOp, node.operand(0), **given)
    value = node.operand(0)
    for index, op in ((1, g.MaxOp), (2, g.MinOp)):
        if node.source(index) is not None:
            value = node.emit(op, value, node.operand(index))
    return value


def element(node: NodeReader) -> Attribute:
    """Gives the element type that the attribute `to` asks for."""
    node.ignore("saturate", "round_mode")  # of 8-bit floats
    return p.element_named(node, "to", i1)


def read_cast_like(node: NodeReader) -> Value:
    node.ignore("saturate", "round_mode")
    return node.emit(g.CastOp, node.operand(0), to=element_type_of(node.operand(1).type))


def read_swish(node: NodeReader) -> Value:
    """`x * sigmoid(alpha * x)`."""
    x, alpha = node.operand(0), node.number("alpha", 1.0)
    element = element_type_of(x.type)
    if not is_float(element):
        raise Unsupported(f"expected a tensor of floats, found {element}")
    scaled = x
    if alpha != 1.0:
        scaled = node.emit(g.MulOp, x, node.constant(np.array(alpha, dtype_of(element))))
    return node.emit(g.MulOp, x, node.emit(g.SigmoidOp, scaled))
