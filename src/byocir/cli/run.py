"""`byocir run` and the steps that all verbs share."""

from __future__ import annotations

import argparse
import sys
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

import byocir
from byocir.cli.reference import run_onnxruntime
from byocir.compiler import generate
from byocir.dialects.array import Array
from byocir.dialects.text import print_module
from byocir.dialects.types import dtype_of, element_type_of, shape_of
from byocir.dialects.weights import large_arrays, save_arrays
from byocir.errors import ByocirError
from byocir.runtime.explain import summary
from byocir.runtime.package import Package
from byocir.runtime.report import Report

PACKAGE_SUFFIX = ".bpkg"
SEED = 0
CHECK_FAILED = 3


class Steps:
    """Numbered steps with elapsed time, on stderr so that stdout stays for results."""

    def __init__(self, total: int, stream: TextIO | None = None) -> None:
        self._total, self._stream = total, stream or sys.stderr
        self._done, self._began, self._open = 0, time.perf_counter(), ""

    def begin(self, name: str) -> None:
        """Ends the step before and begins this one."""
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
    """The targets as given, in order of preference."""
    return options.target or ["vta"]


def levels_of(options: argparse.Namespace) -> list[str]:
    """The levels as given."""
    return [level for level in options.levels.split(",") if level]


def shapes_of(options: argparse.Namespace) -> dict[str, tuple[int, ...]]:
    """`--shape x=1,3,8,8` as a mapping; raises ByocirError B110 for anything else."""
    shapes: dict[str, tuple[int, ...]] = {}
    for text in options.shape:
        name, _, dims = text.rpartition("=")
        try:
            shapes[name] = tuple(int(dim) for dim in dims.split(","))
        except ValueError:
            raise ByocirError(
                "B110", f"expected --shape NAME=D,D,…, found '{text}'", help="e.g. x=1,3,32,32"
            ) from None
    return shapes


class Dump:
    """Writes every stage of a compilation into a folder, numbered, with one file of weights."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._count = folder, 0
        self._arrays: dict[str, Array] = {}
        folder.mkdir(parents=True, exist_ok=True)

    def stage(self, name: str, module: ModuleOp) -> None:
        path = self._folder / f"{self._count:02d}_{name}.mlir"
        path.write_text(print_module(module))
        self._count += 1
        arrays = large_arrays(module)
        if arrays.keys() - self._arrays.keys():
            self._arrays.update(arrays)
            save_arrays(self._arrays, self._folder / "weights.safetensors")

    def package(self, package: Package) -> None:
        """Adds each program of VTA as assembly."""
        from byocir.targets.vta import assembly

        for name, text in assembly(package.blobs.get("vta", {})).items():
            (self._folder / f"{name}.asm").write_text(text)


def compile_with_steps(options: argparse.Namespace, steps: Steps | None = None) -> Package:
    """Compiles as the command line asks, telling each step."""
    steps = steps or Steps(3)
    dump = Dump(options.dump) if options.dump else None

    def after_pass(pass_: ModulePass, module: ModuleOp, seconds: float) -> None:
        if dump is not None:
            dump.stage(pass_.name, module)

    steps.begin("import")
    module = byocir.import_onnx(options.model, shapes=shapes_of(options))
    if dump is not None:
        dump.stage("import", module)
    steps.begin("partition")
    report = byocir.partition(
        module, targets_of(options), levels=levels_of(options), after_pass=after_pass
    )
    steps.begin("generate code")
    package = generate(module, report, after_pass=after_pass)
    steps.end()
    if dump is not None:
        dump.package(package)
    return package


def write_report(report: Report, path: Path | None) -> None:
    """Writes the report as JSON if asked to."""
    if path is not None:
        path.write_text(report.to_json())


def run(options: argparse.Namespace) -> int:
    """Compiles (or loads) and runs a model; `--verify` compares with ONNX Runtime."""
    steps = Steps(5 if options.verify else 4)
    is_package = options.model.suffix == PACKAGE_SUFFIX and zipfile.is_zipfile(options.model)
    package = byocir.load(options.model) if is_package else compile_with_steps(options, steps)
    feeds = read_feeds(options.input, package)
    steps.begin("run")
    outputs = package.run(feeds)
    steps.end()
    print(summary(package.report))
    write_report(package.report, options.report)
    if options.output is not None:
        np.savez(options.output, **dict[str, Any](outputs))
    for name, array in outputs.items():
        print(f"{name}: {'x'.join(map(str, array.shape))} {array.dtype}")
    if not options.verify:
        return 0
    steps.begin("verify")
    code = verify(options.model, feeds, outputs)
    steps.end()
    return code


def read_feeds(path: Path | None, package: Package) -> dict[str, np.ndarray]:
    """The inputs of a file, or seeded ones: standard normal floats, small integers."""
    if path is None:
        return seeded_feeds(package)
    if not path.is_file():
        raise ByocirError("B101", "expected a file, found none", where=str(path))
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files if name in package.inputs}
    except (ValueError, OSError, zipfile.BadZipFile) as error:
        raise ByocirError("B111", "expected arrays by name (.npz)", where=str(path)) from error


def seeded_feeds(package: Package) -> dict[str, np.ndarray]:
    """The same inputs at every run."""
    rng = np.random.default_rng(SEED)
    feeds: dict[str, np.ndarray] = {}
    for name, type_ in package.inputs.items():
        dtype, shape = dtype_of(element_type_of(type_)), shape_of(type_)
        if np.issubdtype(dtype, np.integer):
            feeds[name] = rng.integers(0, 100, shape).astype(dtype)
        else:
            feeds[name] = rng.standard_normal(shape).astype(dtype)
    return feeds


def verify(model: Path, feeds: Mapping[str, np.ndarray], outputs: Mapping[str, np.ndarray]) -> int:
    """Prints the largest difference from ONNX Runtime and the share of equal values; a difference
    above a twentieth of the output's spread is a failed check."""
    expected = next(run_onnxruntime(model, [feeds]))
    code = 0
    for name, array in outputs.items():
        reference: np.ndarray = expected[name].astype(np.float64)
        difference: np.ndarray = np.abs(array.astype(np.float64) - reference)
        largest = float(difference.max(initial=0.0))
        equal = 100 * float(np.equal(array, expected[name]).mean()) if array.size else 100.0
        spread = float(np.ptp(reference)) if reference.size else 0.0
        print(f"verify {name}: largest difference {largest:.6g}, {equal:.2f} % equal")
        if not largest <= max(spread / 20, 1e-3):
            print(f"verify {name}: above {max(spread / 20, 1e-3):.6g}, a twentieth of the spread")
            code = CHECK_FAILED
    return code
