"""Small float models with the layers of well-known nets."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper, numpy_helper

OPSET = 21


def model_of(nodes, inputs, outputs, weights=None):
    """A float model; outputs have the types that onnx infers."""
    import onnx

    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()],
        [helper.make_tensor_value_info(n, TensorProto.UNDEFINED, None) for n in outputs],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in (weights or {}).items()],
    )
    for i, node in enumerate(graph.node):
        node.name = node.name or f"{node.op_type}_{i}"
    for output in graph.output:
        output.ClearField("type")
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
    model.ir_version = 10
    return onnx.shape_inference.infer_shapes(model, strict_mode=False)


class Net:
    """Layers one after the other, with seeded weights."""

    def __init__(self, x="x", seed=0):
        self.nodes, self.weights, self.last = [], {}, x
        self._rng = np.random.default_rng(seed)

    def weight(self, *shape, scale=None):
        name = f"w{len(self.weights)}"
        scale = scale if scale is not None else np.sqrt(2 / max(np.prod(shape[1:]), 1))
        self.weights[name] = (self._rng.normal(size=shape) * scale).astype(np.float32)
        return name

    def add(self, op, *others, **attributes):
        """The next layer, on the last value; gives its name."""
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, [self.last, *others], [name], **attributes))
        self.last = name
        return name

    def conv(self, inputs, outputs, kernel, stride=1, group=1, top=6.0):
        pad = kernel // 2
        weight = self.weight(outputs, inputs // group, kernel, kernel)
        window = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [pad] * 4}
        self.add("Conv", weight, self.weight(outputs, scale=0.1), group=group, **window)
        if top:
            self.weights.update(low=np.float32(0), high=np.float32(top))
            self.add("Clip", "low", "high")


def depthwise_net(size=16, seed=0):
    """Inverted residuals as in MobileNetV2: expand, depthwise, project, add."""
    net = Net(seed=seed)
    net.conv(3, 8, 3, 2)
    for inputs, outputs, stride in ((8, 8, 1), (8, 12, 2), (12, 12, 1)):
        before = net.last
        net.conv(inputs, 4 * inputs, 1)
        net.conv(4 * inputs, 4 * inputs, 3, stride, group=4 * inputs)
        net.conv(4 * inputs, outputs, 1, top=None)
        if inputs == outputs and stride == 1:
            net.add("Add", before)
    net.add("GlobalAveragePool")
    net.add("Flatten")
    net.add("Gemm", net.weight(10, 12), transB=1)
    net.add("Softmax")
    return model_of(net.nodes, {"x": (1, 3, size, size)}, [net.last], net.weights)


def attention(tokens=6, width=16, heads=4, seed=1):
    """One layer of a transformer's encoder, with its norms and gelu."""
    net = Net(seed=seed)
    ones, zeros = np.ones(width, np.float32), np.zeros(width, np.float32)
    net.weights.update(ones=ones, zeros=zeros, half=np.float32((width // heads) ** -0.5))
    net.weights["split"] = np.array([1, tokens, heads, width // heads])
    net.weights["join"] = np.array([1, tokens, width])
    net.add("LayerNormalization", "ones", "zeros")
    normed, parts = net.last, []
    for perm in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]):
        net.last = normed
        net.add("MatMul", net.weight(width, width))
        net.add("Reshape", "split")
        parts.append(net.add("Transpose", perm=perm))
    net.last = parts[0]
    net.add("MatMul", parts[1])
    net.add("Mul", "half")
    net.add("Softmax")
    net.add("MatMul", parts[2])
    net.add("Transpose", perm=[0, 2, 1, 3])
    net.add("Reshape", "join")
    net.add("MatMul", net.weight(width, width))
    residual = net.add("Add", "x")
    net.add("LayerNormalization", "ones", "zeros")
    net.add("MatMul", net.weight(width, 4 * width))
    net.add("Gelu")
    net.add("MatMul", net.weight(4 * width, width))
    net.add("Add", residual)
    return model_of(net.nodes, {"x": (1, tokens, width)}, [net.last], net.weights)


def recurrent():
    """An LSTM in both directions, of which the best states are added to by scatter, in 16 bits."""
    rng = np.random.default_rng(3)
    weights = {
        "w": rng.normal(size=(2, 16, 3)).astype(np.float32),
        "r": rng.normal(size=(2, 16, 4)).astype(np.float32),
        "k": np.array([2]),
        "axes": np.array([2]),
        "at": np.array([[[[1], [1]], [[0], [1]]]] * 5),
        "ones": np.ones((5, 2, 2, 1), np.float16),
    }
    weights["at"] = weights["at"].reshape(5, 2, 2, 1)
    nodes = [
        helper.make_node(
            "LSTM", ["x", "w", "r"], ["s", "h", "c"], hidden_size=4, direction="bidirectional"
        ),
        helper.make_node("TopK", ["s", "k"], ["v", "i"]),
        helper.make_node("Cast", ["v"], ["f"], to=TensorProto.FLOAT16),
        helper.make_node("ScatterElements", ["f", "at", "ones"], ["y"], axis=3, reduction="add"),
        helper.make_node("Cast", ["y"], ["z"], to=TensorProto.FLOAT),
    ]
    return model_of(nodes, {"x": (5, 2, 3)}, ["z", "i", "c"], weights)
