"""Whole quantised nets, built from a seed: a ResNet-18, a MobileNetV2, an encoder, an LSTM cell."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from qdq_models import Model


class Net(Model):
    """Layers whose results are bytes on grids that hold about what comes."""

    def __init__(
        self,
        shape: tuple[int, ...],
        seed: int = 0,
        *,
        per_channel: bool = True,
        zero: np.int8 | np.uint8 = Model.zero,
    ) -> None:
        self.zero = zero
        super().__init__(shape, seed)
        self.first, self.per_channel = shape, per_channel

    def conv(
        self,
        value: str,
        channels: tuple[int, int],
        kernel: int = 3,
        stride: int = 1,
        *,
        group: int = 1,
        relu: bool = True,
        bias: bool = True,
        pads: Sequence[int] | None = None,
        dilation: int = 1,
    ) -> str:
        inputs, outputs = channels[0] // group, channels[1]
        dimensions = len(self.first) - 2
        shape = (outputs, inputs, *[kernel] * dimensions)
        weight, scale = self.weights(shape, per_channel=self.per_channel, axis=0)
        operands = [value, weight]
        if bias:
            operands.append(self.bias(outputs, scale, per_channel=self.per_channel))
        window = {"pads": pads or [kernel // 2] * 2 * dimensions, "strides": [stride] * dimensions}
        window["dilations"] = [dilation] * dimensions
        made = self.node("Conv", operands, group=group, **window)
        made = self.node("Relu", [made]) if relu else made
        return self.requantize(made, self.scale * 0.6 * np.sqrt(inputs) * kernel / 2)

    def add(self, a: str, b: str, *, relu: bool = False) -> str:
        total = self.node("Add", [a, b])
        return self.requantize(self.node("Relu", [total]) if relu else total, self.scale * 1.3)

    def dense(self, value: str, sizes: tuple[int, int], *, relu: bool = False) -> str:
        """The product of the last dimension with weights, and a bias."""
        weight, _ = self.weights(sizes, per_channel=False, axis=1)
        bias = self.bias(sizes[1], np.float32(0.01), per_channel=False)
        made = self.node("Add", [self.node("MatMul", [value, weight]), bias])
        made = self.node("Relu", [made]) if relu else made
        return self.requantize(made, self.scale * 0.5 * np.sqrt(sizes[0]))

    def pooled(self, value: str, channels: int, classes: int) -> onnx.ModelProto:
        """Global average pool and classifier."""
        value = self.requantize(self.node("GlobalAveragePool", [value]), self.scale)
        value = self.requantize(self.node("Flatten", [value]), self.scale)
        weight, _ = self.weights((classes, channels), per_channel=False, axis=0)
        value = self.requantize(self.node("Gemm", [value, weight], transB=1), self.scale * 3)
        return self.of(value, (self.first[0], classes))

    def of(self, value: str, shape: tuple[int, ...]) -> onnx.ModelProto:
        """The model with this value as its result."""
        self.value, self.shape = value, shape
        return self.build()


class UnsignedNet(Net):
    """A net whose weights are unsigned, with zero points: less these a few of them, or `most`, need
    nine bits."""

    def __init__(self, shape: tuple[int, ...], *, most: bool = False, per_channel: bool = False):
        super().__init__(shape, per_channel=per_channel, zero=np.uint8(121))
        self.most = most

    def weights(
        self, shape: tuple[int, ...], *, per_channel: bool, axis: int
    ) -> tuple[str, np.ndarray]:
        size = shape[axis : axis + 1] if per_channel else ()
        zeros = self.random.integers(100, 120, size).astype(np.uint8)
        values = self.random.normal(115, 160 if self.most else 30, shape)
        values[(-1,) * len(shape)] = 255
        values = values.clip(0, 255).astype(np.uint8)
        scale = self.random.uniform(0.002, 0.02, size).astype(np.float32)
        grid = [self.array(scale), self.array(zeros)]
        attributes = {"axis": axis} if per_channel else {}
        weight = self.node("DequantizeLinear", [self.array(values), *grid], **attributes)
        return weight, np.asarray(scale)


def resnet18(
    size: int = 16,
    widths: Sequence[int] = (16, 16, 32, 32),
    blocks: int = 2,
    *,
    per_channel: bool = True,
    zero: np.int8 | np.uint8 = Net.zero,
) -> onnx.ModelProto:
    """ResNet-18: a stem, four stages of residual blocks (two), a classifier."""
    net = Net((1, 3, size, size), per_channel=per_channel, zero=zero)
    value, channels = net.conv(net.value, (3, widths[0]), 7, 2), widths[0]
    pool = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4}
    value = net.requantize(net.node("MaxPool", [value], **pool), net.scale)
    for stage, width in enumerate(widths):
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            scale = net.scale
            inner = net.conv(value, (channels, width), 3, stride)
            inner = net.conv(inner, (width, width), 3, relu=False)
            if channels != width or stride > 1:
                inner_scale, net.scale = net.scale, scale
                value = net.conv(value, (channels, width), 1, stride, relu=False)
                net.scale = max(net.scale, inner_scale)
            value, channels = net.add(inner, value, relu=True), width
    return net.pooled(value, channels, 10)


def mobilenet(size: int = 16, widths: Sequence[int] = (8, 12, 12, 24)) -> onnx.ModelProto:
    """MobileNetV2: inverted residuals of pointwise and depthwise convolutions."""
    net = Net((1, 3, size, size))
    value, channels = net.conv(net.value, (3, widths[0]), 3, 2), widths[0]
    for i, width in enumerate(widths[1:]):
        wide, stride = 3 * channels, 2 if i % 2 == 0 else 1
        inner = net.conv(value, (channels, wide), 1)
        inner = net.conv(inner, (wide, wide), 3, stride, group=wide)
        inner = net.conv(inner, (wide, width), 1, relu=False)
        value = net.add(inner, value) if stride == 1 and channels == width else inner
        channels = width
    return net.pooled(value, channels, 10)


def encoder(
    layers: int = 2,
    tokens: int = 10,
    width: int = 32,
    heads: int = 2,
    *,
    zero: np.int8 | np.uint8 = Net.zero,
) -> onnx.ModelProto:
    """A transformer encoder with int8 products: projections, scores, contexts, feed-forward."""
    net = Net((1, tokens, width), zero=zero)
    value = net.value
    for _ in range(layers):
        value = _normed(net, value, _attention(net, value, tokens, width, heads), width)
        inner = net.dense(net.dense(value, (width, 2 * width), relu=True), (2 * width, width))
        value = _normed(net, value, inner, width)
    return net.of(value, (1, tokens, width))


def _attention(net: Net, value: str, tokens: int, width: int, heads: int) -> str:
    scale, inner = net.scale, width // heads
    split = net.array(np.array([1, tokens, heads, inner], np.int64))
    parts: list[str] = []
    for perm in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]):
        net.scale = scale
        part = net.node("Reshape", [net.dense(value, (width, width)), split])
        parts.append(net.requantize(net.node("Transpose", [part], perm=perm), net.scale))
    query, key, contents = parts
    grid = net.scale
    scores = net.requantize(net.node("MatMul", [query, key]), grid * grid * 20)
    scores = net.node("Mul", [scores, net.array(np.float32(1 / np.sqrt(inner) / 10))])
    chances = net.requantize(net.node("Softmax", [scores], axis=-1), 1 / 128)
    context = net.requantize(net.node("MatMul", [chances, contents]), grid)
    context = net.node("Transpose", [context], perm=[0, 2, 1, 3])
    whole = net.array(np.array([1, tokens, width], np.int64))
    joined = net.requantize(net.node("Reshape", [context, whole]), grid)
    return net.dense(joined, (width, width))


def _normed(net: Net, value: str, inner: str, width: int) -> str:
    total = net.node("Add", [value, inner])
    ones, zeros = np.ones(width, np.float32), np.zeros(width, np.float32)
    grid = [net.array(ones), net.array(zeros)]
    return net.requantize(net.node("LayerNormalization", [total, *grid], axis=-1), 0.03)


def lstm_cell(steps: int = 3, size: int = 16) -> onnx.ModelProto:
    """A few steps of an LSTM cell written out: products of input and state, gates in float."""
    net = Net((1, size))
    x, state = net.value, net.value
    memory = net.array(np.zeros((1, size), np.float32))
    for _ in range(steps):
        net.scale = 0.05
        gates = net.dense(x, (size, 4 * size))
        net.scale = 0.05
        gates = net.node("Add", [gates, net.dense(state, (size, 4 * size))])
        sizes = net.array(np.array([size] * 4, np.int64))
        net.count += 1
        names = [f"gate{net.count}_{i}" for i in range(4)]
        split = onnx.helper.make_node("Split", [gates, sizes], names, f"Split_{net.count}", axis=1)
        net.nodes.append(split)
        let_in, out, keep = (net.node("Sigmoid", [names[i]]) for i in (0, 1, 2))
        new = net.node("Mul", [let_in, net.node("Tanh", [names[3]])])
        memory = net.node("Add", [net.node("Mul", [keep, memory]), new])
        hidden = net.node("Mul", [out, net.node("Tanh", [memory])])
        state = net.requantize(hidden, 0.05)
    return net.of(state, (1, size))
