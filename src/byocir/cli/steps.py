"""Does the steps that several verbs share as their options ask: import, hand over, load a
package.
"""

from __future__ import annotations

import argparse
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO, cast

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

import byocir
from byocir.cli.arguments import Shapes, read_shapes
from byocir.cli.user_files import (
    make_folder,
    read_json,
    write_text,
    write_weights,
)
from byocir.compiler import generate, hand_over
from byocir.dialects.array import Array
from byocir.dialects.byoc import LEVELS
from byocir.dialects.text import print_module
from byocir.dialects.weights import SHARED, large_arrays
from byocir.errors import ByocirError
from byocir.request import Request
from byocir.rewrites.check_each import CheckEach
from byocir.rewrites.pipeline import PassRunner, with_care
from byocir.runtime.host_ops import check_host_ops
from byocir.runtime.package import Package
from byocir.runtime.read_model import read_model
from byocir.runtime.report import REFERENCE, Report

PACKAGE_SUFFIX = ".bpkg"
VERIFY_INSTEAD = (
    "byocir run MODEL.onnx --verify, with the same targets, compiles to the same package and "
    "checks it; or compare what --output writes for both"
)


class StepTimer:
    """Prints numbered steps with elapsed time, on stderr, so that stdout stays for results."""

    def __init__(self, total: int, stream: TextIO | None = None) -> None:
        self._total, self._stream = total, stream or sys.stderr
        self.restart()

    def restart(self) -> None:
        """Counts from the first step again, as the last one came to nothing."""
        self._done, self._began, self._open = 0, time.perf_counter(), ""

    def begin(self, name: str) -> None:
        """Ends the step before and begins a new one."""
        self.end()
        self._done += 1
        self._open, self._began = name, time.perf_counter()

    def end(self) -> None:
        """Ends the last step."""
        if self._open:
            seconds = time.perf_counter() - self._began
            print(
                f"[{self._done}/{self._total}] {self._open:<24} {seconds:8.2f} s", file=self._stream
            )
        self._open = ""


def targets_of(options: argparse.Namespace) -> list[str]:
    """Gives the targets that the options name, in order of preference."""
    return ["vta"] if options.target is None else options.target


def levels_of(options: argparse.Namespace) -> list[str]:
    """Gives the levels that the options name."""
    return list(LEVELS) if options.levels is None else options.levels.split(",")


def host_ops_of(options: argparse.Namespace) -> list[str]:
    """Gives the types of operators that may stay on the host by the options."""
    names = [name.strip() for name in options.host_ops.split(",")]
    return [] if names == ["none"] else names


def shapes_of(options: argparse.Namespace) -> Shapes:
    """Gives the shapes that the options name; raises ByocirError B110."""
    return read_shapes(options.shape)


def refuse(
    options: argparse.Namespace,
    what: str,
    names: list[str],
    help: str = "give the ONNX model itself",
) -> None:
    """Raises ByocirError B114 for options without a meaning for what is run; `help` says what to do
    instead.
    """
    given = [name for name in names if getattr(options, name, None) not in (None, [], False)]
    if given:
        raise ByocirError(
            "B114",
            f"expected no --{given[0].replace('_', '-')} with {what}, found it",
            where=str(options.model),
            help=help,
        )


def placement_of(options: argparse.Namespace) -> dict[str, str]:
    """Reads the placement file as a mapping; raises ByocirError B101, and B245 for another
    content.
    """
    path: Path | None = options.placement
    if path is None:
        return {}
    placement = read_json(path, "B245")
    entries: dict[str, Any] = {"": None}
    if isinstance(placement, dict):
        entries = cast(dict[str, Any], placement)
    if not all(isinstance(place, str) for place in entries.values()):
        raise ByocirError(
            "B245",
            "expected an object of strings",
            where=str(path),
            help='e.g. {"Conv_3": "host", ".*": "vta"}',
        )
    return entries


class Dump:
    """Writes every stage of a compilation into a folder, numbered, with one file of weights."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._count = folder, 0
        self._arrays: dict[str, Array] = {}
        make_folder(folder)

    def stage(self, name: str, module: ModuleOp) -> None:
        path = self._folder / f"{self._count:02d}_{name}.mlir"
        write_text(path, print_module(module))
        self._count += 1
        arrays = large_arrays(module)
        if arrays.keys() - self._arrays.keys():
            self._arrays.update(arrays)
            write_weights(self._folder / SHARED, self._arrays)

    def package(self, package: Package) -> None:
        """Adds each program of VTA as assembly."""
        from byocir.targets.vta_emit import programs_of
        from byocir.targets.vta_files import assembly

        for name, text in assembly(programs_of(package.module, package.blobs)).items():
            write_text(self._folder / f"{name}.asm", text)


def compile_with_steps(
    options: argparse.Namespace,
    steps: StepTimer | None = None,
    *,
    host: str = REFERENCE,
    expect: Callable[[ModuleOp], None] = lambda _: None,
    expect_of: Callable[[ModuleOp, Report], None] = lambda _, __: None,
) -> Package:
    """Compiles as the options ask, printing each step; `host` runs what no target takes, `expect`
    raises if something else does not fit the imported model, `expect_of` if something does not fit
    the partitioned one, before there is code.
    """
    steps = steps or StepTimer(3)
    dump = Dump(options.dump) if options.dump else None
    check = CheckEach() if options.check_each else None

    def after_pass(pass_: ModulePass, module: ModuleOp, seconds: float) -> None:
        if dump is not None:
            dump.stage(pass_.name, module)
        if check is not None:
            check(pass_, module, seconds)

    def attempt(runner: PassRunner) -> Package:
        steps.restart()
        steps.begin("import")
        module = _imported(options, dump, check)
        expect(module)
        steps.begin("partition")
        report = hand_over_as_asked(options, module, runner)
        if options.host_ops is not None:
            check_host_ops(report, host_ops_of(options))
        expect_of(module, report)
        steps.begin("generate code")
        return generate(module, report, host=host, runner=runner)

    package = with_care(attempt, after_pass if dump or check else None)
    steps.end()
    if dump is not None:
        dump.package(package)
    return package


def _imported(options: argparse.Namespace, dump: Dump | None, check: CheckEach | None) -> ModuleOp:
    module = read_model(options.model, shapes=shapes_of(options), targets=options.target)
    if dump is not None:
        dump.stage("import", module)
    if check is not None:
        check.begin(module)
    return module


def hand_over_as_asked(options: argparse.Namespace, module: ModuleOp, runner: PassRunner) -> Report:
    """Partitions a module as the options ask, unless it is partitioned already."""
    request = Request(
        options.target,
        levels_of(options),
        placement_of(options),
        options.objective or "",
        options.costs,
        options.tuned,
    )
    return hand_over(module, request, runner)


def write_report(report: Report, path: Path | None) -> None:
    """Writes the report as JSON if asked to."""
    if path is not None:
        write_text(path, report.to_json())


def is_package(path: Path) -> bool:
    """Tells if a file should be a package, be it sound or not."""
    return path.suffix == PACKAGE_SUFFIX or (path.is_file() and zipfile.is_zipfile(path))


def refuse_package(options: argparse.Namespace) -> None:
    """Raises ByocirError B102 for a package where a model is needed."""
    if is_package(options.model):
        where = str(options.model)
        raise ByocirError("B102", "expected an ONNX model, found a package", where=where)


def load_package(options: argparse.Namespace) -> Package:
    """Loads the package that is named in place of a model; refuses options that only a model can
    take.
    """
    refuse(options, "a package, which does not hold its model", ["verify"], VERIFY_INSTEAD)
    own = ["host", "host_ops", "levels", "objective", "costs", "tuned", "placement", "shape"]
    own += ["dump", "check_each"]
    refuse(options, "a package", own)
    return byocir.load(options.model, targets=options.target or ())
