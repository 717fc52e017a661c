"""Whole quantised models on VTA: the simulator's integers are the evaluator's, without hazards."""

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from qdq_models import images, models

import byocir
from byocir.compiler import GRAPH_REWRITES
from byocir.dialects.context import load_context
from byocir.evaluate.module import evaluate
from byocir.rewrites.pipeline import run_passes


def fixed(model: onnx.ModelProto, rounding: str):
    module = byocir.import_onnx(model)
    run_passes(module, load_context(), f"{GRAPH_REWRITES},fix-point{{rounding={rounding}}}")
    return module


@pytest.mark.parametrize("rounding", ["half_up", "half_even"])
@pytest.mark.parametrize("levels", [("graph",), ("tensor",)], ids="+".join)
@given(model=models())
@settings(max_examples=settings.default.max_examples // 5)
def test_vta_computes_what_the_evaluator_computes(
    model: onnx.ModelProto, levels: tuple[str, ...], rounding: str
):
    package = byocir.compile(model, targets=[byocir.Vta(rounding)], levels=levels)
    assert package.report.regions
    assert not package.report.macs["host"]
    reference = fixed(model, rounding)
    shape = tuple(d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim)
    for image in images(shape):
        expected = evaluate(reference, {"x": image})
        ours = package.run({"x": image}, check=True)
        for name, array in expected.items():
            assert np.array_equal(ours[name], array)


@pytest.mark.parametrize("block", [8, 32])
@given(model=models())
@settings(max_examples=settings.default.max_examples // 10)
def test_other_block_sizes_give_the_same_integers(model: onnx.ModelProto, block: int):
    package = byocir.compile(model, targets=[f"vta{{block={block}}}"])
    reference = fixed(model, "half_up")
    shape = tuple(d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim)
    for image in images(shape)[:1]:
        ours, expected = package.run({"x": image}, check=True), evaluate(reference, {"x": image})
        for name, array in expected.items():
            assert np.array_equal(ours[name], array)
