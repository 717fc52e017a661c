"""Runs what the pages of `NAMES` show and writes what it prints into them.

    python docs/snippets.py

Snippets run in order, from the root of the repository, as a reader would type them; those that are
diffs are done to their files.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from byocir.cli.main import main as byocir
from byocir.cli.opt import run_opt
from byocir.vendor.user_code import FILE_MODULE

ROOT = Path(__file__).parents[1]
NAMES = (
    "new-target.md",
    "your-first-target.md",
    "patterns.md",
    "tensor-level.md",
    "rewrites.md",
    "describe-your-machine.md",
    "targets-reference.md",
    "vta.md",
    "dnnl.md",
)
PAGES = tuple(ROOT / "docs" / name for name in NAMES)
TOY = ROOT / "examples" / "toy_npu.py"
COMMANDS = {"byocir": byocir, "byocir-opt": run_opt}
FENCE = re.compile(r"^(`{3,})(\w*)\n(.*?)^\1$", re.DOTALL | re.MULTILINE)
QUOTED = re.compile(r"<!-- from examples/toy_npu.py -->\n```python\n(.*?)^```", re.DOTALL | re.M)


def quoted(page: str) -> list[str]:
    """The snippets that are parts of the example."""
    return QUOTED.findall(page)


def command(tool: str, *arguments: str) -> None:
    """Runs a command: byocir's own in this process, others as they are."""
    if tool in COMMANDS:
        COMMANDS[tool](arguments)
    else:
        done = subprocess.run([tool, *arguments], capture_output=True, text=True, check=True)
        print(done.stdout, end="")


def edit(diff: str) -> None:
    """Does to a file what a reader does who follows a diff: its old lines become its new ones."""
    head, *lines = diff.splitlines()
    path = Path(head.removeprefix("--- "))
    old, new = (
        "".join(f"{line[1:]}\n" for line in lines if line[:1] in ("", " ", sign)) for sign in "-+"
    )
    text = path.read_text()
    if text.count(old) != 1:
        raise ValueError(f"{path} has {text.count(old)} of\n{old}")
    path.write_text(text.replace(old, new))
    for name in [name for name in sys.modules if name.startswith(FILE_MODULE)]:
        del sys.modules[name]  # each command is a process of its own


def render(page: str) -> str:
    """The page with what its snippets print."""
    names, printed = {"__name__": "__main__"}, ""

    def run(fence: re.Match[str]) -> str:
        nonlocal printed
        marks, language, code = fence.groups()
        if not language:
            return f"{marks}\n{printed}{marks}"
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            if language == "python":
                exec(compile(code, "page.md", "exec", dont_inherit=True), names)
            if language == "sh":
                command(*shlex.split(code))
            if language == "diff":
                edit(code)
        printed = out.getvalue()
        return fence[0]

    here = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        for name in ("examples", "src", "docs"):
            (Path(folder) / name).symlink_to(ROOT / name)
        os.chdir(folder)
        try:
            return FENCE.sub(run, page)
        finally:
            os.chdir(here)


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(render(page.read_text()))
