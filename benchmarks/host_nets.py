"""Well-known nets in full size, with seeded weights."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Net:
    """Layers one after the other."""

    def __init__(self, seed: int = 0) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, np.ndarray] = {}
        self.last = "x"
        self._rng = np.random.default_rng(seed)

    def weight(self, *shape: int) -> str:
        """He-normal weights, or small biases; gives their name."""
        name = f"w{len(self.weights)}"
        fan = int(np.prod(shape[1:])) if len(shape) > 1 else 200
        self.weights[name] = self._rng.normal(0, (2 / fan) ** 0.5, shape).astype(np.float32)
        return name

    def constant(self, value: object, dtype: type = np.int64) -> str:
        name = f"w{len(self.weights)}"
        self.weights[name] = np.asarray(value, dtype)
        return name

    def add(self, op: str, *others: str, **attributes: object) -> str:
        """The next layer, on the last value; gives its name."""
        name = f"v{len(self.nodes)}"
        inputs = [self.last, *others]
        self.nodes.append(helper.make_node(op, inputs, [name], f"{op}_{name}", **attributes))
        self.last = name
        return name

    def conv(self, inputs: int, outputs: int, kernel: int, stride: int = 1, group: int = 1) -> None:
        weight = self.weight(outputs, inputs // group, kernel, kernel)
        window = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2}
        pads = {"pads": [kernel // 2] * 4}
        self.add("Conv", weight, self.weight(outputs), group=group, **window, **pads)

    def model(self, shape: Sequence[int]) -> bytes:
        """The model with the last value as its output."""
        graph = helper.make_graph(
            self.nodes,
            "net",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
            [helper.make_tensor_value_info(self.last, TensorProto.FLOAT, None)],
            [numpy_helper.from_array(array, name) for name, array in self.weights.items()],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
        model.ir_version = 10
        return onnx.shape_inference.infer_shapes(model).SerializeToString()


RESIDUAL_BLOCKS = ((64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1))
"""Channels and stride of each block of ResNet-18."""


def resnet18() -> bytes:
    net = Net()
    net.conv(3, 64, 7, 2)
    net.add("Relu")
    net.add("MaxPool", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    inputs = 64
    for outputs, stride in RESIDUAL_BLOCKS:
        before = net.last
        net.conv(inputs, outputs, 3, stride)
        net.add("Relu")
        net.conv(outputs, outputs, 3)
        after = net.last
        if stride != 1:
            net.last = before
            net.conv(inputs, outputs, 1, stride)
            before = net.last
        net.last = after
        net.add("Add", before)
        net.add("Relu")
        inputs = outputs
    return _classified(net, 512)


def _classified(net: Net, channels: int) -> bytes:
    net.add("GlobalAveragePool")
    net.add("Flatten")
    net.add("Gemm", net.weight(1000, channels), transB=1)
    return net.model((1, 3, 224, 224))


MOBILE_STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
"""Expansion, channels, repeats and stride of each stage of MobileNetV2."""


def mobilenet_v2() -> bytes:
    net = Net()
    bounds = net.constant(0, np.float32), net.constant(6, np.float32)
    net.conv(3, 32, 3, 2)
    net.add("Clip", *bounds)
    inputs = 32
    for expansion, outputs, repeats, first in MOBILE_STAGES:
        for stride in (first, *[1] * (repeats - 1)):
            before, wide = net.last, inputs * expansion
            if expansion != 1:
                net.conv(inputs, wide, 1)
                net.add("Clip", *bounds)
            net.conv(wide, wide, 3, stride, wide)
            net.add("Clip", *bounds)
            net.conv(wide, outputs, 1)
            if stride == 1 and inputs == outputs:
                net.add("Add", before)
            inputs = outputs
    net.conv(320, 1280, 1)
    net.add("Clip", *bounds)
    return _classified(net, 1280)


def encoder(layers: int = 2, tokens: int = 128, width: int = 256, heads: int = 4) -> bytes:
    """A transformer's encoder, with its norms first."""
    net = Net()
    inner = width // heads
    split, join = net.constant([1, tokens, heads, inner]), net.constant([1, tokens, width])
    ones, zeros = net.constant([1] * width, np.float32), net.constant([0] * width, np.float32)
    scale = net.constant(inner**-0.5, np.float32)
    for _ in range(layers):
        before, parts = net.last, []
        normed = net.add("LayerNormalization", ones, zeros)
        for perm in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]):
            net.last = normed
            net.add("MatMul", net.weight(width, width))
            net.add("Reshape", split)
            parts.append(net.add("Transpose", perm=perm))
        net.last = parts[0]
        net.add("MatMul", parts[1])
        net.add("Mul", scale)
        net.add("Softmax")
        net.add("MatMul", parts[2])
        net.add("Transpose", perm=[0, 2, 1, 3])
        net.add("Reshape", join)
        net.add("MatMul", net.weight(width, width))
        between = net.add("Add", before)
        net.add("LayerNormalization", ones, zeros)
        net.add("MatMul", net.weight(width, 4 * width))
        net.add("Gelu")
        net.add("MatMul", net.weight(4 * width, width))
        net.add("Add", between)
    return net.model((1, tokens, width))


BOTTLENECKS = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))
"""Inner channels, repeats and first stride of each stage of ResNet-50."""


def resnet50() -> bytes:
    net = Net()
    net.conv(3, 64, 7, 2)
    net.add("Relu")
    net.add("MaxPool", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    inputs = 64
    for inner, repeats, first in BOTTLENECKS:
        for stride in (first, *[1] * (repeats - 1)):
            before, outputs = net.last, 4 * inner
            for here, there, kernel, step in (
                (inputs, inner, 1, 1),
                (inner, inner, 3, stride),
                (inner, outputs, 1, 1),
            ):
                net.conv(here, there, kernel, step)
                if there != outputs:
                    net.add("Relu")
            after = net.last
            if inputs != outputs:
                net.last = before
                net.conv(inputs, outputs, 1, stride)
                before = net.last
            net.last = after
            # As batch norms do, so that sums of many blocks stay of one size.
            net.add("Mul", net.constant(0.5, np.float32))
            net.add("Add", before)
            net.add("Relu")
            inputs = outputs
    return _classified(net, 2048)


FIRES = ((16, 64), (16, 64), (0, 0), (32, 128), (32, 128), (0, 0))
FIRES += ((48, 192), (48, 192), (64, 256), (64, 256))
"""Channels of the squeeze and of each expansion of SqueezeNet 1.1; zeros are pools."""


def squeezenet() -> bytes:
    net = Net()
    pool = {"kernel_shape": [3, 3], "strides": [2, 2]}
    weight = net.weight(64, 3, 3, 3)
    net.add("Conv", weight, net.weight(64), kernel_shape=[3, 3], strides=[2, 2])
    net.add("Relu")
    net.add("MaxPool", **pool)
    inputs = 64
    for squeezed, expanded in FIRES:
        if not squeezed:
            net.add("MaxPool", **pool)
            continue
        net.conv(inputs, squeezed, 1)
        before = net.add("Relu")
        net.conv(squeezed, expanded, 1)
        left = net.add("Relu")
        net.last = before
        net.conv(squeezed, expanded, 3)
        right = net.add("Relu")
        net.last = left
        net.add("Concat", right, axis=1)
        inputs = 2 * expanded
    net.conv(inputs, 1000, 1)
    net.add("Relu")
    net.add("GlobalAveragePool")
    net.add("Flatten")
    return net.model((1, 3, 224, 224))


VGG_STAGES = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))
"""Channels and convolutions of each stage of VGG-16."""


def vgg16() -> bytes:
    net, inputs = Net(), 3
    for outputs, repeats in VGG_STAGES:
        for _ in range(repeats):
            net.conv(inputs, outputs, 3)
            net.add("Relu")
            inputs = outputs
        net.add("MaxPool", kernel_shape=[2, 2], strides=[2, 2])
    net.add("Flatten")
    for here, there in ((512 * 49, 4096), (4096, 4096)):
        net.add("Gemm", net.weight(there, here), transB=1)
        net.add("Relu")
    net.add("Gemm", net.weight(1000, 4096), transB=1)
    return net.model((1, 3, 224, 224))


NETS = {
    "ResNet-18": resnet18,
    "ResNet-50": resnet50,
    "MobileNetV2": mobilenet_v2,
    "SqueezeNet": squeezenet,
    "VGG-16": vgg16,
    "encoder": encoder,
}
"""Each net's model file, by name."""
