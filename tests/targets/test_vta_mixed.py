"""Quantised models of which VTA takes a part, the host the rest: integers are the evaluator's, and
before `fix-point` they are ONNX Runtime's."""

import numpy as np
import onnx
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from mixed_models import WITHOUT_MEANS, input_shape, mixed_models
from qdq_models import images
from xdsl.dialects.builtin import ModuleOp

import byocir
from byocir.dialects.context import load_context
from byocir.evaluate.module import evaluate
from byocir.rewrites.pipeline import run_passes
from byocir.runtime.report import Report
from byocir.targets.hand_off_passes import GRAPH_REWRITES

LEVELS = [("graph",), ("tensor",), ("graph", "tensor")]


def fixed(model: onnx.ModelProto, rounding: str) -> ModuleOp:
    module = byocir.import_onnx(model)
    run_passes(module, load_context(), f"{GRAPH_REWRITES},fix-point{{rounding={rounding}}}")
    return module


def onnxruntime_of(model: onnx.ModelProto):
    """Runs a model on ONNX Runtime, its graph optimisations off.

    Rejects models that ONNX Runtime refuses: with ceil_mode its shape inference counts pool windows
    that begin in the end pad, which its kernels, ONNX's text and byocir leave out.
    """
    onnxruntime = pytest.importorskip("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    except onnxruntime.capi.onnxruntime_pybind11_state.Fail as error:
        if "ShapeInferenceError" not in str(error):
            raise
        reject()
    names = [output.name for output in session.get_outputs()]
    return lambda image: dict(zip(names, session.run(None, {"x": image}), strict=True))


def assert_same(ours: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert ours.keys() == expected.keys()
    for name, array in expected.items():
        assert np.array_equal(ours[name], array), name


def compiled_agrees(model: onnx.ModelProto, levels: tuple[str, ...], rounding: str) -> Report:
    """Compares a compiled model with the evaluator; gives the report."""
    package = byocir.compile(model, targets=[byocir.Vta(rounding)], levels=levels)
    reference = fixed(model, rounding)
    for image in images(input_shape(model)):
        assert_same(package.run({"x": image}), evaluate(reference, {"x": image}))
    return package.report


@given(
    model=mixed_models(),
    levels=st.sampled_from(LEVELS),
    rounding=st.sampled_from(["floor", "half_up", "half_even"]),
)
@settings(max_examples=settings.default.max_examples // 4)
def test_vta_and_host_compute_what_the_evaluator_computes(
    model: onnx.ModelProto, levels: tuple[str, ...], rounding: str
):
    compiled_agrees(model, levels, rounding)


@given(model=mixed_models(exact=True))
def test_the_float_form_computes_what_onnxruntime_computes(model: onnx.ModelProto):
    """Scales are powers of two, so that no sum is rounded and the order of additions is free."""
    session, module = onnxruntime_of(model), byocir.import_onnx(model)
    for image in images(input_shape(model)):
        assert_same(evaluate(module, {"x": image}), session(image))


@given(model=mixed_models(exact=True, layers=WITHOUT_MEANS))
def test_powers_of_two_stay_exact_in_fixed_point(model: onnx.ModelProto):
    session, module = onnxruntime_of(model), fixed(model, "half_even")
    for image in images(input_shape(model)):
        assert_same(evaluate(module, {"x": image}), session(image))


def parsed(body: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> {body}')


RELU_TO_UI8 = """net (float[2, 16, 5, 5] x) => (float[2, 16, 5, 5] y)
<float s = {0.5}, int8 z = {0}, float t = {0.0625}, uint8 u = {0}> {
  xq = QuantizeLinear (x, s, z)
  xf = DequantizeLinear (xq, s, z)
  [relu] r = Relu (xf)
  yq = QuantizeLinear (r, t, u)
  y = DequantizeLinear (yq, t, u)
}"""

ADD_TO_UI8 = """net (float[1, 1, 5] x) => (float[1, 1, 5] y)
<float s = {0.5}, int8 z = {0}, uint8 u = {0}> {
  xq = QuantizeLinear (x, s, z)
  xf = DequantizeLinear (xq, s, z)
  [add] a = Add (xf, xf)
  yq = QuantizeLinear (a, s, u)
  y = DequantizeLinear (yq, s, u)
}"""

ADD_OF_TWO_DIMENSIONS = """net (float[1, 2, 2, 6] x) => (float[1, 2, 2, 6] y)
<float s = {0.5}, int8 z = {0}, int8[2, 2, 1] c = {86, -61, -100, -51}, float t = {0.7}> {
  xq = QuantizeLinear (x, s, z)
  xf = DequantizeLinear (xq, s, z)
  cf = DequantizeLinear (c, s, z)
  [add] a = Add (cf, xf)
  yq = QuantizeLinear (a, t, z)
  y = DequantizeLinear (yq, t, z)
}"""

VECTOR = """net (float[16] x) => (float[16] y)
<float s = {0.5}, int8 z = {0}, float t = {0.7}> {
  xq = QuantizeLinear (x, s, z)
  xf = DequantizeLinear (xq, s, z)
  [relu] r = Relu (xf)
  yq = QuantizeLinear (r, t, z)
  y = DequantizeLinear (yq, t, z)
}"""

PRODUCT_WITH_A_VECTOR = """net (float[2, 4] x) => (float[2] y)
<float s = {0.5}, int8 z = {0}, int8[4] w = {8, -6, 100, -51}, float t = {0.7}> {
  xq = QuantizeLinear (x, s, z)
  xf = DequantizeLinear (xq, s, z)
  wf = DequantizeLinear (w, s, z)
  [product] p = MatMul (xf, wf)
  yq = QuantizeLinear (p, t, z)
  y = DequantizeLinear (yq, t, z)
}"""

NO_CHANNELS = "Tensors have a batch and a channel dimension"
OTHER_SHAPE = (
    "Both operands have the same shape, or the second is a constant that varies along one "
    "dimension at most"
)
NO_MATRIX = "The weights are a matrix, and the input is one or several"


@pytest.mark.parametrize("levels", LEVELS, ids="+".join)
@pytest.mark.parametrize(
    ("body", "node", "rule"),
    [
        (ADD_OF_TWO_DIMENSIONS, "add", OTHER_SHAPE),
        (VECTOR, "relu", NO_CHANNELS),
        (PRODUCT_WITH_A_VECTOR, "product", NO_MATRIX),
    ],
    ids=["two dimensions", "vector", "product"],
)
def test_what_vta_cannot_do_runs_on_the_host(
    body: str, node: str, rule: str, levels: tuple[str, ...]
):
    report = compiled_agrees(parsed(body), levels, "half_up")
    assert node in report.host
    if "graph" in levels:
        rules = [rule for decision in report.reasons[node] for rule in decision.rules]
        assert rule in {rule.sentence for rule in rules if not rule.holds}


@pytest.mark.parametrize("levels", LEVELS, ids="+".join)
@pytest.mark.parametrize(("body", "node"), [(RELU_TO_UI8, "relu"), (ADD_TO_UI8, "add")])
def test_unsigned_results_become_signed_ones(body: str, node: str, levels: tuple[str, ...]):
    assert node not in compiled_agrees(parsed(body), levels, "half_up").host
