"""Imports and exports quantisation, and integer ops for which ONNX has other nodes than for
floats.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from xdsl.ir import SSAValue

from byocir.dialects import graph as g
from byocir.dialects.array import Array, constant_values
from byocir.dialects.graph.base import int_tuple
from byocir.dialects.graph.quant import FLOOR, HALF_UP
from byocir.dialects.types import dtype_of, element_type_of, i16, is_float, shape_of
from byocir.frontend.onnx import properties as p
from byocir.frontend.onnx.reader import NodeReader, Value
from byocir.frontend.onnx.tensors import Unsupported, numpy_dtype, type_name
from byocir.frontend.onnx.writer import GraphWriter, element, onnx_type, shape

# -- import


def read_quantize(node: NodeReader) -> Value:
    if node.integer("saturate", 1) != 1:
        raise Unsupported("expected saturate 1, found 0")
    if node.integer("precision", 0) != 0:
        raise Unsupported(f"expected no precision, found {node.integer('precision', 0)}")
    wanted = node.integer("output_dtype", 0) or onnx.TensorProto.UINT8
    dtype = numpy_dtype(wanted)
    if dtype is None:
        raise Unsupported(f"expected integers as output_dtype, found {type_name(wanted)}")
    scale, zero_point, axis = _grid(node, dtype)
    return node.emit(g.QuantizeOp, node.operand(0), scale, zero_point, axis=axis)


def dequantized_as_bytes(source: Value | None) -> Value | None:
    """Gives known integers of 2 or 4 bits, which a node dequantises, as bytes of the same
    numbers; other inputs stay as they are.
    """
    if not isinstance(source, Array):
        return source
    byte = {"int2": np.int8, "int4": np.int8, "uint2": np.uint8, "uint4": np.uint8}
    to = byte.get(source.dtype.name)
    return source if to is None else Array.of(source.values().astype(to))


def read_dequantize(node: NodeReader) -> Value:
    source = node.source(0)
    if source is None:
        raise Unsupported("expected input 0, found none")
    dtype = source.dtype if isinstance(source, Array) else dtype_of(element_type_of(source.type))
    scale, zero_point, axis = _grid(node, dtype)
    result = node.emit(g.DequantizeOp, node.operand(0), scale, zero_point, axis=axis)
    wanted = node.integer("output_dtype", 0)
    if wanted not in (0, onnx_type(element(result))):
        raise Unsupported(f"expected output_dtype of the scale, found {wanted}")
    return result


def _grid(node: NodeReader, dtype: np.dtype) -> tuple[SSAValue, SSAValue, int]:
    """Reads scale, zero point (zeros of `dtype` if there is none) and axis in a normal form: one
    scale for the whole tensor is a scalar, and the axis then is 1.
    """
    if node.integer("block_size", 0) != 0:
        raise Unsupported("expected one scale per tensor or channel, found a block_size")
    given = node.integer("axis", 1)
    shape = node.shape(1)
    if len(shape) > 1:
        raise Unsupported(f"expected a scale per tensor or channel, found shape {list(shape)}")
    whole = shape in ((), (1,))
    scale = _scalar(node, 1) if whole else node.operand(1)
    if node.source(2) is None:
        zero_point = node.constant(np.zeros(() if whole else shape, dtype))
    else:
        zero_point = _scalar(node, 2) if whole else node.operand(2)
    return scale, zero_point, 1 if whole else p.from_front(given, node.rank)


def _scalar(node: NodeReader, index: int) -> SSAValue:
    """Reads input `index`, a scalar or a vector of one element, as a scalar."""
    source = node.source(index)
    if isinstance(source, Array):
        return node.constant(source.values().reshape(()) if source.size == 1 else source)
    value = node.operand(index)
    return value if not shape_of(value.type) else node.emit(g.ReshapeOp, value, shape=[])


# -- export


def write_conv(op: g.GraphOp, graph: GraphWriter) -> str:
    """Writes a Conv for floats, or a ConvInteger and an addition for integers."""
    assert isinstance(op, g.ConvOp)
    window = {
        name: list(int_tuple(values))
        for name, values in (
            ("strides", op.strides),
            ("pads", op.pads),
            ("dilations", op.dilations),
        )
    }
    group = op.group.value.data
    inputs = [graph.name(value) for value in op.operands]
    if is_float(element(op.input)):
        return graph.node("Conv", inputs, group=group, **window)
    result = _integer_products("ConvInteger", op.operands[:2], graph, group=group, **window)
    if op.bias is None:
        return result
    column = np.array([-1] + [1] * (len(shape(op.input)) - 2), np.int64)
    bias = graph.node("Reshape", [inputs[2], graph.array(column)])
    return graph.node("Add", [result, bias])


def write_matmul(op: g.GraphOp, graph: GraphWriter) -> str:
    """Writes a MatMul, or a MatMulInteger for integers that are summed in wider ones."""
    assert isinstance(op, g.MatmulOp)
    if element(op.lhs) != element(op.result):
        return _integer_products("MatMulInteger", op.operands, graph)
    return graph.node("MatMul", [graph.name(op.lhs), graph.name(op.rhs)])


def _integer_products(
    op_type: str, factors: Sequence[SSAValue], graph: GraphWriter, **attributes: Any
) -> str:
    """Writes ConvInteger or MatMulInteger, which take 8 bits only: weights of 16 bits are split
    into terms of 8 bits, with a node for each, and their results are added.
    """
    x, weights = factors
    wide = constant_values(weights) if element(weights) == i16 else None
    if wide is None:
        return graph.node(op_type, [graph.name(x), graph.name(weights)], **attributes)
    total = ""
    for term in _terms_of_8_bits(wide):
        result = graph.node(op_type, [graph.name(x), graph.array(term)], **attributes)
        total = graph.node("Add", [total, result]) if total else result
    return total


def _terms_of_8_bits(wide: np.ndarray) -> list[np.ndarray]:
    """Splits an array into arrays of 8 bits with this sum: [300, -5] -> [127, -5], [127, 0], [46,
    0].
    """
    terms: list[np.ndarray] = []
    rest: np.ndarray = wide.astype(np.int32)
    while not terms or rest.any():
        terms.append(np.clip(rest, -128, 127).astype(np.int8))
        rest -= terms[-1]
    return terms


def write_sum_pool(op: g.GraphOp, graph: GraphWriter) -> str:
    """Writes a sum over windows as a ConvInteger with a kernel of ones for each channel, as ONNX
    has no such sum of integers.
    """
    assert isinstance(op, g.SumPoolOp)
    kernel, strides = int_tuple(op.kernel_shape), int_tuple(op.strides)
    dilations, pads = int_tuple(op.dilations), list(int_tuple(op.pads))
    x, spatial = shape(op.input), len(kernel)
    for axis, count in enumerate(shape(op.result)[2:]):
        reach = (count - 1) * strides[axis] + (kernel[axis] - 1) * dilations[axis] + 1
        beyond = reach - (x[2 + axis] + pads[axis] + pads[spatial + axis])
        # Stands for ceil_mode, which convolutions do not have.
        pads[spatial + axis] += max(beyond, 0)
    ones = np.ones((x[1], 1, *kernel), dtype_of(element(op.input)))
    return graph.node(
        "ConvInteger",
        [graph.name(op.input), graph.array(ones)],
        strides=list(strides),
        pads=pads,
        dilations=list(dilations),
        group=x[1],
    )


def write_requantize(op: g.GraphOp, graph: GraphWriter) -> str:
    assert isinstance(op, g.RequantizeOp)
    if isinstance(op.rounding, g.FixedAttr):
        return _write_fixed(op, op.rounding, graph)
    return _write_float_half_even(op, graph)


def _write_float_half_even(op: g.RequantizeOp, graph: GraphWriter) -> str:
    """Writes DequantizeLinear and QuantizeLinear or, for a scale that varies by position, single
    steps that round alike.
    """
    placed = [_along_axis(scale, len(shape(op.input))) for scale in op.scales]
    before, after = placed if len(placed) == 2 else (None, None)
    zero_point = np.array(op.zero_point.value.data, dtype_of(op.to))
    x = graph.name(op.input)
    if before is not None and after is not None:
        (scale, axis), (result_scale, result_axis) = before, after
        x = graph.node("DequantizeLinear", [x, graph.array(scale)], axis=axis)
        zero = graph.array(np.broadcast_to(zero_point, result_scale.shape))
        return graph.node("QuantizeLinear", [x, graph.array(result_scale), zero], axis=result_axis)
    x = graph.node("Cast", [x], to=onnx.TensorProto.FLOAT)
    x = graph.node("Mul", [x, graph.name(op.scales[0])])
    if len(op.scales) == 2:
        x = graph.node("Div", [x, graph.name(op.scales[1])])
    one = graph.array(np.array(1, np.float32))
    return graph.node("QuantizeLinear", [x, one, graph.array(zero_point)])


def _along_axis(scale: SSAValue, rank: int) -> tuple[np.ndarray, int] | None:
    """Converts a constant scale to what QuantizeLinear takes: a scalar, or a vector along one axis;
    None for one that varies along several.
    """
    values = constant_values(scale)
    if values is None:
        return None
    long = [axis for axis, size in enumerate(values.shape) if size != 1]
    if len(long) > 1:
        return None
    if not long:
        return values.reshape(()), 1 if rank > 1 else 0
    return values.reshape(-1), rank - values.ndim + long[0]


def _write_fixed(op: g.RequantizeOp, rounding: g.FixedAttr, graph: GraphWriter) -> str:
    """Writes exact 64-bit integer arithmetic. ONNX shifts unsigned integers only, and its division
    rounds towards zero; so the remainder is subtracted first, by Mod, which has the divisor's sign.
    """
    int64 = onnx.TensorProto.INT64

    def number(value: int) -> str:
        return graph.array(np.array(value, np.int64))

    def shifted(value: str) -> str:
        unit = number(1 << shift)
        rest = graph.node("Mod", [value, unit])
        return graph.node("Div", [graph.node("Sub", [value, rest]), unit])

    shift = rounding.shift.data
    x = graph.node("Cast", [graph.name(op.input)], to=int64)
    multiplier = graph.node("Cast", [graph.name(op.scales[0])], to=int64)
    product = graph.node("Mul", [x, multiplier])
    if rounding.ties.data == FLOOR:
        product = shifted(product)
    elif shift > 0 and rounding.ties.data == HALF_UP:
        product = shifted(graph.node("Add", [product, number(1 << (shift - 1))]))
    elif shift > 0:
        odd = graph.node("Mod", [shifted(product), number(2)])
        below_half = graph.node("Add", [product, number((1 << (shift - 1)) - 1)])
        product = shifted(graph.node("Add", [below_half, odd]))
    if op.zero_point.value.data:
        product = graph.node("Add", [product, number(op.zero_point.value.data)])
    # In float64, which is exact where it is not clipped: ONNX Runtime 1.31 lets some int64 values
    # beyond 2^31 through Clip.
    limits = np.iinfo(dtype_of(op.to))
    low, high = (graph.array(np.array(limit, np.float64)) for limit in (limits.min, limits.max))
    rounded = graph.node("Cast", [product], to=onnx.TensorProto.DOUBLE)
    clipped = graph.node("Clip", [rounded, low, high])
    return graph.node("Cast", [clipped], to=onnx_type(op.to))
