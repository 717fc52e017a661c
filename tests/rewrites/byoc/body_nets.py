"""ONNX models with control flow: one built by hand, others drawn at random."""

from __future__ import annotations

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

FLOAT, BOOL, INT64 = TensorProto.FLOAT, TensorProto.BOOL, TensorProto.INT64
MAP = [1, 4, 6, 6]


def info(name: str, shape: list[int | str] | None = None, kind: int = FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def model(graph: onnx.GraphProto) -> onnx.ModelProto:
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(made, full_check=True)
    return made


def detector_head(*, typed: bool = True, seed: int = 0) -> onnx.ModelProto:
    """A convolution before a Loop, in it, in both branches of an If in it, and behind it. The If
    takes a value of its loop and one of the outer graph; weights are those of the outer graph. The
    loop's graph gives the shape of what it carries if `typed`. x [1, 4, 6, 6]."""
    rng = np.random.default_rng(seed)
    weights = {
        "w": rng.normal(size=(4, 4, 3, 3)).astype(np.float32) / 6,
        "b": rng.normal(size=4).astype(np.float32),
        "turns": np.array(3, np.int64),
        "go": np.array(True),
        "zero": np.array(0, np.float32),
    }
    body = detector_loop(MAP if typed else None)
    nodes = [
        convolved("x", "first"),
        helper.make_node("Loop", ["turns", "go", "first"], ["last", "sums"], "loop", body=body),
        convolved("last", "y"),
    ]
    initializers = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    return model(
        helper.make_graph(
            nodes, "head", [info("x", MAP)], [info("y", MAP), info("sums", ["k"])], initializers
        )
    )


def convolved(source: str, result: str) -> onnx.NodeProto:
    return helper.make_node("Conv", [source, "w", "b"], [result], result, pads=[1] * 4)


def detector_loop(carried: list[int | str] | None) -> onnx.GraphProto:
    """The graph of the loop, which carries a value of this shape."""
    then = helper.make_graph(
        [
            convolved("now", "then_conv"),
            helper.make_node("Relu", ["then_conv"], ["then_r"], "then_r"),
        ],
        "then",
        [],
        [info("then_r", MAP)],
    )
    other = helper.make_graph(
        [convolved("first", "else_conv")], "else", [], [info("else_conv", MAP)]
    )
    return helper.make_graph(
        [
            helper.make_node("Identity", ["on"], ["still"], "still"),
            convolved("now", "inner"),
            helper.make_node("ReduceSum", ["inner"], ["total"], "total", keepdims=0),
            helper.make_node("Greater", ["total", "zero"], ["positive"], "positive"),
            helper.make_node(
                "If", ["positive"], ["next"], "choose", then_branch=then, else_branch=other
            ),
        ],
        "body",
        [info("i", [], INT64), info("on", [], BOOL), info("now", carried)],
        [info("still", [], BOOL), info("next", carried), info("total", [])],
    )


class _Nodes:
    """A graph in the making on vectors of four floats; names are unique in the whole model."""

    def __init__(self, draw: st.DrawFn, names: list[str], used: list[str], depth: int) -> None:
        self.draw, self.depth, self.used = draw, depth, used
        self.visible, self.nodes = list(names), list[onnx.NodeProto]()

    def fresh(self) -> str:
        self.used.append(f"v{len(self.used)}")
        return self.used[-1]

    def value(self) -> str:
        return self.draw(st.sampled_from(self.visible))

    def add(self, kind: str, *inputs: str, outputs: int = 1, **attributes: object) -> list[str]:
        made = [self.fresh() for _ in range(outputs)]
        self.nodes.append(helper.make_node(kind, inputs, made, **attributes))
        return made

    def fill(self, most: int = 4) -> None:
        """Adds some nodes."""
        kinds = ["Add", "Relu", "Relu", "Softmax"]
        kinds += ["If", "Loop", "Scan"] if self.depth else []
        for kind in self.draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=most)):
            if kind == "Add":
                made = self.add(kind, self.value(), self.value())
            elif kind in ("Relu", "Softmax"):
                made = self.add(kind, self.value())
            else:
                made = {"If": self.choice, "Loop": self.loop, "Scan": self.scan}[kind]()
            self.visible += made

    def inner(self, *arguments: str) -> _Nodes:
        nodes = _Nodes(self.draw, [*self.visible, *arguments], self.used, self.depth - 1)
        nodes.fill(3)
        return nodes

    def graph(self, inputs: list, outputs: list[str], flags: list[str] = ()) -> onnx.GraphProto:
        """Outputs are copied: they may be values from outside."""
        ports = [info(name, [], BOOL) for name in flags]
        for name in outputs:
            ports.append(info(self.add("Identity", name)[0], [4]))
        return helper.make_graph(self.nodes, "inner", inputs, ports)

    def choice(self) -> list[str]:
        (total,) = self.add("ReduceSum", self.value(), keepdims=0)
        (condition,) = self.add("Greater", total, "half")
        branches = [self.inner() for _ in range(2)]
        then, other = (nodes.graph([], [nodes.value()]) for nodes in branches)
        return self.add("If", condition, then_branch=then, else_branch=other)

    def loop(self) -> list[str]:
        count, on, carried = (self.fresh() for _ in range(3))
        nodes = self.inner(carried)
        (still,) = nodes.add("Identity", on)
        typed = self.draw(st.booleans())
        inputs = [info(count, [], INT64), info(on, [], BOOL), info(carried, [4] if typed else None)]
        body = nodes.graph(inputs, [nodes.value(), nodes.value()], [still])
        turns = self.draw(st.sampled_from(["none", "one", "two"]))
        last, rows = self.add("Loop", turns, "go", self.value(), outputs=2, body=body)
        (rows,) = self.add("ReduceSum", rows, "axes", keepdims=0)
        return [last, rows]

    def scan(self) -> list[str]:
        state, row = self.fresh(), self.fresh()
        nodes = self.inner(state, row)
        body = nodes.graph([info(state, [4]), info(row, [4])], [nodes.value(), nodes.value()])
        back = [self.draw(st.integers(0, 1))]
        last, rows = self.add(
            *("Scan", self.value(), "rows"),
            outputs=2,
            body=body,
            num_scan_inputs=1,
            scan_input_directions=back,
            scan_output_axes=[1],
        )
        (rows,) = self.add("ReduceSum", rows, "last_axis", keepdims=0)
        return [last, rows]


@st.composite
def models(draw) -> onnx.ModelProto:
    """Models from x and y to several results, with up to two levels of control flow."""
    nodes = _Nodes(draw, ["x", "y", "c"], [], 2)
    nodes.fill()
    made = [name for name in nodes.visible if name not in ("x", "y", "c")]
    results = draw(st.lists(st.sampled_from(made), min_size=1, max_size=3, unique=True))
    weights = {
        "c": np.array([0.5, -1, 2, 0.25], np.float32),
        "rows": np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4),
        "half": np.array(0.5, np.float32),
        "none": np.array(0, np.int64),
        "one": np.array(1, np.int64),
        "two": np.array(2, np.int64),
        "go": np.array(True),
        "axes": np.array([0], np.int64),
        "last_axis": np.array([1], np.int64),
    }
    initializers = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    ports = [info(name, [4]) for name in results]
    return model(
        helper.make_graph(nodes.nodes, "net", [info("x", [4]), info("y", [4])], ports, initializers)
    )


def attention_of(source: str) -> list[onnx.NodeProto]:
    """The nodes from rows to `less`, their attention to each other."""
    nodes: list[onnx.NodeProto] = []

    def qdq(name: str) -> str:
        nodes.append(
            helper.make_node("QuantizeLinear", [name, "s", "z"], [f"{name}_q"], f"{name}_Q")
        )
        nodes.append(
            helper.make_node(
                "DequantizeLinear", [f"{name}_q", "s", "z"], [f"{name}_d"], f"{name}_D"
            )
        )
        return f"{name}_d"

    rows = qdq(source)
    nodes.append(helper.make_node("Transpose", [rows], ["columns"], "columns", perm=[0, 2, 1]))
    nodes.append(helper.make_node("MatMul", [rows, "columns"], ["scores"], "scores"))
    nodes.append(helper.make_node("MatMul", [qdq("scores"), rows], ["mix"], "mix"))
    nodes.append(helper.make_node("Mul", [qdq("mix"), "part"], ["less"], "less"))
    return nodes


def quantised_attention(kind: str) -> onnx.ModelProto:
    """x [2, 16, 16] through an attention of its rows, scores and mixture as products of two
    activations in QDQ form, in the graph of an op: a Loop of two turns, a Scan over `steps`
    [3, 2, 16, 16] that are added, or the branch of an If."""
    shape = [2, 16, 16]
    nodes = attention_of({"Scan": "sum", "Loop": "now", "If": "x"}[kind])
    if kind == "Scan":
        nodes.insert(0, helper.make_node("Add", ["now", "step"], ["sum"], "sum"))
    result = info("less", shape)
    now, state = info("now", shape), [info("on", [], BOOL)]
    if kind == "Loop":
        nodes.append(helper.make_node("Identity", ["on"], ["still"], "still"))
        body = helper.make_graph(
            nodes, "body", [info("i", [], INT64), *state, now], [info("still", [], BOOL), result]
        )
        flow = helper.make_node("Loop", ["turns", "go", "x"], ["y"], "flow", body=body)
    elif kind == "Scan":
        body = helper.make_graph(nodes, "body", [now, info("step", shape)], [result])
        flow = helper.make_node("Scan", ["x", "steps"], ["y"], "flow", body=body, num_scan_inputs=1)
    else:
        body = helper.make_graph(nodes, "body", [], [result])
        same = helper.make_node("Identity", ["x"], ["same"], "same")
        other = helper.make_graph([same], "other", [], [info("same", shape)])
        flow = helper.make_node("If", ["go"], ["y"], "flow", then_branch=body, else_branch=other)
    inputs = [info("x", shape), info("go", [], BOOL)]
    inputs += [info("steps", [3, *shape])] if kind == "Scan" else []
    weights = {"turns": 2, "s": np.float32(0.25), "z": np.int8(0), "part": np.float32(1 / 16)}
    initializers = [numpy_helper.from_array(np.asarray(a), name) for name, a in weights.items()]
    return model(helper.make_graph([flow], "net", inputs, [info("y", shape)], initializers))
