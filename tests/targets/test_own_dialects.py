"""A vendor's dialect, op, evaluation rule and ONNX operator, from a file outside the package."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Dialect

import byocir
from byocir.cli.main import main
from byocir.cli.opt import run_opt
from byocir.dialects.context import load_context
from byocir.dialects.text import parse_module
from byocir.evaluate.module import evaluate
from byocir.frontend.onnx.entry import regular
from byocir.rewrites.pipeline import run_passes
from byocir.runtime.export import export_project
from byocir.vendor import registry
from byocir.vendor.user_code import import_file

NPU = str(Path(__file__).parents[2] / "examples" / "square_npu.py")
SQUARE_NPU = import_file(Path(NPU), "B217").SquareNpu
WEIGHTS = np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32)
FEEDS = {"x": np.random.default_rng(1).standard_normal((2, 8)).astype(np.float32)}


def model() -> onnx.ModelProto:
    """A product, a square, a relu, a softmax and a square; nothing tells types but the inputs."""
    node = helper.make_node
    graph = helper.make_graph(
        [
            node("MatMul", ["x", "w"], ["a"], "dense"),
            node("Square", ["a"], ["b"], "square", domain="com.foo", scale=0.5),
            node("Relu", ["b"], ["c"], "relu"),
            node("Softmax", ["c"], ["d"], "soft"),
            node("Square", ["d"], ["y"], "last", domain="com.foo"),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(WEIGHTS, "w")],
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.foo", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def expected() -> np.ndarray:
    squared = np.maximum((FEEDS["x"] @ WEIGHTS) ** 2 * 0.5, 0)
    powers = np.exp(squared - squared.max(1, keepdims=True))
    return (powers / powers.sum(1, keepdims=True)) ** 2


def check(outputs: dict[str, np.ndarray]) -> None:
    np.testing.assert_allclose(outputs["y"], expected(), rtol=1e-5)


@pytest.fixture
def path(tmp_path: Path) -> str:
    onnx.save(model(), str(tmp_path / "m.onnx"))
    return str(tmp_path / "m.onnx")


@pytest.fixture(autouse=True)
def unknown() -> Iterator[None]:
    """Forgets what targets this process knows, as a new one would."""
    with registry.forgetting(afresh=True):
        yield


def test_what_follows_an_operator_of_a_targets_own_has_types():
    module = byocir.import_onnx(model(), targets=NPU)
    assert "graph.foreign" not in str(module)
    assert "graph.softmax" in str(module)
    assert str(byocir.import_onnx(model())).count("graph.foreign") == 4  # without the target
    check(evaluate(module, FEEDS))


@pytest.mark.parametrize("host", ["reference", "c"])
def test_it_is_taken_checked_saved_and_run(host: str, tmp_path: Path):
    package = byocir.compile(model(), targets=NPU, host=host)
    found = [c.nodes for region in package.report.regions for c in region.composites]
    assert [list(nodes) for nodes in found] == [["square", "relu"], ["last"]]
    check(package.run(FEEDS))
    package.save(tmp_path / "m.bpkg")
    check(byocir.load(tmp_path / "m.bpkg", targets=NPU).run(FEEDS))


def test_each_step_is_checked_and_bisected(path: str, capsys: pytest.CaptureFixture[str]):
    assert main(["run", path, "--target", NPU, "--check-each"]) == 0
    assert main(["bisect", path, "--target", NPU]) == 0
    assert "none changes what the model computes" in capsys.readouterr().out


def test_outputs_are_verified_without_a_runtime_that_lacks_the_operator(
    path: str, capsys: pytest.CaptureFixture[str]
):
    assert main(["run", path, "--target", NPU, "--verify"]) == 0
    out = capsys.readouterr().out
    assert "note not compared with ONNX Runtime, as targets bring operators of their own: " in out
    assert "ok   y: the evaluator: " in out


@pytest.mark.parametrize("stage", ["graph", "partitioned"])
def test_modules_are_read_where_the_target_is_given(
    stage: str,
    path: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
):
    saved = str(tmp_path / "m.mlir")
    assert main(["compile", path, "--target", NPU, "--emit", stage, "-o", saved]) == 0
    capsys.readouterr()
    with registry.forgetting(afresh=True):
        assert main(["run", saved]) == 1
    error = capsys.readouterr().err
    assert "error[B120]" in error
    assert "if 'foo' is a target's own dialect, the target's file is given with --target" in error
    assert "--load-target npu.py:Npu for byocir-opt" in error
    check(byocir.compile(saved, targets=NPU).run(FEEDS))
    lower = ["-p", "convert-graph-to-tir", "--check-each"]
    assert run_opt([saved, "--load-target", NPU, *lower]) == 0


@dataclass(frozen=True)
class Installed(SQUARE_NPU):
    """A target that a package brings, whose regions the evaluator runs: their bodies stay."""

    def emit(self, module: ModuleOp, symbols: Sequence[str]) -> dict[str, bytes]:
        return {}


class Entry(NamedTuple):
    """The entry point of a target."""

    name: str = "npu"
    value: str = "here:Installed"
    dist: None = None

    def load(self) -> type[Installed]:
        return Installed


def test_an_installed_target_that_cannot_be_loaded_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    entry = EntryPoint("broken", "no_such_module:Npu", registry.TARGETS)
    monkeypatch.setattr(registry, "installed", lambda *group: [] if group else [entry])
    assert main(["targets", "broken"]) == 1
    err = capsys.readouterr().err
    assert "error[B217]: target 'broken' cannot be loaded: ModuleNotFoundError" in err
    assert "at    no_such_module:Npu" in err


@pytest.mark.parametrize("is_package", [False, True])
def test_what_was_saved_names_the_installed_target_whose_dialect_it_has(
    is_package: bool, tmp_path: Path, path: str, monkeypatch: pytest.MonkeyPatch
):
    saved = tmp_path / ("m.bpkg" if is_package else "m.mlir")
    if is_package:
        byocir.compile(model(), targets=Installed()).save(saved)
    else:
        main(["compile", path, "--target", NPU, "--emit", "partitioned", "-o", str(saved)])
    monkeypatch.setattr(registry, "installed", lambda *group: [] if group else [Entry()])
    with registry.forgetting(afresh=True):
        loaded = byocir.load(saved) if is_package else byocir.compile(saved)
        assert "foo.square" in str(loaded.module)
        check(loaded.run(FEEDS))


def test_it_goes_out_as_the_operator_that_came_in():
    again = byocir.export_onnx(byocir.import_onnx(model(), targets=NPU), NPU)
    nodes = [(n.domain, n.op_type) for n in again.graph.node]
    assert nodes == [(n.domain, n.op_type) for n in model().graph.node]
    scales = [n.attribute[0].f for n in again.graph.node if n.op_type == "Square"]
    assert scales == [0.5, 1.0]
    check(byocir.compile(again, targets=NPU).run(FEEDS))


def test_a_project_computes_it_in_c_where_the_host_keeps_it(tmp_path: Path):
    package = byocir.compile(model(), targets=NPU, host="c", levels=["tensor"])
    for name, data in export_project(package).items():
        (tmp_path / name).write_bytes(data)
    np.save(tmp_path / "x.npy", FEEDS["x"])
    subprocess.run(["make", "-s", "CFLAGS=-O1 -Werror"], cwd=tmp_path, check=True)
    subprocess.run(["./model", "x.npy", "y.npy"], cwd=tmp_path, check=True, capture_output=True)
    check({"y": np.load(tmp_path / "y.npy")})


def test_conform_draws_from_its_patterns(capsys: pytest.CaptureFixture[str]):
    assert main(["conform", NPU, "--rounds", "1"]) == 0
    assert "0 wrong, 0 never reached" in capsys.readouterr().out


def test_words_that_are_none_are_refused():
    line = SQUARE_NPU.operators[0]

    @dataclass(frozen=True)
    class Taken(SQUARE_NPU):
        dialects = (Dialect("graph", []),)

    @dataclass(frozen=True)
    class Alone(SQUARE_NPU):
        dialects = SQUARE_NPU.dialects[0]

    @dataclass(frozen=True)
    class OfOnnx(SQUARE_NPU):
        operators = (regular("Relu", line.op),)

    @dataclass(frozen=True)
    class Text(SQUARE_NPU):
        operators = ("com.foo.Square",)

    for target, found in (
        (Taken, "with names of their own, found 'graph'"),
        (Alone, "a tuple of Dialect, found Dialect"),
        (OfOnnx, "with a domain of their own, found 'Relu'"),
        (Text, "a tuple of Entry, found str"),
    ):
        with pytest.raises(byocir.ByocirError, match=found) as error:
            byocir.compile(model(), targets=target())
        assert error.value.code == "B216"


@pytest.mark.parametrize("exact", [True, False])
def test_its_operators_on_constants_are_folded_where_they_are_exact(
    exact: bool, monkeypatch: pytest.MonkeyPatch
):
    (dialect,) = SQUARE_NPU.dialects
    registry.give_dialect(dialect.name, dialect)
    (square,) = dialect.operations
    monkeypatch.setattr(square, "is_exact", lambda self: exact)
    module = parse_module("""func.func @main() -> tensor<2xf32> {
      %c = graph.constant #graph.array<[1.0, 4.0] : tensor<2xf32>>
      %s = foo.square %c {scale = 0.5 : f32} : (tensor<2xf32>) -> tensor<2xf32>
      func.return %s : tensor<2xf32> }""")
    run_passes(module, load_context(), "fold-constants")
    assert ("foo.square" in str(module)) != exact
    (result,) = evaluate(module, {}).values()
    assert result.tolist() == [0.5, 8.0]
