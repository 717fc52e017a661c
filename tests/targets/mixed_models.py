"""Random quantised models of which VTA takes a part: groups, unsigned grids, zero points, odd
windows, branches, host ops between layers and values that several layers use."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

Draw = st.DrawFn
Shape = tuple[int, ...]

POWERS = (0.5, 0.25, 0.125, 0.0625)
SCALES = (*POWERS, 0.037, 0.011, 1.7)


@dataclass(frozen=True)
class Grid:
    """Scale, zero point and integer type of a quantised tensor."""

    scale: float
    zero_point: int = 0
    dtype: type[np.integer] = np.int8


@dataclass(frozen=True)
class Value:
    """A float tensor that a DequantizeLinear makes."""

    name: str
    shape: Shape
    grid: Grid


class Builder:
    """Builds a QDQ graph layer by layer. With `exact` all scales are powers of two."""

    def __init__(self, draw: Draw, *, exact: bool) -> None:
        self.draw, self.exact = draw, exact
        self.random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self.known: list[Value] = []
        self.count = 0

    def array(self, values: np.ndarray) -> str:
        self.count += 1
        name = f"c{self.count}"
        self.initializers.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def node(self, op_type: str, inputs: list[str], **attributes: object) -> str:
        self.count += 1
        name = f"v{self.count}"
        self.nodes.append(
            helper.make_node(op_type, inputs, [name], f"{op_type}_{self.count}", **attributes)
        )
        return name

    def grid(self) -> Grid:
        """Mostly a symmetric i8 one, which VTA needs."""
        scale = self.scale()
        kind = self.draw(st.sampled_from(["i8"] * 7 + ["u8", "i8 shifted", "u8 shifted"]))
        dtype = np.uint8 if kind.startswith("u8") else np.int8
        shifted = self.draw(st.sampled_from([3, -128, 127])) if kind.endswith("shifted") else 0
        return Grid(scale, shifted + 128 if shifted and dtype is np.uint8 else shifted, dtype)

    def scale(self) -> float:
        return self.draw(st.sampled_from(POWERS if self.exact else SCALES))

    def quantized(self, name: str, shape: Shape, grid: Grid | None = None) -> Value:
        """Q then DQ."""
        grid = grid or self.grid()
        arrays = [self.array(np.float32(grid.scale)), self.array(grid.dtype(grid.zero_point))]
        integers = self.node("QuantizeLinear", [name, *arrays])
        value = Value(self.node("DequantizeLinear", [integers, *arrays]), shape, grid)
        self.known.append(value)
        return value

    def weights(self, shape: Shape, axis: int) -> tuple[str, np.ndarray]:
        """A dequantised constant and its scale: a number, or one for each index of `axis`."""
        per_channel = self.draw(st.booleans())
        scale = np.asarray(self.random.choice(POWERS, shape[axis] if per_channel else ()))
        if not self.exact:
            scale = scale * self.random.uniform(0.02, 0.1, scale.shape)
        scale = scale.astype(np.float32)
        values = self.random.integers(-127, 128, shape).astype(np.int8)
        arrays = [self.array(values), self.array(scale), self.array(np.zeros(scale.shape, np.int8))]
        attributes = {"axis": axis} if per_channel else {}
        return self.node("DequantizeLinear", arrays, **attributes), scale

    def bias(self, size: int, scale: np.ndarray) -> str:
        values = self.random.integers(-5000, 5000, size).astype(np.int32)
        zeros = np.zeros(scale.shape, np.int32)
        arrays = [self.array(values), self.array(scale.astype(np.float32)), self.array(zeros)]
        return self.node("DequantizeLinear", arrays, **({"axis": 0} if scale.ndim else {}))

    def finished(self, name: str, shape: Shape, grid: Grid | None = None) -> Value:
        """An activation or none, then Q and DQ, perhaps on another grid than before it."""
        kind = self.draw(st.sampled_from(["none", "none", "relu", "quantised relu", "clip"]))
        if kind == "quantised relu":
            name = self.quantized(name, shape, grid).name
        if kind.endswith("relu"):
            name = self.node("Relu", [name])
        if kind == "clip":
            bounds = self.draw(st.sampled_from([(0, 6), (-1.5, 2.5), (1.3, 40), (-9, -2)]))
            name = self.node("Clip", [name, *(self.array(np.float32(b)) for b in bounds)])
        return self.quantized(name, shape, grid)

    def any_of(self, fits: Callable[[Value], bool]) -> Value | None:
        """One of the values so far that fits."""
        values = [value for value in self.known if fits(value)]
        return self.draw(st.sampled_from(values)) if values else None

    def model(self, first: Shape, outputs: list[Value]) -> onnx.ModelProto:
        infos = [helper.make_tensor_value_info(v.name, TensorProto.FLOAT, v.shape) for v in outputs]
        inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, first)]
        graph = helper.make_graph(self.nodes, "net", inputs, infos, self.initializers)
        opsets = [helper.make_opsetid("", 21)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)


Layer = Callable[[Builder, Value], Value | None]
"""Appends a layer to a value; None when it does not fit."""


@dataclass(frozen=True)
class Window:
    """Kernel, strides, dilations and pads (begins, then ends) that fit an input."""

    kernel: list[int]
    strides: list[int]
    dilations: list[int]
    pads: list[int]
    sizes: Shape

    def out(self, ceil: bool = False) -> Shape:
        """The spatial shape of the result, as ONNX defines it for `ceil_mode`."""
        rank, out = len(self.kernel), []
        for i, (size, stride) in enumerate(zip(self.sizes, self.strides, strict=True)):
            reach = self.dilations[i] * (self.kernel[i] - 1) + 1
            room = size + self.pads[i] + self.pads[i + rank] - reach
            count = (-(-room // stride) if ceil else room // stride) + 1
            if ceil and (count - 1) * stride >= size + self.pads[i]:
                count -= 1  # a window must not begin in the pad at the end
            out.append(count)
        return tuple(out)


def draw_window(b: Builder, sizes: Shape, *, dilated: bool = True, own_pads: bool = True) -> Window:
    """A window that fits; with `own_pads` pads may be as large as the kernel is."""
    draw, kernel, dilations, pads = b.draw, [], [], ([], [])
    for size in sizes:
        kernel.append(draw(st.integers(1, min(4, size))))
        fits = dilated and (kernel[-1] - 1) * 2 + 1 <= size
        dilations.append(draw(st.integers(1, 2)) if fits else 1)
        most = kernel[-1] if own_pads else kernel[-1] - 1
        for side in pads:
            side.append(draw(st.integers(0, min(most, 3))))
    strides = [draw(st.integers(1, 3)) for _ in sizes]
    return Window(kernel, strides, dilations, pads[0] + pads[1], sizes)


def conv(b: Builder, x: Value) -> Value | None:
    """Dense, grouped or depthwise, of any spatial rank."""
    if len(x.shape) < 3:
        return None
    n, c, *spatial = x.shape
    window = draw_window(b, tuple(spatial))
    group = b.draw(st.sampled_from([1, 1, 1, c, 2 if c % 2 == 0 else 1]))
    out = group * b.draw(st.sampled_from([1, 2, 16] if group > 1 else [3, 16, 20, 32]))
    if out > 64:
        out = group
    weight, scale = b.weights((out, c // group, *window.kernel), 0)
    inputs = [x.name, weight]
    if b.draw(st.booleans()):
        inputs.append(b.bias(out, np.float32(x.grid.scale) * scale))
    name = b.node(
        "Conv",
        inputs,
        group=group,
        pads=window.pads,
        strides=window.strides,
        dilations=window.dilations,
    )
    return b.finished(name, (n, out, *window.out()), coarse(b, x, c // group, window.kernel))


def coarse(b: Builder, x: Value, channels: int, kernel: list[int]) -> Grid:
    """A grid on which sums of this many products fill the range, or nearly so."""
    grid = b.grid()
    spread = x.grid.scale * (16 if b.exact else 1) * (channels * math.prod(kernel)) ** 0.5
    factor = b.draw(st.sampled_from([0.25, 1.0, 4.0]))
    scale = 2.0 ** round(math.log2(spread * factor)) if b.exact else spread * factor
    return Grid(scale, grid.zero_point, grid.dtype)


def max_pool(b: Builder, x: Value) -> Value | None:
    if not 3 <= len(x.shape) <= 4:
        return None
    window = draw_window(b, x.shape[2:], own_pads=False)
    ceil = b.draw(st.booleans())
    shape = (*x.shape[:2], *window.out(ceil))
    name = b.node(
        "MaxPool",
        [x.name],
        kernel_shape=window.kernel,
        strides=window.strides,
        pads=window.pads,
        dilations=window.dilations,
        ceil_mode=int(ceil),
    )
    return b.finished(name, shape, b.draw(st.sampled_from([x.grid, None])))


def average_pool(b: Builder, x: Value) -> Value | None:
    if not 3 <= len(x.shape) <= 4:
        return None
    window = draw_window(b, x.shape[2:], dilated=False, own_pads=False)
    ceil = b.draw(st.booleans())
    shape = (*x.shape[:2], *window.out(ceil))
    name = b.node(
        "AveragePool",
        [x.name],
        kernel_shape=window.kernel,
        strides=window.strides,
        pads=window.pads,
        ceil_mode=int(ceil),
        count_include_pad=b.draw(st.integers(0, 1)),
    )
    return b.finished(name, shape, b.draw(st.sampled_from([x.grid, None])))


def global_pool(b: Builder, x: Value) -> Value | None:
    if len(x.shape) < 3:
        return None
    shape = (*x.shape[:2], *(1 for _ in x.shape[2:]))
    name = b.node("GlobalAveragePool", [x.name])
    return b.finished(name, shape, b.draw(st.sampled_from([x.grid, None])))


def add(b: Builder, x: Value) -> Value | None:
    """A sum with any earlier value that broadcasts to this one, itself too, or with a constant."""
    other = b.any_of(lambda v: _broadcasts(v.shape, x.shape))
    assert other is not None
    name = other.name
    if b.draw(st.integers(0, 4)) == 0:
        values = b.random.integers(-127, 128, (x.shape[1], *(1 for _ in x.shape[2:])))
        name = b.node(
            "DequantizeLinear",
            [b.array(values.astype(np.int8)), b.array(np.float32(b.scale())), b.array(np.int8(0))],
        )
    op_type = b.draw(st.sampled_from(["Add", "Add", "Add", "Mul", "Sub"]))
    return b.finished(b.node(op_type, b.draw(st.permutations([x.name, name]))), x.shape)


def _broadcasts(shape: Shape, to: Shape) -> bool:
    pairs = zip(shape[::-1], to[::-1], strict=False)
    return len(shape) <= len(to) and all(size in (1, wanted) for size, wanted in pairs)


def concat(b: Builder, x: Value) -> Value | None:
    other = b.any_of(lambda v: v.shape[:1] == x.shape[:1] and v.shape[2:] == x.shape[2:])
    assert other is not None
    if x.shape[1] + other.shape[1] > 64:
        return None
    shape = (x.shape[0], x.shape[1] + other.shape[1], *x.shape[2:])
    return b.finished(b.node("Concat", [x.name, other.name], axis=1), shape)


def rescale(b: Builder, x: Value) -> Value | None:
    return b.finished(x.name, x.shape)


def move(b: Builder, x: Value) -> Value | None:
    """Ops that move elements, in a quantised shell or bare."""
    rank = len(x.shape)
    kind = b.draw(st.sampled_from(["Transpose", "Reshape", "Flatten"]))
    if kind == "Flatten":
        shape = (x.shape[0], math.prod(x.shape[1:]))
        name = b.node("Flatten", [x.name])
    elif kind == "Transpose":
        perm = b.draw(st.permutations(range(rank)))
        shape = tuple(x.shape[axis] for axis in perm)
        name = b.node("Transpose", [x.name], perm=perm)
    else:
        shape = (x.shape[0], *b.draw(st.permutations(x.shape[1:])))
        name = b.node("Reshape", [x.name, b.array(np.array(shape, np.int64))])
    if shape[1] > 200:
        return None
    return b.finished(name, shape, b.draw(st.sampled_from([x.grid, None])))


def dense(b: Builder, x: Value) -> Value | None:
    """Gemm, or MatMul and Add, on matrices; MatMul alone on tensors of more dimensions."""
    out = b.draw(st.sampled_from([3, 16, 33]))
    columns = x.shape[-1]
    transposed = len(x.shape) == 2 and b.draw(st.booleans())
    weight, scale = b.weights((out, columns) if transposed else (columns, out), 1 - transposed)
    shape, grid = (*x.shape[:-1], out), coarse(b, x, columns, [])
    if transposed:
        bias = b.bias(out, np.float32(x.grid.scale) * scale)
        return b.finished(b.node("Gemm", [x.name, weight, bias], transB=1), shape, grid)
    name = b.node("MatMul", [x.name, weight])
    if b.draw(st.booleans()):
        bias = b.bias(out, np.float32(x.grid.scale) * scale)
        name = b.node("Add", b.draw(st.permutations([name, bias])))
    return b.finished(name, shape, grid)


LAYERS = (
    conv,
    conv,
    conv,
    max_pool,
    average_pool,
    global_pool,
    add,
    add,
    concat,
    rescale,
    move,
    dense,
)
WITHOUT_MEANS = tuple(layer for layer in LAYERS if layer not in (average_pool, global_pool))
"""Layers whose results are exact in f32 when all scales are powers of two."""


@st.composite
def mixed_models(
    draw: Draw, *, exact: bool = False, longest: int = 5, layers: Sequence[Layer] = LAYERS
) -> onnx.ModelProto:
    """A net of up to `longest` layers, with one or two outputs."""
    b = Builder(draw, exact=exact)
    rank = draw(st.sampled_from([2, 3, 4, 4, 4, 4, 4, 5]))
    spatial = [draw(st.integers(1, 7 if rank < 5 else 4)) for _ in range(rank - 2)]
    first = (draw(st.sampled_from([1, 1, 2])), draw(st.sampled_from([1, 3, 4, 16, 18])), *spatial)
    value = b.quantized("x", first)
    for _ in range(draw(st.integers(1, longest))):
        made = draw(st.sampled_from(layers))(b, value)
        if made is not None:
            value = made
    outputs = [value]
    if draw(st.booleans()) and (other := b.any_of(lambda v: v is not value)):
        outputs.append(other)
    return b.model(first, outputs)


def input_shape(model: onnx.ModelProto) -> Shape:
    return tuple(d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim)
