"""Interrupted before anything runs: while the tools are imported."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

INTERRUPTED_BY_AN_IMPORT = """
import sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == "argparse":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupt())
from byocir.cli.entry import {tool}
sys.argv = ["{tool}", "--help"]
sys.exit({tool}())
"""


@pytest.mark.parametrize("tool", ["byocir", "byocir_opt"])
def test_an_import_can_be_interrupted(tool: str):
    code = INTERRUPTED_BY_AN_IMPORT.format(tool=tool)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")


def test_the_tools_begin_there():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    begins = project["project"]["scripts"].values()
    assert list(begins) == ["byocir.cli.entry:byocir", "byocir.cli.entry:byocir_opt"]
