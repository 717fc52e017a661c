"""Single layers between dequantize and quantize, and how to compare what they compute."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

import numpy as np
from hypothesis import strategies as st
from rewrite_nets import Net
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from byocir.dialects.graph import (
    AddOp,
    AveragePoolOp,
    ConvOp,
    GlobalAveragePoolOp,
    MatmulOp,
    ReluOp,
)

FLOAT_OPS = {"quantize", "dequantize", "average_pool", "global_average_pool"}
"""Names of ops that only work on floats."""


@dataclass
class Layer:
    """How to draw a layer's numbers: from a seed, over ranges that include the ends."""

    seed: int
    power_of_two: bool = False
    per_channel: bool = False
    bell_shaped: bool = False
    low: int = -128
    high: int = 127
    random: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.seed)

    def scale(self, size: tuple[int, ...] = ()) -> np.ndarray:
        exponents = self.random.uniform(-7, -1, size)
        if self.power_of_two:
            exponents = np.floor(exponents)
        return np.exp2(exponents).astype(np.float32)

    def data(self, shape: tuple[int, ...]) -> np.ndarray:
        if self.bell_shaped:
            return np.clip(np.rint(self.random.normal(0, 35, shape)), -128, 127).astype(np.int8)
        return self.random.integers(self.low, self.high, shape, np.int8, endpoint=True)

    def weight(self, shape: tuple[int, ...], columns: int) -> tuple[np.ndarray, np.ndarray]:
        """Bell-shaped integers, as trained weights are, and their scale or scales."""
        values = np.clip(np.rint(self.random.normal(0, 35, shape)), -127, 127).astype(np.int8)
        return values, self.scale((shape[columns],) if self.per_channel else ())

    def output_scale(self, spread: float) -> np.float32:
        """A scale on which values of this standard deviation use the range of int8, or more."""
        scale = spread / self.random.uniform(25, 60)
        return np.float32(np.exp2(np.round(np.log2(scale))) if self.power_of_two else scale)


layers = st.builds(
    lambda ends, **rest: Layer(low=ends[0], high=ends[1], **rest),
    ends=st.sampled_from([(-128, 127), (-128, -1), (0, 127), (127, 127), (-128, -128)]),
    seed=st.integers(0, 2**32 - 1),
    per_channel=st.booleans(),
)

activations = st.sampled_from([None, "relu", "clip", "clip_at_zero", "relu_clip"])


def activated(net: Net, value: SSAValue, activation: str | None, unit: float) -> SSAValue:
    """`value` behind an activation whose bounds are a few times `unit`."""
    if activation in ("relu", "relu_clip"):
        value = net.add(ReluOp.make(value))
    if activation in ("clip", "relu_clip"):
        value = net.clip(value, -20.3 * unit, 71.5 * unit)
    if activation == "clip_at_zero":
        value = net.clip(value, 0.0, None)
    return value


def dequantized_weight(net: Net, values: np.ndarray, scale: np.ndarray, columns: int) -> SSAValue:
    return net.dequantize(net.constant(values), scale, axis=columns)


def conv(
    layer: Layer,
    x_shape: tuple[int, ...],
    w_shape: tuple[int, ...],
    activation: str | None = None,
    group: int = 1,
    stride: int = 1,
    bias: bool = True,
) -> tuple[ModuleOp, np.ndarray]:
    """`quantize(conv(dequantize(x), dequantize(w), dequantize(b)))` and its input."""
    x, (w, w_scale), x_scale = layer.data(x_shape), layer.weight(w_shape, 0), layer.scale()
    rank, net = len(x_shape) - 2, Net(x)
    operands = [net.dequantize(net.arguments[0], x_scale), dequantized_weight(net, w, w_scale, 0)]
    if bias:
        integers = layer.random.integers(-2000, 2000, w_shape[0], np.int32)
        product = np.float32(x_scale * w_scale)
        operands.append(net.dequantize(net.constant(integers), product, axis=0, of=np.int32))
    pads = [size // 2 for size in w_shape[2:]] * 2
    ones, strides = [1] * rank, [stride] * rank
    value = net.add(ConvOp.make(*operands, strides=strides, pads=pads, dilations=ones, group=group))
    scale = output_scale(layer, x, w, x_scale * w_scale, prod(w_shape[1:]))
    value = activated(net, value, activation, float(scale))
    return net.returning(net.quantize(value, scale)), x


def dense(
    layer: Layer, rows: int, depth: int, columns: int, activation: str | None = None, bias=True
) -> tuple[ModuleOp, np.ndarray]:
    """`quantize(dequantize(x) @ dequantize(w) + dequantize(b))` and its input."""
    x, (w, w_scale) = layer.data((rows, depth)), layer.weight((depth, columns), 1)
    x_scale, net = layer.scale(), Net(x)
    weight = dequantized_weight(net, w, w_scale, 1)
    value = net.add(MatmulOp.make(net.dequantize(net.arguments[0], x_scale), weight))
    if bias:
        integers = net.constant(layer.random.integers(-2000, 2000, columns, np.int32))
        product = np.float32(x_scale * w_scale)
        added = net.dequantize(integers, product, axis=0, of=np.int32)
        value = net.add(AddOp.make(value, added))
    scale = output_scale(layer, x, w, x_scale * w_scale, depth)
    value = activated(net, value, activation, float(scale))
    return net.returning(net.quantize(value, scale)), x


def output_scale(layer: Layer, x: np.ndarray, w: np.ndarray, scale, terms: int) -> np.float32:
    # One-sided inputs do not cancel: the mean grows with the terms, not with their root.
    spread = np.sqrt(np.mean(np.square(x, dtype=np.float64)) * np.mean(np.square(w, dtype=float)))
    return layer.output_scale(float(spread * np.sqrt(terms) * np.mean(scale)))


def average_pool(
    layer: Layer, shape: tuple[int, ...], window: dict | None, activation: str | None = None
) -> tuple[ModuleOp, np.ndarray]:
    """A pool (global without a window) from one grid to another, and its input."""
    x, scale = layer.data(shape), layer.scale()
    out = np.float32(scale * layer.random.choice([0.25, 0.5, 1.0]))
    if not layer.power_of_two:
        out = np.float32(out * layer.random.uniform(0.7, 1.3))
    net = Net(x)
    value = net.dequantize(net.arguments[0], scale)
    if window is None:
        value = net.add(GlobalAveragePoolOp.make(value))
    else:
        value = net.add(AveragePoolOp.make(value, **window))
    value = activated(net, value, activation, float(out))
    return net.returning(net.quantize(value, out)), x


def regridded(
    layer: Layer, size: int, activation: str | None = None
) -> tuple[ModuleOp, np.ndarray]:
    """Integers from one grid to another, and the input."""
    x = layer.data((size,))
    net = Net(x)
    scale, out = layer.scale(), layer.scale()
    value = activated(net, net.dequantize(net.arguments[0], scale), activation, float(out))
    return net.returning(net.quantize(value, out)), x


def residual(
    layer: Layer, shape: tuple[int, ...], activation: str | None = None
) -> tuple[ModuleOp, list[np.ndarray]]:
    """`quantize(dequantize(a) + dequantize(b))` and its inputs."""
    inputs = [layer.data(shape), layer.data(shape)]
    net = Net(*inputs)
    scales = [layer.scale(), layer.scale()]
    terms = [net.dequantize(x, s) for x, s in zip(net.arguments, scales, strict=True)]
    out = layer.output_scale(float(np.sum(scales)) * 50)
    value = activated(net, net.add(AddOp.make(*terms)), activation, float(out))
    return net.returning(net.quantize(value, out)), inputs


def steps_apart(found: list[np.ndarray], expected: list[np.ndarray]) -> tuple[int, float]:
    """The largest difference of two int8 results, and the share of values that are equal."""
    (left,), (right,) = found, expected
    assert left.dtype == right.dtype == np.int8
    difference = np.abs(left.astype(int) - right.astype(int))
    return int(difference.max(initial=0)), float(np.mean(difference == 0))
