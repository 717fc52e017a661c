"""Reports errors of byocir itself, in files that let someone else see them happen."""

from __future__ import annotations

import shlex
import sys
import tempfile
import traceback
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from byocir.dialects.byoc import TARGETS
from byocir.dialects.text import print_module
from byocir.dialects.weights import SUFFIX, large_arrays, save_arrays
from byocir.errors import MOST, printable, shortened
from byocir.patterns.target_classes import file_of, names
from byocir.patterns.targets import find, targets_of
from byocir.vendor.user_code import given_file


def write_crash(error: BaseException, command: Sequence[str]) -> Path:
    """Writes what is known of an error outside of passes (versions, the command and where it was
    raised) to a new folder for temporary files.
    """
    path = Path(tempfile.mkdtemp(prefix="byocir-")) / "crash.txt"
    trace = "".join(traceback.format_exception(error))
    path.write_text(f"{_versions()}\n{shlex.join(command)}\n\n{trace}", encoding="utf-8")
    return path


class ByocirInternalError(Exception):
    """Says that a pass failed on a valid module: that is an error in byocir or a target, not in
    what the user gave.

    `pass_name` is the pass, `reproducer` a file with the module before it and the command to run.
    """

    def __init__(self, pass_name: str, problem: str, reproducer: Path) -> None:
        self.pass_name = pass_name
        self.problem = shortened(printable(problem), MOST)
        self.reproducer = reproducer
        super().__init__(self.render())

    def render(self) -> str:
        """Gives the message as the command line prints it, without a trailing newline."""
        return (
            f"internal error in pass '{self.pass_name}': {self.problem}\n"
            f"  reproducer  {self.reproducer}\n"
            "  help  this is a bug: please report it with the reproducer"
        )


def write_reproducer(module: ModuleOp, passes: Sequence[ModulePass], problem: str) -> Path:
    """Writes a module and the pipeline that fails on it to a new folder for temporary files."""
    path = Path(tempfile.mkdtemp(prefix="byocir-")) / "reproducer.mlir"
    pipeline = ",".join(map(str, passes))
    command = ["byocir-opt", path.name]
    for target in _targets_of_files(module, pipeline):
        command += ["--load-target", target]
    for file in dict.fromkeys(given_file(type(pass_)) for pass_ in passes):
        command += ["--load-passes", file] if file else []
    header = [_versions(), *problem.splitlines(), shlex.join([*command, "-p", pipeline])]
    text = "".join(f"// {line}\n" for line in header) + print_module(module)
    path.write_text(text, encoding="utf-8", newline="\n")
    arrays = large_arrays(module)
    if arrays:
        save_arrays(arrays, path.with_suffix(SUFFIX))
    return path


def _targets_of_files(module: ModuleOp, pipeline: str) -> list[str]:
    """Lists the targets from files that a module or a pipeline names, as a user gives them."""
    listed = targets_of(module) if TARGETS in module.attributes else []
    specs = {attribute.target_name.data: find(attribute).spec() for attribute in listed}
    found = [name for name in names() if name in specs or name in pipeline]
    return [
        f"{file}{str(specs.get(name, name)).removeprefix(name)}"
        for name in found
        if (file := file_of(name))
    ]


def _versions() -> str:
    python = sys.version.split()[0]
    return f"byocir {_version('byocir')}, xdsl {_version('xdsl')}, python {python}"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "(not installed)"
