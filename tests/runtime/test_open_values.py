"""Values whose shape or type only a run tells: the evaluator keeps them, the rest of the host is C,
and reports and errors say which nodes they come from."""

import numpy as np
import pytest
from host_models import model_of
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

import byocir
from byocir.cli.main import main
from byocir.errors import ByocirError
from byocir.runtime.explain import explain, summary
from byocir.runtime.export import export_project
from byocir.runtime.native import host_code


def node(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs.split(), outputs.split(), **attributes)


BOXES = {
    "anchors": np.random.default_rng(0).random((1, 12, 4)).astype(np.float32),
    "most": np.array([5]),
    "iou": np.array([0.5], np.float32),
    "score": np.array([0.1], np.float32),
    "two": np.array([2]),
}
DETECTOR = [
    node("Relu", "x", "r"),
    node("Add", "anchors r", "b"),
    node("ReduceSum", "x last", "sum", keepdims=1),
    node("Transpose", "sum", "scores", perm=[0, 2, 1]),
    node("NonMaxSuppression", "b scores most iou score", "kept"),
    node("Gather", "kept two", "i", axis=1),
    node("Squeeze", "i", "flat"),
    node("Gather", "b flat", "boxes", axis=1),
    node("Sigmoid", "scores", "p"),
]
"""Boxes and scores in C, what is chosen of them in the evaluator, and then C again."""


def detector(outputs=("boxes", "p")):
    weights = {**BOXES, "last": np.array([2])}
    return model_of(DETECTOR, {"x": (1, 12, 4)}, list(outputs), weights)


def same(model, feeds, **options):
    """C gives what the evaluator gives; the package."""
    packages = [byocir.compile(model, targets=[], host=h, **options) for h in ("reference", "c")]
    expected, found = (package.run(feeds) for package in packages)
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert found[name].dtype == array.dtype
        assert found[name].shape == array.shape
        np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-6)
    return packages[1]


def test_only_what_is_open_is_called_back():
    x = np.random.default_rng(1).normal(size=(1, 12, 4)).astype(np.float32)
    package = same(detector(), {"x": x})
    report = package.report
    assert report.host_runs_on == "c"
    names = ["NonMaxSuppression_4", "Gather_5", "Squeeze_6", "Gather_7"]
    assert list(report.called_back) == names
    assert report.called_back[names[0]].startswith("makes what only a run tells")
    assert all("'NonMaxSuppression_4'" in report.called_back[name] for name in names[1:])
    assert {call.op.name for call in host_code(package.module).calls} == {"graph.foreign"}
    assert "host operators called back" in summary(report)
    assert "called back from C: takes what is open" in explain(report, "Squeeze_6")
    assert any("4 operators run in the evaluator" in note for note in report.notes)


def test_the_report_is_kept(tmp_path):
    package = byocir.compile(detector(), targets=[], host="c")
    package.save(tmp_path / "p.bpkg")
    loaded = byocir.load(tmp_path / "p.bpkg")
    assert loaded.report.called_back == package.report.called_back
    x = np.ones((1, 12, 4), np.float32)
    np.testing.assert_array_equal(loaded.run({"x": x})["p"], package.run({"x": x})["p"])


def test_what_is_kept_is_no_part_of_memory_that_c_uses_again():
    """The evaluator gives a view of what it was given, whose buffer holds something else later."""
    nodes = [
        node("Neg", "x", "a"),
        node("NonZero", "x", "n"),
        node("Shape", "n", "s"),
        node("Gather", "s one", "k"),
        node("Slice", "a zero k", "part"),
        node("Exp", "a", "e"),
        node("Exp", "e", "f"),
        node("ReduceMax", "f", "m", keepdims=0),
    ]
    weights = {"one": np.array([1]), "zero": np.array([0])}
    model = model_of(nodes, {"x": (64,)}, ["part", "m"], weights)
    same(model, {"x": np.arange(64, dtype=np.float32) / 64 - 0.5})


def test_sequences_are_kept():
    nodes = [
        node("Relu", "x", "r"),
        node("SequenceConstruct", "r x", "s"),
        node("SequenceAt", "s one", "y"),
        node("Neg", "r", "z"),
    ]
    model = model_of(nodes, {"x": (3,)}, ["y", "z"], {"one": np.array(1)})
    package = same(model, {"x": np.array([-1, 0, 2], np.float32)})
    assert package.report.host_runs_on == "c"
    assert [*package.report.called_back] == ["SequenceConstruct_1", "SequenceAt_2"]


def test_an_input_is_open():
    nodes = [node("Relu", "x", "r"), node("Shape", "r", "s"), node("Mul", "s s", "y")]
    nodes.append(node("Neg", "z", "w"))
    model = model_of(nodes, {"x": ("n", 3), "z": (4,)}, ["r", "y", "w"])
    feeds = {"x": np.ones((5, 3), np.float32), "z": np.ones(4, np.float32)}
    package = same(model, feeds)
    assert "input 'x', tensor<?x3xf32>" in package.report.called_back["Relu_0"]
    assert package.run({**feeds, "x": np.ones((2, 3), np.float32)})["y"].tolist() == [4, 9]
    with pytest.raises(ByocirError, match=r"B350.*input 'x', tensor<\?x3xf32>\n.*--shape x=n,3"):
        export_project(package)


def test_nothing_is_left_for_c():
    model = model_of([node("Relu", "x", "r"), node("Neg", "r", "y")], {"x": ("n",)}, ["y"])
    package = same(model, {"x": np.ones(7, np.float32)})
    assert package.report.host_runs_on == "reference"
    assert any("and all that is left with them" in note for note in package.report.notes)


def test_errors_name_the_nodes(tmp_path, capsys):
    package = byocir.compile(detector(), targets=[], host="c")
    told = r"B350.*found node 'NonMaxSuppression_4' \(NonMaxSuppression\), tensor<\?x3xi64>"
    with pytest.raises(ByocirError, match=told):
        export_project(package)
    path = tmp_path / "net.onnx"
    path.write_bytes(detector().SerializeToString())
    assert main(["run", str(path), "--target", "vta", "--emit", "scf"]) == 1
    told = capsys.readouterr().err
    assert "B340" in told
    assert "node 'NonMaxSuppression_4' (NonMaxSuppression)" in told
    assert "let the model end before" in told


def test_an_error_of_a_call_between_open_values():
    """It passes through C, and the next run is as any other."""
    nodes = [node("NonZero", "x", "n"), node("Reshape", "n shape", "y"), node("Neg", "x", "z")]
    model = model_of(nodes, {"x": (4,)}, ["y", "z"], {"shape": np.array([2])})
    package = byocir.compile(model, targets=[], host="c")
    with pytest.raises(ByocirError, match="B312"):
        package.run({"x": np.ones(4, np.float32)})
    found = package.run({"x": np.array([0, 1, 0, 2], np.float32)})
    assert found["y"].tolist() == [1, 3]


# -- random graphs

FLOATS = ("Relu", "Neg", "Exp", "Sigmoid", "Abs")
PAIRS = ("Add", "Mul", "Max")


@st.composite
def graphs(draw):
    """Floats of one size, and others of as many elements as a test holds for, mixed at random."""
    nodes, static, open_ = [], ["x"], []
    for i in range(draw(st.integers(3, 9))):
        out, source = f"v{i}", draw(st.sampled_from(static))
        kinds = ["one", "two", "compress", "unique", "where"] + (
            ["open", "count", "back"] * bool(open_)
        )
        kind = draw(st.sampled_from(kinds))
        if kind == "one":
            nodes.append(node(draw(st.sampled_from(FLOATS)), source, out))
        elif kind == "two":
            other = draw(st.sampled_from(static))
            nodes.append(node(draw(st.sampled_from(PAIRS)), f"{source} {other}", out))
        elif kind == "compress":
            nodes += [node("Greater", f"{source} low", f"{out}c")]
            nodes += [node("Compress", f"{source} {out}c", out)]
        elif kind == "unique":
            nodes.append(node("Unique", source, out, sorted=draw(st.integers(0, 1))))
        elif kind == "where":
            nodes += [
                node("Greater", f"{source} low", f"{out}c"),
                node("NonZero", f"{out}c", f"{out}n"),
            ]
            nodes += [node("Squeeze", f"{out}n first", f"{out}i")]
            nodes += [node("Gather", f"{source} {out}i", out)]
        else:
            source = draw(st.sampled_from(open_))
            if kind == "open":
                nodes.append(node(draw(st.sampled_from(FLOATS)), source, out))
            elif kind == "count":
                nodes += [node("Size", source, f"{out}s")]
                nodes += [node("Cast", f"{out}s", f"{out}f", to=TensorProto.FLOAT)]
                nodes += [node("Add", f"x {out}f", out)]
            else:
                nodes += [
                    node("ReduceSum", source, f"{out}r", keepdims=1),
                    node("Mul", f"x {out}r", out),
                ]
        (open_ if kind in ("compress", "unique", "where", "open") else static).append(out)
    outputs = sorted({static[-1], *open_[-2:]} - {"x"})
    weights = {"low": np.float32(draw(st.sampled_from([-9, 0, 0.5, 99]))), "first": np.array([0])}
    return model_of(nodes, {"x": (8,)}, outputs, weights), outputs


@pytest.mark.hypothesis
@settings(max_examples=settings.default.max_examples // 10, deadline=None)
@given(graphs(), st.integers(0, 3))
def test_random_graphs(drawn, seed):
    model, _ = drawn
    x = np.random.default_rng(seed).integers(-3, 4, 8).astype(np.float32) / 2
    same(model, {"x": x})
