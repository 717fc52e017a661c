"""Nodes of old and new opsets, each read in the form that its opset has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx_models import assert_equal, main_of, run_byocir, run_ort

from byocir.dialects.graph import ForeignOp
from byocir.frontend.onnx import export_onnx, import_onnx
from byocir.frontend.onnx.forms import same_form

X = np.linspace(-2, 2, 24, dtype=np.float32).reshape(1, 2, 3, 4)


def model_at(
    opset: int,
    op_type: str,
    weights: dict[str, np.ndarray] | None = None,
    ir_version: int = 8,
    outputs: Sequence[str] = ("y",),
    **attributes: Any,
) -> onnx.ModelProto:
    """A model of one node; before IR version 4 weights are inputs, too."""
    weights = weights or {}
    node = helper.make_node(op_type, ["x", *weights], list(outputs), name="node", **attributes)
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, X.shape)]
    tensors = [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()]
    if ir_version < 4:
        inputs += [helper.make_tensor_value_info(t.name, t.data_type, t.dims) for t in tensors]
    graph = helper.make_graph(
        [node], "g", inputs, [onnx.ValueInfoProto(name=name) for name in outputs], tensors
    )
    opsets = [helper.make_opsetid("", opset)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=ir_version)
    return onnx.shape_inference.infer_shapes(model)


CHANNELS = {name: np.array([0.5, 1.5], np.float32) for name in ("s", "b", "m", "v")}

OLD: list[tuple[int, str, dict[str, np.ndarray], dict[str, Any]]] = [
    (7, "Relu", {}, {}),
    (7, "Add", {"w": X}, {}),
    (7, "Squeeze", {}, {"axes": [0]}),
    (11, "Squeeze", {}, {"axes": [-4]}),
    (11, "Unsqueeze", {}, {"axes": [0, -1]}),
    (7, "Clip", {}, {"min": -1.0}),
    (7, "Clip", {}, {"min": -1.0, "max": 0.5}),
    (11, "ReduceMean", {}, {"axes": [2, 3]}),
    (17, "ReduceMean", {}, {"axes": [2, 3], "keepdims": 0}),
    (7, "Softmax", {}, {"axis": 1}),
    (7, "Softmax", {}, {"axis": 3}),
    (11, "Softmax", {}, {}),
    (11, "Softmax", {}, {"axis": -2}),
    (12, "Dropout", {}, {}),
    (7, "Dropout", {}, {"ratio": 0.3}),
    (7, "MaxPool", {}, {"kernel_shape": [2, 2]}),
    (8, "AveragePool", {}, {"kernel_shape": [2, 2], "count_include_pad": 1}),
    (7, "Conv", {"w": np.ones((3, 2, 2, 2), np.float32)}, {}),
    (7, "Reshape", {"shape": np.array([2, 12])}, {}),
    (7, "Concat", {"w": X}, {"axis": 1}),
    (24, "Swish", {}, {}),
    (24, "Swish", {}, {"alpha": 1.5}),
    (23, "RMSNormalization", {"w": np.array([1, 2, 3, 4], np.float32)}, {}),
]


@pytest.mark.parametrize(
    ("opset", "op_type", "weights", "attributes"), OLD, ids=lambda v: str(v) if v else None
)
def test_old_forms_become_graph_ops(
    opset: int, op_type: str, weights: dict[str, np.ndarray], attributes: dict[str, Any]
) -> None:
    model = model_at(opset, op_type, weights, **attributes)
    module = import_onnx(model)
    assert not [op for op in module.walk() if isinstance(op, ForeignOp)]
    expected = run_ort(model, {"x": X})
    assert_equal(run_byocir(module, {"x": X}), expected)
    assert_equal(run_ort(export_onnx(module), {"x": X}), expected)


FOREIGN: list[tuple[int, str, dict[str, np.ndarray], dict[str, Any]]] = [
    (9, "Upsample", {"s": np.array([1, 1, 2, 2], np.float32)}, {"mode": "nearest"}),
    (10, "Resize", {"s": np.array([1, 1, 2, 2], np.float32)}, {"mode": "nearest"}),
    (7, "Pad", {}, {"pads": [0, 0, 1, 1, 0, 0, 2, 0], "value": 1.5}),
    (9, "Slice", {}, {"starts": [0, 1], "ends": [1, 2], "axes": [0, 2]}),
    (9, "TopK", {}, {"k": 2}),
    (11, "Split", {}, {"axis": 3, "split": [1, 3]}),
    (9, "BatchNormalization", CHANNELS, {}),
    (7, "BatchNormalization", CHANNELS, {"epsilon": 0.1}),
    (
        12,
        "Resize",
        {"r": np.zeros(0, np.float32), "s": np.array([1, 1, 2, 2], np.float32)},
        {"coordinate_transformation_mode": "tf_half_pixel_for_nn"},
    ),
    (26, "Relu", {}, {}),
    (26, "Clip", {"lo": np.array(-1, np.float32)}, {}),
]


@pytest.mark.parametrize(
    ("opset", "op_type", "weights", "attributes"), FOREIGN, ids=lambda v: str(v) if v else None
)
def test_every_form_means_the_same(
    opset: int, op_type: str, weights: dict[str, np.ndarray], attributes: dict[str, Any]
) -> None:
    """As graph ops or as they are."""
    outputs = ["y", "z"] if op_type in ("TopK", "Split") else ["y"]
    model = model_at(opset, op_type, weights, outputs=outputs, **attributes)
    exported = export_onnx(import_onnx(model))
    assert_equal(run_ort(exported, {"x": X}), run_ort(model, {"x": X}))


@pytest.mark.parametrize("ir_version", [3, 10])
def test_weights_among_the_inputs(ir_version: int) -> None:
    model = model_at(9, "Add", {"w": X}, ir_version)
    module = import_onnx(model)
    assert len(main_of(module).function_type.inputs) == 1
    assert_equal(run_byocir(module, {"x": X}), [X + X])


def test_unused_opset_imports_are_accepted() -> None:
    model = model_at(13, "Relu")
    for domain in ("com.microsoft", "ai.onnx.ml", "org.nobody"):
        model.opset_import.append(helper.make_opsetid(domain, 1))
    assert_equal(run_byocir(import_onnx(model), {"x": X}), [np.maximum(X, 0)])


def test_foreign_ops_of_an_opset_that_the_runtime_does_not_read_yet() -> None:
    """Where the operator did not change, a lower opset says the same."""
    exported = export_onnx(import_onnx(model_at(28, "Compress", {"c": np.array([True])}, 14)))
    assert exported.opset_import[0].version <= 26
    assert_equal(run_ort(exported, {"x": X}), [X.reshape(-1)[:1]])


@pytest.mark.parametrize(
    ("op_type", "attributes", "old", "new", "same"),
    [
        ("Relu", {}, 6, 14, True),
        ("Softmax", {"axis": 1}, 11, 13, False),
        ("Clip", {"min": 0.0}, 6, 11, False),
        ("Clip", {}, 6, 11, True),
        ("GridSample", {"mode": "bilinear"}, 16, 20, False),
        ("Nothing", {}, 21, 21, True),
        ("Nothing", {}, 20, 21, False),
        ("Upsample", {}, 9, 21, False),
        ("Resize", {"coordinate_transformation_mode": "asymmetric"}, 11, 13, True),
        ("Resize", {"coordinate_transformation_mode": "tf_half_pixel_for_nn"}, 11, 13, False),
    ],
)
def test_same_form(
    op_type: str, attributes: dict[str, Any], old: int, new: int, same: bool
) -> None:
    node = helper.make_node(op_type, ["x"], ["y"], **attributes)
    assert same_form(node, old, new) is same
    assert same_form(node, new, old) is same
