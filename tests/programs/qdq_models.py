"""Random quantised models as ONNX files, the way static quantisers write them."""

from __future__ import annotations

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

SCALES = (0.5, 0.25, 0.037, 0.011, 1.7)


class Model:
    """Builds a QDQ graph layer by layer; every tensor between layers is of bytes, int8 unless
    `zero`, the zero point, says otherwise.
    """

    zero: np.int8 | np.uint8 = np.int8(0)

    def __init__(self, shape: tuple[int, ...], seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.shape, self.nodes, self.initializers = shape, [], []
        self.count = 0
        self.value, self.scale = "x", 0.05
        self.value = self.requantize("x", 0.05)

    def array(self, values: np.ndarray) -> str:
        self.count += 1
        name = f"c{self.count}"
        self.initializers.append(numpy_helper.from_array(values, name))
        return name

    def node(self, op_type: str, inputs: list[str], **attributes: object) -> str:
        self.count += 1
        name = f"v{self.count}"
        self.nodes.append(
            helper.make_node(op_type, inputs, [name], f"{op_type}_{self.count}", **attributes)
        )
        return name

    def requantize(self, value: str, scale: float) -> str:
        """Q then DQ; the scale becomes that of the current value."""
        grid = [self.array(np.float32(scale)), self.array(self.zero)]
        self.scale = scale
        return self.node("DequantizeLinear", [self.node("QuantizeLinear", [value, *grid]), *grid])

    def weights(
        self, shape: tuple[int, ...], *, per_channel: bool, axis: int
    ) -> tuple[str, object]:
        values = self.random.integers(-127, 128, shape).astype(np.int8)
        scale = np.float32(0.01)
        if per_channel:
            scale = self.random.uniform(0.002, 0.02, shape[axis]).astype(np.float32)
        grid = [self.array(scale), self.array(np.zeros(scale.shape, np.int8))]
        attributes = {"axis": axis} if per_channel else {}
        weight = self.node("DequantizeLinear", [self.array(values), *grid], **attributes)
        return weight, scale

    def bias(self, size: int, weight_scale: object, *, per_channel: bool) -> str:
        values = self.random.integers(-5000, 5000, size).astype(np.int32)
        scale = (np.float32(self.scale) * weight_scale).astype(np.float32)
        attributes = {"axis": 0} if per_channel else {}
        return self.node("DequantizeLinear", [self.array(values), self.array(scale)], **attributes)

    def build(self) -> onnx.ModelProto:
        inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.first)]
        outputs = [helper.make_tensor_value_info(self.value, TensorProto.FLOAT, self.shape)]
        graph = helper.make_graph(self.nodes, "net", inputs, outputs, self.initializers)
        opset = helper.make_opsetid("", 21)
        return helper.make_model(graph, opset_imports=[opset], ir_version=10)


def conv(draw: st.DrawFn, m: Model) -> None:
    n, c, h, w = m.shape
    per_group = [k for k in (1, 2, 4, 16) if draw(st.integers(0, 3)) == 0 and c % k == 0]
    group = c // per_group[0] if per_group else 1
    out = c if per_group else draw(st.sampled_from([3, 16, 20, 32]))
    kernel = draw(st.integers(1, min(3, h, w)))
    stride, dilation = draw(st.integers(1, 2)), draw(st.integers(1, 2))
    pads = [draw(st.integers(0, 2)) for _ in range(4)]
    sizes = [
        s + p - dilation * (kernel - 1) - 1
        for s, p in ((h, pads[0] + pads[2]), (w, pads[1] + pads[3]))
    ]
    if min(sizes) < 0:
        return
    per_channel = draw(st.booleans())
    shape = (out, c // group, kernel, kernel)
    weight, scale = m.weights(shape, per_channel=per_channel, axis=0)
    inputs = [m.value, weight]
    if draw(st.booleans()):
        inputs.append(m.bias(out, scale, per_channel=per_channel))
    spacing = {"strides": [stride] * 2, "dilations": [dilation] * 2}
    value = m.node("Conv", inputs, pads=pads, group=group, **spacing)
    m.shape = (n, out, *(s // stride + 1 for s in sizes))
    finish(draw, m, value, draw(st.sampled_from([0.3, 1.0, 4.0])) * 0.05 * c**0.5 * kernel)


def finish(draw: st.DrawFn, m: Model, value: str, scale: float) -> None:
    """An activation or none, and quantisation on a drawn scale."""
    kind = draw(st.sampled_from(["none", "relu", "quantised relu", "clip"]))
    if kind == "relu":
        value = m.node("Relu", [value])
    elif kind == "quantised relu":
        value = m.node("Relu", [m.requantize(value, scale)])
    elif kind == "clip":
        bounds = [m.array(np.float32(b * scale)) for b in (-20.2, 60.4)]
        value = m.node("Clip", [value, *bounds])
    m.value = m.requantize(value, scale)


def residual(draw: st.DrawFn, m: Model) -> None:
    branch, branch_scale = m.value, m.scale
    shape = m.shape
    weight, _ = m.weights((shape[1], shape[1], 1, 1), per_channel=False, axis=0)
    other = m.requantize(m.node("Conv", [branch, weight]), draw(st.sampled_from(SCALES)))
    total = m.node("Add", draw(st.permutations([branch, other])))
    finish(draw, m, total, max(branch_scale, m.scale) * draw(st.sampled_from([1.0, 1.6])))


def pool(draw: st.DrawFn, m: Model) -> None:
    n, c, h, w = m.shape
    kernel = draw(st.integers(1, min(3, h, w)))
    stride, pad = draw(st.integers(1, 2)), draw(st.integers(0, kernel // 2))
    if kernel == 1:
        pad = 0
    attributes = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [pad] * 4}
    m.shape = (n, c, *((size + 2 * pad - kernel) // stride + 1 for size in (h, w)))
    if draw(st.booleans()):
        m.value = m.requantize(m.node("MaxPool", [m.value], **attributes), m.scale)
        return
    attributes["count_include_pad"] = draw(st.integers(0, 1))
    value = m.node("AveragePool", [m.value], **attributes)
    m.value = m.requantize(value, draw(st.sampled_from([m.scale, m.scale * 0.6])))


def rescale(draw: st.DrawFn, m: Model) -> None:
    finish(draw, m, m.value, draw(st.sampled_from(SCALES)))


def head(draw: st.DrawFn, m: Model) -> None:
    n, c = m.shape[:2]
    value = m.requantize(m.node("GlobalAveragePool", [m.value]), m.scale)
    value = m.requantize(m.node("Flatten", [value]), m.scale)
    out = draw(st.sampled_from([10, 33]))
    per_channel = draw(st.booleans())
    weight, scale = m.weights((out, c), per_channel=per_channel, axis=0)
    bias = m.bias(out, scale, per_channel=per_channel)
    value = m.node("Gemm", [value, weight, bias], transB=1)
    m.shape = (n, out)
    finish(draw, m, value, 0.3)


@st.composite
def models(draw: st.DrawFn) -> onnx.ModelProto:
    """A chain of one to four quantised layers, with or without a classifier at its end."""
    size = draw(st.integers(3, 7))
    shape = (
        draw(st.sampled_from([1, 1, 2])),
        draw(st.sampled_from([1, 3, 16, 18])),
        size,
        size + 1,
    )
    m = Model(shape, draw(st.integers(0, 2**32 - 1)))
    m.first = shape
    for _ in range(draw(st.integers(1, 4))):
        draw(st.sampled_from([conv, conv, residual, pool, rescale]))(draw, m)
    if draw(st.booleans()):
        head(draw, m)
    return m.build()


def small_net() -> onnx.ModelProto:
    """A convolution in more than one tile, a pool and a product: no stage is empty."""
    net = Model((1, 16, 8, 8), seed=0)
    net.first = net.shape
    weight, scale = net.weights((16, 16, 3, 3), per_channel=True, axis=0)
    bias = net.bias(16, scale, per_channel=True)
    value = net.node("Relu", [net.node("Conv", [net.value, weight, bias], pads=[1] * 4)])
    net.value = net.requantize(value, 0.5)
    net.value = net.node("MaxPool", [net.value], kernel_shape=[2, 2], strides=[4, 4])
    net.value = net.requantize(net.node("Flatten", [net.requantize(net.value, 0.5)]), 0.5)
    weight, scale = net.weights((10, 64), per_channel=False, axis=0)
    net.requantize(net.node("Gemm", [net.value, weight], transB=1), 2.0)
    net.nodes[-1].output[0] = net.value = "logits"
    net.shape = (1, 10)
    return net.build()


def images(shape: tuple[int, ...]) -> list[np.ndarray]:
    """Ordinary, all-negative and saturating inputs."""
    random = np.random.default_rng(0)
    plain = random.normal(0, 3, shape).astype(np.float32)
    return [plain, -np.abs(plain) - 0.1, plain * 1e4]
