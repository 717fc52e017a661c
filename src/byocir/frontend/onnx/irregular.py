"""Import and export of ops that are not one ONNX node with the same operands."""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from byocir.dialects.array import Array
from byocir.dialects.graph import (
    AddOp,
    ConvOp,
    GraphOp,
    MatmulOp,
    MulOp,
    ReduceMeanOp,
    ReshapeOp,
    SqueezeOp,
    TransposeOp,
    UnsqueezeOp,
)
from byocir.dialects.graph.base import int_tuple
from byocir.dialects.types import dtype_of, element_type_of, is_float, shape_of
from byocir.frontend.onnx import properties as p
from byocir.frontend.onnx.reader import NodeReader, Value
from byocir.frontend.onnx.tensors import Unsupported, array_of
from byocir.frontend.onnx.writer import GraphWriter

# -- nodes that are no op


def read_identity(node: NodeReader) -> Value:
    source = node.source(0)
    if source is None:
        raise Unsupported("expected input 0, found none")
    return source


def read_dropout(node: NodeReader) -> Value:
    """Inference only: then it is the identity."""
    node.ignore("seed")
    node.source(1)  # the ratio
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
    """All shapes are static, so a shape is a constant."""
    dims = node.shape(0)[node.integer("start", 0) :]
    end = node.attribute("end", None)
    if end is not None:
        dims = node.shape(0)[node.integer("start", 0) : int(end)]
    return Array.of(np.array(dims, np.int64))


def read_size(node: NodeReader) -> Value:
    return Array.of(np.array(np.prod(node.shape(0), dtype=np.int64), np.int64))


# -- products


def read_gemm(node: NodeReader) -> Value:
    """alpha * A' * B' + beta * C, with A' or B' transposed on request."""
    lhs = _transposed(node, 0, bool(node.integer("transA", 0)))
    rhs = _transposed(node, 1, bool(node.integer("transB", 0)))
    for value in (lhs, rhs):
        if len(shape_of(value.type)) != 2:
            raise Unsupported(f"expected matrices, found {value.type}")
    product = _scaled(node, node.emit(MatmulOp, lhs, rhs), node.attribute("alpha", 1.0))
    beta, bias = node.attribute("beta", 1.0), node.source(2)
    if bias is None or beta == 0.0:
        return product
    if isinstance(bias, Array) and is_float(element_type_of(bias.type)):
        scaled = bias.values() * bias.dtype.type(beta)
        return node.emit(AddOp, product, node.constant(bias if beta == 1.0 else scaled))
    return node.emit(AddOp, product, _scaled(node, node.operand(2), beta))


def _transposed(node: NodeReader, index: int, wanted: bool) -> SSAValue:
    source = node.source(index)
    if not wanted:
        return node.operand(index)
    if isinstance(source, Array):
        return node.constant(source.values().T)
    return node.emit(TransposeOp, node.operand(index), perm=[1, 0])


def _scaled(node: NodeReader, value: SSAValue, factor: float) -> SSAValue:
    if factor == 1.0:
        return value
    element = element_type_of(value.type)
    if not is_float(element):
        raise Unsupported(f"expected alpha and beta 1 for {element}, found {factor}")
    return node.emit(MulOp, value, node.constant(np.array(factor, dtype_of(element))))


def read_conv_integer(node: NodeReader) -> Value:
    _expect_no_zero_points(node)
    return node.emit(
        ConvOp,
        node.operand(0),
        node.operand(1),
        strides=p.strides(node),
        pads=p.conv_pads(node),
        dilations=p.dilations(node),
        group=node.integer("group", 1),
    )


def read_matmul_integer(node: NodeReader) -> Value:
    _expect_no_zero_points(node)
    return node.emit(MatmulOp, node.operand(0), node.operand(1))


def _expect_no_zero_points(node: NodeReader) -> None:
    for index in (2, 3):
        values = node.known(index)
        if values is not None and values.any():
            raise Unsupported(f"expected zero points of zero, found others in input {index}")


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
    return node.emit(ReshapeOp, node.operand(0), shape=sizes)


def write_reshape(op: GraphOp, graph: GraphWriter) -> str:
    assert isinstance(op, ReshapeOp)
    shape = np.array(int_tuple(op.new_shape), np.int64)
    # A size 0 means 0 here; without allowzero ONNX takes it for the input's size.
    return graph.node("Reshape", [graph.name(op.input), graph.array(shape)], allowzero=1)


def read_squeeze(node: NodeReader) -> Value:
    axes, x = node.known(1), node.shape(0)
    if axes is None:
        axes = [index for index, size in enumerate(x) if size == 1]
    normal = p.normal_axes([int(axis) for axis in axes], len(x))
    return node.emit(SqueezeOp, node.operand(0), axes=normal) if normal else node.operand(0)


def read_unsqueeze(node: NodeReader) -> Value:
    axes = node.known(1)
    axes = [] if axes is None else [int(axis) for axis in axes]
    normal = p.normal_axes(axes, node.rank + len(axes))
    return node.emit(UnsqueezeOp, node.operand(0), axes=normal) if normal else node.operand(0)


def read_reduce_mean(node: NodeReader) -> Value:
    given, keepdims = node.known(1), node.integer("keepdims", 1)
    keeps_all = node.integer("noop_with_empty_axes", 0) == 1
    axes = [] if given is None else [int(axis) for axis in given]
    if not axes and not keeps_all:
        axes = list(range(node.rank))
    normal = p.normal_axes(axes, node.rank)
    if not normal:
        return node.operand(0)
    return node.emit(ReduceMeanOp, node.operand(0), axes=normal, keepdims=keepdims)
