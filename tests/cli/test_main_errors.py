"""What the command line says when something is wrong, and how it exits."""

import json
import os
import zipfile
from pathlib import Path

import numpy as np
import onnx
import pytest
from cli_inputs import DIGITS, MODEL, NPU, SHAPE
from vta_mutations import apply, dropped_edges
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

import byocir
from byocir.cli.main import main
from byocir.dialects.array import Array, ArrayAttr
from byocir.dialects.graph import ConstantOp, DequantizeOp
from byocir.rewrites.clean_up import CleanUpPass
from byocir.vta_sim import DEFAULT_CONFIG


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


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["run", "none.onnx"], "B1", "none.onnx"),
        (["run", MODEL], "B1", "batch"),
        (["run", MODEL, "--shape", "image"], "B110", "NAME="),
        (["run", MODEL, "--shape", "image="], "B110", "or x=scalar"),
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
        (["compile", MODEL, *SHAPE, "-o", MODEL], "B112", "a file to write other than the model"),
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


def test_inputs_that_are_no_arrays_by_name(
    small: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    np.save(tmp_path / "one.npy", np.ones(3))
    (tmp_path / "empty.npz").write_bytes(b"")
    np.savez(tmp_path / "more.npz", x=np.ones((1, 16, 8, 8), np.float32), other=np.ones(1))
    for name, code in (("one.npy", "B111"), ("empty.npz", "B111"), ("more.npz", "B310")):
        assert main(["run", small, "--input", str(tmp_path / name)]) == 1
        assert f"error[{code}]" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("broken", "told"),
    [
        ("byocir.cli.steps.StepTimer.begin", "internal error: TypeError"),
        ("byocir.targets.vta_emit.files_of", "error[B232]: target 'vta' failed in emit with Type"),
    ],
)
def test_an_error_of_our_own_is_written_down(
    small: str,
    broken: str,
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(broken, None)
    assert main(["run", small]) == 70
    err = capsys.readouterr().err
    assert told in err
    assert "Traceback" not in err
    (crash,) = tmp_path.rglob("crash.txt")
    assert str(crash) in err
    assert "byocir run" in crash.read_text()


@pytest.mark.parametrize(
    ("text", "name", "words"),
    [
        ("import byocir\n", "npu.py", "expected one byocir.Target, found none"),
        ("import byocir\n", "npu.py", "`byocir new-target NAME` writes one to begin with"),
        ("import byocir\n", "npu.py:Npu", "derives from byocir.Target"),
        (NPU + NPU.replace("class Npu", "class Other"), "npu.py", "npu.py:NAME"),
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


@pytest.mark.parametrize("name", ["none.mlir", "none.onnx"])
def test_a_model_that_is_missing_beside_a_package_that_is_not(name: str, tmp_path: Path, capsys):
    package = tmp_path / "existing.bpkg"
    package.write_bytes(b"")
    assert main(["compile", str(tmp_path / name), "-o", str(package)]) == 1
    assert "error[B101]: expected a file, found no" in capsys.readouterr().err


def test_verify_fails_when_code_generation_went_wrong(
    small: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    run = byocir.Package.run

    def one_step_off(package: byocir.Package, feeds: dict[str, np.ndarray], *, check: bool):
        assert not check
        return {name: array + 2 for name, array in run(package, feeds).items()}

    monkeypatch.setattr("byocir.runtime.package.Package.run", one_step_off)
    assert main(["run", small, "--verify"]) == 3
    out = capsys.readouterr().out
    assert "FAIL logits: the evaluator" in out
    assert "ok   logits: ONNX Runtime" in out


def test_a_missed_goal_exits_with_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    job = json.loads((DIGITS / "job.json").read_text())
    job["model"] = job["model"][:2]
    with np.load(DIGITS / job["data"]) as data:
        np.savez(tmp_path / job["data"], image=data["image"][:8], label=data["label"][:8])
    for name in (*job["model"], job["float_model"]):
        (tmp_path / name).write_bytes((DIGITS / name).read_bytes())
    (tmp_path / "job.json").write_text(json.dumps(job))
    assert main(["run", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "simulated cycles per run" in printed
    assert "all cycles of each unit" in printed
    assert "least cycles: " in printed
    lines = printed.splitlines()[-len(job["model"]) :]
    assert [line.split()[0] for line in lines] == job["model"]
    assert all("100.00 % of MACs on vta" in line for line in lines)
    job["model"] = job["model"][0]
    job["goals"]["offloaded_macs_percent"] = 100.5
    (tmp_path / "job.json").write_text(json.dumps(job))
    assert main(["run", str(tmp_path)]) == 3
    assert "FAIL offloaded MACs" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": None}, "expected 'model', a file name, or a list of them, found none"),
        ({"model": []}, "expected 'model' to be a file name, or a list of them, found []"),
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
    small: str, content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "in.npz").write_bytes(content)
    assert main(["run", small, "--input", str(tmp_path / "in.npz")]) == 1
    err = capsys.readouterr().err
    assert "error[B111]" in err
    assert "x=…" in err


def test_inputs_with_a_damaged_header(
    small: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """Headers are Python literals; numpy tells of some that are none by a SyntaxError."""
    np.savez(tmp_path / "good.npz", x=np.ones((1, 16, 8, 8), np.float32))
    data = (tmp_path / "good.npz").read_bytes()
    with zipfile.ZipFile(tmp_path / "in.npz", "w") as damaged:
        with zipfile.ZipFile(tmp_path / "good.npz") as good:
            data = good.read("x.npy")
        damaged.writestr("x.npy", data.replace(b"'descr'", b"'descr(("))
    assert main(["run", small, "--input", str(tmp_path / "in.npz")]) == 1
    assert "error[B111]" in capsys.readouterr().err


def test_check_each_names_the_pass_that_changes_a_result(
    small: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    assert main(["run", small, "--check-each"]) == 0
    monkeypatch.setattr(CleanUpPass, "apply", double_the_first_scale)
    assert main(["run", small, "--check-each"]) == 3
    err = capsys.readouterr().err
    assert "error[B224]: expected pass clean-up to keep output 'logits'" in err


def double_the_first_scale(self: CleanUpPass, ctx: Context, op: ModuleOp) -> None:
    """A pass with a mistake."""
    first = next(o for o in op.walk() if isinstance(o, DequantizeOp))
    constant = first.operands[1].owner
    assert isinstance(constant, ConstantOp)
    constant.properties["value"] = ArrayAttr(Array.of(2 * constant.value.data.values()))


@pytest.mark.parametrize("host", ["reference", "c"])
def test_drawn_indices_that_lead_outside_say_that_they_were_drawn(host, tmp_path, capsys):
    table = onnx.numpy_helper.from_array(np.zeros((3, 2), np.float32), "table")
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Gather", ["table", "tokens"], ["y"])],
        "g",
        [onnx.helper.make_tensor_value_info("tokens", onnx.TensorProto.INT64, [20])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [20, 2])],
        [table],
    )
    path = tmp_path / "embed.onnx"
    onnx.save(onnx.helper.make_model(graph), path)
    assert main(["run", str(path), "--host", host]) == 1
    err = capsys.readouterr().err
    assert "B303" in err
    assert "the inputs were drawn at random: give some that fit, --input FILE.npz" in err


@pytest.mark.parametrize("verb", ["run", "bisect"])
def test_inputs_of_another_shape_are_refused_before_they_inflate(
    small: str, verb: str, tmp_path: Path, monkeypatch, capsys
):
    """A few megabytes of zeros, compressed, would take gigabytes."""

    def inflate(*_: object, **__: object) -> None:
        raise AssertionError("expected a look at the shape alone")

    np.savez_compressed(tmp_path / "in.npz", x=np.zeros((1, 16, 8, 9), np.float32))
    monkeypatch.setattr("byocir.cli.user_files.npy.read_array", inflate)
    assert main([verb, small, "--input", str(tmp_path / "in.npz")]) == 1
    expected = "expected tensor<1x16x8x8xf32> for input 'x', found 1x16x8x9 of float32"
    assert f"error[B310]: {expected}" in capsys.readouterr().err
    np.savez_compressed(tmp_path / "in.npz", other=np.zeros(9, np.float32))
    assert main([verb, small, "--input", str(tmp_path / "in.npz")]) == 1
    assert "error[B310]: expected feeds for the inputs x, found 'other'" in capsys.readouterr().err
