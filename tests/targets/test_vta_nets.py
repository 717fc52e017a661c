"""Whole quantised models on VTA: the simulator's integers are the evaluator's, without hazards."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import onnx
from hypothesis import given, settings
from hypothesis import strategies as st
from qdq_models import Model, images, models

import byocir
from byocir.dialects.context import load_context
from byocir.evaluate.module import evaluate
from byocir.rewrites.pipeline import run_passes
from byocir.targets.hand_off_passes import GRAPH_REWRITES


def fixed(model: onnx.ModelProto, rounding: str):
    module = byocir.import_onnx(model)
    run_passes(module, load_context(), f"{GRAPH_REWRITES},fix-point{{rounding={rounding}}}")
    return module


@given(
    model=models(),
    levels=st.sampled_from([("graph",), ("tensor",)]),
    rounding=st.sampled_from(["floor", "half_up", "half_even"]),
)
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


@given(model=models(), block=st.sampled_from([8, 32]))
@settings(max_examples=settings.default.max_examples // 7)
def test_other_block_sizes_give_the_same_integers(model: onnx.ModelProto, block: int):
    package = byocir.compile(model, targets=[f"vta{{block={block}}}"])
    reference = fixed(model, "floor")
    shape = tuple(d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim)
    for image in images(shape)[:1]:
        ours, expected = package.run({"x": image}, check=True), evaluate(reference, {"x": image})
        for name, array in expected.items():
            assert np.array_equal(ours[name], array)


@dataclass(frozen=True)
class Wide(byocir.Vta):
    """A VTA with a larger unit, under a name of its own."""

    name: ClassVar[str] = "wide"
    block: int = 32


@given(model=models())
@settings(max_examples=3)
def test_a_derived_class_under_another_name_is_compiled_too(model: onnx.ModelProto):
    """Alone, and beside the one it derives from."""
    reference = fixed(model, "floor")
    shape = tuple(d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim)
    image = images(shape)[0]
    expected = evaluate(reference, {"x": image})
    for targets in ([Wide()], [Wide(), byocir.Vta()]):
        package = byocir.compile(model, targets=targets)
        assert {region.target for region in package.report.regions} == {"wide"}
        assert all(
            c.pattern.startswith("wide.") for r in package.report.regions for c in r.composites
        )
        assert package.blobs["wide"]
        ours = package.run({"x": image}, check=True)
        for name, array in expected.items():
            assert np.array_equal(ours[name], array)


def test_two_vtas_share_a_model():
    """Each is asked for its part, and both are lowered."""
    model = sample_model()
    first, second = model_nodes(model, "Conv", "Gemm")
    package = byocir.compile(
        model, targets=[byocir.Vta(), Wide()], placement={first: "wide", second: "vta"}
    )
    placed = package.report.placement
    by_symbol = {region.symbol: region.target for region in package.report.regions}
    assert (by_symbol[placed[first]], by_symbol[placed[second]]) == ("wide", "vta")
    image = images((1, 3, 6, 6))[0]
    expected = evaluate(fixed(model, "floor"), {"x": image})
    for name, array in expected.items():
        assert np.array_equal(package.run({"x": image}, check=True)[name], array)


def sample_model() -> onnx.ModelProto:
    """A convolution, a global average pool and a dense layer."""
    m = Model((1, 3, 6, 6), seed=3)
    m.first = list(m.shape)
    weight, _ = m.weights((20, 3, 3, 3), per_channel=False, axis=0)
    m.value = m.requantize(m.node("Conv", [m.value, weight]), 0.7)
    m.value = m.requantize(m.node("GlobalAveragePool", [m.value]), m.scale)
    m.value = m.requantize(m.node("Flatten", [m.value]), m.scale)
    weight, _ = m.weights((10, 20), per_channel=False, axis=0)
    m.value, m.shape = m.requantize(m.node("Gemm", [m.value, weight], transB=1), 0.3), (1, 10)
    return m.build()


def model_nodes(model: onnx.ModelProto, *kinds: str) -> list[str]:
    return [next(n.name for n in model.graph.node if n.op_type == kind) for kind in kinds]
