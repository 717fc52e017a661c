"""byocir bisect: the first step that changes what a model computes, whatever kind it is of."""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from byocir.cli.main import main
from byocir.cli.opt import run_opt

TARGET = '''
from dataclasses import dataclass

from xdsl.passes import ModulePass

from byocir import Target
from byocir.dialects.tir import FillOp
from byocir.dialects.graph import ReluOp
from byocir.patterns import composite, op, wildcard


@composite("bad.add")
def add():
    """An add."""
    return op("graph.add", wildcard("x"), wildcard("y"))


@dataclass(frozen=True)
class DropRelu(ModulePass):
    """Forgets the activation."""

    name = "drop-relu"

    def apply(self, ctx, module):
        for found in [each for each in module.walk() if isinstance(each, ReluOp)]:
            found.result.replace_all_uses_with(found.operands[0])


@dataclass(frozen=True)
class Bad(Target):
    name = "bad"
    patterns = (add,)
    wrong: str = ""

    def passes(self, point):
        if point == "before-match" and self.wrong == "pass":
            return [DropRelu()]
        return []

    def emit(self, module, symbols):
        return {"code": ",".join(symbols).encode()}

    def load(self, blobs):
        off = 1 if self.wrong == "code" else 0
        return lambda symbol, inputs: [inputs[0] + inputs[-1] + inputs[0].dtype.type(off)]
'''


@pytest.fixture
def files(tmp_path):
    """A model relu(x) + x, and a target in a file that can be wrong in several ways."""
    nodes = [
        helper.make_node("Relu", ["x"], ["r"], name="first"),
        helper.make_node("Add", ["r", "x"], ["y"], name="second"),
    ]
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, 3]) for n in "xy"]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:])
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), tmp_path / "m.onnx")
    (tmp_path / "bad.py").write_text(TARGET)
    return str(tmp_path / "m.onnx"), f"{tmp_path / 'bad.py'}:Bad"


def run(capsys, *arguments):
    """The exit code, the result as JSON, and the lines of progress."""
    code = main(["bisect", *arguments, "--json"])
    out, err = capsys.readouterr()
    return code, json.loads(out), err.splitlines()


def test_a_sound_compilation_has_no_such_step(small, capsys):
    code, result, lines = run(capsys, small)
    assert (code, result["found"]) == (0, None)
    assert len(lines) == len(result["steps"])
    steps = [step["step"] for step in result["steps"]]
    assert steps[0] == "import"
    assert steps[-3:] == ["code of vta_0", "code of vta_1", "run (reference host)"]
    assert {"fix-point{rounding=half_up}", "convert-graph-to-tir", "vta-encode"} & set(steps)
    assert re.fullmatch(r"\[ 1\] import +ok +\d+\.\d\d s", lines[0])


def test_a_wrong_pass_of_a_target_is_named(files, capsys):
    model, target = files
    code, result, lines = run(capsys, model, "--target", target + '{wrong="pass"}')
    found = result["found"]
    assert (code, found["step"]) == (3, "drop-relu")
    assert "second" in found["ops"]
    assert len(found["element"]) == 2
    assert float(found["found"]) == pytest.approx(2 * float(found["before"]) or 1, abs=10)
    assert result["steps"][-1] == {"step": "drop-relu", "verdict": "CHANGED"}
    assert "drop-relu" in lines[-1]


def test_wrong_code_of_a_region_is_named(files, capsys):
    model, target = files
    code, result, _ = run(capsys, model, "--target", target + '{wrong="code"}')
    found = result["found"]
    assert (code, found["step"], found["ops"]) == (3, "code of bad_0", "the ops of second")
    assert float(found["found"]) - float(found["before"]) == pytest.approx(1, abs=1e-5)


def test_regions_without_code_run_in_the_evaluator(files, tmp_path, capsys):
    model, _ = files
    (tmp_path / "plain.py").write_text(TARGET.partition("    def emit(")[0])
    code, result, _ = run(capsys, model, "--target", f"{tmp_path}/plain.py:Bad")
    assert (code, result["found"]) == (0, None)


def test_the_sentence_for_people(files, capsys):
    model, target = files
    assert main(["bisect", model, "--target", target + '{wrong="pass"}']) == 3
    out = capsys.readouterr().out
    assert out.startswith(
        "drop-relu is the first step that changes a result\n  what     output 'y'"
    )


def test_given_inputs_are_used(files, tmp_path, capsys):
    model, target = files
    np.savez(tmp_path / "in.npz", x=np.ones((2, 3), np.float32))  # relu does nothing
    given = ["--input", str(tmp_path / "in.npz")]
    assert run(capsys, model, "--target", target + '{wrong="pass"}', *given)[0] == 0


def test_a_reproducer_names_targets_from_files(files, capsys, monkeypatch):
    model, target = files

    def fail(self, ctx, module):
        raise KeyError("oops")

    with monkeypatch.context() as broken:
        broken.setattr("byocir.rewrites.byoc.merge_regions.MergeRegionsPass.apply", fail)
        assert main(["run", model, "--target", target + '{wrong="code"}']) == 70
    path = re.search(r"reproducer +(\S+)", capsys.readouterr().err)
    assert path is not None
    command = Path(path[1]).read_text().split("\n// byocir-opt ")[1].split("\n")[0]
    assert f"--load-target '{target}{{wrong" in command
    monkeypatch.chdir(Path(path[1]).parent)
    assert run_opt(shlex.split(command)) == 0  # it is repaired
    assert "byoc.region" in capsys.readouterr().out


def test_byocir_opt_knows_the_passes_of_a_target(files, capsys):
    model, target = files
    given = ["--load-target", target + '{wrong="pass"}']
    assert run_opt([model, *given, "-p", "drop-relu"]) == 0
    assert "graph.add %x, %x" in capsys.readouterr().out


@pytest.mark.parametrize("step", [9, 0.02])
def test_numbers_of_the_import_are_compared_with_onnx_runtime(step, tmp_path, capsys, monkeypatch):
    pytest.importorskip("onnxruntime")
    node = helper.make_node("Add", ["x", "c"], ["y"], name="add")
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [3]) for n in "xy"]
    c = numpy_helper.from_array(np.zeros(3, np.float32), "c")
    graph = helper.make_graph([node], "g", ports[:1], ports[1:], [c])
    opset = [helper.make_opsetid("", 17)]
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), path)

    def wrong(session, feeds):
        return [feeds["x"] + np.float32([0, 0, step])]

    monkeypatch.setattr("byocir.targets.ort_session.Session.run", wrong)
    code, result, _ = run(capsys, str(path), "--target", "json")
    assert (code, result["found"]["step"], result["found"]["element"]) == (3, "import", [2])
