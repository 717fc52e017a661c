"""ONNX Runtime as a target: whole models on it, against the evaluator; what it refuses."""

from __future__ import annotations

import os
import signal
import threading
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import byocir
from byocir.errors import ByocirError
from byocir.evaluate.module import evaluate
from byocir.targets import ort_session
from byocir.targets.ort import Ort

ROOT = Path(__file__).parents[2]
DIGITS = ROOT / "examples" / "digits"
SHAPES = {"image": (1, 1, 8, 8)}
IMAGE = {"image": np.linspace(-2, 2, 64, dtype=np.float32).reshape(1, 1, 8, 8)}
X = np.linspace(-2, 2, 8, dtype=np.float32).reshape(2, 4)
node = helper.make_node


def port(name: str, shape: Any = (2, 4), element: int = TensorProto.FLOAT) -> Any:
    return helper.make_tensor_value_info(name, element, shape)


def model(
    *nodes: onnx.NodeProto, inputs: Any = None, outputs: Any = None, **weights: np.ndarray
) -> onnx.ModelProto:
    arrays = [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()]
    ports = inputs or [port("x")], outputs or [port("y", None)]
    graph = helper.make_graph(nodes, "g", *ports, arrays)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def compiled(made: Any, **options: Any) -> byocir.Package:
    return byocir.compile(made, targets=Ort(), **options)


def check(made: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> byocir.Package:
    """Everything runs on ONNX Runtime and computes what the evaluator does."""
    package = compiled(made)
    expected = evaluate(byocir.import_onnx(made), feeds)
    found = package.run(feeds)
    assert list(found) == list(expected)
    for name, value in expected.items():
        assert (found[name].shape, found[name].dtype) == (value.shape, value.dtype)
        np.testing.assert_allclose(found[name], value, 1e-5, 1e-6)
    assert package.report.host == []
    return package


@pytest.mark.parametrize("name", ["digits_f32.onnx", "digits_int8.onnx"])
def test_a_whole_model_runs_from_a_saved_package(name: str, tmp_path: Path) -> None:
    package = compiled(DIGITS / name, shapes=SHAPES)
    assert [region.symbol for region in package.report.regions] == ["ort_0"]
    assert package.report.macs["host"] == 0
    package.save(tmp_path / "m.bpkg")
    again = byocir.load(tmp_path / "m.bpkg", targets=[Ort()])
    expected = evaluate(byocir.import_onnx(DIGITS / name, shapes=SHAPES), IMAGE)
    for each in (package, again):
        np.testing.assert_allclose(each.run(IMAGE)["logits"], expected["logits"], 1e-4, 1e-4)


def test_the_code_is_a_valid_model_and_the_same_each_time() -> None:
    first, second = (compiled(DIGITS / "digits_int8.onnx", shapes=SHAPES) for _ in range(2))
    assert first.blobs == second.blobs
    (content,) = first.blobs["ort"].values()
    region = onnx.load_model_from_string(content)
    onnx.checker.check_model(region, full_check=True)
    assert all(entry.version <= 26 for entry in region.opset_import)


def test_several_results_and_optional_operands() -> None:
    package = check(
        model(
            node("Split", ["x"], ["a", "b"], axis=1, num_outputs=2),
            node("TopK", ["a", "k"], ["v", "i"]),
            node("Clip", ["b", "", "top"], ["c"]),
            node("Concat", ["v", "c"], ["y"], axis=1),
            k=np.array([1], np.int64),
            top=np.array(0.5, np.float32),
        ),
        {"x": X},
    )
    assert len(package.report.regions) == 1


def test_foreign_ops_with_graphs_that_use_values_around_them() -> None:
    def branch(op_type: str) -> onnx.GraphProto:
        return helper.make_graph([node(op_type, ["r"], ["b"])], op_type, [], [port("b", None)])

    made = model(
        node("Relu", ["x"], ["r"]),
        node("If", ["c"], ["h"], then_branch=branch("Neg"), else_branch=branch("Exp")),
        node("Compress", ["h", "keep"], ["y"], axis=1),
        inputs=[port("x"), port("c", (), TensorProto.BOOL)],
        keep=np.array([True, False, True, False]),
    )
    for condition in (True, False):
        check(made, {"x": X, "c": np.array(condition)})


def test_sizes_that_only_the_input_tells() -> None:
    made = model(
        node("Softmax", ["x"], ["s"]),
        node("MatMul", ["s", "w"], ["y"]),
        inputs=[port("x", ("n", 4))],
        w=np.ones((4, 3), np.float32),
    )
    package = check(made, {"x": X})
    assert package.report.regions[0].bytes == 0
    check(made, {"x": X[:1]})


def test_what_is_no_tensor_of_numbers_stays_on_the_host() -> None:
    made = model(
        node("Neg", ["x"], ["n"]),
        node("SequenceConstruct", ["x", "n"], ["s"]),
        node("ConcatFromSequence", ["s"], ["c"], axis=0),
        node("Abs", ["c"], ["y"]),
    )
    package = compiled(made)
    assert [d.pattern for d in package.report.reasons["Neg_0"] if d.taken] == ["ort.neg"]
    assert package.report.host == ["SequenceConstruct_1", "ConcatFromSequence_2"]
    (declined,) = package.report.reasons["SequenceConstruct_1"]
    assert [rule.sentence for rule in declined.rules] == [
        "ONNX Runtime takes its values, weights aside, from Python, and is right about them"
    ]
    assert [rule.fix for rule in declined.rules] == ["leave it on the host"]
    np.testing.assert_array_equal(package.run({"x": X})["y"], np.abs(np.concatenate([X, -X])))


def test_corners_that_onnx_runtime_puts_elsewhere_stay_on_the_host() -> None:
    resize = {"coordinate_transformation_mode": "align_corners", "mode": "linear"}
    scales = np.float32([1, 1.7])
    made = model(node("Resize", ["x", "", "scales"], ["y"], **resize), scales=scales)
    package = compiled(made)
    assert package.report.host == ["Resize_0"]
    (declined,) = package.report.reasons["Resize_0"]
    assert [rule.seen for rule in declined.rules] == [
        "align_corners with scales that lead to no whole size"
    ]
    assert [rule.fix for rule in declined.rules] == [
        "give a Resize the sizes of its output in place of scales"
    ]


def test_numbers_that_numpy_lacks_stay_on_the_host() -> None:
    """Its Python interface takes and gives none; as weights they never cross."""
    bf16, int4 = TensorProto.BFLOAT16, TensorProto.INT4
    made = model(
        node("Cast", ["x"], ["b"], to=bf16),
        node("Add", ["b", "b"], ["c"]),
        node("Cast", ["c"], ["d"], to=TensorProto.FLOAT),
        node("DequantizeLinear", ["w", "s"], ["e"]),
        node("Mul", ["d", "e"], ["y"]),
        s=np.array(0.5, np.float32),
    )
    made.graph.initializer.append(helper.make_tensor("w", int4, (4,), [1, -2, 3, -4]))
    package = compiled(made)
    assert package.report.host == ["Cast_0", "Add_1", "Cast_2"]
    (declined,) = package.report.reasons["Add_1"]
    assert [rule.fix for rule in declined.rules] == [
        "compute it in a type that numpy has, such as f32: cast what goes in and comes out"
    ]
    exact = X.astype(ml_dtypes.bfloat16).astype(np.float32) * 2
    np.testing.assert_array_equal(package.run({"x": X})["y"], exact * [0.5, -1, 1.5, -2])


def test_options() -> None:
    made = model(node("Relu", ["x"], ["y"]))
    package = byocir.compile(made, targets=Ort(optimise=True, threads=2))
    np.testing.assert_array_equal(package.run({"x": X})["y"], np.maximum(X, 0))
    with pytest.raises(ValueError, match="expected threads of at least 1, found 0"):
        Ort(threads=0)


def test_optimisations_that_refuse_right_models_are_off() -> None:
    """ONNX Runtime joins a Relu and the Clip behind it, and fails where they are of integers."""
    low, high = np.array(-1, np.int32), np.array(5, np.int32)
    steps = node("Relu", ["x"], ["r"]), node("Clip", ["r", "low", "high"], ["y"])
    x, y = (port(name, element=TensorProto.INT32) for name in ("x", "y"))
    made = model(*steps, inputs=[x], outputs=[y], low=low, high=high)
    package = byocir.compile(made, targets=Ort(optimise=True))
    found = package.run({"x": np.arange(-1, 7, dtype=np.int32).reshape(2, 4)})["y"]
    np.testing.assert_array_equal(found, [[0, 0, 1, 2], [3, 4, 5, 5]])


def test_what_onnx_runtime_does_not_take(monkeypatch: pytest.MonkeyPatch) -> None:
    strange = node("Magic", ["x"], ["y"], domain="com.example")
    made = model(strange, outputs=[port("y")])
    made.opset_import.append(helper.make_opsetid("com.example", 1))
    package = compiled(made)
    with pytest.raises(ByocirError, match=r"B370.*to take region ort_0, found: .*Magic"):
        package.run({"x": X})

    def missing(name: str) -> None:
        raise ImportError(f"No module named '{name}'")

    package = compiled(model(node("Relu", ["x"], ["y"])))
    monkeypatch.setattr(ort_session, "import_module", missing)
    with pytest.raises(ByocirError, match=r"B370.*no ONNX Runtime") as caught:
        package.run({"x": X})
    assert "byocir[ort]" in caught.value.help


def test_values_that_do_not_fit() -> None:
    made = model(node("Gather", ["x", "i"], ["y"]), inputs=[port("x"), port("i", (1,), 7)])
    package = compiled(made)
    with pytest.raises(ByocirError, match=r"B372.*expected region ort_0 to run, found"):
        package.run({"x": X, "i": np.array([9])})


@pytest.mark.parametrize("content", [None, b"no model"])
def test_damaged_code(content: bytes | None) -> None:
    run = Ort().load({} if content is None else {"ort_0.onnx": content})
    with pytest.raises(ByocirError, match=r"B371.*expected a model of region ort_0"):
        run("ort_0", [X])


def test_it_is_an_entry_point() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    entry = project["project"]["entry-points"]["byocir.targets"]["ort"]
    module, _, name = entry.partition(":")
    assert getattr(import_module(module), name) is Ort


def test_an_interrupt_ends_a_loop_without_end():
    """In a program of one's own, too, which byocir's tools would end as a whole."""

    def flag(name: str) -> Any:
        return port(name, [], TensorProto.BOOL)

    same = [node("Identity", ["c"], ["d"]), node("Not", ["v"], ["w"])]
    count = port("i", [], TensorProto.INT64)
    ports = [count, flag("c"), flag("v")], [flag("d"), flag("w")]
    loop = node("Loop", ["", "t", "t"], ["y"], body=helper.make_graph(same, "body", *ports))
    session = ort_session.Session(model(loop, inputs=[flag("t")], outputs=[flag("y")]))
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        session.run({"t": np.array(True)})
    (made,) = session.run({"t": np.array(False)})
    assert made.item() is False
