"""Models handed over and exported, what runs them, and what they are compared by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

import byocir
from byocir.patterns import Composite, constant, op, optional, wildcard
from byocir.runtime.report_text import node_lines

DIGITS = Path(__file__).parents[2] / "examples" / "digits"
SHAPES = {"image": (1, 1, 8, 8)}
IMAGE = {"image": np.random.default_rng(0).normal(0, 1, (1, 1, 8, 8)).astype(np.float32)}
X = np.random.default_rng(1).normal(0, 1, (4, 4)).astype(np.float32)
W = np.random.default_rng(2).normal(0, 1, (4, 4)).astype(np.float32)
node = helper.make_node


def product() -> Composite:
    made = op("graph.matmul", wildcard("x"), constant("w"))
    return Composite("npu.product", (optional(made, lambda y: op("graph.relu", y)),))


@dataclass(frozen=True)
class Npu(byocir.Target):
    name: ClassVar[str] = "npu"
    patterns: ClassVar[tuple[Composite, ...]] = (product(),)


def run(model: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Checked, then on ONNX Runtime without optimisations. onnx's inference knows no computed
    sizes inside loops, so only the checker's own rules count."""
    onnx.checker.check_model(model)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [port.name for port in session.get_outputs()]
    return dict(zip(names, session.run(None, dict(feeds)), strict=True))


def assert_same(found: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    assert list(found) == list(expected)
    for name, array in expected.items():
        assert (found[name].shape, found[name].dtype) == (array.shape, array.dtype)
        np.testing.assert_array_equal(found[name], array)


def assert_close(found: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    assert list(found) == list(expected)
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, 1e-5, 1e-5)


def notes(entry: onnx.NodeProto | onnx.ModelProto) -> dict[str, str]:
    return {each.key.removeprefix("byocir."): each.value for each in entry.metadata_props}


def ports(model: onnx.ModelProto) -> list[Any]:
    return [*model.graph.input, *model.graph.output]


def small(inputs: list[Any], outputs: list[Any], *nodes: onnx.NodeProto) -> onnx.ModelProto:
    weights = [onnx.numpy_helper.from_array(W, "w")]
    graph = helper.make_graph(nodes, "g", inputs, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def port(name: str, *shape: int | str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def chain() -> onnx.ModelProto:
    """Two equal products with a host op between them, so they share a function but no region."""
    return small(
        [port("x", 4, 4)],
        [port("y", 4, 4)],
        node("MatMul", ["x", "w"], ["a"], "first"),
        node("Softmax", ["a"], ["b"], "soft"),
        node("MatMul", ["b", "w"], ["y"], "second"),
    )


def assert_explained(model: onnx.ModelProto, report: byocir.Report) -> None:
    """Nodes say what the report says of the nodes that they stand for."""
    told = node_lines(report)
    placement, targets = report.placement, {r.symbol: r.target for r in report.regions}
    for entry in model.graph.node:
        about = notes(entry)
        if not about:
            assert entry.op_type == "Identity"  # the copy that names an output
            continue
        nodes = about["nodes"].split(", ")
        assert about["explain"].splitlines() == [line for name in nodes for line in told[name]]
        places = {placement[name] for name in nodes}
        if len(places) == 1 and not set(nodes) & set(report.split):
            (place,) = places
            assert about["target"] == targets.get(place, "host")
            assert about.get("region", "host") == place
    left = {name for n in model.graph.node for name in notes(n).get("nodes", "").split(", ")}
    assert {n for n in placement if placement[n] != "folded"} <= left
