"""Nets of many branches and with control flow, built from a seed."""

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Net:
    """Nodes and weights in the making; `conv` gives the name of its value."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def weight(self, name: str, values: np.ndarray) -> str:
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def add(self, kind: str, inputs: Sequence[str], name: str, **attributes: object) -> str:
        self.nodes.append(helper.make_node(kind, inputs, [name], f"{name}_{kind}", **attributes))
        return name

    def conv(self, x: str, sizes: tuple[int, int], name: str, kernel: int = 1, stride: int = 1):
        inputs, outputs = sizes
        spread = np.float32(np.sqrt(2 / (inputs * kernel * kernel)))
        shape = (outputs, inputs, kernel, kernel)
        w = self.weight(f"{name}_w", self.rng.normal(size=shape).astype(np.float32) * spread)
        b = self.weight(f"{name}_b", self.rng.normal(size=outputs).astype(np.float32) / 4)
        pads = [kernel // 2] * 4
        return self.add("Conv", [x, w, b], name, pads=pads, strides=[stride] * 2)

    def conv_relu(
        self, x: str, sizes: tuple[int, int], name: str, kernel: int = 1, stride: int = 1
    ):
        return self.add("Relu", [self.conv(x, sizes, name, kernel, stride)], f"{name}_r")

    def model(
        self, inputs: dict[str, list[int]], outputs: dict[str, tuple[int, list[int | str]]]
    ) -> onnx.ModelProto:
        """`outputs` are names with element types and shapes."""
        float_ = TensorProto.FLOAT
        graph = helper.make_graph(
            self.nodes,
            "net",
            [helper.make_tensor_value_info(name, float_, shape) for name, shape in inputs.items()],
            [helper.make_tensor_value_info(name, *type_) for name, type_ in outputs.items()],
            self.weights,
        )
        opsets = [helper.make_opsetid("", 17)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def inception(seed: int = 0, modules: int = 2) -> onnx.ModelProto:
    """Modules of four branches that are concatenated, then a classifier: x [1, 3, 24, 24]."""
    net = Net(seed)
    x, channels = net.conv_relu("x", (3, 16), "stem", 3, 2), 16
    for module in range(modules):
        name = f"m{module}"
        branches = [net.conv_relu(x, (channels, 8), f"{name}_1x1")]
        for kernel in (3, 5):
            narrow = net.conv_relu(x, (channels, 8), f"{name}_{kernel}_reduce")
            branches.append(net.conv_relu(narrow, (8, 8), f"{name}_{kernel}", kernel))
        pooled = net.add(
            "MaxPool", [x], f"{name}_pool", kernel_shape=[3, 3], pads=[1] * 4, strides=[1, 1]
        )
        branches.append(net.conv_relu(pooled, (channels, 8), f"{name}_proj"))
        x, channels = net.add("Concat", branches, f"{name}_out", axis=1), 32
    flat = net.add("Flatten", [net.add("GlobalAveragePool", [x], "gap")], "flat", axis=1)
    w = net.weight("fc_w", net.rng.normal(size=(channels, 10)).astype(np.float32))
    logits = net.add("MatMul", [flat, w], "logits")
    net.add("Softmax", [logits], "y", axis=1)
    return net.model({"x": [1, 3, 24, 24]}, {"y": (TensorProto.FLOAT, [1, 10])})


def detector(seed: int = 1) -> onnx.ModelProto:
    """A head in the way of SSD: boxes and scores from two maps, NonMaxSuppression, an If that takes
    the best box or none, and a Loop that adds the boxes found: x [1, 3, 32, 32]."""
    net = Net(seed)
    first = net.conv_relu("x", (3, 16), "f1", 3, 4)
    second = net.conv_relu(first, (16, 16), "f2", 3, 2)
    for kind, count in (("boxes", 4), ("scores", 2)):
        rows = net.weight(f"{kind}_rows", np.array([1, -1, count], np.int64))
        maps: list[str] = []
        for i, value in enumerate((first, second)):
            conv = net.conv(value, (16, count), f"{kind}{i}", 3)
            last = net.add("Transpose", [conv], f"{kind}{i}_t", perm=[0, 2, 3, 1])
            maps.append(net.add("Reshape", [last, rows], f"{kind}{i}_f"))
        net.add("Concat", maps, f"{kind}_all", axis=1)
    chances = net.add("Softmax", ["scores_all"], "chances", axis=2)
    classes = net.add("Transpose", [chances], "classes", perm=[0, 2, 1])
    most = net.weight("most", np.array([5], np.int64))
    overlap, least = (
        net.weight(n, np.array([v], np.float32)) for n, v in (("iou", 0.5), ("t", 0.4))
    )
    net.add("NonMaxSuppression", ["boxes_all", classes, most, overlap, least], "picked")
    _add_if(net)
    _add_loop(net)
    return net.model(
        {"x": [1, 3, 32, 32]},
        {
            "picked": (TensorProto.INT64, ["found", 3]),
            "best": (TensorProto.FLOAT, [1, 4]),
            "sum": (TensorProto.FLOAT, [1, 4]),
        },
    )


def _add_if(net: Net) -> None:
    """`best`: the first box that was picked, or zeros."""
    net.add("Shape", ["picked"], "picked_shape")
    zero = net.weight("zero", np.array(0, np.int64))
    net.add("Gather", ["picked_shape", zero], "count", axis=0)
    net.add("Greater", ["count", zero], "any")
    two = net.weight("two", np.array(2, np.int64))
    then = [
        helper.make_node("Gather", ["picked", zero], ["row"], "row", axis=0),
        helper.make_node("Gather", ["row", two], ["which"], "which", axis=0),
        helper.make_node("Gather", ["boxes_all", "which"], ["one"], "one", axis=1),
    ]
    none = helper.make_node(
        "Constant",
        [],
        ["none"],
        "none",
        value=numpy_helper.from_array(np.zeros((1, 4), np.float32)),
    )
    branches = {
        "then_branch": _graph(then, "one"),
        "else_branch": _graph([none], "none"),
    }
    net.add("If", ["any"], "best", **branches)


def _graph(nodes: list[onnx.NodeProto], output: str) -> onnx.GraphProto:
    info = helper.make_tensor_value_info(output, TensorProto.FLOAT, [1, 4])
    return helper.make_graph(nodes, output, [], [info])


def _add_loop(net: Net) -> None:
    """`sum`: the coordinates of the boxes that were picked, added one by one."""
    start = net.weight("start", np.zeros((1, 4), np.float32))
    go = net.weight("go", np.array(True))
    body = [
        helper.make_node("Gather", ["picked", "i"], ["b_row"], "b_row", axis=0),
        helper.make_node("Gather", ["b_row", "two"], ["b_which"], "b_which", axis=0),
        helper.make_node("Gather", ["boxes_all", "b_which"], ["b_box"], "b_box", axis=1),
        helper.make_node("Add", ["so_far", "b_box"], ["next"], "next"),
        helper.make_node("Identity", ["on"], ["still"], "still"),
    ]
    inputs = [
        helper.make_tensor_value_info("i", TensorProto.INT64, []),
        helper.make_tensor_value_info("on", TensorProto.BOOL, []),
        helper.make_tensor_value_info("so_far", TensorProto.FLOAT, [1, 4]),
    ]
    outputs = [
        helper.make_tensor_value_info("still", TensorProto.BOOL, []),
        helper.make_tensor_value_info("next", TensorProto.FLOAT, [1, 4]),
    ]
    graph = helper.make_graph(body, "body", inputs, outputs)
    net.add("Loop", ["count", go, start], "sum", body=graph)
