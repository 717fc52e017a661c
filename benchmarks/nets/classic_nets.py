"""Well-known nets with seeded weights, at full size for benchmarks or reduced for tests.

Weights are He-normal; batch norms have gains near 1 and the statistics that two images give, so
that the logits of images differ. What each node gives for these images is known while a net is
built.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

IR_VERSION, OPSET = 10, 21


@dataclass(frozen=True)
class Scale:
    """How large nets are: pixels of a side, what channels are divided by, and the most blocks that
    a stage repeats."""

    pixels: int
    divisor: int
    repeats: int

    def channels(self, count: int) -> int:
        return max(count // self.divisor, 4)


FULL, REDUCED = Scale(224, 1, 99), Scale(64, 16, 1)


def images(count: int, pixels: int, seed: int) -> np.ndarray:
    """Smooth pictures [count,3,pixels,pixels], as photos are."""
    rng = np.random.default_rng(seed)
    row, column = np.meshgrid(*[np.linspace(0, 1, pixels)] * 2, indexing="ij")
    waves = np.zeros((count, 3, pixels, pixels))
    for _ in range(12):
        down, across = rng.uniform(-9, 9, (2, count, 3, 1, 1))
        phase, weight = rng.uniform(0, 6, (count, 3, 1, 1)), rng.normal(size=(count, 3, 1, 1))
        waves += weight * np.sin(down * row + across * column + phase)
    return waves.astype(np.float32)


class Net:
    """Nodes one after the other, and what the last one gives for the images."""

    def __init__(self, scale: Scale, value: np.ndarray, seed: int = 0) -> None:
        self.scale, self.nodes, self.weights = scale, list[onnx.NodeProto](), {}
        self.rng = np.random.default_rng(seed)
        self.shape = (1, *value.shape[1:])
        self.values, self.last = {"x": value}, "x"

    @property
    def value(self) -> np.ndarray:
        return self.values[self.last]

    def weight(self, array: np.ndarray) -> str:
        name = f"w{len(self.weights)}"
        self.weights[name] = array
        return name

    def normal(self, *shape: int) -> str:
        """He-normal weights [out,in,…]."""
        deviation = (2 / np.prod(shape[1:])) ** 0.5
        return self.weight(self.rng.normal(0, deviation, shape).astype(np.float32))

    def add(self, op: str, *others: str, **attributes: object) -> str:
        """A node on the last value and others, which is computed at once."""
        name = f"v{len(self.nodes)}"
        node = helper.make_node(op, [self.last, *others], [name], f"{op}_{name}", **attributes)
        known = {n: self.weights[n] if n in self.weights else self.values[n] for n in node.input}
        self.values[name] = run_node(node, known)
        self.nodes.append(node)
        self.last = name
        return name

    def conv(self, outputs: int, kernel: int, stride: int = 1, group: int = 1) -> None:
        """With a batch norm."""
        weight = self.normal(outputs, self.value.shape[1] // group, kernel, kernel)
        window = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2}
        self.add("Conv", weight, group=group, pads=[kernel // 2] * 4, **window)
        gain, offset = self.rng.normal(1, 0.1, outputs), self.rng.normal(0, 0.1, outputs)
        parts = gain, offset, self.value.mean((0, 2, 3)), self.value.var((0, 2, 3))
        self.add("BatchNormalization", *(self.weight(p.astype(np.float32)) for p in parts))

    def linear(self, outputs: int) -> None:
        weight = self.normal(outputs, self.value.shape[1])
        bias = self.weight(self.rng.normal(0, 0.1, outputs).astype(np.float32))
        self.add("Gemm", weight, bias, transB=1)

    def classify(self) -> None:
        self.add("GlobalAveragePool")
        self.add("Flatten")
        self.linear(1000)

    def model(self, *outputs: str) -> bytes:
        """The file; without names the last value is the output."""
        graph = helper.make_graph(
            self.nodes,
            "net",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)],
            [
                helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
                for name in outputs or [self.last]
            ],
            [numpy_helper.from_array(array, name) for name, array in self.weights.items()],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
        model.ir_version = IR_VERSION
        return model.SerializeToString()


def run_node(
    node: onnx.NodeProto, known: dict[str, np.ndarray], output: str | None = None
) -> np.ndarray:
    """What ONNX Runtime makes of a node on its own: its first output, or the one named."""

    def port(name: str) -> onnx.ValueInfoProto:
        kind = helper.np_dtype_to_tensor_dtype(known[name].dtype)
        return helper.make_tensor_value_info(name, kind, known[name].shape)

    names = [name for name in dict.fromkeys(node.input) if name]
    result = onnx.ValueInfoProto(name=output or node.output[0])
    graph = helper.make_graph([node], "one", [port(n) for n in names], [result])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
    model.ir_version = IR_VERSION
    return session(model.SerializeToString()).run(None, {n: known[n] for n in names})[0]


def session(model: bytes) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def started(scale: Scale) -> Net:
    return Net(scale, images(2, scale.pixels, seed=1))


def stem(net: Net) -> None:
    net.conv(net.scale.channels(64), 7, 2)
    net.add("Relu")
    net.add("MaxPool", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)


def residual(net: Net, parts: Sequence[tuple[int, int, int]]) -> None:
    """Convolutions (channels, kernel, stride) with a way around them."""
    before, inputs = net.last, net.value.shape[1]
    for i, part in enumerate(parts):
        if i:
            net.add("Relu")
        net.conv(*part)
    after, outputs = net.last, net.value.shape[1]
    stride = max(part[2] for part in parts)
    if stride != 1 or inputs != outputs:
        net.last = before
        net.conv(outputs, 1, stride)
        before = net.last
    net.last = after
    net.add("Add", before)
    net.add("Relu")


def stages(net: Net, rows: Sequence[tuple[int, int, int]]) -> Sequence[tuple[int, int]]:
    """Channels and stride of each block of stages (channels, repeats, first stride)."""
    return [
        (net.scale.channels(channels), first if i == 0 else 1)
        for channels, repeats, first in rows
        for i in range(min(repeats, net.scale.repeats))
    ]


def resnet18(scale: Scale) -> bytes:
    net = started(scale)
    stem(net)
    for channels, stride in stages(net, [(64, 2, 1), (128, 2, 2), (256, 2, 2), (512, 2, 2)]):
        residual(net, [(channels, 3, stride), (channels, 3, 1)])
    net.classify()
    return net.model()


def resnet50(scale: Scale) -> bytes:
    net = started(scale)
    stem(net)
    for channels, stride in stages(net, [(64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)]):
        residual(net, [(channels, 1, 1), (channels, 3, stride), (4 * channels, 1, 1)])
    net.classify()
    return net.model()


def mobilenet_v2(scale: Scale) -> bytes:
    net = started(scale)
    bounds = [net.weight(np.array(n, np.float32)) for n in (0, 6)]
    net.conv(scale.channels(32), 3, 2)
    net.add("Clip", *bounds)
    rows = [(16, 1, 1), (24, 2, 2), (32, 3, 2), (64, 4, 2), (96, 3, 1), (160, 3, 2), (320, 1, 1)]
    for i, (channels, stride) in enumerate(stages(net, rows)):
        before, inputs = net.last, net.value.shape[1]
        wide = inputs * (6 if i else 1)
        if i:
            net.conv(wide, 1)
            net.add("Clip", *bounds)
        net.conv(wide, 3, stride, group=wide)
        net.add("Clip", *bounds)
        net.conv(channels, 1)
        if stride == 1 and inputs == channels:
            net.add("Add", before)
    net.conv(scale.channels(1280), 1)
    net.add("Clip", *bounds)
    net.classify()
    return net.model()


def squeezenet(scale: Scale) -> bytes:
    """SqueezeNet 1.1."""
    net, pool = started(scale), {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}

    def convolved(outputs: int, kernel: int, **window: object) -> str:
        weight = net.normal(outputs, net.value.shape[1], kernel, kernel)
        bias = net.weight(net.rng.normal(0, 0.1, outputs).astype(np.float32))
        net.add("Conv", weight, bias, kernel_shape=[kernel] * 2, **window)
        return net.add("Relu")

    convolved(scale.channels(64), 3, strides=[2, 2])
    net.add("MaxPool", **pool)
    for inner, outputs, after in (
        *((16, 64, 0), (16, 64, 1), (32, 128, 0), (32, 128, 1)),
        *((48, 192, 0), (48, 192, 0), (64, 256, 0), (64, 256, 0)),
    ):
        before = convolved(scale.channels(inner), 1)
        left = convolved(scale.channels(outputs), 1)
        net.last = before
        right = convolved(scale.channels(outputs), 3, pads=[1] * 4)
        net.last = left
        net.add("Concat", right, axis=1)
        if after:
            net.add("MaxPool", **pool)
    convolved(1000, 1)
    net.add("GlobalAveragePool")
    net.add("Flatten")
    return net.model()


def vgg16(scale: Scale) -> bytes:
    net = started(scale)
    for channels, repeats in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(min(repeats, scale.repeats)):
            net.conv(scale.channels(channels), 3)
            net.add("Relu")
        net.add("MaxPool", kernel_shape=[2, 2], strides=[2, 2])
    net.add("Flatten")
    for _ in range(2):
        net.linear(scale.channels(4096))
        net.add("Relu")
    net.linear(1000)
    return net.model()


SSD_CLASSES = 21
SSD_HEADS = [(512, 1, 4), (1024, 2, 6), (512, 2, 6), (256, 2, 6)]
"""Of each place that boxes are found at: channels, stride of the convolution before, boxes at a
position."""


def ssd(scale: Scale) -> bytes:
    """The backbone and the heads of an SSD: plain convolutions as in VGG, and of four of their
    results the boxes and the classes of all positions, side by side."""
    net, boxes, classes = started(scale), list[str](), list[str]()

    def convolved(outputs: int, kernel: int, stride: int = 1) -> None:
        net.conv(outputs, kernel, stride)
        net.add("Relu")

    def head(count: int, numbers: int) -> str:
        net.conv(count * numbers, 3)
        net.add("Transpose", perm=[0, 2, 3, 1])
        return net.add("Reshape", net.weight(np.array([-1, net.value[0].size // numbers, numbers])))

    for channels in (64, 128, 256):
        convolved(scale.channels(channels), 3)
        net.add("MaxPool", kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)
    for channels, stride, count in SSD_HEADS:
        if stride > 1:
            convolved(scale.channels(channels // 2), 1)
        convolved(scale.channels(channels), 3, stride)
        found = net.last
        boxes.append(head(count, 4))
        net.last = found
        classes.append(head(count, SSD_CLASSES))
        net.last = found
    outputs = list[str]()
    for first, *others in (boxes, classes):
        net.last = first
        outputs.append(net.add("Concat", *others, axis=1))
    return net.model(*outputs)


def encoder(scale: Scale) -> bytes:
    """Two layers of a transformer's encoder, or one, norms first."""
    tokens, width, heads = max(128 // scale.divisor, 8), max(256 // scale.divisor, 16), 4
    net = Net(scale, np.random.default_rng(2).normal(size=(2, tokens, width)).astype(np.float32))
    inner = width // heads
    split, join = (
        net.weight(np.array(shape)) for shape in ([-1, tokens, heads, inner], [-1, tokens, width])
    )
    root = net.weight(np.array(inner**0.5, np.float32))

    def normed() -> str:
        gain, offset = net.rng.normal(1, 0.1, width), net.rng.normal(0, 0.1, width)
        parts = (net.weight(p.astype(np.float32)) for p in (gain, offset))
        return net.add("LayerNormalization", *parts)

    for _ in range(min(2, scale.repeats)):
        before, parts = net.last, []
        value = normed()
        for perm in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]):
            net.last = value
            net.add("MatMul", net.normal(width, width))
            net.add("Reshape", split)
            parts.append(net.add("Transpose", perm=perm))
        net.last = parts[0]
        net.add("MatMul", parts[1])
        net.add("Div", root)
        net.add("Softmax")
        net.add("MatMul", parts[2])
        net.add("Transpose", perm=[0, 2, 1, 3])
        net.add("Reshape", join)
        net.add("MatMul", net.normal(width, width))
        between = net.add("Add", before)
        normed()
        net.add("MatMul", net.normal(width, 4 * width))
        net.add("Gelu")
        net.add("MatMul", net.normal(4 * width, width))
        net.add("Add", between)
    return net.model()


NETS = {
    "ResNet-18": resnet18,
    "ResNet-50": resnet50,
    "MobileNetV2": mobilenet_v2,
    "SqueezeNet": squeezenet,
    "VGG-16": vgg16,
    "SSD": ssd,
    "encoder": encoder,
}
"""The file of each net at a scale."""


def feeds(model: bytes, seed: int) -> dict[str, np.ndarray]:
    """One input of a net: a picture, or numbers of any other shape."""
    shape = onnx.load_from_string(model).graph.input[0].type.tensor_type.shape
    sizes = [dim.dim_value for dim in shape.dim]
    if len(sizes) == 4 and sizes[1] == 3 and sizes[2] == sizes[3]:
        return {"x": images(1, sizes[2], seed)}
    return {"x": np.random.default_rng(seed).normal(size=sizes).astype(np.float32)}
