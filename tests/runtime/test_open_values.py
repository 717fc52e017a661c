"""Values whose shape or type only a run tells: the evaluator keeps them, the rest of the host is C,
and reports and errors say which nodes they come from."""

import numpy as np
import pytest
from host_models import model_of
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper
from open_models import LEAST, POSITIVE, both_ways, detector, graph, if_, node, same

import byocir
from byocir.cli.main import main
from byocir.errors import ByocirError
from byocir.runtime.export import export_project
from byocir.runtime.native import host_code
from byocir.runtime.report_text import explain, summary


def test_only_what_is_open_is_called_back():
    x = np.random.default_rng(1).normal(size=(1, 12, 4)).astype(np.float32)
    package = same(detector(), {"x": x})
    report = package.report
    assert report.host_runs_on == "c"
    names = ["Unique_10", "Neg_11"]
    assert list(report.called_back) == names
    assert report.called_back[names[0]].startswith("makes what only a run tells")
    assert "'Unique_10'" in report.called_back[names[1]]
    (call,) = host_code(package.module).calls
    assert call.op.name == "func.call"
    assert "host operators called back" in summary(report)
    assert "called back from C: takes what is open" in explain(report, "Neg_11")
    assert any("2 operators run in the evaluator" in note for note in report.notes)


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
    told = r"B350.*found node 'Unique_10' \(Unique\), tensor<\?xf32>"
    with pytest.raises(ByocirError, match=told):
        export_project(package)
    path = tmp_path / "net.onnx"
    path.write_bytes(detector().SerializeToString())
    assert main(["run", str(path), "--target", "vta", "--emit", "scf"]) == 1
    told = capsys.readouterr().err
    assert "B340" in told
    assert "node 'Unique_10' (Unique)" in told
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


# -- as one model


def test_what_is_called_back_in_a_row_is_one_model():
    """Also where C computes something between that it can compute before."""
    nodes = [
        node("Unique", "x", "u"),
        node("Neg", "u", "n"),
        node("Exp", "z", "e"),
        node("Mul", "n e", "y"),
        node("Relu", "n", "r"),
    ]
    model = model_of(nodes, {"x": (7,), "z": (1,)}, ["y", "r"])
    feeds = {"x": np.float32([1, 2, 2, 0, 3, 1, 1]), "z": np.ones(1, np.float32)}
    package = same(model, feeds)
    (call,) = host_code(package.module).calls
    assert call.op.name == "func.call"
    assert [*package.report.called_back] == ["Unique_0", "Neg_1", "Mul_3", "Relu_4"]
    assert package.report.ran_on == dict.fromkeys(package.report.called_back, "onnxruntime")


def test_an_error_in_one_model_is_that_of_a_node():
    nodes = [node("Unique", "x", "u"), node("Reshape", "u two", "r"), node("Neg", "r", "y")]
    model = model_of(nodes, {"x": (4,)}, ["y"], {"two": np.array([2])})
    package = byocir.compile(model, targets=[], host="c")
    with pytest.raises(ByocirError, match=r"B312[^\n]*Reshape[^\n]*(\n[^\n]*)?'Reshape_1'"):
        package.run({"x": np.arange(4, dtype=np.float32)})
    assert package.run({"x": np.float32([1, 0, 1, 0])})["y"].tolist() == [0, -1]


def test_what_onnx_runtime_refuses_runs_one_by_one():
    """It takes no integers of this width for this operator; the reference does."""
    nodes = [
        node("Unique", "x", "u"),
        node("Cast", "u", "i", to=TensorProto.UINT16),
        node("Abs", "i", "a"),
        node("Clip", "a", "b"),
        node("Cast", "b", "y", to=TensorProto.FLOAT),
    ]
    package = same(model_of(nodes, {"x": (4,)}, ["y"]), {"x": np.float32([3, 1, 1, 2])})
    assert len(host_code(package.module).calls) == 1


# -- branches


def test_branches_are_c():
    """What they read is changed by none; one hands on what it reads."""
    then = graph([node("Sqrt", "r", "s"), node("Add", "s x", "t")], "t")
    nested = if_("d", "n", graph([node("Neg", "x", "e")], "e"), graph([node("Exp", "r", "f")], "f"))
    otherwise = graph([node("Not", "c", "d"), nested, node("Relu", "n", "o")], "o")
    nodes = [
        node("Abs", "x", "r"),
        if_("c", "y", then, otherwise),
        if_(
            "c", "z", graph([node("Identity", "r", "i")], "i"), graph([node("Neg", "r", "j")], "j")
        ),
        node("Add", "y r", "w"),
    ]
    package = both_ways(nodes, ["w", "z"])
    assert not package.report.called_back
    assert host_code(package.module).calls == []
    assert "model.c" in export_project(package)


def test_an_output_of_a_branch_is_not_there():
    then = graph([node("Neg", "x", "a"), node("Exp", "x", "b")], "a", "b")
    otherwise = graph([node("Exp", "x", "e"), node("Abs", "x", "f")], "e", "f")
    missing = helper.make_node("If", ["c"], ["", "y"], then_branch=then, else_branch=otherwise)
    assert not both_ways([missing], ["y"]).report.called_back


def test_branches_of_different_shapes():
    """Only a run tells the shape of the result: the evaluator keeps what C made."""
    then = graph([node("Exp", "x", "a"), node("Neg", "a", "b")], "b", "a")
    otherwise = graph(
        [node("Sigmoid", "x", "d"), node("ReduceSum", "d", "e", keepdims=1)], "e", "d"
    )
    nodes = [if_("c", "y z", then, otherwise), node("Relu", "y", "w"), node("Neg", "z", "v")]
    package = both_ways(nodes, ["w", "v", "y"])
    assert package.report.host_runs_on == "c"
    (relu,) = package.report.called_back
    assert package.report.called_back[relu].startswith("takes what is open since node 'If_2' (If)")


def test_a_branch_holds_what_is_open():
    count = [node("Unique", "a", "n"), node("Size", "n", "s"), node("Mul", "s s", "t")]
    then = graph([node("Abs", "x", "a"), *count, node("Neg", "t", "u")], "u")
    sizes = [node("Cast", "e", "f", to=TensorProto.INT64)]
    otherwise = graph([node("Neg", "x", "d"), node("ReduceMax", "d", "e", keepdims=0), *sizes], "f")
    package = both_ways([if_("c", "y", then, otherwise)], ["y"])
    assert len(package.report.called_back) == 2
    with pytest.raises(ByocirError, match=r"B350.*\(Unique\)"):
        export_project(package)


def test_a_branch_that_cannot_run_says_nothing_of_results():
    """As in models of several rates, where the inputs that are pinned fit only one branch."""
    then = graph([node("MatMul", "x wrong", "a"), node("Exp", "a", "b")], "b")
    otherwise = graph([node("Neg", "x", "d")], "d")
    nodes = [*POSITIVE, if_("c", "y", then, otherwise), node("Relu", "y", "z")]
    weights = {**LEAST, "wrong": np.ones((5, 5), np.float32)}
    model = model_of(nodes, {"x": (2, "n")}, ["z"], weights)
    package = same(model, {"x": -np.ones((2, 3), np.float32)}, shapes={"x": (2, 3)})
    assert str(package.outputs["z"]) == "tensor<2x3xf32>"
    assert host_code(package.module).calls == []
    assert "MODEL_UNFIT" in export_project(package)["model.h"].decode()
    with pytest.raises(ByocirError, match="B312"):
        package.run({"x": np.ones((2, 3), np.float32)})


def test_work_in_both_branches_is_told():
    """A report counts it, though a run takes one of them."""
    then, otherwise = (graph([node("MatMul", f"x {w}", o)], o) for w, o in (("a", "d"), ("b", "e")))
    nodes = [*POSITIVE, if_("c", "y", then, otherwise)]
    weights = {**LEAST, **dict.fromkeys("ab", np.ones((3, 4), np.float32))}
    model = model_of(nodes, {"x": (2, 3)}, ["y"], weights)
    report = byocir.compile(model, targets=[]).report
    assert sum(each.macs for each in report.nodes) == 48
    (told,) = [note for note in report.notes if "both branches" in note]
    assert "of If_2: a run takes one" in told


# -- random graphs

FLOATS = ("Relu", "Neg", "Exp", "Sigmoid", "Abs")
PAIRS = ("Add", "Mul", "Max")


@st.composite
def graphs(draw):
    """Floats of one size, and others of as many elements as a test holds for, mixed at random."""
    nodes, static, open_ = [], ["x"], []
    for i in range(draw(st.integers(3, 9))):
        out, source = f"v{i}", draw(st.sampled_from(static))
        kinds = ["one", "two", "compress", "unique", "where", "if"] + (
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
        elif kind == "if":
            other, ops = draw(st.sampled_from(static)), draw(st.permutations(FLOATS))
            nodes += [node("ReduceMax", source, f"{out}m", keepdims=0)]
            nodes += [node("Greater", f"{out}m low", f"{out}c")]
            then = [node(ops[0], other, f"{out}a"), node("Add", f"{out}a {source}", f"{out}t")]
            otherwise = graph([node(ops[1], source, f"{out}e")], f"{out}e")
            nodes += [if_(f"{out}c", out, graph(then, f"{out}t"), otherwise)]
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
