"""Constants that a target stores in its own order: made once, kept beside the numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import onnx
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Use

import byocir
from byocir.compiler import generate, partition
from byocir.dialects.byoc import STORED, stored
from byocir.dialects.context import load_context
from byocir.dialects.text import parse_module, print_module
from byocir.dialects.tir import ConstantOp
from byocir.dialects.weights import dump_weights, load_weights
from byocir.evaluate.module import evaluate
from byocir.patterns import Composite, constant, op, wildcard
from byocir.runtime.report_of_module import report_of
from byocir.targets.json import KERNELS, JsonTarget, Kernel, Step

PRODUCT = Composite("npu.product", (op("graph.matmul", wildcard("x"), constant("w")),))
CALLS: list[tuple[str, list[tuple[str, int]], tuple[int, ...]]] = []


def packed_product(step: Step, inputs: Sequence[np.ndarray]) -> np.ndarray:
    """[M,K] by weights stored as [N,K]."""
    x, w = inputs
    assert w.shape == (step.output_types[0].shape[1], x.shape[1])
    return x @ w.T


@dataclass(frozen=True)
class Npu(JsonTarget):
    """Stores the weights of products transposed."""

    name: ClassVar[str] = "npu"
    patterns: ClassVar[tuple[Composite, ...]] = (PRODUCT,)
    constants: ClassVar[Literal["transform"]] = "transform"
    kernels: ClassVar[Mapping[str, Kernel]] = {**KERNELS, "npu.product": packed_product}

    mistake: str = ""

    def transform(self, composite: str, uses: Sequence[Use], array: np.ndarray) -> Any:
        CALLS.append((composite, [(u.operation.name, u.index) for u in uses], array.shape))
        if self.mistake == "raises":
            raise KeyError("weights")
        return {"": array.T, "none": None, "text": "w", "objects": np.array([None])}[self.mistake]


def model() -> onnx.ModelProto:
    """Two products with the same weights, and one with others."""
    rng = np.random.default_rng(0)
    x = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2, 40])
    y = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [2, 7])
    weights = [
        onnx.numpy_helper.from_array(rng.normal(size=shape).astype(np.float32), name)
        for name, shape in (("v", (40, 40)), ("w", (40, 7)))
    ]
    nodes = [
        onnx.helper.make_node("MatMul", ["x", "v"], ["a"], "first"),
        onnx.helper.make_node("MatMul", ["a", "v"], ["b"], "second"),
        onnx.helper.make_node("MatMul", ["b", "w"], ["y"], "third"),
    ]
    graph = onnx.helper.make_graph(nodes, "g", [x], [y], weights)
    opsets = [onnx.helper.make_opsetid("", 17)]
    return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8)


X = np.random.default_rng(1).normal(size=(2, 40)).astype(np.float32)


@pytest.fixture(autouse=True)
def _no_calls():
    CALLS.clear()


def test_each_constant_is_asked_for_once_and_the_code_holds_what_is_stored():
    package = byocir.compile(model(), targets=[Npu()])
    product = ("npu.product", [("graph.matmul", 1)])
    assert [(*product, (40, 40)), (*product, (40, 40)), (*product, (40, 7))] == CALLS
    program = json.loads(package.blobs["npu"]["program.json"])
    shapes = sorted(each["shape"] for each in program["constants"].values())
    assert shapes == [[7, 40], [40, 40]]
    expected = byocir.compile(model(), targets=["json"]).run({"x": X})["y"]
    np.testing.assert_allclose(package.run({"x": X})["y"], expected, rtol=1e-4, atol=1e-4)


def test_the_module_keeps_its_meaning():
    module, plain = byocir.import_onnx(model()), byocir.import_onnx(model())
    partition(module, [Npu()])
    partition(plain, [Npu(mistake="none")])
    assert any(STORED in each.attributes for each in module.walk())
    assert not any(STORED in each.attributes for each in plain.walk())
    for name, expected in evaluate(plain, {"x": X}).items():
        np.testing.assert_array_equal(evaluate(module, {"x": X})[name], expected)


def test_a_saved_module_says_what_to_store(tmp_path: Path):
    module = byocir.import_onnx(model())
    report = partition(module, [Npu()])
    (tmp_path / "module.mlir").write_text(print_module(module))
    (tmp_path / "module.safetensors").write_bytes(dump_weights(module))
    now = generate(module, report)
    CALLS.clear()
    context = load_context()
    load_weights(tmp_path / "module.safetensors", context.arrays)
    later = parse_module((tmp_path / "module.mlir").read_text(), context)
    made = generate(later, report_of(later))
    assert CALLS == []
    assert made.blobs == now.blobs


@dataclass(frozen=True)
class Tensors(Npu):
    """The same at the tensor level, where the code is what is stored."""

    codegen_level: ClassVar[Literal["tensor"]] = "tensor"

    def emit(self, module: ModuleOp, symbols: Sequence[str]) -> Mapping[str, bytes]:
        arrays = [stored(o) for o in module.walk() if isinstance(o, ConstantOp)]
        return {"shapes": json.dumps(sorted({array.shape for array in arrays})).encode()}


def test_what_is_stored_reaches_the_tensor_level():
    package = byocir.compile(model(), targets=[Tensors()])
    assert json.loads(package.blobs["npu"]["shapes"]) == [[7, 40], [40, 40]]


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        ("raises", r"B219.*'npu' failed in transform with KeyError: 'weights'\n.*\.py:\d+"),
        ("text", r"B228.*transform of target 'npu' to give an array of numbers or None, found str"),
        ("objects", r"B228.*to give an array of numbers or None, found ndarray"),
    ],
)
def test_mistakes_are_told(mistake: str, message: str):
    with pytest.raises(byocir.ByocirError, match=message):
        byocir.compile(model(), targets=[Npu(mistake=mistake)])
