"""Small ONNX models and the two ways to run them: byocir's evaluator and ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from byocir.evaluate.module import evaluate_function
from byocir.frontend.onnx import export_onnx, import_onnx

Arrays = Mapping[str, np.ndarray]


def make_model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Arrays,
    weights: Arrays | None = None,
    outputs: Sequence[str] = ("y",),
    opset: int = 21,
) -> onnx.ModelProto:
    """A model of these nodes with the inputs' static shapes; output types are inferred."""
    graph = helper.make_graph(
        nodes,
        "test",
        [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
            )
            for name, array in inputs.items()
        ],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [onnx.numpy_helper.from_array(array, name) for name, array in (weights or {}).items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    return onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)


def one_node(
    op_type: str, inputs: Arrays, weights: Arrays | None = None, **attributes: Any
) -> onnx.ModelProto:
    """A model of one node: first the inputs, then the weights."""
    names = [*inputs, *(weights or {})]
    node = helper.make_node(op_type, names, ["y"], name="node", **attributes)
    return make_model([node], inputs, weights)


def run_ort(model: onnx.ModelProto, feeds: Arrays) -> list[np.ndarray]:
    """ONNX Runtime with graph optimisations off, on one thread."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, dict(feeds))


def main_of(module: ModuleOp) -> FuncOp:
    function = module.body.block.first_op
    assert isinstance(function, FuncOp)
    return function


def run_byocir(module: ModuleOp, feeds: Arrays) -> list[np.ndarray]:
    return evaluate_function(module, "main", list(feeds.values()))


def check(model: onnx.ModelProto, feeds: Arrays, exact: bool = False) -> ModuleOp:
    """The imported model computes what ONNX Runtime does, and so does its export."""
    module = import_onnx(model)
    module.verify()
    exported = export_onnx(module)
    # onnx's shape inference counts ceil_mode windows that start beyond the input; nobody else does.
    rounds_up = any(a.name == "ceil_mode" and a.i for n in exported.graph.node for a in n.attribute)
    onnx.checker.check_model(exported, full_check=not rounds_up)
    expected = run_ort(model, feeds)
    for found in (run_byocir(module, feeds), run_ort(exported, feeds)):
        assert_equal(found, expected, exact)
    return module


def assert_equal(
    found: Sequence[np.ndarray], expected: Sequence[np.ndarray], exact: bool = False
) -> None:
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
        if exact or ours.dtype.kind in "iub":
            np.testing.assert_array_equal(ours, theirs)
        else:
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)
