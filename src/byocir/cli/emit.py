"""`--emit STAGE`: writes one stage of a compilation as text, in place of a package or a run.

| stage | what |
| --- | --- |
| import | the model as it was read |
| graph | graph level, before the first hand-off |
| partitioned | after the last hand-off |
| tir | tensor level, as ops became blocks: before layouts and fusion |
| fused | tensor level, as it becomes C |
| scf | that as loops of scf on memref, for upstream MLIR |
| vta | VTA's instructions as ops, before they are encoded |
| asm | VTA's programs as assembly |
| json | the programs of targets whose code is JSON |
| c, h | the host's C source and header |
| a pass | the module after it; `clean-up:2` is after its second run, without a number the last |

Stages from `fused` on need C code for the host: it is made for any machine unless `--host` says
otherwise.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from byocir.cli.hosts import host_text
from byocir.cli.steps import hand_over_as_asked, refuse_package, shapes_of
from byocir.cli.user_files import check_writable, write_bytes, write_text, write_weights
from byocir.compiler import generate
from byocir.dialects.context import load_context
from byocir.dialects.text import print_module
from byocir.dialects.weights import SUFFIX, large_arrays
from byocir.errors import ByocirError, did_you_mean
from byocir.rewrites.pipeline import PassRunner, run_passes
from byocir.runtime.native import code_without_evaluator
from byocir.runtime.package import Package
from byocir.runtime.read_model import read_model
from byocir.runtime.report import REFERENCE
from byocir.targets.json.codegen import CONSTANTS, PROGRAM
from byocir.targets.vta_emit import programs_of
from byocir.targets.vta_files import assembly

ANY_MACHINE = "c{cpu=generic}"
NAMED = ("import", "graph", "partitioned", "tir", "fused", "scf", "vta", "asm", "json", "c", "h")
OF_THE_HOST = ("fused", "scf", "c", "h")
AFTER = {"tir": "convert-graph-to-tir", "partitioned": "outline-regions"}
"""The pass after which, the last time that it runs, a stage is reached."""
BEFORE = {"graph": "match-composites", "vta": "vta-encode"}
"""The pass before which, the first time that it runs, a stage is reached."""


def emit(options: argparse.Namespace, output: Path | None = None) -> int:
    """Writes the stage that `options.emit` names, to a file or to stdout; gives the exit code.
    Raises ByocirError B231 for a stage that this compilation does not have, B102 for a file that is
    no model.
    """
    if options.model.is_dir():
        where = str(options.model)
        raise ByocirError("B102", "expected an ONNX model, found a folder", where=where)
    refuse_package(options)
    check_writable(output)
    stage: str = options.emit
    wanted = _Wanted(stage)
    package = _compiled(options, wanted)
    module, text = wanted.found, ""
    if package is not None and stage in ("c", "h"):
        text = _host_text(package, stage)
    elif package is not None and stage in PROGRAMS:
        text = "\n".join(PROGRAMS[stage](package))
    elif module is not None:
        if stage == "scf":
            run_passes(module, load_context(), "bufferize,convert-tir-to-scf")
        text = print_module(module)
        arrays = large_arrays(module)
        if output is not None and arrays:
            write_weights(output.with_suffix(SUFFIX), arrays)
    if not text:
        raise _missing(stage, list(wanted.runs))
    if package is not None and stage == "json" and output is not None:
        _write_constants(package, output)
    if output is None:
        print(text, end="" if text.endswith("\n") else "\n")
    else:
        write_text(output, text)
    return 0


def _compiled(options: argparse.Namespace, wanted: _Wanted) -> Package | None:
    """Compiles until the stage is seen; gives the package, or None if it stopped before that."""
    host = host_text(options, ANY_MACHINE if wanted.stage in OF_THE_HOST else REFERENCE)
    module = read_model(options.model, shapes=shapes_of(options), targets=options.target)
    runner = PassRunner(wanted)
    try:
        wanted.start(module)
        report = hand_over_as_asked(options, module, runner)
        package = generate(module, report, host=host, runner=runner)
    except _Reached:
        return None
    if wanted.stage in ("fused", "scf"):
        wanted.found = package.module
    return package


class _Reached(Exception):
    """Says that the module at a stage was seen, and that no later one can be in its place."""


class _Wanted:
    """Keeps the module at one stage, as an `after_pass` callback."""

    def __init__(self, stage: str) -> None:
        self.stage = stage
        self._name, colon, number = AFTER.get(stage, stage).partition(":")
        self._number = (int(number[:20]) if number.isdecimal() else 0) if colon else None
        self._before: ModuleOp | None = None
        self.found: ModuleOp | None = None
        self.runs = Counter[str]()

    def start(self, module: ModuleOp) -> None:
        """Sees the module before any pass."""
        if self.stage == "import":
            self._reach(module)
        self._remember(module)

    def _remember(self, module: ModuleOp) -> None:
        if self.stage in BEFORE and self.found is None:
            self._before = module.clone()

    def __call__(self, pass_: ModulePass, module: ModuleOp, seconds: float) -> None:
        self.runs[pass_.name] += 1
        if pass_.name == BEFORE.get(self.stage) and self._before is not None:
            self._reach(self._before)
        if pass_.name == self._name and self._number == self.runs[pass_.name]:
            self._reach(module)
        if pass_.name == self._name and self._number is None:
            self.found = module.clone()
        self._remember(module)

    def _reach(self, module: ModuleOp) -> None:
        self.found = module
        raise _Reached


def _blobs_called(package: Package, name: str) -> list[tuple[str, bytes]]:
    """Finds the blobs of a name, with their targets in order."""
    return [(target, blobs[name]) for target, blobs in package.blobs.items() if name in blobs]


def _write_constants(package: Package, output: Path) -> None:
    """Writes the arrays of JSON programs beside them: with several targets, one file for each."""
    found = _blobs_called(package, CONSTANTS)
    for target, arrays in found:
        suffix = SUFFIX if len(found) == 1 else f".{target}{SUFFIX}"
        write_bytes(output.with_suffix(suffix), arrays)


def _assembly(package: Package) -> list[str]:
    return list(assembly(programs_of(package.module, package.blobs)).values())


def _json(package: Package) -> list[str]:
    return [program.decode() for _, program in _blobs_called(package, PROGRAM)]


PROGRAMS: Mapping[str, Callable[[Package], list[str]]] = {"asm": _assembly, "json": _json}
"""The stages that are code of targets, as texts one after another."""


def _host_text(package: Package, stage: str) -> str:
    code = code_without_evaluator(package.module)
    return code.source if stage == "c" else code.header


def _missing(stage: str, passes: list[str]) -> ByocirError:
    known = [*NAMED, *dict.fromkeys(passes)]
    return ByocirError(
        "B231",
        f"expected a stage of this compilation to emit, found '{stage}'",
        help=did_you_mean(stage, [name for name in known if name != stage]),
    )
