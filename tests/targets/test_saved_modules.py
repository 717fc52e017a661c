"""A module, saved as text and weights, compiles later where its target is given."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from qdq_models import small_net
from xdsl.dialects.builtin import ModuleOp

import byocir
from byocir.cli.main import main
from byocir.dialects.context import load_context
from byocir.dialects.text import print_module
from byocir.dialects.weights import save_weights
from byocir.evaluate.module import random_feeds
from byocir.rewrites.pipeline import run_passes

ROOT = Path(__file__).parents[2]
TOY = ROOT / "examples" / "toy_npu.py"
DIGITS = ROOT / "examples" / "digits"
SHAPES = {"image": (1, 1, 8, 8)}


def cli(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command in a fresh process, which knows the files and these targets, nothing else."""
    command = [sys.executable, "-m", "byocir.cli.main", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


def save(module: ModuleOp, folder: Path) -> Path:
    path = folder / "module.mlir"
    path.write_text(print_module(module))
    save_weights(module, path.with_suffix(".safetensors"))
    return path


def package_bytes(package: byocir.Package, folder: Path) -> bytes:
    package.save(folder / "package.bpkg")
    return (folder / "package.bpkg").read_bytes()


@pytest.mark.parametrize(
    ("target", "model", "given"),
    [
        (str(TOY), "digits_f32.onnx", [str(TOY)]),
        ("json{ops=conv,relu}", "digits_f32.onnx", []),
        ("vta{rounding=half_even}", "int8", []),
        ("vta", "digits_f32.onnx", []),
    ],
)
def test_a_saved_module_compiles_later_to_the_same_package(
    target: str, model: str, given: list[str], int8: str, tmp_path: Path
):
    file, shapes = (int8, None) if model == "int8" else (DIGITS / model, SHAPES)
    now = byocir.compile(file, targets=target, shapes=shapes)
    expected = package_bytes(now, tmp_path)
    module = byocir.import_onnx(file, shapes=shapes)
    byocir.partition(module, target)
    text = print_module(module)
    assert package_bytes(byocir.compile(module), tmp_path) == expected
    assert print_module(module) == text
    path = save(module, tmp_path)
    flags = [flag for each in given for flag in ("--target", each)]
    later = cli(tmp_path, "compile", str(path), *flags)
    assert later.returncode == 0, later.stdout + later.stderr
    assert path.with_suffix(".bpkg").read_bytes() == expected
    loaded = byocir.load(path.with_suffix(".bpkg"), targets=given)
    feeds = random_feeds(now.module)
    for name, expected_array in now.run(feeds).items():
        assert np.array_equal(loaded.run(feeds)[name], expected_array)


def test_without_its_target_it_is_one_message(tmp_path: Path):
    module = byocir.import_onnx(DIGITS / "digits_f32.onnx", shapes=SHAPES)
    byocir.partition(module, str(TOY))
    run = cli(tmp_path, "compile", str(save(module, tmp_path)))
    assert (run.returncode, run.stdout) == (1, "")
    assert "error[B210]: unknown target 'npu'" in run.stderr
    assert "npu.py:Npu" in run.stderr


@pytest.fixture(scope="module")
def int8(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A quantised model's file."""
    path = tmp_path_factory.mktemp("int8") / "small.onnx"
    onnx.save(small_net(), path)
    return str(path)


@pytest.fixture(scope="module")
def direct(int8: str, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("direct") / "direct.bpkg"
    assert main(["compile", int8, "-o", str(path)]) == 0
    return path.read_bytes()


@pytest.fixture(scope="module")
def partitioned(int8: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("saved") / "p.mlir"
    assert main(["compile", int8, "--emit", "partitioned", "-o", str(path)]) == 0
    return path


@pytest.mark.parametrize("stage", ["graph", "partitioned"])
def test_what_emit_writes_compiles_to_the_package_of_the_model(
    stage: str, int8: str, direct: bytes, partitioned: Path, tmp_path: Path
):
    path = partitioned
    if stage != "partitioned":
        path = tmp_path / "p.mlir"
        assert main(["compile", int8, "--emit", stage, "-o", str(path)]) == 0
    assert main(["compile", str(path), "-o", str(tmp_path / "p.bpkg")]) == 0
    assert (tmp_path / "p.bpkg").read_bytes() == direct


def test_every_verb_takes_a_partitioned_module(
    int8: str, partitioned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    for verb in ("run", "explain"):
        capsys.readouterr()
        assert main([verb, int8]) == 0
        expected = capsys.readouterr().out
        assert main([verb, str(partitioned)]) == 0
        assert capsys.readouterr().out == expected
    made, later = tmp_path / "made", tmp_path / "later"
    assert main(["export", int8, "-o", str(made)]) == 0
    assert main(["export", str(partitioned), "-o", str(later)]) == 0
    files = [each.relative_to(made) for each in made.rglob("*") if each.is_file()]
    assert files
    for name in files:
        assert (made / name).read_bytes() == (later / name).read_bytes()


def test_a_module_that_is_not_partitioned_goes_to_the_targets_given_or_named():
    module = byocir.import_onnx(DIGITS / "digits_f32.onnx", shapes=SHAPES)
    text = print_module(module)
    assert byocir.compile(module, targets="json").report.targets == ["json"]
    assert print_module(module) == text
    conv = byocir.compile(module, targets="json{ops=conv}")
    run_passes(module, load_context(), 'set-targets{targets="json{ops=conv}"}')
    assert byocir.compile(module).report == conv.report


@pytest.mark.parametrize(
    ("flags", "code"),
    [
        (["--levels", "graph"], "B114"),
        (["--objective", "latency"], "B114"),
        (["--shape", "image=1,1,8,8"], "B114"),
        (["--target", "json"], "B114"),
        (["--target", "vta{rounding=half_even}"], "B213"),
        (["--target", "vtb"], "B210"),
    ],
)
def test_what_comes_too_late_for_a_partitioned_module(
    flags: list[str], code: str, partitioned: Path, capsys: pytest.CaptureFixture[str]
):
    assert main(["compile", str(partitioned), *flags]) == 1
    assert f"error[{code}]" in capsys.readouterr().err


def test_modules_that_cannot_be_compiled(
    int8: str, partitioned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    code = tmp_path / "code.mlir"
    assert main(["compile", int8, "--emit", "vta", "-o", str(code)]) == 0
    package = byocir.compile(partitioned)
    empty = tmp_path / "empty.mlir"
    empty.write_text("builtin.module {}")
    bare = tmp_path / "bare.mlir"
    bare.write_text(partitioned.read_text())
    broken = tmp_path / "broken.mlir"
    broken.write_bytes(b"\xff")
    capsys.readouterr()
    for path, error in (
        (code, "B302"),
        (save(package.module, tmp_path), "B302"),
        (empty, "B302"),
        (bare, "B107"),
        (broken, "B120"),
        (tmp_path / "none.mlir", "B101"),
    ):
        assert main(["compile", str(path)]) == 1
        assert f"error[{error}]" in capsys.readouterr().err
    assert main(["run", str(partitioned), "--verify"]) == 1
    assert "error[B114]" in capsys.readouterr().err
