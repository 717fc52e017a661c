"""Two calls of one region function on the accelerator: the same code, each call its own inputs."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import byocir
from byocir.runtime.report_text import explain

SHAPE = [1, 16, 6, 6]


def pools_around_a_softmax() -> onnx.ModelProto:
    """Two equal max pools, quantised to int8, with a softmax between them that is not."""
    nodes: list[onnx.NodeProto] = []

    def quantized(value: str, name: str) -> str:
        nodes.append(
            helper.make_node("QuantizeLinear", [value, "s", "z"], [f"{name}_q"], f"{name}_Q")
        )
        nodes.append(
            helper.make_node(
                "DequantizeLinear", [f"{name}_q", "s", "z"], [f"{name}_d"], f"{name}_D"
            )
        )
        return f"{name}_d"

    def pool(value: str, name: str) -> str:
        sizes = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [1, 1]}
        operands = [quantized(value, f"{name}_in")]
        nodes.append(helper.make_node("MaxPool", operands, [name], name, **sizes))
        return quantized(name, f"{name}_out")

    first = pool("x", "pool_1")
    nodes.append(helper.make_node("Softmax", [first], ["h"], "soft", axis=1))
    last = pool("h", "pool_2")
    graph = helper.make_graph(
        nodes,
        "pools",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info(last, TensorProto.FLOAT, SHAPE)],
        [
            numpy_helper.from_array(np.float32(1 / 64), "s"),
            numpy_helper.from_array(np.int8(0), "z"),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def test_equal_regions_run_the_same_program(tmp_path):
    model = pools_around_a_softmax()
    package = byocir.compile(model)
    assert [region.symbol for region in package.report.regions] == ["vta_0", "vta_0"]
    assert [name for name in package.blobs["vta"] if name.endswith(".json")] == ["vta_0.json"]
    x = np.random.default_rng(1).normal(size=SHAPE).astype(np.float32)
    reference = byocir.compile(model, placement={"pool_.*": "host"})
    assert not reference.report.regions
    expected = reference.run({"x": x})
    package.save(tmp_path / "pools.bpkg")
    for each in (package, byocir.load(tmp_path / "pools.bpkg")):
        found = each.run({"x": x})
        assert {k: v.tobytes() for k, v in found.items()} == {
            k: v.tobytes() for k, v in expected.items()
        }


def test_each_call_is_explained_for_itself():
    report = byocir.compile(pools_around_a_softmax()).report
    for name in ("pool_1", "pool_2"):
        assert explain(report, name).splitlines()[0].startswith(f"{name}  MaxPool  vta_0 (")
    assert "vta_0 (call 2) is apart from vta_0 (call 1): graph.dequantize" in explain(
        report, "pool_2"
    )
