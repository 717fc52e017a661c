"""The verbs of `byocir`, their output and their exit codes."""

import json
import os
import zipfile
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

import byocir
from byocir.cli.main import main
from byocir.dialects.array import Array, ArrayAttr
from byocir.dialects.graph import ConstantOp, DequantizeOp
from byocir.rewrites.clean_up import CleanUpPass
from byocir.testing.vta_mutations import apply, dropped_edges
from byocir.vta_sim import DEFAULT_CONFIG

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


def test_check_finds_a_token_that_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = str(tmp_path / "digits.bpkg")
    assert main(["compile", MODEL, *SHAPE, "-o", path]) == 0
    assert main(["run", path, "--check"]) == 0
    package = byocir.load(path)
    blobs = dict(package.blobs["vta"])
    insns = np.frombuffer(blobs["vta_0.insns"], np.uint8).reshape(-1, 16)
    edge = next(dropped_edges(insns, DEFAULT_CONFIG))
    blobs["vta_0.insns"] = apply(edge, insns, DEFAULT_CONFIG).tobytes()
    byocir.Package(package.module, {"vta": blobs}, package.report).save(path)
    assert main(["run", path]) == 0
    capsys.readouterr()
    assert main(["run", path, "--check"]) == 3
    err = capsys.readouterr().err
    assert "error[S201]: expected compute to wait for load" in err
    assert "/stem/conv/Conv" in err


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
    assert main(["explain", model, "--node", "grouped"]) == 0
    out = capsys.readouterr().out
    assert "grouped  Conv  host" in out
    assert "vta.conv" in out
    assert "rule fails: Groups of channels, several together if they are small, fill" in out
    assert "seen 3 groups of 5 and 5 channels for blocks of 16" in out


def grouped_conv(path: Path) -> str:
    """A grouped QDQ convolution, of which VTA's blocks would be filled in part."""
    scale, zero = ("scale", "zero")
    initializers = [
        helper.make_tensor("scale", TensorProto.FLOAT, [], [0.1]),
        helper.make_tensor("zero", TensorProto.INT8, [], [0]),
        helper.make_tensor("w", TensorProto.INT8, [15, 5, 3, 3], [1] * 675),
    ]
    nodes = [
        helper.make_node("QuantizeLinear", ["x", scale, zero], ["xq"], "q0"),
        helper.make_node("DequantizeLinear", ["xq", scale, zero], ["xd"], "d0"),
        helper.make_node("DequantizeLinear", ["w", scale, zero], ["wd"], "dw"),
        helper.make_node("Conv", ["xd", "wd"], ["y"], "grouped", group=3, pads=[1] * 4),
        helper.make_node("QuantizeLinear", ["y", scale, zero], ["yq"], "q1"),
        helper.make_node("DequantizeLinear", ["yq", scale, zero], ["out"], "d1"),
    ]
    ports = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 15, 8, 8]) for n in ("x", "out")
    ]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], initializers)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]), path)
    return str(path)


def test_targets_lists_options_and_rules(capsys: pytest.CaptureFixture[str]):
    assert main(["targets"]) == 0
    assert "fill whole blocks." in capsys.readouterr().out
    assert main(["targets", "--json"]) == 0
    targets = {target["name"]: target for target in json.loads(capsys.readouterr().out)}
    assert targets["vta"]["options"]["rounding"] == ["half_up"]
    assert targets["json"]["options"]["ops"] == []


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
        (["run", MODEL, *SHAPE, "--shape", "image=2,1,8,8"], "B110", "two for image"),
        (["run", MODEL, *SHAPE, "--target", ""], "B213", "choose from "),
        (["run", MODEL, *SHAPE, "--target", "vta{block"], "B213", "path/to/npu.py:Npu"),
        (["run", MODEL, *SHAPE, "--target", "vta{roundin=half_up}"], "B213", "'rounding'"),
        (["run", MODEL, *SHAPE, "--target", "vta{block=7}"], "B213", "16"),
        (["run", MODEL, *SHAPE, "--target", "vta", "--target", "vta"], "B213", "twice"),
        (["run", MODEL, *SHAPE, "--target", "none.py:Npu"], "B217", "none.py"),
        (["run", MODEL, *SHAPE, "--output", "none/out.npz"], "B112", "no folder none"),
        (["run", MODEL, *SHAPE, "--report", "."], "B112", "a folder"),
        (["run", MODEL, *SHAPE, "--dump", "/proc/none"], "B112", "/proc/none"),
        (["compile", MODEL, *SHAPE, "-o", MODEL], "B112", "another file than the model"),
        (["run", "none.bpkg"], "B130", "none.bpkg"),
        (["compile", ""], "B101", "a folder"),
        (["run", "none.bpkg", "--verify"], "B114", "--verify"),
        (["run", str(DIGITS), "--target", "vta"], "B114", "job.json"),
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


def test_inputs_that_are_no_arrays_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    np.save(tmp_path / "one.npy", np.ones(3))
    (tmp_path / "empty.npz").write_bytes(b"")
    np.savez(tmp_path / "more.npz", image=np.ones((1, 1, 8, 8), np.float32), other=np.ones(1))
    for name, code in (("one.npy", "B111"), ("empty.npz", "B111"), ("more.npz", "B310")):
        assert main(["run", MODEL, *SHAPE, "--input", str(tmp_path / name)]) == 1
        assert f"error[{code}]" in capsys.readouterr().err


def test_an_error_of_our_own_is_written_down(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("byocir.targets.vta.Vta.emit", lambda *_: 1 // 0)
    assert main(["run", MODEL, *SHAPE]) == 70
    err = capsys.readouterr().err
    assert "internal error: ZeroDivisionError" in err
    assert "Traceback" not in err
    (crash,) = tmp_path.rglob("crash.txt")
    assert str(crash) in err
    assert "byocir run" in crash.read_text()


NPU = """
import byocir
from dataclasses import dataclass
from byocir.patterns import composite, op, wildcard

@composite("npu.relu")
def relu():
    return op("graph.relu", wildcard("x"))

@dataclass(frozen=True)
class Npu(byocir.Target):
    name, patterns = "npu", (relu,)
    block: int = 8
"""


def test_a_target_in_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "npu.py").write_text(NPU)
    model, target = str(DIGITS / "digits_f32.onnx"), f"{tmp_path / 'npu.py'}:Npu{{block=4}}"
    package = str(tmp_path / "digits.bpkg")
    assert main(["run", model, *SHAPE, "--target", target, "--verify"]) == 0
    assert "npu" in capsys.readouterr().out
    assert (
        main(["compile", model, *SHAPE, "--target", str(tmp_path / "npu.py"), "-o", package]) == 0
    )
    assert main(["run", package, "--target", target]) == 1
    assert "error[B213]: expected targets of a package without" in capsys.readouterr().err
    assert main(["run", package, "--target", f"{tmp_path / 'npu.py'}:Npu"]) == 0


@pytest.mark.parametrize(
    ("text", "name", "words"),
    [
        ("import byocir\n", "npu.py", "expected one byocir.Target, found none"),
        (NPU, "npu.py:Nqu", "did you mean 'Npu'"),
        ("x = 1\n1 / 0\n", "npu.py", "npu.py:2"),
        ("x = (\n", "npu.py", "npu.py:1"),
    ],
)
def test_a_file_without_a_target(
    text: str, name: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "npu.py").write_text(text)
    for path in (tmp_path / name, os.path.relpath(tmp_path / name)):
        assert main(["explain", MODEL, *SHAPE, "--target", str(path)]) == 1
        err = capsys.readouterr().err
        assert "error[B217]" in err
        assert words in err


def test_a_variable_shows_where_an_error_comes_from(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "npu.py").write_text("x = 1\n1 / 0\n")
    monkeypatch.setenv("BYOCIR_DEBUG", "1")
    assert main(["explain", MODEL, *SHAPE, "--target", f"{tmp_path}/npu.py"]) == 1
    err = capsys.readouterr().err
    assert "Traceback (most recent call last)" in err
    assert "ZeroDivisionError: division by zero" in err
    assert err.splitlines()[-2].startswith("error[B217]: expected a file that imports")


def test_verify_fails_when_code_generation_went_wrong(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    run = byocir.Package.run

    def one_step_off(package: byocir.Package, feeds: dict[str, np.ndarray], *, check: bool):
        assert not check
        return {name: array + 0.02 for name, array in run(package, feeds).items()}

    monkeypatch.setattr("byocir.runtime.package.Package.run", one_step_off)
    assert main(["run", MODEL, *SHAPE, "--verify"]) == 3
    out = capsys.readouterr().out
    assert "FAIL logits: the evaluator" in out
    assert "ok   logits: ONNX Runtime" in out


def test_a_missed_goal_exits_with_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    job = json.loads((DIGITS / "job.json").read_text())
    with np.load(DIGITS / job["data"]) as data:
        np.savez(tmp_path / job["data"], image=data["image"][:8], label=data["label"][:8])
    for name in (job["model"], job["float_model"]):
        (tmp_path / name).write_bytes((DIGITS / name).read_bytes())
    (tmp_path / "job.json").write_text(json.dumps(job))
    assert main(["run", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "simulated cycles per run" in printed
    assert "all cycles of each unit" in printed
    assert "least cycles: " in printed
    job["goals"]["offloaded_macs_percent"] = 100.5
    (tmp_path / "job.json").write_text(json.dumps(job))
    assert main(["run", str(tmp_path)]) == 3
    assert "FAIL offloaded MACs" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": None}, "expected 'model', a file name, found none"),
        ({"data": 3}, "expected 'data' to be the name of an .npz file, found 3"),
        ({"shapes": {"image": "1"}}, "expected 'shapes' to be an object of shapes"),
        ({"goals": {"accuracy_loss_points": 1}}, "expected 'goals' to be an object of the numbers"),
        ({"labels": "lable"}, "expected data 'lable'\n"),
        ({"goal": {}}, "unknown field 'goal'\n"),
        (
            {"shapes": {"image": [2, 1, 8, 8]}},
            "expected shape [1, 1, 8, 8] for 'image', as the samples of digits_test.npz have it, "
            "found [2, 1, 8, 8]",
        ),
        (
            {"labels": "pairs"},
            "expected one label for each sample in digits_test.npz, found image of shape "
            "[1, 1, 8, 8] and pairs of shape [2]",
        ),
    ],
)
def test_what_is_no_job(
    change: dict[str, object], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    job = json.loads((DIGITS / "job.json").read_text()) | change
    np.savez(
        tmp_path / job["data"] if isinstance(job["data"], str) else tmp_path / "d.npz",
        image=np.zeros((1, 1, 8, 8)),
        label=np.zeros(1),
        pairs=np.zeros(2),
    )
    (tmp_path / "job.json").write_text(json.dumps({k: v for k, v in job.items() if v is not None}))
    assert main(["run", str(tmp_path)]) == 1
    assert f"error[B113]: {message}" in capsys.readouterr().err


@pytest.mark.parametrize("content", [b"", b"{}", b"PK\x03\x04", b"\x93NUMPY\x01\x00\x04\x00{'a'"])
def test_inputs_that_are_no_arrays(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "in.npz").write_bytes(content)
    assert main(["run", MODEL, *SHAPE, "--input", str(tmp_path / "in.npz")]) == 1
    err = capsys.readouterr().err
    assert "error[B111]" in err
    assert "image=…" in err


def test_inputs_with_a_damaged_header(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Headers are Python literals; numpy tells of some that are none by a SyntaxError."""
    np.savez(tmp_path / "good.npz", image=np.ones((1, 1, 8, 8), np.float32))
    data = (tmp_path / "good.npz").read_bytes()
    with zipfile.ZipFile(tmp_path / "in.npz", "w") as damaged:
        with zipfile.ZipFile(tmp_path / "good.npz") as good:
            data = good.read("image.npy")
        damaged.writestr("image.npy", data.replace(b"'descr'", b"'descr(("))
    assert main(["run", MODEL, *SHAPE, "--input", str(tmp_path / "in.npz")]) == 1
    assert "error[B111]" in capsys.readouterr().err


def test_explain_writes_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "why.html"
    assert main(["explain", MODEL, *SHAPE, "--html", str(path)]) == 0
    assert capsys.readouterr().out == f"wrote {path}\n"
    assert "/block1/conv2/conv/Conv" in path.read_text(encoding="utf-8")
    assert main(["explain", MODEL, *SHAPE, "--html", f"{tmp_path}/no/why.html"]) == 1
    assert "B112" in capsys.readouterr().err


def test_explain_reads_packages_and_tells_one_node_as_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = str(tmp_path / "digits.bpkg")
    assert main(["compile", MODEL, *SHAPE, "-o", path]) == 0
    capsys.readouterr()
    told: list[str] = []
    for model in ([path], [MODEL, *SHAPE]):
        assert main(["explain", *model, "--node", "/stem/conv/Conv", "--json"]) == 0
        told.append(capsys.readouterr().out)
    about = json.loads(told[0])
    assert about["node"]["op_type"] == "Conv"
    assert about["place"] == about["region"]["symbol"] == "vta_0"
    assert told[0] == told[1]
    assert main(["explain", path, "--levels", "graph"]) == 1
    assert "error[B114]" in capsys.readouterr().err


def test_a_package_is_not_compiled_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "digits.bpkg"
    assert main(["compile", MODEL, *SHAPE, "-o", str(path)]) == 0
    before = path.read_bytes()
    assert main(["compile", str(path)]) == 1
    assert "error[B102]: expected an ONNX model, found a package" in capsys.readouterr().err
    assert path.read_bytes() == before


def test_timing_is_told_on_request(capsys: pytest.CaptureFixture[str]):
    assert main(["run", MODEL, *SHAPE]) == 0
    assert "simulated cycles" not in capsys.readouterr().out
    assert main(["run", MODEL, *SHAPE, "--timing"]) == 0
    assert "simulated cycles per run" in capsys.readouterr().out
    assert main(["run", MODEL, *SHAPE, "--timing", "--target", "json"]) == 0
    assert "no target tells what its code takes" in capsys.readouterr().out


def test_check_each_names_the_pass_that_changes_a_result(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    assert main(["run", MODEL, *SHAPE, "--check-each"]) == 0
    monkeypatch.setattr(CleanUpPass, "apply", double_the_first_scale)
    assert main(["run", MODEL, *SHAPE, "--check-each"]) == 3
    err = capsys.readouterr().err
    assert "error[B224]: expected pass clean-up to keep output 'logits'" in err


def double_the_first_scale(self: CleanUpPass, ctx: Context, op: ModuleOp) -> None:
    """A pass with a mistake."""
    first = next(o for o in op.walk() if isinstance(o, DequantizeOp))
    constant = first.operands[1].owner
    assert isinstance(constant, ConstantOp)
    constant.properties["value"] = ArrayAttr(Array.of(2 * constant.value.data.values()))


def test_a_placement_file_wins_over_patterns(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "placement.json"
    file.write_text('{"/stem/conv/Conv": "host"}')
    model = [str(DIGITS / "digits_int8.onnx"), "--shape", "image=1,1,8,8"]
    explain = ["explain", *model, "--node", "/stem/conv/Conv", "--placement", str(file)]
    assert main(explain) == 0
    assert "is placed on host" in capsys.readouterr().out
    for content in ("[]", "{", '{"a": 1}', "[" * 100_000):
        file.write_text(content)
        assert main(explain) == 1
        assert "error[B245]" in capsys.readouterr().err


def test_explain_as_a_table(capsys: pytest.CaptureFixture[str]):
    assert main(["explain", MODEL, *SHAPE, "--table"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["op", "type", "vta", "host", "folded", "MACs", "offloaded"]
    assert lines[1].split()[:3] == ["Conv", "6", "0"]


def test_patterns_prints_what_a_target_takes(capsys: pytest.CaptureFixture[str]):
    assert main(["patterns", "vta"]) == 0
    page = capsys.readouterr().out
    assert "conv = graph.conv(x: i8, constant w: i8, [constant b])" in page
    assert "- Groups of channels, several together if they are small, fill whole blocks." in page
    assert main(["patterns", "vtx"]) == 1
