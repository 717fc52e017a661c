"""Values whose shape only a run tells, of which C knows the largest: no evaluator is needed."""

import numpy as np
import onnx
import pytest
from host_models import model_of
from hypothesis import given, settings
from hypothesis import strategies as st
from nets.classic_nets import session
from open_models import both_ways, build, detector, graph, if_, node, outputs_of, run, same

import byocir
from byocir.errors import ByocirError
from byocir.evaluate.module import evaluate
from byocir.runtime.export import export_project
from byocir.runtime.native import host_code


def test_a_detector_needs_no_evaluator(tmp_path):
    model = detector(("boxes", "p", "kept", "count", "flat"))
    x = np.random.default_rng(2).normal(size=(1, 12, 4)).astype(np.float32)
    package = same(model, {"x": x})
    assert host_code(package.module).calls == []
    assert not package.report.called_back
    found = outputs_of(export_project(package), tmp_path, package, {"x": x})
    for name, array in package.run({"x": x}).items():
        assert found[name].shape == array.shape
        np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-6)


def test_what_holds_is_found_in_an_exported_project(tmp_path):
    """All values are above the bound, some, and none."""
    nodes = [
        node("Greater", "x low", "c"),
        node("NonZero", "c", "n"),
        node("Transpose", "n", "at"),
        node("Reshape", "c flat", "f"),
        node("Compress", "x f", "values"),
        node("Shape", "at", "size"),
    ]
    low = np.float32(0.5)
    weights = {"low": low, "flat": np.array([-1])}
    model = model_of(nodes, {"x": (3, 4)}, ["at", "values", "size", "n"], weights)
    some = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    package = same(model, {"x": some})
    build(export_project(package), tmp_path)
    for x in (some + 9, some, some - 9):
        same(model, {"x": x})
        found = run(tmp_path, package, {"x": x})
        np.testing.assert_array_equal(found["at"], np.argwhere(x > low))
        np.testing.assert_array_equal(found["values"], x[x > low])
        assert found["size"].tolist() == [*found["at"].shape]


def test_an_open_shape_meets_what_the_evaluator_runs():
    """A value that C holds is handed to it, and comes back from either branch."""
    then = graph([node("Exp", "x", "a"), node("Identity", "v", "b")], "b", "a")
    otherwise = graph([node("Neg", "x", "d"), node("Abs", "v", "e")], "e", "d")
    nodes = [
        node("Greater", "x least", "g"),
        node("Compress", "x g", "v", axis=0),
        if_("c", "y z", then, otherwise),
        node("CumSum", "y axis", "w"),
    ]
    both_ways(nodes, ["y", "z", "w", "v"], {"axis": np.array(0)}, shape=(6,))


@st.composite
def boxes(draw):
    """Boxes on a coarse grid, so that scores and overlaps are often equal."""
    batches, classes, count = (draw(st.integers(1, n)) for n in (2, 3, 9))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    places = rng.integers(0, 5, (batches, count, 4)).astype(np.float32)
    scores = rng.integers(0, 4, (batches, classes, count)).astype(np.float32) / 4
    most = draw(st.sampled_from([0, 1, 3, 99]))
    overlap = draw(st.sampled_from([0, 0.25, 0.5, 1]))
    least = draw(st.sampled_from([None, 0, 0.5]))
    shape = draw(st.sampled_from([(), (1,)]))  # of the numbers
    return places, scores, most, overlap, least, draw(st.integers(0, 1)), shape


@pytest.mark.hypothesis
@settings(max_examples=settings.default.max_examples // 20, deadline=None)
@given(boxes())
def test_non_max_suppression_is_that_of_onnx_runtime(case):
    places, scores, most, overlap, least, center, shape = case
    names = "b s most overlap" + (" least" if least is not None else "")
    weights = {"most": np.full(shape, most), "overlap": np.full(shape, overlap, np.float32)}
    if least is not None:
        weights["least"] = np.full(shape, least, np.float32)
    nodes = [node("NonMaxSuppression", names, "y", center_point_box=center)]
    model = model_of(nodes, {"b": places.shape, "s": scores.shape}, ["y"], weights)
    package = byocir.compile(model, targets=[], host="c")
    assert host_code(package.module).calls == []
    feeds = {"b": places, "s": scores}
    (expected,) = session(model.SerializeToString()).run(None, feeds)
    np.testing.assert_array_equal(package.run(feeds)["y"], expected)
    for module in (package.module, byocir.import_onnx(model)):
        np.testing.assert_array_equal(evaluate(module, feeds)["y"], expected)


FLAT = {"ones": np.ones(3, bool), "at": np.array([0]), "axes": np.array([2])}
"""Of models that are wrong."""


@pytest.mark.parametrize(
    "wrong",
    [
        [node("NonZero", "x", "n"), node("Transpose", "n", "y", perm=[1])],
        [node("NonZero", "x", "n"), node("Transpose", "n", "y", perm=[0, 0])],
        [node("NonZero", "x", "n"), node("Transpose", "n", "y", perm=[1, 5])],
        [node("Compress", "x ones", "y", axis=5)],
        [node("NonZero", "x", "n"), node("Gather", "n at", "y", axis=7)],
        [node("NonZero", "x", "n"), node("Squeeze", "n axes", "y")],
    ],
)
def test_axes_that_there_are_not_have_no_routine(wrong):
    model = model_of(wrong, {"x": (3, 50)}, ["y"], FLAT)
    kind = onnx.TensorProto.FLOAT if wrong[0].op_type == "Compress" else onnx.TensorProto.INT64
    model.graph.output[0].CopyFrom(onnx.helper.make_tensor_value_info("y", kind, None))
    for host in ("reference", "c"):
        with pytest.raises(ByocirError, match="B312"):
            byocir.compile(model, targets=[], host=host).run({"x": np.ones((3, 50), np.float32)})


@pytest.mark.parametrize(
    ("boxes", "scores", "most"),
    [((1, 3, 4), (1, 1, 40), [9]), ((1, 3, 2), (1, 1, 3), [9]), ((1, 3, 4), (2, 1, 3), [9])],
)
def test_boxes_and_scores_that_do_not_fit_have_no_routine(boxes, scores, most):
    weights = {"most": np.array(most), "overlap": np.float32([0.5])}
    nodes = [node("NonMaxSuppression", "b s most overlap", "y")]
    model = model_of(nodes, {"b": boxes, "s": scores}, ["y"], weights)
    package = byocir.compile(model, targets=[], host="c")
    assert list(package.report.called_back) or package.report.host_runs_on == "reference"
