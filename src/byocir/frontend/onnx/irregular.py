"""Imports and exports ops that are not one ONNX node with the same operands."""

from __future__ import annotations

from functools import reduce

import numpy as np
import onnx
from xdsl.ir import Attribute, SSAValue

from byocir.dialects import graph as g
from byocir.dialects.array import Array
from byocir.dialects.graph.base import int_tuple
from byocir.dialects.types import dtype_of, element_type_of, i1, is_float, shape_of
from byocir.frontend.onnx import properties as p
from byocir.frontend.onnx.entry import Read
from byocir.frontend.onnx.reader import NodeReader, Value
from byocir.frontend.onnx.tensors import NoForm, Unsupported, array_of
from byocir.frontend.onnx.writer import GraphWriter, onnx_type

# -- nodes that are no op


def read_identity(node: NodeReader) -> Value:
    source = node.source(0)
    if source is None:
        raise Unsupported("expected input 0, found none")
    return source


def read_dropout(node: NodeReader) -> Value:
    """Reads a Dropout in inference, where it is the identity; raises Unsupported in training
    mode.
    """
    node.ignore("seed")
    node.source(1)  # reads the ratio, which has no effect in inference
    training = node.known(2)
    if training is not None and training.any():
        raise Unsupported("expected training_mode false, found true")
    return read_identity(node)


_NUMBERS = {
    "value_float": np.float32,
    "value_floats": np.float32,
    "value_int": np.int64,
    "value_ints": np.int64,
}


def read_constant(node: NodeReader) -> Value:
    tensor = node.attribute("value", None)
    if tensor is not None:
        return array_of(tensor)
    for name, dtype in _NUMBERS.items():
        value = node.attribute(name, None)
        if value is not None:
            return Array.of(np.array(value, dtype))
    raise Unsupported("expected a dense constant of numbers, found strings or a sparse one")


def read_shape(node: NodeReader) -> Value:
    """Replaces a Shape by a constant, as all shapes are static."""
    dims = node.shape(0)[node.integer("start", 0) :]
    end = node.attribute("end", None)
    if end is not None:
        dims = node.shape(0)[node.integer("start", 0) : int(end)]
    return Array.of(np.array(dims, np.int64))


def read_size(node: NodeReader) -> Value:
    return Array.of(np.array(np.prod(node.shape(0), dtype=np.int64), np.int64))


# -- products


def read_gemm(node: NodeReader) -> Value:
    """Reads a Gemm: alpha * A' * B' + beta * C, with A' or B' transposed on request."""
    lhs = _transposed(node, 0, bool(node.integer("transA", 0)))
    rhs = _transposed(node, 1, bool(node.integer("transB", 0)))
    for value in (lhs, rhs):
        if len(shape_of(value.type)) != 2:
            raise Unsupported(f"expected matrices, found {value.type}")
    product = _scaled(node, node.emit(g.MatmulOp, lhs, rhs), node.attribute("alpha", 1.0))
    beta, bias = node.attribute("beta", 1.0), node.source(2)
    if bias is None or beta == 0.0:
        return product
    if isinstance(bias, Array) and is_float(element_type_of(bias.type)):
        scaled = bias.values() * bias.dtype.type(beta)
        return node.emit(g.AddOp, product, node.constant(bias if beta == 1.0 else scaled))
    return node.emit(g.AddOp, product, _scaled(node, node.operand(2), beta))


def _transposed(node: NodeReader, index: int, wanted: bool) -> SSAValue:
    source = node.source(index)
    if not wanted:
        return node.operand(index)
    if isinstance(source, Array):
        return node.constant(source.values().T)
    return node.emit(g.TransposeOp, node.operand(index), perm=[1, 0])


def _scaled(node: NodeReader, value: SSAValue, factor: float) -> SSAValue:
    if factor == 1.0:
        return value
    element = element_type_of(value.type)
    if not is_float(element):
        raise Unsupported(f"expected alpha and beta 1 for {element}, found {factor}")
    return node.emit(g.MulOp, value, node.constant(np.array(factor, dtype_of(element))))


# -- shapes


def read_reshape(node: NodeReader) -> Value:
    wanted, x = node.known(1), node.shape(0)
    keeps_zeros = node.integer("allowzero", 0) == 1
    if wanted is None:
        raise Unsupported("expected input 1, found none")
    sizes = [int(size) for size in wanted]
    if not keeps_zeros:
        if any(size == 0 for size in sizes[len(x) :]):
            raise Unsupported(f"expected zeros only for dimensions of the input, found {sizes}")
        sizes = [size or x[index] for index, size in enumerate(sizes)]
    if sizes.count(-1) > 1:
        raise Unsupported(f"expected at most one -1 in the shape, found {sizes}")
    if -1 in sizes:
        rest = int(np.prod([size for size in sizes if size != -1]))
        if rest == 0:
            raise Unsupported(f"expected no 0 beside -1 in the shape, found {sizes}")
        sizes[sizes.index(-1)] = int(np.prod(x)) // rest
    return node.emit(g.ReshapeOp, node.operand(0), shape=sizes)


def write_reshape(op: g.GraphOp, graph: GraphWriter) -> str:
    assert isinstance(op, g.ReshapeOp)
    shape = np.array(int_tuple(op.new_shape), np.int64)
    # A size 0 means 0 here; without allowzero ONNX takes it for the input's size.
    return graph.node("Reshape", [graph.name(op.input), graph.array(shape)], allowzero=1)


def read_squeeze(node: NodeReader) -> Value:
    axes, x = node.known(1), node.shape(0)
    if axes is None:
        axes = [index for index, size in enumerate(x) if size == 1]
    normal = p.normal_axes([int(axis) for axis in axes], len(x))
    return node.emit(g.SqueezeOp, node.operand(0), axes=normal) if normal else node.operand(0)


def read_unsqueeze(node: NodeReader) -> Value:
    axes = node.known(1)
    axes = [] if axes is None else [int(axis) for axis in axes]
    normal = p.normal_axes(axes, node.rank + len(axes))
    return node.emit(g.UnsqueezeOp, node.operand(0), axes=normal) if normal else node.operand(0)


def read_reduce(op: type[g.ReduceOp]) -> Read:
    """Reads a reduction. Without axes it reduces all dimensions, or none if the node asks for
    that.
    """
    return lambda node: _reduce(node, op)


def _reduce(node: NodeReader, op: type[g.ReduceOp]) -> Value:
    given, keepdims = node.known(1), node.integer("keepdims", 1)
    keeps_all = node.integer("noop_with_empty_axes", 0) == 1
    axes = [] if given is None else [int(axis) for axis in given]
    if not axes and not keeps_all:
        axes = list(range(node.rank))
    normal = p.normal_axes(axes, node.rank)
    if normal:
        return node.emit(op, node.operand(0), axes=normal, keepdims=keepdims)
    return _reduce_nothing(node, op)


def _reduce_nothing(node: NodeReader, op: type[g.ReduceOp]) -> Value:
    """Emits a reduction along no axis: of each element alone."""
    x = node.operand(0)
    if op in (g.ReduceL1Op, g.ReduceL2Op):
        return node.emit(g.AbsOp, x)
    if op is g.ReduceSumSquareOp:
        return node.emit(g.MulOp, x, x)
    return node.emit(g.LogOp, x) if op is g.ReduceLogSumOp else x


_AXIS_NORMS = {1: g.ReduceL1Op, 2: g.ReduceL2Op}


def read_global_lp_pool(node: NodeReader) -> Value:
    p_norm = node.integer("p", 2)
    if p_norm not in _AXIS_NORMS:
        raise Unsupported(f"expected p 1 or 2, found {p_norm}")
    axes = list(range(2, node.rank))
    return node.emit(_AXIS_NORMS[p_norm], node.operand(0), axes=axes, keepdims=1)


# -- normalisations


def read_batch_norm(node: NodeReader) -> Value:
    """Reads a BatchNormalization in inference; raises Unsupported in training mode."""
    node.ignore("momentum")
    if node.integer("training_mode", 0) != 0:
        raise Unsupported("expected training_mode 0, found 1")
    operands = [node.operand(index) for index in range(5)]
    return node.emit(g.BatchNormOp, *operands, epsilon=node.number("epsilon", 1e-5))


def read_layer_norm(node: NodeReader) -> Value:
    _expect_f32_statistics(node)
    operands = node.operand(0), node.operand(1), node.optional(2)
    axis, epsilon = p.axis(-1)(node), node.number("epsilon", 1e-5)
    assert isinstance(axis, int)
    return node.emit(g.LayerNormOp, *operands, axis=axis, epsilon=epsilon)


def read_rms_norm(node: NodeReader) -> Value:
    _expect_f32_statistics(node)
    axis, epsilon = p.axis(-1)(node), node.number("epsilon", 1e-5)
    assert isinstance(axis, int)
    x, scale = node.operand(0), node.operand(1)
    own, other = element_type_of(x.type), element_type_of(scale.type)
    if own != other:  # the result has that of the scale by the schema, of x by ONNX's inference
        raise NoForm(f"expected a scale of {own}, found {other}")
    return node.emit(g.RmsNormOp, x, scale, axis=axis, epsilon=epsilon)


def _expect_f32_statistics(node: NodeReader) -> None:
    stash = node.integer("stash_type", 1)
    if stash != 1:
        raise Unsupported(f"expected stash_type 1 (f32), found {stash}")


def write_rms_norm(op: g.GraphOp, graph: GraphWriter) -> str:
    """Writes an RMS norm in single steps, as the working opset has no RMSNormalization."""
    assert isinstance(op, g.RmsNormOp)
    own = onnx_type(element_type_of(op.input.type))
    x = graph.node("Cast", [graph.name(op.input)], to=onnx.TensorProto.FLOAT)
    axes = np.arange(op.axis.value.data, len(shape_of(op.input.type)), dtype=np.int64)
    square = graph.node("Mul", [x, x])
    mean = graph.node("ReduceMean", [square, graph.array(axes)], keepdims=1)
    epsilon = graph.array(np.array(op.epsilon.value.data, np.float32))
    root = graph.node("Sqrt", [graph.node("Add", [mean, epsilon])])
    normal = graph.node("Cast", [graph.node("Div", [x, root])], to=own)
    return graph.node("Mul", [normal, graph.name(op.scale)])


# -- any number of operands


def _chain(node: NodeReader, op: type[g.BinaryOp]) -> SSAValue:
    operands = [node.operand(index) for index in range(len(node.sources))]
    return reduce(lambda lhs, rhs: node.emit(op, lhs, rhs), operands)


def chain(op: type[g.BinaryOp]) -> Read:
    """Makes the reader of an operator of any number of operands, which become a chain of ops on
    two.
    """
    return lambda node: _chain(node, op)


def read_mean(node: NodeReader) -> Value:
    total, count = _chain(node, g.AddOp), len(node.sources)
    if count == 1:
        return total
    divisor = np.array(count, dtype_of(element_type_of(total.type)))
    return node.emit(g.DivOp, total, node.constant(divisor))


# -- bounds, types, products


def read_clip(node: NodeReader) -> Value:
    """Reads a Clip; computed bounds become a maximum and a minimum."""
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
    """Reads the element type that the attribute `to` asks for."""
    node.ignore("saturate", "round_mode")  # they concern 8-bit floats only
    return p.element_named(node, "to", i1)


def read_cast_like(node: NodeReader) -> Value:
    node.ignore("saturate", "round_mode")
    return node.emit(g.CastOp, node.operand(0), to=element_type_of(node.operand(1).type))


def read_swish(node: NodeReader) -> Value:
    """Reads a Swish as `x * sigmoid(alpha * x)`."""
    x, alpha = node.operand(0), node.number("alpha", 1.0)
    element = element_type_of(x.type)
    if not is_float(element):
        raise Unsupported(f"expected a tensor of floats, found {element}")
    scaled = x
    if alpha != 1.0:
        scaled = node.emit(g.MulOp, x, node.constant(np.array(alpha, dtype_of(element))))
    return node.emit(g.MulOp, x, node.emit(g.SigmoidOp, scaled))
