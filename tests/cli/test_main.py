"""The verbs of `byocir`, their output and their exit codes."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from byocir.cli.main import main

DIGITS = Path(__file__).parents[2] / "examples" / "digits"
MODEL = str(DIGITS / "digits_int8.onnx")
SHAPE = ["--shape", "image=1,1,8,8"]


def test_run_prints_what_went_where_and_verifies(capsys: pytest.CaptureFixture[str]):
    assert main(["run", MODEL, *SHAPE, "--verify"]) == 0
    out, err = capsys.readouterr()
    assert "vta MACs" in out
    assert "host: reference" in out
    assert "% equal" in out
    assert "[1/5] import" in err


def test_run_reads_and_writes_arrays(tmp_path: Path):
    np.savez(tmp_path / "in.npz", image=np.ones((1, 1, 8, 8), np.float32))
    arguments = ["--input", str(tmp_path / "in.npz"), "--output", str(tmp_path / "out.npz")]
    assert main(["run", MODEL, *SHAPE, *arguments, "--report", str(tmp_path / "r.json")]) == 0
    with np.load(tmp_path / "out.npz") as outputs:
        assert outputs["logits"].shape == (1, 10)
    assert json.loads((tmp_path / "r.json").read_text())["schema_version"] == 1


def test_compile_then_run_the_package(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = str(tmp_path / "digits.bpkg")
    assert main(["compile", MODEL, *SHAPE, "-o", path]) == 0
    assert main(["run", path]) == 0
    assert "logits: 1x10 float32" in capsys.readouterr().out


def test_dump_writes_every_stage(tmp_path: Path):
    assert main(["run", MODEL, *SHAPE, "--dump", str(tmp_path)]) == 0
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names[:2] == ["00_import.mlir", "01_fold-constants.mlir"]
    assert any(name.endswith("_vta-encode.mlir") for name in names)
    assert "vta_0.asm" in names
    assert "gemm" in (tmp_path / "vta_0.asm").read_text()


def test_explain_names_every_node(capsys: pytest.CaptureFixture[str]):
    assert main(["explain", MODEL, *SHAPE]) == 0
    out = capsys.readouterr().out
    for node in onnx.load(MODEL).graph.node:
        assert node.name in out


def test_explain_of_a_host_node_tells_every_pattern_and_failed_rule(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    model = grouped_conv(tmp_path / "grouped.onnx")
    assert main(["explain", model, "--node", "depthwise"]) == 0
    out = capsys.readouterr().out
    assert "depthwise  Conv  host" in out
    assert "vta.conv" in out
    assert "rule fails: The convolution is not grouped" in out
    assert "seen 16" in out


def grouped_conv(path: Path) -> str:
    """A depthwise QDQ convolution, which VTA does not take."""
    scale, zero = ("scale", "zero")
    initializers = [
        helper.make_tensor("scale", TensorProto.FLOAT, [], [0.1]),
        helper.make_tensor("zero", TensorProto.INT8, [], [0]),
        helper.make_tensor("w", TensorProto.INT8, [16, 1, 3, 3], [1] * 144),
    ]
    nodes = [
        helper.make_node("QuantizeLinear", ["x", scale, zero], ["xq"], "q0"),
        helper.make_node("DequantizeLinear", ["xq", scale, zero], ["xd"], "d0"),
        helper.make_node("DequantizeLinear", ["w", scale, zero], ["wd"], "dw"),
        helper.make_node("Conv", ["xd", "wd"], ["y"], "depthwise", group=16, pads=[1] * 4),
        helper.make_node("QuantizeLinear", ["y", scale, zero], ["yq"], "q1"),
        helper.make_node("DequantizeLinear", ["yq", scale, zero], ["out"], "d1"),
    ]
    ports = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 16, 8, 8]) for n in ("x", "out")
    ]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], initializers)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]), path)
    return str(path)


def test_targets_lists_options_and_rules(capsys: pytest.CaptureFixture[str]):
    assert main(["targets"]) == 0
    assert "The convolution is not grouped." in capsys.readouterr().out
    assert main(["targets", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["options"]["rounding"] == ["half_up"]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["run", "none.onnx"], "B1", "none.onnx"),
        (["run", MODEL], "B1", "batch"),
        (["run", MODEL, "--shape", "image"], "B110", "NAME="),
        (["run", MODEL, "--shape", "imgae=1,1,8,8"], "B1", "did you mean 'image'"),
        (["run", MODEL, *SHAPE, "--target", "vtaa"], "B210", "did you mean 'vta'"),
        (["run", MODEL, *SHAPE, "--target", "vta{rounding=up}"], "B213", "half_even"),
        (["run", MODEL, *SHAPE, "--target", "vta{speed=3}"], "B213", "speed"),
        (["run", MODEL, *SHAPE, "--levels", "loop"], "B212", "graph, tensor"),
        (["run", MODEL, *SHAPE, "--input", "none.npz"], "B101", "none.npz"),
        (["explain", MODEL, *SHAPE, "--node", "Conv_x"], "B230", "unknown node"),
    ],
)
def test_user_errors_are_one_message(
    arguments: list[str], code: str, words: str, capsys: pytest.CaptureFixture[str]
):
    assert main(arguments) == 1
    err = capsys.readouterr().err
    assert f"error[{code}" in err
    assert words in err
    assert "Traceback" not in err


def test_usage_errors_exit_with_2():
    with pytest.raises(SystemExit) as error:
        main(["fly"])
    assert error.value.code == 2


def test_a_missed_goal_exits_with_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    job = json.loads((DIGITS / "job.json").read_text())
    with np.load(DIGITS / job["data"]) as data:
        np.savez(tmp_path / job["data"], image=data["image"][:8], label=data["label"][:8])
    for name in (job["model"], job["float_model"]):
        (tmp_path / name).write_bytes((DIGITS / name).read_bytes())
    (tmp_path / "job.json").write_text(json.dumps(job))
    assert main(["run", str(tmp_path)]) == 0
    assert "simulated cycles per run" in capsys.readouterr().out
    job["goals"]["offloaded_macs_percent"] = 100.5
    (tmp_path / "job.json").write_text(json.dumps(job))
    assert main(["run", str(tmp_path)]) == 3
    assert "FAIL offloaded MACs" in capsys.readouterr().out
