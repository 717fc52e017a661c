"""Random quantised layers whose grids have zero points, of signed and unsigned bytes."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Region, SSAValue

from byocir.dialects.array import ArrayAttr
from byocir.dialects.graph import (
    AddOp,
    ClipOp,
    ConstantOp,
    ConvOp,
    ConvTransposeOp,
    DequantizeOp,
    GraphOp,
    MatmulOp,
    QuantizeOp,
    ReluOp,
)
from byocir.dialects.locations import named
from byocir.dialects.types import element_of, tensor

BYTES = (np.int8, np.uint8)


@dataclass
class ZeroPointLayer:
    """One contraction between dequantize and quantize: the module, its input, and whether all
    scales are powers of two, so that floats are exact."""

    module: ModuleOp
    x: np.ndarray
    exact: bool


class _Layer:
    def __init__(self, draw: st.DrawFn) -> None:
        self.draw, self.exact = draw, draw(st.booleans())
        self.random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))

    def start(self, shape: tuple[int, ...]) -> None:
        kind = self.draw(st.sampled_from(BYTES))
        self.x = self.bytes_of(kind, shape)
        self.block = Block(arg_types=[tensor(element_of(self.x.dtype), shape)])
        self.x_scale = self.scale()
        self.data = self.dequantized(self.block.args[0], self.x_scale, self.zero(kind))

    def bytes_of(self, kind: type, shape: tuple[int, ...]) -> np.ndarray:
        ends = np.iinfo(kind)
        return self.random.integers(ends.min, ends.max, shape, kind, endpoint=True)

    def scale(self, *size: int) -> np.ndarray:
        exponents = self.random.uniform(-7, -3, size)
        return np.exp2(np.floor(exponents) if self.exact else exponents).astype(np.float32)

    def zero(self, kind: type) -> np.ndarray:
        ends = np.iinfo(kind)
        zero = self.draw(st.sampled_from([0, ends.min, ends.max, 3, 77, 128 + ends.min]))
        return np.array(zero, kind)

    def add(self, op: GraphOp) -> SSAValue:
        op.location = named(f"op{len(list(self.block.ops))}")
        self.block.add_op(op)
        return op.results[0]

    def constant(self, array: np.ndarray) -> SSAValue:
        return self.add(ConstantOp.of(ArrayAttr.of(array).data))

    def dequantized(
        self, value: SSAValue, scale: np.ndarray, zero: np.ndarray, axis: int = 1
    ) -> SSAValue:
        grid = [self.constant(scale), self.constant(zero)]
        return self.add(DequantizeOp.make(value, *grid, axis=axis))

    def weight(self, shape: tuple[int, ...], axis: int) -> SSAValue:
        """Signed ones with zero point 0, or unsigned ones whose zero point is in their middle."""
        kind = self.draw(st.sampled_from(BYTES))
        size = (shape[axis],) if self.draw(st.booleans()) else ()
        self.w_scale = self.scale(*size)
        zero = np.full(size, 128 if kind is np.uint8 else 0, kind)
        values = self.constant(self.bytes_of(kind, shape))
        return self.dequantized(values, self.w_scale, zero, axis)

    def bias(self, size: int) -> SSAValue | None:
        if self.draw(st.booleans()):
            return None
        values = self.random.integers(-3000, 3000, size, np.int32)
        scale = (self.x_scale * self.w_scale).astype(np.float32)
        scale = np.resize(scale, size) if scale.ndim else scale  # the same for each group
        return self.dequantized(self.constant(values), scale, np.zeros(scale.shape, np.int32), 0)

    def finished(self, value: SSAValue, depth: int) -> ZeroPointLayer:
        kind, activation = self.draw(st.sampled_from(BYTES)), self.draw(st.integers(0, 2))
        unit = 60 * depth**0.5 * float(self.x_scale * self.w_scale.mean())
        unit = np.exp2(np.round(np.log2(unit))) if self.exact else unit
        if activation == 1:
            value = self.add(ReluOp.make(value))
        if activation == 2:
            bounds = {n: ArrayAttr.of(np.float32(v * unit)) for n, v in (("min", -9), ("max", 40))}
            value = self.add(ClipOp.make(value, **bounds))
        grid = [self.constant(np.array(unit, np.float32)), self.constant(self.zero(kind))]
        value = self.add(QuantizeOp.make(value, *grid, axis=1))
        self.block.add_op(func.ReturnOp(value))
        types = [*self.block.arg_types], [value.type]
        module = ModuleOp([func.FuncOp("main", types, Region(self.block))])
        return ZeroPointLayer(module, self.x, self.exact)


@st.composite
def zero_point_convs(draw: st.DrawFn) -> ZeroPointLayer:
    """Dense, grouped and depthwise ones; depths that no instruction divides among them."""
    layer = _Layer(draw)
    channels = [(1, 1), (1, 3), (1, 4), (1, 8), (1, 13), (2, 5), (24, 1)]
    group, inputs = draw(st.sampled_from(channels))
    outputs = group * draw(st.sampled_from([1, 1, 3, 17]))
    size = [draw(st.integers(3, 8)), draw(st.integers(3, 19))]
    kernel = [draw(st.integers(1, 3)) for _ in size]
    pads = [draw(st.integers(0, k - 1)) for k in (*kernel, *kernel)]
    strides = [draw(st.integers(1, 2)) for _ in size]
    layer.start((draw(st.integers(1, 2)), group * inputs, *size))
    weight = layer.weight((outputs, inputs, *kernel), 0)
    bias = layer.bias(outputs)
    operands = [layer.data, weight, *([] if bias is None else [bias])]
    window = {"strides": strides, "pads": pads, "dilations": [1, 1], "group": group}
    total = layer.add(ConvOp.make(*operands, **window))
    return layer.finished(total, inputs * kernel[0] * kernel[1])


@st.composite
def zero_point_transposed_convs(draw: st.DrawFn) -> ZeroPointLayer:
    """Of one or two dimensions, whose phases meet different positions of the kernel, or none."""
    layer = _Layer(draw)
    group, inputs, outputs = draw(
        st.sampled_from([(1, 3, 5), (1, 16, 17), (2, 5, 3), (3, 1, 1), (16, 1, 1)])
    )
    size = [draw(st.integers(1, 5)) for _ in range(draw(st.integers(1, 2)))]
    rank = range(len(size))
    kernel, strides = ([draw(st.integers(1, 4)) for _ in rank] for _ in range(2))
    dilations = [draw(st.integers(1, 3)) for _ in rank]
    extra = [draw(st.integers(0, max(strides[i], dilations[i]) - 1)) for i in rank]
    reach = [(kernel[i] - 1) * dilations[i] + 1 for i in rank]
    wide = [(size[i] - 1) * strides[i] + reach[i] + extra[i] for i in rank]
    begins = [draw(st.integers(0, min(reach[i], wide[i] - 1))) for i in rank]
    ends = [draw(st.integers(0, min(reach[i], wide[i] - 1 - begins[i]))) for i in rank]
    layer.start((draw(st.integers(1, 2)), group * inputs, *size))
    weight = layer.weight((group * inputs, outputs, *kernel), 1)
    bias = layer.bias(group * outputs)
    operands = [layer.data, weight, *([] if bias is None else [bias])]
    window = {"strides": strides, "pads": [*begins, *ends], "dilations": dilations, "group": group}
    total = layer.add(ConvTransposeOp.make(*operands, output_padding=extra, **window))
    return layer.finished(total, inputs * math.prod(kernel))


@st.composite
def zero_point_matmuls(draw: st.DrawFn) -> ZeroPointLayer:
    layer = _Layer(draw)
    depth, columns = draw(st.integers(1, 37)), draw(st.sampled_from([1, 4, 16, 21, 65]))
    batch = draw(st.sampled_from([(), (), (2,)]))
    layer.start((*draw(st.sampled_from([(), (2,)])), draw(st.integers(1, 9)), depth))
    weight = layer.weight((*batch, depth, columns), len(batch) + 1)
    bias = layer.bias(columns)
    total = layer.add(MatmulOp.make(layer.data, weight))
    if bias is not None:
        total = layer.add(AddOp.make(total, bias))
    return layer.finished(total, depth)
