"""Nodes that only quantise are found with the op that is quantised by them."""

import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper

from byocir import import_onnx
from byocir.dialects.byoc import SourceOp
from byocir.frontend.onnx.names import listed_nodes, name_nodes
from byocir.frontend.onnx.quantised_ops import quantised_ops

Q, DQ = "QuantizeLinear", "DequantizeLinear"


def found(text: str) -> dict[str, str]:
    """Who belongs to whom in a graph in ONNX's text format; nodes without a name have their type
    and number."""
    model = helper.make_model(onnx.parser.parse_graph(text))
    name_nodes(model)
    return quantised_ops(model.graph)


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        pytest.param(
            """[q0] a = QuantizeLinear(x, s) [dq0] b = DequantizeLinear(a, s)
            [dqw] w = DequantizeLinear(wq, s) [dqb] c = DequantizeLinear(bq, s)
            [conv] d = Conv(b, w, c) [q1] e = QuantizeLinear(d, s)
            [dq1] f = DequantizeLinear(e, s) [relu] g = Relu(f) [q2] h = QuantizeLinear(g, s)
            [dq2] y = DequantizeLinear(h, s)""",
            dict(q0="conv", dq0="conv", dqw="conv", dqb="conv", q1="conv", dq1="relu")
            | dict(q2="relu", dq2="relu"),
            id="what no op makes or reads belongs to the other side",
        ),
        pytest.param(
            """[conv] a = Conv(x, w) [q0] b = QuantizeLinear(a, s) [dq0] c = DequantizeLinear(b, s)
            [q1] d = QuantizeLinear(c, t) [dq1] e = DequantizeLinear(d, t) [add] y = Add(e, e)""",
            {"q0": "conv", "dq0": "add", "q1": "conv", "dq1": "add"},
            id="past others",
        ),
        pytest.param(
            """[dq] a = DequantizeLinear(x, s) [conv] b = Conv(a, w) [q] c = QuantizeLinear(b, s)
            [dq2] d = DequantizeLinear(c, s) [add] y = Add(d, a)""",
            {"dq": "conv", "q": "conv", "dq2": "add"},
            id="the first of several that read",
        ),
        pytest.param(
            """[dq] a = DequantizeLinear(x, s) [out] o = QuantizeLinear(a, t) [relu] y = Relu(a)""",
            {"dq": "relu"},
            id="a reader behind which there is no op",
        ),
        pytest.param(
            """[c] w = Constant <value_float = 1.0> () [q] a = QuantizeLinear(w, s)
            [dq] b = DequantizeLinear(a, s) [conv] y = Conv(x, b)""",
            {"q": "conv", "dq": "conv"},
            id="constants are no ops",
        ),
        pytest.param(
            """[scale] t = ReduceMax(x) [q] a = QuantizeLinear(x, t)
            [dq] b = DequantizeLinear(a, t) [relu] y = Relu(b)""",
            {"q": "relu", "dq": "relu"},
            id="what makes the scale made no value",
        ),
        pytest.param(
            """[q] a = QuantizeLinear(x, s, ) [clip] b, = Clip(x, , s)
            [dq] y = DequantizeLinear(a, s)""",
            {},
            id="no op, and operands left out",
        ),
        pytest.param(
            """[dq] a = DequantizeLinear(x, s)
            [if] y = If (k) <
                then_branch = t () => (float[4] b) { [relu] r = Relu(a)
                                                    [q] c = QuantizeLinear(r, s)
                                                    [dq2] b = DequantizeLinear(c, s) },
                else_branch = e () => (float[4] b) { [abs] r = Abs(a)
                                                    [q] c = QuantizeLinear(r, s)
                                                    [dq2] b = DequantizeLinear(c, s) }>""",
            {
                "dq": "if/then_branch/relu",
                "if/then_branch/q": "if/then_branch/relu",
                "if/then_branch/dq2": "if/then_branch/relu",
                "if/else_branch/q": "if/else_branch/abs",
                "if/else_branch/dq2": "if/else_branch/abs",
            },
            id="in branches whose values have the same names",
        ),
    ],
)
def test_of_whom(nodes: str, expected: dict[str, str]) -> None:
    assert found(f"g (float[4] x) => (float[4] y) {{ {nodes} }}") == expected


def test_the_module_lists_them() -> None:
    text = """<ir_version: 10, opset_import: ["" : 21]>
    net (float[4] x) => (float[4] y) <float s = {0.1}> {
        a = QuantizeLinear(x, s) b = DequantizeLinear(a, s) [relu] y = Relu(b)
    }"""
    source = import_onnx(onnx.parser.parse_model(text)).body.block.last_op
    assert isinstance(source, SourceOp)
    assert [node.belongs_to for node in source.entries()] == ["relu", "relu", ""]


@st.composite
def graphs(draw: st.DrawFn) -> onnx.GraphProto:
    """Nodes each of which reads values from before, the input `x` of the graph among them."""
    nodes: list[onnx.NodeProto] = []
    for i in range(draw(st.integers(1, 12))):
        kind = draw(st.sampled_from([Q, DQ, "Add"]))
        reads = [draw(st.integers(-1, i - 1)) for _ in range(1 if kind != "Add" else 2)]
        inputs = ["x" if read < 0 else f"v{read}" for read in reads]
        scale = ["s"] * (kind != "Add")
        nodes.append(helper.make_node(kind, [*inputs, *scale], [f"v{i}"], f"n{i}"))
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])
    return helper.make_graph(nodes, "g", [value], [])


@given(graphs())
def test_it_is_the_nearest_op_on_its_side(graph: onnx.GraphProto) -> None:
    nodes = {node.name: node for node in listed_nodes(graph)}
    maker = {node.output[0]: node.name for node in nodes.values()}
    readers = {n: [r.name for r in nodes.values() if nodes[n].output[0] in r.input] for n in nodes}

    def before(name: str) -> str:
        made_by = maker.get(nodes[name].input[0], "")
        return made_by if not made_by or nodes[made_by].op_type == "Add" else before(made_by)

    def behind(name: str) -> str:
        ops = (r if nodes[r].op_type == "Add" else behind(r) for r in readers[name])
        return next(filter(None, ops), "")

    owners = quantised_ops(graph)
    for name, node in nodes.items():
        near, far = (before, behind) if node.op_type == Q else (behind, before)
        expected = "" if node.op_type == "Add" else near(name) or far(name)
        assert owners.get(name, "") == expected
