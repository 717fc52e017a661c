"""Imports operators on quantised tensors, of ONNX and of ONNX Runtime (domain com.microsoft).

They mean the float operator between dequantize and quantize, and are imported in that form, so that
rewrites see only one form. Operators that give 32-bit integers stay integer.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from byocir.dialects import graph as g
from byocir.dialects.array import Array, ArrayAttr
from byocir.dialects.types import dtype_of, element_type_of, f32, i32, shape_of, static_shape, ui8
from byocir.frontend.onnx import properties as p
from byocir.frontend.onnx.entry import Read
from byocir.frontend.onnx.reader import NodeReader, Value
from byocir.frontend.onnx.tensors import Unsupported

ONE = np.float32(1)

# -- grids: a scale and a zero point among the inputs


def _has_grid(node: NodeReader, scale: int, zero: int) -> bool:
    """Tells if the scale at an input is known, and its zero point, if any, has as many values, or
    is one that is known.
    """
    source = node.source(zero)
    if not isinstance(node.source(scale), Array):
        return False
    is_one = isinstance(source, Array) and source.size == 1
    return source is None or is_one or math.prod(node.shape(zero)) == math.prod(node.shape(scale))


def _grid(node: NodeReader, scale: int, zero: int, dtype: np.dtype) -> tuple[SSAValue, SSAValue]:
    """Reads scale and zero point at these inputs, in one shape: scalars or vectors. An absent zero
    point is 0, of `dtype`.
    """
    shape = node.shape(scale)
    if len(shape) > 1:
        raise Unsupported(f"expected a scale per tensor or channel, found shape {list(shape)}")
    wanted = () if shape in ((), (1,)) else shape
    if node.source(zero) is None:
        return _shaped(node, scale, wanted), node.constant(np.zeros(wanted, dtype))
    return _shaped(node, scale, wanted), _shaped(node, zero, wanted)


def _shaped(node: NodeReader, index: int, shape: tuple[int, ...]) -> SSAValue:
    """Reads input `index` in this shape; a single value is repeated."""
    source = node.source(index)
    if isinstance(source, Array):
        values = source.values()
        return node.constant(
            np.full(shape, values.reshape(())) if values.size == 1 else values.reshape(shape)
        )
    value = node.operand(index)
    if shape_of(value.type) == shape:
        return value
    if shape:
        raise Unsupported(f"expected input {index} of shape {list(shape)}, found {value.type}")
    return node.emit(g.ReshapeOp, value, shape=[])


def _dequantized(node: NodeReader, x: int, axis: int = 1, *, factor: np.float32 = ONE) -> SSAValue:
    """Emits the dequantisation of input `x`, times a factor; its scale and zero point follow it."""
    value = node.operand(x)
    scale, zero = _grid(node, x + 1, x + 2, dtype_of(element_type_of(value.type)))
    if factor != 1:
        known = node.known(x + 1)
        assert known is not None
        scale = node.constant((known * factor).reshape(shape_of(scale.type)))
    axis = axis if shape_of(scale.type) else 1
    return node.emit(g.DequantizeOp, value, scale, zero, axis=axis)


def _quantized(node: NodeReader, value: SSAValue, scale: int) -> SSAValue:
    """Emits the quantisation of a float value by input `scale` and the zero point behind it. By
    default the result has the type of the first input.
    """
    operands = _grid(node, scale, scale + 1, dtype_of(element_type_of(node.operand(0).type)))
    return node.emit(g.QuantizeOp, value, *operands, axis=1)


def between(compute: Callable[[NodeReader, SSAValue], SSAValue]) -> Read:
    """Makes the reader of an operator on one tensor, with inputs X, its grid and the grid of Y."""

    def read(node: NodeReader) -> Value:
        return _quantized(node, compute(node, _dequantized(node, 0)), 3)

    return read


def between_two(op: type[g.GraphOp]) -> Read:
    """Makes the reader of an operator on two tensors, with inputs A, its grid, B, its grid and the
    grid of C.
    """

    def read(node: NodeReader) -> Value:
        return _quantized(node, node.emit(op, _dequantized(node, 0), _dequantized(node, 3)), 6)

    return read


# -- contractions


def read_qlinear_conv(node: NodeReader) -> Value:
    x, w = _dequantized(node, 0), _dequantized(node, 3, axis=0)
    bias = None
    if node.source(8) is not None:
        bias = _dequantized_bias(node, 8, 1, 4)
    result = node.emit(
        g.ConvOp,
        x,
        w,
        bias,
        strides=p.strides(node),
        pads=p.conv_pads(node, 3),
        dilations=p.dilations(node),
        group=node.integer("group", 1),
    )
    return _quantized(node, result, 6)


def _dequantized_bias(
    node: NodeReader, bias: int, x_scale: int, w_scale: int, factor: np.float32 = ONE
) -> SSAValue:
    """Emits the dequantisation of a bias of 32-bit integers, whose scale is the product of both
    factors' scales.
    """
    scales = [node.known(index) for index in (x_scale, w_scale)]
    if scales[0] is None or scales[1] is None or scales[0].size != 1:
        raise Unsupported("expected one scale of the input, found several or none")
    product = np.asarray(scales[0].reshape(()) * factor * scales[1])
    product = product.reshape(()) if product.size == 1 else product
    zero = node.constant(np.zeros(product.shape, np.int32))
    value = node.operand(bias)
    axis = len(shape_of(value.type)) - 1 if product.shape else 1
    return node.emit(g.DequantizeOp, value, node.constant(product), zero, axis=axis)


def read_qlinear_matmul(node: NodeReader) -> Value:
    """Reads a QLinearMatMul, with one scale for each row of A, one for each column of B, or one for
    all.
    """
    a_rank, b_rank = len(node.shape(0)), len(node.shape(3))
    a = _dequantized(node, 0, axis=max(a_rank - 2, 0))
    b = _dequantized(node, 3, axis=b_rank - 1)
    return _quantized(node, node.emit(g.MatmulOp, a, b), 6)


def read_qgemm(node: NodeReader) -> Value:
    """Reads a QGemm. Without a grid of Y the result is float. `alpha` scales the product, so it
    goes into the grids of A and C.
    """
    alpha = np.float32(node.number("alpha", 1.0))
    transposed_b = node.integer("transB", 0)
    operands = (
        _dequantized(node, 0, factor=alpha),
        _dequantized(node, 3, axis=0 if transposed_b else 1),
    )
    flags = node.integer("transA", 0), transposed_b
    lhs, rhs = (
        node.emit(g.TransposeOp, value, perm=[1, 0]) if flag else value
        for value, flag in zip(operands, flags, strict=True)
    )
    result = node.emit(g.MatmulOp, lhs, rhs)
    if node.source(6) is not None:
        result = node.emit(g.AddOp, result, _dequantized_bias(node, 6, 1, 4, alpha))
    return result if node.source(7) is None else _quantized(node, result, 7)


# -- pools, activations, concat


def average_pool(node: NodeReader, x: SSAValue) -> SSAValue:
    _expect_channels_first(node)
    return node.emit(
        g.AveragePoolOp,
        x,
        kernel_shape=p.kernel_shape(node),
        strides=p.strides(node),
        pads=p.pads(node),
        dilations=p.dilations(node),
        ceil_mode=p.ceil_mode(node),
        count_include_pad=node.integer("count_include_pad", 0),
    )


def global_average_pool(node: NodeReader, x: SSAValue) -> SSAValue:
    _expect_channels_first(node)
    return node.emit(g.GlobalAveragePoolOp, x)


def _expect_channels_first(node: NodeReader) -> None:
    if node.integer("channels_last", 0) != 0:
        raise Unsupported("expected channels_last 0, found 1")


def leaky_relu(node: NodeReader, x: SSAValue) -> SSAValue:
    return node.emit(g.LeakyReluOp, x, alpha=node.number("alpha", 0.01))


def sigmoid(node: NodeReader, x: SSAValue) -> SSAValue:
    return node.emit(g.SigmoidOp, x)


def softmax(node: NodeReader, x: SSAValue) -> SSAValue:
    """Reads a QLinearSoftmax, whose attribute `opset` below 13 makes it run over all dimensions
    from the axis on.
    """
    axis = p.from_front(node.integer("axis", -1), node.rank)
    if node.integer("opset", 13) >= 13:
        return node.emit(g.SoftmaxOp, x, axis=axis)
    shape = static_shape(x.type)
    if shape is None:
        raise Unsupported(f"expected known sizes, found {x.type}")
    matrix = [math.prod(shape[:axis]), math.prod(shape[axis:])]
    result = node.emit(g.SoftmaxOp, node.emit(g.ReshapeOp, x, shape=matrix), axis=1)
    return node.emit(g.ReshapeOp, result, shape=shape)


def read_qlinear_where(node: NodeReader) -> Value:
    """Reads a QLinearWhere of the condition, X, its grid, Y, its grid and the grid of Z."""
    chosen = node.emit(g.WhereOp, node.operand(0), _dequantized(node, 1), _dequantized(node, 4))
    operands = _grid(node, 7, 8, dtype_of(element_type_of(node.operand(1).type)))
    return node.emit(g.QuantizeOp, chosen, *operands, axis=1)


def read_qlinear_concat(node: NodeReader) -> Value:
    """Reads a QLinearConcat, with the grid of Y as first inputs, then each tensor with its own."""
    inputs = [_dequantized(node, index) for index in range(2, len(node.sources), 3)]
    axis = p.from_front(node.integer("axis", 0), len(shape_of(inputs[0].type)))
    joined = node.emit(g.ConcatOp, *inputs, axis=axis)
    scale, zero = _grid(node, 0, 1, np.dtype(np.uint8))
    return node.emit(g.QuantizeOp, joined, scale, zero, axis=1)


# -- 32-bit integers


def read_matmul_integer(node: NodeReader) -> Value:
    return _product(node, node.operand(0), _zero_point(node, 2), *_weight(node, 1, 3))


def read_matmul_integer_to_float(node: NodeReader) -> Value:
    """Reads a MatMulIntegerToFloat of A, B, their scales, their zero points and a bias. Where the
    scales are known, it is a product of dequantised arrays."""
    if all(_has_grid(node, scale, scale + 2) for scale in (2, 3)):
        grids = [_grid(node, scale, scale + 2, _bytes_of(node, scale - 2)) for scale in (2, 3)]
        axis = len(node.shape(1)) - 1 if shape_of(grids[1][0].type) else 1
        a = node.emit(g.DequantizeOp, node.operand(0), *grids[0], axis=1)
        b = node.emit(g.DequantizeOp, node.operand(1), *grids[1], axis=axis)
        return _with_bias(node, node.emit(g.MatmulOp, a, b), 6)
    total = _product(node, node.operand(0), _zero_point(node, 4), *_weight(node, 1, 5))
    return _with_bias(node, _scaled(node, total, node.operand(2), node.operand(3)), 6)


def read_dynamic_quantize_matmul(node: NodeReader) -> Value:
    """Reads a DynamicQuantizeMatMul of floats, and of B with its scale, zero point and a bias."""
    x, scale, zero = _quantized_dynamically(node)
    point = node.emit(g.CastOp, zero, to=i32)
    total = _product(node, x, point, *_weight(node, 1, 3))
    return _with_bias(node, _scaled(node, total, scale, node.operand(2)), 4)


def read_matmul_nbits(node: NodeReader) -> Value:
    """Reads a MatMulNBits, whose weights are rows of packed integers, in blocks of one scale each;
    they are bytes that are dequantised.
    """
    node.ignore("accuracy_level")
    inputs, outputs = node.integer("K", 0), node.integer("N", 0)
    bits, size = node.integer("bits", 4), node.integer("block_size", 0)
    packed, scales, points = (node.known(index) for index in (1, 2, 3))
    if bits not in (4, 8) or packed is None or scales is None or node.source(4) is not None:
        raise Unsupported("expected constant weights of 4 or 8 bits and scales, and no g_idx")
    if points is not None and points.dtype != np.uint8:
        raise Unsupported(f"expected packed zero points, found {points.dtype}")
    blocks = -(-inputs // size)
    rows = _unpacked(packed.reshape(outputs * blocks, -1), bits)
    zero = np.full(outputs * blocks, 1 << (bits - 1), np.uint8)
    if points is not None:
        zero = _unpacked(points.reshape(outputs, -1), bits)[:, :blocks].reshape(-1)
    grid = node.constant(scales.reshape(-1)), node.constant(zero)
    weight = node.emit(g.DequantizeOp, node.constant(rows), *grid, axis=0)
    weight = node.emit(g.ReshapeOp, weight, shape=[outputs, blocks * size])
    taken = {"starts": [0, 0], "sizes": [outputs, inputs], "steps": [1, 1]}
    weight = node.emit(g.SliceOp, weight, **taken) if blocks * size > inputs else weight
    columns = node.emit(g.TransposeOp, weight, perm=[1, 0])
    return _with_bias(node, node.emit(g.MatmulOp, node.operand(0), columns), 5)


def _unpacked(array: np.ndarray, bits: int) -> np.ndarray:
    """Gives the integers of rows of bytes, each a byte or two of 4 bits, the lower one first."""
    return array if bits == 8 else np.stack([array & 15, array >> 4], -1).reshape(len(array), -1)


def _bytes_of(node: NodeReader, index: int) -> np.dtype:
    return dtype_of(element_type_of(node.operand(index).type))


def _scaled(node: NodeReader, total: SSAValue, *scales: SSAValue) -> SSAValue:
    return node.emit(
        g.MulOp, node.emit(g.CastOp, total, to=f32), node.emit(g.MulOp, scales[0], scales[1])
    )


def _with_bias(node: NodeReader, value: SSAValue, index: int) -> SSAValue:
    return value if node.source(index) is None else node.emit(g.AddOp, value, node.operand(index))


def _product(
    node: NodeReader,
    a: SSAValue,
    row_points: SSAValue | None,
    b: SSAValue,
    column_points: SSAValue | None,
) -> SSAValue:
    """Emits a product of bytes less their zero points, in 32 bits."""
    lhs, rhs = shape_of(a.type), shape_of(b.type)
    matrices = min(len(lhs), len(rhs)) > 1

    def rows() -> SSAValue:
        return _summed(node, a, [len(lhs) - 1], matrices)

    def columns() -> SSAValue:
        return _summed(node, b, [max(len(rhs) - 2, 0)], matrices)

    if row_points is not None and len(shape_of(row_points.type)) == 1 and matrices:
        row_points = node.emit(g.ReshapeOp, row_points, shape=[lhs[-2], 1])
    total, points = node.emit(g.MatmulOp, a, b), (row_points, column_points)
    return _without_zero_points(node, total, points, (rows, columns), lhs[-1])


def read_conv_integer(node: NodeReader) -> Value:
    """Reads a ConvInteger; its input is padded with its zero point."""
    x, (w, output_points), pads = node.operand(0), _weight(node, 1, 3), list(p.conv_pads(node))
    spatial, group = len(pads) // 2, node.integer("group", 1)
    window = {"strides": p.strides(node), "dilations": p.dilations(node)}
    points = _zero_point(node, 2), output_points
    if points[0] is not None and any(pads):
        x, pads = _surrounded(node, x, pads, 2), [0] * len(pads)
    outputs, *kernel = shape_of(w.type)

    def windows() -> SSAValue:
        return _window_sums(node, x, outputs, kernel, {**window, "pads": pads, "group": group})

    def columns() -> SSAValue:
        sums = _summed(node, w, [*range(1, 2 + spatial)], False)
        return node.emit(g.ReshapeOp, sums, shape=[outputs, *[1] * spatial])

    if points[1] is not None and shape_of(points[1].type):
        points = points[0], node.emit(g.ReshapeOp, points[1], shape=[outputs, *[1] * spatial])
    total = node.emit(g.ConvOp, x, w, pads=pads, group=group, **window)
    return _without_zero_points(node, total, points, (windows, columns), math.prod(kernel))


def _without_zero_points(
    node: NodeReader,
    total: SSAValue,
    points: tuple[SSAValue | None, SSAValue | None],
    sums: tuple[Callable[[], SSAValue], Callable[[], SSAValue]],
    depth: int,
) -> SSAValue:
    """Multiplies bytes as they are; what their zero points p and q bring into the total is
    taken off: `sum (a - p)(b - q)` is `sum ab - p sum b - q sum a + depth p q`. As integers wrap
    around, that is the same number."""
    p, q = points
    for point, other in ((p, sums[1]), (q, sums[0])):
        if point is not None:
            total = node.emit(g.SubOp, total, node.emit(g.MulOp, other(), point))
    if p is None or q is None:
        return total
    both = node.emit(g.MulOp, node.emit(g.MulOp, p, q), node.constant(np.array(depth, np.int32)))
    return node.emit(g.AddOp, total, both)


def _zero_point(node: NodeReader, index: int) -> SSAValue | None:
    """Reads a zero point in 32 bits, as a scalar if it is one number; None if it is known to be
    0.
    """
    source = node.source(index)
    if source is None or (isinstance(source, Array) and not source.values().any()):
        return None
    value = node.operand(index)
    shape = shape_of(value.type)
    if shape == (1,):
        value = node.emit(g.ReshapeOp, value, shape=[])
    return node.emit(g.CastOp, value, to=i32)


def _weight(node: NodeReader, index: int, zero: int) -> tuple[SSAValue, SSAValue | None]:
    """Reads a factor and its zero point, which is taken off where both are constants and what
    remains is a signed byte.
    """
    factor, point = node.source(index), node.source(zero)
    if isinstance(factor, Array) and isinstance(point, Array) and point.size == 1:
        shifted = factor.values().astype(np.int16) - point.values().astype(np.int16).reshape(())
        if np.array_equal(shifted.astype(np.int8), shifted):
            return node.constant(shifted.astype(np.int8)), None
    return node.operand(index), _zero_point(node, zero)


def _summed(node: NodeReader, value: SSAValue, axes: list[int], keep: bool) -> SSAValue:
    """Emits the sum of bytes along these axes, in 32 bits."""
    wide = node.emit(g.CastOp, value, to=i32)
    return node.emit(g.ReduceSumOp, wide, axes=axes, keepdims=int(keep))


def _window_sums(
    node: NodeReader, x: SSAValue, outputs: int, kernel: list[int], window: dict[str, Any]
) -> SSAValue:
    """Emits the sum of the elements of `x` that each output of a convolution reads."""
    group = window.pop("group")
    pooled = node.emit(g.SumPoolOp, x, kernel_shape=kernel[1:], ceil_mode=0, **window)
    batch, channels, *space = shape_of(pooled.type)
    split = node.emit(g.ReshapeOp, pooled, shape=[batch, group, channels // group, *space])
    sums = node.emit(g.ReduceSumOp, split, axes=[2], keepdims=int(group > 1))
    if group == 1:
        return sums
    each = [batch, group, outputs // group, *space]
    spread = node.emit(g.ExpandOp, sums, shape=each)
    return node.emit(g.ReshapeOp, spread, shape=[batch, outputs, *space])


def _surrounded(node: NodeReader, x: SSAValue, pads: list[int], index: int) -> SSAValue:
    """Pads an image with the number of input `index`."""
    spatial, element = len(pads) // 2, element_type_of(x.type)
    around = [0, 0, *pads[:spatial], 0, 0, *pads[spatial:]]
    point = node.source(index)
    if isinstance(point, Array):
        fill = ArrayAttr.of(point.values().reshape(()).astype(dtype_of(element)))
        return node.emit(g.PadOp, x, pads=around, mode="constant", value=fill)
    inside = node.constant(np.ones([1, 1, *shape_of(x.type)[2:]], np.bool_))
    inside = node.emit(g.PadOp, inside, pads=around, mode="constant")
    wide = node.emit(g.PadOp, x, pads=around, mode="constant")
    return node.emit(g.WhereOp, inside, wide, node.emit(g.ReshapeOp, node.operand(index), shape=[]))


# -- a grid computed from the values


def read_dynamic_quantize(node: NodeReader) -> list[Value]:
    """Reads a DynamicQuantizeLinear, whose grid of 8-bit numbers covers 0 and all values."""
    return [*_quantized_dynamically(node)]


def _quantized_dynamically(node: NodeReader) -> tuple[SSAValue, SSAValue, SSAValue]:
    """Emits bytes for input 0, their scale and their zero point."""
    x = node.operand(0)
    if element_type_of(x.type) != f32:
        raise Unsupported(f"expected a tensor of f32, found {x.type}")
    axes = list(range(node.rank))

    def number(value: float) -> SSAValue:
        return node.constant(np.array(value, np.float32))

    def extreme(reduce: type[g.GraphOp], op: type[g.GraphOp]) -> SSAValue:
        found = node.emit(reduce, x, axes=axes, keepdims=0) if axes else x
        return node.emit(op, found, number(0))

    high, low = extreme(g.ReduceMaxOp, g.MaxOp), extreme(g.ReduceMinOp, g.MinOp)
    scale = node.emit(g.DivOp, node.emit(g.SubOp, high, low), number(255))
    place = node.emit(g.SubOp, number(0), node.emit(g.DivOp, low, scale))
    bounds = {
        name: ArrayAttr.of(np.array(value, np.float32))
        for name, value in (("min", 0), ("max", 255))
    }
    rounded = node.emit(g.RoundOp, node.emit(g.ClipOp, place, **bounds))
    zero = node.emit(g.CastOp, rounded, to=ui8)
    return node.emit(g.QuantizeOp, x, scale, zero, axis=1), scale, zero
