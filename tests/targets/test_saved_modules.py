"""A module, saved as text and weights, compiles later where its target is given."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr, UnitAttr

import byocir
from byocir.cli.main import main
from byocir.cli.opt import run_opt
from byocir.dialects.context import load_context
from byocir.dialects.text import parse_module, print_module
from byocir.dialects.weights import dump_weights
from byocir.errors import ByocirError
from byocir.evaluate.module import random_feeds
from byocir.rewrites.pipeline import run_passes
from byocir.targets.json import Json
from byocir.vendor import registry

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
    path.with_suffix(".safetensors").write_bytes(dump_weights(module))
    return path


def package_bytes(package: byocir.Package, folder: Path) -> bytes:
    package.save(folder / "package.bpkg")
    return (folder / "package.bpkg").read_bytes()


@pytest.mark.parametrize(
    ("target", "model", "given"),
    [
        (str(TOY), "digits_f32.onnx", [str(TOY)]),
        ("json{ops=conv,relu}", "digits_f32.onnx", []),
        ("vta{rounding=half_even}", "small", []),
        ("vta", "digits_f32.onnx", []),
    ],
)
def test_a_saved_module_compiles_later_to_the_same_package(
    target: str, model: str, given: list[str], small: str, tmp_path: Path
):
    file, shapes = (small, None) if model == "small" else (DIGITS / model, SHAPES)
    now = byocir.compile(file, targets=target, shapes=shapes)
    expected = package_bytes(now, tmp_path)
    module = byocir.import_onnx(file, shapes=shapes)
    byocir.partition(module, target)
    text = print_module(module)
    assert package_bytes(byocir.compile(module), tmp_path) == expected
    assert print_module(module) == text
    path = save(module, tmp_path)
    if given:  # of a file, which a fresh process has not seen
        later = cli(tmp_path, "compile", str(path), "--target", *given)
        assert later.returncode == 0, later.stdout + later.stderr
    else:
        assert main(["compile", str(path), "-o", str(path.with_suffix(".bpkg"))]) == 0
    assert path.with_suffix(".bpkg").read_bytes() == expected
    loaded = byocir.load(path.with_suffix(".bpkg"), targets=given)
    feeds = random_feeds(now.module)
    for name, expected_array in now.run(feeds).items():
        assert np.array_equal(loaded.run(feeds)[name], expected_array)


def test_without_its_target_it_is_one_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    module = byocir.import_onnx(DIGITS / "digits_f32.onnx", shapes=SHAPES)
    byocir.partition(module, str(TOY))
    byocir.compile(module).save(tmp_path / "p.bpkg")
    with registry.forgetting(afresh=True):  # as in a new process
        assert main(["compile", str(save(module, tmp_path))]) == 1
        told = capsys.readouterr()
        assert told.out == ""
        assert "error[B210]: unknown target 'npu'" in told.err
        assert "the module names it" in told.err
        assert "choose from" not in told.err
        assert "given with --target npu.py:Npu" in told.err
        assert main(["run", str(tmp_path / "p.bpkg")]) == 1
        told = capsys.readouterr()
        assert told.out == ""
        assert "given with --target npu.py:Npu" in told.err


@pytest.fixture(scope="module")
def direct(small: str, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("direct") / "direct.bpkg"
    assert main(["compile", small, "-o", str(path)]) == 0
    return path.read_bytes()


@pytest.fixture(scope="module")
def partitioned(small: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("saved") / "p.mlir"
    assert main(["compile", small, "--emit", "partitioned", "-o", str(path)]) == 0
    return path


@pytest.mark.parametrize("stage", ["graph", "partitioned"])
def test_what_emit_writes_compiles_to_the_package_of_the_model(
    stage: str, small: str, direct: bytes, partitioned: Path, tmp_path: Path
):
    path = partitioned
    if stage != "partitioned":
        path = tmp_path / "p.mlir"
        assert main(["compile", small, "--emit", stage, "-o", str(path)]) == 0
    assert main(["compile", str(path), "-o", str(tmp_path / "p.bpkg")]) == 0
    assert (tmp_path / "p.bpkg").read_bytes() == direct


def test_every_verb_takes_a_partitioned_module(
    small: str, partitioned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    for verb in ("run", "explain"):
        capsys.readouterr()
        assert main([verb, small]) == 0
        expected = capsys.readouterr().out
        assert main([verb, str(partitioned)]) == 0
        assert capsys.readouterr().out == expected
    made, later = tmp_path / "made", tmp_path / "later"
    assert main(["export", small, "-o", str(made)]) == 0
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


@pytest.fixture(scope="module")
def stages(small: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The files of a compilation by what they are after, `PASS:2` after its second run. One file
    holds the weights of all."""
    folder = tmp_path_factory.mktemp("stages")
    flags = ["--dump", str(folder), "-o", str(folder / "made.bpkg")]
    assert main(["compile", small, *flags]) == 0
    found: dict[str, Path] = {}
    for path in sorted(folder.glob("*.mlir")):
        name = path.stem.partition("_")[2]
        found[name if name not in found else f"{name}:2"] = path
    return found


@pytest.mark.parametrize(
    "stage",
    [
        *("match-composites", "merge-regions", "outline-regions"),
        *("convert-graph-to-tir", "match-composites:2", "outline-regions:2"),
    ],
)
def test_a_stage_between_two_passes_goes_on_from_there(
    stage: str, stages: dict[str, Path], direct: bytes, tmp_path: Path
):
    byocir.compile(stages[stage]).save(tmp_path / "later.bpkg")
    assert (tmp_path / "later.bpkg").read_bytes() == direct


def test_weights_of_a_folder_are_found(
    stages: dict[str, Path], capsys: pytest.CaptureFixture[str], monkeypatch, tmp_path: Path
):
    monkeypatch.chdir(tmp_path)
    assert run_opt([str(stages["fix-point"]), "-p", "fold-constants", "--no-debuginfo"]) == 0
    assert "graph.requantize" in capsys.readouterr().out


OWN = """
from dataclasses import dataclass
import byocir
from xdsl.passes import ModulePass

class Broken(ModulePass):
    name = "broken"

    def apply(self, ctx, module):
        raise KeyError("oops")

@dataclass(frozen=True)
class Own(byocir.Target):
    name = "own"

    wrong: bool = False

    def passes(self, point):
        return (1 / 0,) if self.wrong else (Broken(),)
"""


@pytest.mark.parametrize(
    ("options", "line", "where"),
    [("", "10", "pass broken with KeyError"), ("{wrong=true}", "19", "passes with ZeroDivision")],
)
def test_a_pass_of_a_target_that_fails_is_named_with_its_line(
    options: str, line: str, where: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (file := tmp_path / "own.py").write_text(OWN)
    (text := tmp_path / "m.mlir").write_text("builtin.module {}")
    assert run_opt([str(text), "--load-target", f"{file}:Own{options}", "-p", "broken"]) == 1
    message = capsys.readouterr().err
    assert f"error[B219]: target 'own' failed in {where}" in message
    assert f"{file}:{line}" in message


def test_bisect_and_export_take_modules(
    small: str, stages: dict[str, Path], capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    for stage in ("outline-regions", "outline-regions:2"):
        assert main(["bisect", str(stages[stage])]) == 0
        assert "none changes what the model computes" in capsys.readouterr().out
    paths = [tmp_path / "model.onnx", tmp_path / "import.onnx", tmp_path / "between.onnx"]
    for flags, path in zip(
        ([small], [str(stages["import"])], [str(stages["outline-regions"])]), paths, strict=True
    ):
        target = [] if path is paths[2] else ["--target", "vta"]
        rewritten = [] if path is paths[2] else ["--rewritten"]
        assert main(["export-onnx", *flags, *target, *rewritten, "-o", str(path)]) == 0
    assert paths[0].read_bytes() == paths[1].read_bytes()
    one, other = (onnx.load(path) for path in (paths[0], paths[2]))
    assert [n.op_type for n in one.graph.node] == [n.op_type for n in other.graph.node]
    assert one.metadata_props == other.metadata_props
    region = ["--region", "vta_0", "-o", str(tmp_path / "region.onnx")]
    assert main(["export-onnx", str(stages["outline-regions"]), *region]) == 0
    capsys.readouterr()
    late = ["--objective", "latency", "-o", str(tmp_path / "late.onnx")]
    assert main(["export-onnx", str(stages["outline-regions"]), *late]) == 1
    assert "error[B114]" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "options", "note"),
    [
        ("json", "conv", "target json keeps ops=conv, as the module says"),
        ("json{ops=relu}", "relu", "target json has ops=relu as given; the module was saved with"),
        ("json{ops=conv}", "conv", "target json keeps ops=conv, as the module says"),
    ],
)
def test_a_target_given_again_keeps_the_options_of_the_module(given: str, options: str, note: str):
    module = byocir.import_onnx(DIGITS / "digits_f32.onnx", shapes=SHAPES)
    run_passes(module, load_context(), 'set-targets{targets="json{ops=conv}"}')
    package = byocir.compile(module, targets=given)
    (target,) = package.targets
    assert str(target.options.data["ops"]) == f'"{options}"'
    assert [text for text in package.report.notes if text.startswith(note)]
    assert not [n for n in byocir.compile(module).report.notes if n.startswith("target")]


def test_an_instance_with_other_options_is_refused(tmp_path: Path):
    conv, relu = Json(ops=("conv",)), Json(ops=("relu",))
    package = byocir.compile(DIGITS / "digits_f32.onnx", targets=[conv], shapes=SHAPES)
    package.save(path := tmp_path / "p.bpkg")
    assert byocir.load(path, targets=[conv]).report == package.report
    with pytest.raises(ByocirError, match=r"B213.*options of a package, ops=conv, found ops=relu"):
        byocir.load(path, targets=[relu])
    module = byocir.import_onnx(DIGITS / "digits_f32.onnx", shapes=SHAPES)
    byocir.partition(module, [conv])
    with pytest.raises(ByocirError, match=r"B213.*that is partitioned, ops=conv, found ops=relu"):
        byocir.compile(module, targets=[relu])


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


def test_modules_between_passes_of_their_targets_go_on_from_there(
    small: str, direct: bytes, tmp_path: Path
):
    stages: dict[str, ModuleOp] = {}
    byocir.compile(small, after_pass=lambda p, m, _: stages.update({p.name: m.clone()}))
    for name in ("vta-arrange", "vta-pack", "vta-tile", "vta-insert-tokens", "vta-encode"):
        module = save(stages[name], tmp_path)
        assert package_bytes(byocir.compile(module), tmp_path) == direct, name
    module = stages["vta-tile"]
    for ran in (StringAttr("vta-pack"), UnitAttr()):
        module.attributes["byoc.in_code"] = ArrayAttr([ran])
        with pytest.raises(ByocirError, match="B302"):
            byocir.compile(module)


def test_modules_that_cannot_be_compiled(
    partitioned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    package = byocir.compile(partitioned)
    empty = tmp_path / "empty.mlir"
    empty.write_text("builtin.module {}")
    bare = tmp_path / "bare.mlir"
    bare.write_text(partitioned.read_text())
    broken = tmp_path / "broken.mlir"
    broken.write_bytes(b"\xff")
    capsys.readouterr()
    for path, error in (
        (save(package.module, tmp_path), "B302"),
        (empty, "B302"),
        (bare, "B107"),
        (broken, "B120"),
        (tmp_path / "none.mlir", "B101"),
    ):
        assert main(["compile", str(path)]) == 1
        assert f"error[{error}]" in capsys.readouterr().err
    with pytest.raises(byocir.ByocirError, match=r"B114.*expected no gather"):
        byocir.compile(partitioned, gather=False)
    package.save(tmp_path / "made.bpkg")
    for given in (partitioned, tmp_path / "made.bpkg"):
        assert main(["run", str(given), "--verify"]) == 1
        message = capsys.readouterr().err
        assert "error[B114]" in message
        assert "byocir run MODEL.onnx --verify" in message


@pytest.mark.parametrize(
    ("main_calls", "f_calls", "named"), [("main", "", "main"), ("f", "f", "f")]
)
def test_functions_that_call_themselves(main_calls: str, f_calls: str, named: str):
    def function(name: str, callee: str) -> str:
        type_ = "tensor<4xf32>"
        body = f"func.call @{callee}(%x) : ({type_})" if callee else f"graph.relu %x : ({type_})"
        head = f"func.func @{name}(%x: {type_}) -> {type_}"
        return f"{head} {{\n%a = {body} -> {type_}\nfunc.return %a : {type_}\n}}\n"

    module = parse_module(function("main", main_calls) + function("f", f_calls))
    with pytest.raises(ByocirError, match=rf"B302.*@{named} in a circle of calls"):
        byocir.compile(module, targets="json")


@pytest.mark.parametrize("depth", [12, 13, 300])
def test_functions_that_double_with_each_call(depth: int):
    type_ = "tensor<4xf32>"

    def function(name: str, callee: str) -> str:
        call = f"func.call @{callee}(%x) : ({type_}) -> {type_}"
        twice = f"%a = {call}\n%b = {call}\n%c = graph.add %a, %b : ({type_}, {type_}) -> {type_}"
        one = f"%c = graph.relu %x : ({type_}) -> {type_}"
        head = f"func.func @{name}(%x: {type_}) -> {type_}"
        return f"{head} {{\n{twice if callee else one}\nfunc.return %c : {type_}\n}}\n"

    names = ["main", *(f"f{i}" for i in range(depth))]
    pairs = zip(names, [*names[1:], ""], strict=True)
    module = parse_module("".join(function(name, callee) for name, callee in pairs))
    if 2 * (2**depth - 1) <= 10_000:
        byocir.compile(module, targets="json")
        return
    with pytest.raises(ByocirError, match=r"B302.*at most 10,000 calls.*more from @main"):
        byocir.compile(module, targets="json")
