"""Runs every .mlir file here in this process; one of the folders once more through plain lit."""

import subprocess
import sys
from pathlib import Path

import pytest
from run_lines import RunFailure, run_file

HERE = Path(__file__).parent
FILES = sorted(path.relative_to(HERE).as_posix() for path in HERE.rglob("*.mlir"))


@pytest.mark.parametrize("name", FILES)
def test_file(name: str, tmp_path: Path) -> None:
    try:
        run_file(HERE / name, tmp_path)
    except RunFailure as failure:
        message = str(failure)
    else:
        return
    pytest.fail(message, pytrace=False)


def test_check_that_does_not_match_fails(tmp_path: Path) -> None:
    broken = tmp_path / "broken.mlir"
    broken.write_text("// RUN: byocir-opt %s | filecheck %s\n// CHECK: nothing like it\n%0 = x.y")
    with pytest.raises(RunFailure, match=r"byocir-opt .* failed"):
        run_file(broken, tmp_path)
    broken.write_text("// RUN: byocir-opt %s | filecheck %s\n// CHECK: nothing like it\nmodule {}")
    with pytest.raises(RunFailure, match=r"filecheck .* failed"):
        run_file(broken, tmp_path)


def test_plain_lit_agrees() -> None:
    lit = [sys.executable, "-m", "lit.main", "-sv", str(HERE / "cli")]
    result = subprocess.run(lit, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
