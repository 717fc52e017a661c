"""`byocir new-target`: what it writes works as it stands, and it overwrites nothing."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tomllib
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from byocir.cli import new_target
from byocir.cli.main import main
from byocir.targets.base import Target

SCAFFOLD = Path(str(files("byocir.cli") / "scaffold"))
SHARED = {"README.md", "pyproject.toml", "test_acme.py"}


def kinds() -> list[str]:
    """The kinds that the command line offers."""
    parser = argparse.ArgumentParser()
    new_target.add_options(parser)
    (kind,) = (action for action in parser._actions if action.dest == "kind")
    return list(kind.choices or ())


def test_each_kind_is_a_file_of_the_scaffold_and_short():
    found = {path.name for path in SCAFFOLD.iterdir() if path.is_file()}
    assert found == SHARED | {f"{kind}.py" for kind in kinds()}
    for kind in kinds():
        assert len((SCAFFOLD / f"{kind}.py").read_text().splitlines()) <= 120
    assert len((SCAFFOLD / "README.md").read_text().splitlines()) == 10


@pytest.mark.parametrize("kind", kinds())
def test_what_is_written_is_installable_computes_and_conforms(
    kind: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    conforms,
):
    name, folder = f"my_{kind}", tmp_path / "made"
    assert main(["new-target", name, "--kind", kind, "-o", str(folder)]) == 0
    written = {path.name for path in folder.iterdir()}
    assert written == {f"{name}.py", f"test_{name}.py", "pyproject.toml", "README.md"}
    assert not any("acme" in path.read_text().lower() for path in folder.iterdir())
    out = capsys.readouterr().out
    assert f"next  byocir conform {folder / name}.py" in out
    assert ("note  byocir export needs" in out) == (kind != "c")
    monkeypatch.syspath_prepend(folder)
    own = import_module(f"test_{name}")
    assert isinstance(named(folder, name), own_class(own))
    own.test_it_takes_what_it_says(conforms)


def own_class(module: Any) -> type[Target]:
    """The class that a test module imports."""
    (kind,) = (v for v in vars(module).values() if isinstance(v, type) and issubclass(v, Target))
    return kind


def named(folder: Path, name: str) -> Target:
    """The target that the package's entry point names, imported as pip's installation would."""
    project = tomllib.loads((folder / "pyproject.toml").read_text())
    assert project["tool"]["setuptools"]["py-modules"] == [name]
    module, _, kind = project["project"]["entry-points"]["byocir.targets"][name].partition(":")
    target = getattr(import_module(module), kind)()
    assert target.name == name
    return target


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("MyNpu", "other characters than lower-case letters, digits and _ after a letter"),
        ("my-npu", "other characters than lower-case letters, digits and _ after a letter"),
        ("../npu", "other characters than lower-case letters, digits and _ after a letter"),
        ("", "other characters than lower-case letters, digits and _ after a letter"),
        ("n" * 65, "one of 65 letters"),
        ("lambda", "a keyword of Python"),
        ("host", "a word that has a meaning where targets are named"),
        ("vta", "a target that is installed"),
        ("random", "a module that is installed"),
        ("numpy", "a module that is installed"),
    ],
)
def test_names_that_no_target_can_have(
    name: str, found: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert main(["new-target", name, "-o", str(tmp_path / "made")]) == 1
    assert capsys.readouterr().err.splitlines() == [
        f"error[B389]: expected a name for a new target, found {found}",
        *([f"  at    {name}"] if name else []),
        "  help  it names the target and its module: e.g. my_npu",
    ]
    assert not (tmp_path / "made").exists()


def test_nothing_is_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    assert main(["new-target", "my_npu"]) == 0
    (tmp_path / "my_npu" / "my_npu.py").write_text("mine")
    assert main(["new-target", "my_npu"]) == 1
    assert "error[B112]: expected a new or an empty folder, found other files" in (
        capsys.readouterr().err
    )
    assert (tmp_path / "my_npu" / "my_npu.py").read_text() == "mine"
    (tmp_path / "file").write_text("")
    assert main(["new-target", "my_npu", "-o", "file"]) == 1
    assert "found a file" in capsys.readouterr().err
    (tmp_path / "empty").mkdir()
    assert main(["new-target", "my_npu", "-o", "empty"]) == 0


@pytest.mark.slow
def test_pip_installs_it_and_byocir_finds_it_by_name(tmp_path: Path):
    folder, venv = tmp_path / "my_npu", tmp_path / "venv"
    assert main(["new-target", "my_npu", "-o", str(folder)]) == 0
    run(sys.executable, "-m", "venv", "--without-pip", str(venv))
    python = str(venv / "bin" / "python")
    (packages,) = venv.glob("lib/*/site-packages")
    ours = str(Path(pytest.__file__).parents[1])
    (packages / "byocir_of_these_tests.pth").write_text(f"import site; site.addsitedir({ours!r})\n")
    run(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "-e", str(folder))
    listed = run(python, "-m", "byocir.cli.main", "targets", "my_npu")
    assert listed.startswith("my_npu  Runs convolutions and products, by calls of a library.")
    tried = run(python, "-m", "byocir.cli.main", "conform", "my_npu", "--rounds", "1")
    assert ", 0 wrong, " in tried
    passed = run(python, "-m", "pytest", "-q", "--conform-seconds", "2", str(folder))
    assert "2 passed" in passed


def run(*command: str) -> str:
    """What a command prints, if it succeeds."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
