"""Cases through byocir: the evaluator at the graph and the tensor level, and C for processors."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from c_host import build_together
from xdsl.dialects.builtin import ModuleOp

import byocir
from byocir.compiler import generate, hand_over
from byocir.dialects.graph.foreign import ForeignOp
from byocir.errors import ByocirError
from byocir.evaluate.module import evaluate
from byocir.request import Request
from byocir.runtime.package import Package
from byocir.runtime.report import C, Report
from onnx_fuzz.cases import Case
from onnx_fuzz.compare import compare

GRAPH, EVALUATOR = "graph", "evaluator"
BATCH = 40
"""Cases whose C is built at once."""


@dataclass(frozen=True)
class Difference:
    """A result that is not as it should be: the way, the output, and the problem."""

    way: str
    output: str
    problem: str

    @property
    def kind(self) -> str:
        """The part of the problem that stays while the case shrinks."""
        return self.problem.split(":")[0]


def through_evaluator(case: Case) -> list[Difference]:
    """Lists the differences when a case is evaluated as it was imported, if graph ops stand for all
    of it, and as it was lowered."""
    model = case.model().SerializeToString()

    def lowered() -> dict[str, Any]:
        return byocir.compile(model, targets=[]).run(case.feeds)

    return _attempt(case, GRAPH, lambda: _as_imported(case, model)) or _attempt(
        case, EVALUATOR, lowered
    )


def _as_imported(case: Case, model: bytes) -> dict[str, Any]:
    module = byocir.import_onnx(model)
    if any(isinstance(op, ForeignOp) for op in module.walk()):
        return {}  # foreign ops mean what they are compared with
    return evaluate(module, case.feeds)


def through_c(cases: Sequence[Case], hosts: Sequence[str]) -> list[list[Difference]]:
    """Lists the differences when cases run as C for each of some hosts, case by case."""
    found: list[list[Difference]] = [[] for _ in cases]
    handed = [_handed_over(case) for case in cases] if hosts else []
    for host in hosts:
        packages = [_generated(each, host) for each in handed]
        _build([p for p in packages if isinstance(p, Package)])
        for told, case, package in zip(found, cases, packages, strict=True):
            if isinstance(package, Difference):
                told.append(package)
            else:
                told += _attempt(case, host, lambda p=package, c=case: p.run(c.feeds))
    return found


def _handed_over(case: Case) -> tuple[ModuleOp, Report] | str:
    """Gives a case partitioned for no target, or what went wrong."""
    try:
        module = byocir.import_onnx(case.model().SerializeToString())
        return module, hand_over(module, Request([]))
    except Exception as error:
        return _told(error)


def _generated(handed: tuple[ModuleOp, Report] | str, host: str) -> Package | Difference:
    if isinstance(handed, str):
        return Difference(host, "", handed)
    module, report = handed
    try:
        return generate(module.clone(), deepcopy(report), host=host)
    except Exception as error:
        return Difference(host, "", _told(error))


def _build(packages: Sequence[Package]) -> None:
    """Builds all at once; where that fails, each is built when it runs, and tells."""
    in_c = [package for package in packages if package.report.host_runs_on == C]
    with suppress(ByocirError):
        build_together([p.host_program(f"model{i}") for i, p in enumerate(in_c)])


def _attempt(case: Case, way: str, run: Callable[[], dict[str, Any]]) -> list[Difference]:
    try:
        outputs = run()
    except Exception as error:
        return [Difference(way, "", _told(error))]
    found = [(name, compare(outputs[name], case.made[name])) for name in case.outputs if outputs]
    return [Difference(way, name, problem) for name, problem in found if problem]


def _told(error: Exception) -> str:
    if isinstance(error, ByocirError):
        return f"{error.code}: {error}"
    place = traceback.extract_tb(error.__traceback__)[-1]
    file = place.filename.rpartition("byocir/")[2]
    return f"crash {type(error).__name__} {file} {place.name}: {error}"
