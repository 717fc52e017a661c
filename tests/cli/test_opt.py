"""byocir-opt: files, options, exit codes."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from xdsl.dialects.builtin import IntegerType, ModuleOp
from xdsl.utils.exceptions import VerifyException

from byocir.cli.opt import run_opt
from byocir.dialects.array import ArrayStore
from byocir.dialects.graph import ConstantOp
from byocir.dialects.text import parse_module, print_module
from byocir.dialects.weights import dump_weights, load_weights

BIN = Path(sys.executable).parent
RELU = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = graph.relu %x : (tensor<4xf32>) -> tensor<4xf32> loc("first")
  %1 = graph.relu %0 : (tensor<4xf32>) -> tensor<4xf32> loc("second")
  func.return %1 : tensor<4xf32>
}
"""


@pytest.fixture
def relu(tmp_path) -> Path:
    path = tmp_path / "relu.mlir"
    path.write_text(RELU)
    return path


@pytest.fixture
def weighted(tmp_path) -> Path:
    """A module with a large constant, and its weights beside it."""
    path = tmp_path / "in.mlir"
    module = ModuleOp([ConstantOp.of(np.arange(100, dtype=np.int32))])
    path.write_text(print_module(module))
    path.with_suffix(".safetensors").write_bytes(dump_weights(module))
    return path


@pytest.fixture
def model(tmp_path) -> Path:
    """An ONNX model with an open batch size and a large weight."""
    weight = numpy_helper.from_array(np.ones((8, 4), np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"], name="MatMul_0")],
        "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", 8])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["n", 4])],
        [weight],
    )
    path = tmp_path / "model.onnx"
    opset = [helper.make_opsetid("", 21)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=10), path)
    return path


def test_prints_locations_unless_told_otherwise(relu, capsys):
    assert run_opt([str(relu), "-p", "clean-up"]) == 0
    assert 'loc(fused["first", "second"])' in capsys.readouterr().out
    assert run_opt([str(relu), "-p", "clean-up", "--no-debuginfo"]) == 0
    assert "loc" not in capsys.readouterr().out


def test_times_and_prints_between_passes_go_to_stderr(relu, capsys):
    passes = "clean-up,fold-constants"
    args = [str(relu), "-p", passes, "--time-passes", "--print-between-passes"]
    assert run_opt(args) == 0
    printed = capsys.readouterr()
    parse_module(printed.out)
    assert printed.err.count(" s  ") == 2
    assert "// IR after clean-up:" in printed.err
    assert "// IR after fold-constants:" not in printed.err


def test_xdsl_options_still_work(relu, capsys):
    assert run_opt([str(relu), "--print-op-generic"]) == 0
    assert '"graph.relu"(%x)' in capsys.readouterr().out
    assert run_opt([str(relu), "--syntax-highlight"]) == 0
    assert "\x1b[" in capsys.readouterr().out
    assert run_opt([str(relu), "-p", "canonicalize,cse,clean-up"]) == 0


def test_weights_beside_the_text_are_read_and_written(weighted, tmp_path):
    out = tmp_path / "out.mlir"
    assert run_opt([str(weighted), "-o", str(out)]) == 0
    assert out.read_bytes() == weighted.read_bytes()
    written = out.with_suffix(".safetensors").read_bytes()
    assert written == weighted.with_suffix(".safetensors").read_bytes()


def test_weights_can_be_elsewhere(weighted, tmp_path, capsys):
    moved, out = tmp_path / "moved", tmp_path / "written"
    weighted.with_suffix(".safetensors").rename(moved)
    assert run_opt([str(weighted), "--weights", str(moved), "--weights-out", str(out)]) == 0
    assert out.read_bytes() == moved.read_bytes()
    store = ArrayStore()
    load_weights(out, store)
    values = parse_module(capsys.readouterr().out, arrays=store).body.block.first_op.value.data
    np.testing.assert_array_equal(values.values(), np.arange(100))


def test_text_without_its_weights_is_fine(weighted, tmp_path):
    weighted.with_suffix(".safetensors").unlink()
    assert run_opt([str(weighted), "-o", str(tmp_path / "out.mlir")]) == 0


def test_no_weights_are_written_when_there_are_none(relu, tmp_path):
    assert run_opt([str(relu), "-o", str(tmp_path / "out.mlir")]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.mlir", "relu.mlir"]


def test_the_output_may_be_the_input(relu):
    assert run_opt([str(relu), "-p", "clean-up", "-o", str(relu)]) == 0
    assert relu.read_text().count("graph.relu") == 1
    assert run_opt([str(relu), "-p", "clean-uq", "-o", str(relu)]) == 1
    assert relu.read_text().count("graph.relu") == 1


def test_onnx_models_are_read(model, tmp_path):
    out = tmp_path / "out.mlir"
    assert run_opt([str(model), "--shape", "x=2,8", "-o", str(out), "-p", "clean-up"]) == 0
    text = out.read_text()
    assert 'tensor<2x4xf32> loc("MatMul_0")' in text
    store = ArrayStore()
    load_weights(out.with_suffix(".safetensors"), store)
    assert print_module(parse_module(text, arrays=store)) == text


def test_a_model_is_written_where_the_name_says_so(relu, tmp_path, capsys):
    out = tmp_path / "out.onnx"
    assert run_opt([str(relu), "-p", "clean-up", "-o", str(out)]) == 0
    written = onnx.load(out)
    onnx.checker.check_model(written)
    assert [node.op_type for node in written.graph.node] == ["Relu"]
    assert run_opt([str(relu), "-p", "convert-graph-to-tir", "-o", str(out)]) == 1
    assert "error[B109]" in capsys.readouterr().err
    relu.write_text(f"{RELU}// -----\n{RELU}")
    assert run_opt([str(relu), "--split-input-file", "-o", str(out)]) == 1
    assert "expected one module for a model, found more" in capsys.readouterr().err


def test_help_exits_with_0(capsys):
    with pytest.raises(SystemExit) as ended:
        run_opt(["--help"])
    assert ended.value.code == 0
    assert "--load-passes" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["nothing.mlir"], "error[B101]: expected a file, found none"),
        (["."], "error[B101]: expected a file, found a folder"),
        ([__file__], "error[B101]: expected a file that ends in .mlir, .onnx, found '.py'"),
        (["IN", "-p", "clean-uq"], "error[B221]: unknown pass 'clean-uq'"),
        (["IN", "-p", "clean-up{"], "error[B220]"),
        (["IN", "-t", "mlir{"], "error[B220]"),
        (["IN", "-o", "no/such/folder"], "error[B123]: cannot write"),
        (["IN", "--weights", "nothing"], "error[B101]: expected a file, found none"),
        (["IN", "--frontend", "onnx"], "error[B102]"),
        ([sys.executable, "--frontend", "mlir"], "error[B120]: expected UTF-8 text"),
    ],
)
def test_user_errors_are_one_message(args, expected, relu, capsys):
    assert run_opt([str(relu) if arg == "IN" else arg for arg in args]) == 1
    printed = capsys.readouterr()
    assert printed.err.startswith(expected)
    assert "Traceback" not in printed.err
    assert printed.out == ""


@pytest.mark.parametrize("args", [["--nonsense"], ["-t", "nonsense"]])
def test_usage_errors_exit_with_2(args, relu, capsys):
    with pytest.raises(SystemExit) as stop:
        run_opt([str(relu), *args])
    assert stop.value.code == 2


def test_a_failing_pass_exits_with_70(relu, capsys, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    from byocir.rewrites.clean_up import CleanUpPass

    def fail(*_):
        raise KeyError("left")

    monkeypatch.setattr(CleanUpPass, "apply", fail)
    assert run_opt([str(relu), "-p", "clean-up"]) == 70
    message = capsys.readouterr().err
    assert "internal error in pass 'clean-up': KeyError: 'left'" in message
    (reproducer,) = tmp_path.glob("byocir-*/reproducer.mlir")
    assert str(reproducer) in message


def test_disable_verify_ends_with_the_run(relu):
    assert run_opt([str(relu), "--disable-verify"]) == 0
    with pytest.raises(VerifyException):
        IntegerType(-1)


def test_plain_xdsl_opt_knows_our_dialects_and_passes(relu):
    command = [str(BIN / "xdsl-opt"), str(relu), "-p", "clean-up"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("graph.relu") == 1


def test_the_command_reads_stdin_and_survives_a_closed_pipe(relu):
    command = f"{BIN / 'byocir-opt'} < {relu} | head -n 1"
    result = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (0, "builtin.module {\n", "")
    command = f"{BIN / 'byocir-opt'} {relu} | exec true"
    result = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert result.stderr == ""


def test_output_does_not_depend_on_the_locale(relu):
    relu.write_text(RELU.replace("first", "größe"))
    env = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    result = subprocess.run(
        [str(BIN / "byocir-opt"), str(relu)], capture_output=True, check=True, env=env
    )
    assert 'loc("größe")'.encode() in result.stdout or b"gr\\C3" in result.stdout
