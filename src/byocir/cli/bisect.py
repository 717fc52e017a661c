"""`byocir bisect MODEL`: finds the step of a compilation that changes the model's results.

It runs every step of a compilation on seeded inputs, or for a saved module the steps that are left.
The import of a model is compared with ONNX Runtime where that is installed, each pass with the one
before it, generated code region by region, and the final program with the last stage. It stops at
the first step that changes a result, or whose process ends, and names that step, the ops and the
element. A line for each step goes to stderr. The exit code is 3 when a step was found.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from byocir.cli.arguments import add_host, add_isolation, add_model, add_seed
from byocir.cli.differing import compared_by_node
from byocir.cli.guard import CHECK_FAILED, OK
from byocir.cli.hosts import host_text
from byocir.cli.reference import distances, rounds_coarsely, run_onnxruntime
from byocir.cli.steps import hand_over_as_asked, shapes_of
from byocir.cli.user_files import read_inputs
from byocir.compiler import generate
from byocir.dialects.byoc import CallOp
from byocir.dialects.locations import names
from byocir.errors import ByocirError
from byocir.evaluate.interpreter import Interpreter
from byocir.evaluate.module import evaluate, random_feeds
from byocir.isolation import DIED
from byocir.rewrites.check_each import ChangedElement, CheckEach, PassChanged, first_difference
from byocir.rewrites.pipeline import PassRunner
from byocir.runtime.module_members import module_types
from byocir.runtime.package import Package
from byocir.runtime.read_model import is_saved_module, read_model
from byocir.runtime.report import Report

Region = tuple[str, list[np.ndarray], list[np.ndarray], tuple[str, ...]]
"""A call of a region: its function, its inputs and outputs, and the nodes it stands for."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    add_model(parser, "an ONNX file or a module (.mlir)")
    parser.add_argument("--input", type=Path, help="inputs by name (.npz); default: seeded numbers")
    add_seed(parser)
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    add_host(parser)
    add_isolation(parser, "making the code of regions, or a call of it,")
    parser.set_defaults(verb=run)


def run(options: argparse.Namespace) -> int:
    """Runs the command; gives the exit code."""
    bisection = _Bisection(options)
    found: dict[str, Any] | None = None
    try:
        bisection.compile()
    except PassChanged as changed:
        found = _described(changed)
    except _CodeFailed as failed:
        found = failed.described
    if options.json:
        print(json.dumps({"steps": bisection.steps, "found": found}, indent=2))
    elif found is None:
        print(f"{len(bisection.steps)} steps, none changes what the model computes")
    else:
        print(_sentence(found))
    return OK if found is None else CHECK_FAILED


def _described(changed: PassChanged) -> dict[str, Any]:
    difference = changed.difference
    return {
        "step": changed.pass_name,
        "what": changed.output,
        "ops": changed.ops,
        "element": list(difference.place),
        "before": difference.before,
        "found": difference.found,
    }


class _CodeFailed(Exception):
    """Tells that emit gives no code, or the code of a region no results."""

    def __init__(self, step: str, error: ByocirError, nodes: Sequence[str]) -> None:
        ops = f"the ops of {', '.join(nodes)}"
        self.described = {"step": step, "error": str(error), "code": error.code, "ops": ops}
        super().__init__(step)


def _sentence(found: Mapping[str, Any]) -> str:
    if "error" in found:
        return f"{found['step']} is the first step that fails\n{found['error']}"
    lines = [
        f"{found['step']} is the first step that changes a result",
        f"  what     {found['what']}",
        f"  element  {found['element']}: {found['before']} before, {found['found']} after",
    ]
    if found["ops"]:
        lines.append(f"  where    {found['ops']}")
    return "\n".join(lines)


class _Bisection:
    """Runs one compilation and checks it at each step."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.check = CheckEach(seed=options.seed)
        self.steps: list[dict[str, Any]] = []
        self.before_code: ModuleOp | None = None

    def compile(self) -> None:
        """Runs all steps; raises PassChanged at the first that changes a result."""
        options, host = self.options, host_text(self.options)
        module = read_model(options.model, shapes=shapes_of(options), targets=options.target)
        self._step("import", lambda: self._begin(module))
        runner = PassRunner(self._after_pass)
        report = hand_over_as_asked(options, module, runner)
        self.before_code = module.clone()
        package = self._generated(module, report, host, runner)
        regions: Sequence[Region] = self._regions() if package.report.regions else []
        for region in (region for region in regions if package.has_code(region[0])):
            self._step(f"code of {region[0]}", partial(self._check_region, package, region))
        self._step(f"run ({host} host)", lambda: self._check_run(package))

    def _generated(
        self, module: ModuleOp, report: Report, host: str, runner: PassRunner
    ) -> Package:
        """Generates code; raises _CodeFailed where the process ends in which a target does."""
        began = time.perf_counter()
        try:
            return generate(module, report, host=host, runner=runner)
        except ByocirError as error:
            if error.code != DIED:
                raise
            self._tell("emit", "FAILED", began)
            raise _CodeFailed("emit", error, [error.where]) from error

    def _step(self, name: str, check: Callable[[], None]) -> None:
        """Checks a step and prints how it went."""
        began = time.perf_counter()
        try:
            check()
        except PassChanged:
            self._tell(name, "CHANGED", began)
            raise
        except _CodeFailed:
            self._tell(name, "FAILED", began)
            raise
        self._tell(name, "ok", began)

    def _tell(self, name: str, verdict: str, began: float) -> None:
        self.steps.append({"step": name, "verdict": verdict})
        seconds = time.perf_counter() - began
        line = f"[{len(self.steps):>2}] {name:<32} {verdict:<8} {seconds:7.2f} s"
        print(line, file=sys.stderr, flush=True)

    def _after_pass(self, pass_: ModulePass, module: ModuleOp, seconds: float) -> None:
        self._step(str(pass_), lambda: self.check(pass_, module, seconds))
        self.before_code = module.clone()

    # The steps that are no passes.

    def _begin(self, module: ModuleOp) -> None:
        path: Path | None = self.options.input
        inputs, _ = module_types(module)
        seed = self.options.seed
        feeds = random_feeds(module, seed) if path is None else read_inputs(path, inputs)
        self.check.begin(module, feeds)
        if find_spec("onnxruntime") is not None and not is_saved_module(self.options.model):
            self._compare_import(feeds, rounds_coarsely(module))

    def _compare_import(self, feeds: Mapping[str, np.ndarray], coarse: bool) -> None:
        try:
            reference = next(run_onnxruntime(self.options.model, [dict(feeds)]))
        # The evaluator does not know an op, so there is nothing to compare with.
        except ByocirError:
            return
        for name, expected in reference.items():
            found = self.check.outputs[name]
            difference = _far(found, np.asarray(expected), coarse)
            if difference is None:
                continue
            by_node = compared_by_node(self.options.model, feeds)
            if by_node.is_known or by_node.amplifies(found, np.asarray(expected), coarse):
                continue
            ops = ", ".join(map(str, by_node.differing))
            raise PassChanged("import", f"output '{name}'", difference, ops, self.check.seed)

    def _regions(self) -> Sequence[Region]:
        """Runs the last stage before code, and gives each call of a region with its inputs and
        outputs.
        """
        module = self.before_code
        assert module is not None
        found: dict[str, Region] = {}

        def observe(op: Operation, results: Sequence[Any]) -> None:
            if isinstance(op, CallOp):
                symbol = op.callee.string_value()
                given = [np.array(interpreter.value(value)) for value in op.inputs]
                made = [np.array(value) for value in results]
                found.setdefault(symbol, (symbol, given, made, names(op.location)))

        interpreter = Interpreter(module, observe=observe)
        evaluate(module, self.check.feeds, interpreter=interpreter)
        return list(found.values())

    def _check_region(self, package: Package, region: Region) -> None:
        symbol, given, expected, nodes = region
        step = f"code of {symbol}"
        try:
            made = package.run_region(symbol, given)
        except ByocirError as error:
            raise _CodeFailed(step, error, nodes) from error
        for i, array in enumerate(made):
            self._raise(step, f"output {i}", expected[i], array, nodes)

    def _check_run(self, package: Package) -> None:
        for name, array in package.run(self.check.feeds).items():
            before = self.check.outputs.get(name)
            if before is not None:
                self._raise("run", f"output '{name}'", before, np.asarray(array), ())

    def _raise(
        self,
        step: str,
        what: str,
        before: np.ndarray,
        found: np.ndarray,
        nodes: Sequence[str],
    ) -> None:
        difference = first_difference(found, before)
        if difference is not None:
            ops = f"the ops of {', '.join(nodes)}" if nodes else ""
            raise PassChanged(step, what, difference, ops, self.check.seed)


def _far(found: np.ndarray, expected: np.ndarray, coarse: bool) -> ChangedElement | None:
    """Gives the element that is farthest from its reference, if it is too far: quantised models
    round where ONNX Runtime does not.
    """
    if found.shape != expected.shape:
        return ChangedElement((), str(expected.shape), str(found.shape))
    if not expected.size or expected.dtype.kind not in "fiub":
        return None
    difference, limit, _ = distances(found, expected, coarse)
    beyond = difference - limit
    if float(beyond.max()) <= 0:
        return None
    at = tuple(int(i) for i in np.unravel_index(int(beyond.argmax()), beyond.shape))
    return ChangedElement(at, str(expected[at]), str(found[at]))
