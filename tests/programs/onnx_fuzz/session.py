"""A session of fuzzing: seeds in batches, each in a process of its own, and what they find."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from byocir.errors import ByocirError
from byocir.isolation import Died, Limits, isolated
from byocir.memory import MOST
from byocir.toolchain.cpu import CPUS
from byocir.toolchain.machine import check_runs
from onnx_fuzz.cases import Case
from onnx_fuzz.grow import random_case
from onnx_fuzz.runs import (
    BATCH,
    EVALUATOR,
    GRAPH,
    Difference,
    through_c,
    through_evaluator,
)
from onnx_fuzz.shrink import LIMITS, shrink

ALL = "all"


@dataclass(frozen=True)
class Finding:
    """A difference, and the smallest case found that shows it."""

    seed: int
    way: str
    operators: Sequence[str]
    problem: str
    case: Case

    def text(self) -> str:
        head = f"--- seed {self.seed}, {self.way} [{' '.join(self.operators)}]"
        return f"{head}\n{self.case.text()}\n{self.problem}\n"


class Session:
    """The ways that graphs are run through, and the number of graphs so far."""

    def __init__(
        self,
        levels: Sequence[str] = (),
        threads: Sequence[int] = (1,),
        operator: str = "",
        evaluator: bool = True,
    ) -> None:
        """Takes levels, processors by name or `all`; those that this machine cannot run are
        `skipped`. Graphs begin with an operator if one is named."""
        known = list(CPUS) if ALL in levels else levels
        self.ways = [EVALUATOR] if evaluator else []
        self.skipped: list[str] = []
        for level in known:
            try:
                check_runs(CPUS[level])
            except ByocirError:
                self.skipped.append(level)
                continue
            self.ways += [f"c{{cpu={level},threads={count}}}" for count in threads]
        self._operator = operator
        self.count, self.operators = 0, Counter[str]()
        self.crashed: list[int] = []
        """Seeds of graphs that a reference did not survive."""
        quiet_runtime()

    def run(self, seeds: range, seconds: float = float("inf")) -> Iterator[Finding]:
        """Runs the graphs of these seeds, and gives what they find; no batch begins after some
        seconds."""
        end = time.monotonic() + seconds
        for start in range(0, len(seeds), BATCH):
            if time.monotonic() > end:
                return
            for seed, difference in self._differences(seeds[start : start + BATCH]):
                yield self._finding(seed, difference)

    def _differences(self, seeds: range) -> list[tuple[int, Difference]]:
        try:
            told = isolated(lambda: self._batch(seeds), Limits(600, MOST))
        except Died as died:
            if len(seeds) == 1:
                return self._died(seeds[0], died)
            return [each for seed in seeds for each in self._differences(range(seed, seed + 1))]
        self.count += told["count"]
        self.operators.update(told["operators"])
        return [(seed, Difference(*each)) for seed, each in told["found"]]

    def _died(self, seed: int, died: Died) -> list[tuple[int, Difference]]:
        """Makes a difference of a process that died, unless a reference did it."""
        try:
            isolated(lambda: bool(random_case(seed, self._operator)), LIMITS)
        except Died:
            self.crashed.append(seed)
            return []
        return [(seed, Difference(self.ways[-1], "", f"died: {died}"))]

    def _batch(self, seeds: range) -> Any:
        operators: Counter[str] = Counter()
        found: list[Any] = []
        drawn = [(seed, random_case(seed, self._operator)) for seed in seeds]
        cases = [(seed, case) for seed, case in drawn if case.nodes]
        for _, case in cases:
            operators.update({node.op_type for node in case.nodes})
        results = through(self.ways, [case for _, case in cases])
        for (seed, _), differences in zip(cases, results, strict=True):
            first = {d.way: (d.way, d.output, d.problem) for d in reversed(differences)}
            found += [(seed, each) for each in first.values()]
        return {"count": len(cases), "operators": operators, "found": found}

    def _finding(self, seed: int, difference: Difference) -> Finding:
        case = random_case(seed, self._operator)
        small = shrink(case, lambda candidate: _shows(candidate, difference))
        operators = [node.op_type for node in case.nodes]
        return Finding(seed, difference.way, operators, _problem(small, difference), small)


def through(ways: Sequence[str], cases: Sequence[Case]) -> list[list[Difference]]:
    """Lists the differences on some ways, by case."""
    hosts = [way for way in ways if way.startswith("c{")]
    with np.errstate(all="ignore"):
        found = through_c(cases, hosts)
        if EVALUATOR in ways or GRAPH in ways:
            return [through_evaluator(c) + more for c, more in zip(cases, found, strict=True)]
    return found


def _alike(case: Case, difference: Difference) -> list[str]:
    """Gives the problems that are like one, as another case shows them."""
    (found,) = through([difference.way], [case])
    same = (difference.way, difference.kind)
    return [each.problem for each in found if (each.way, each.kind) == same]


def _shows(case: Case, difference: Difference) -> bool:
    if difference.problem.startswith("died"):
        try:
            isolated(lambda: _alike(case, difference), LIMITS)
        except Died:
            return True
        return False
    return bool(_alike(case, difference))


def _problem(case: Case, difference: Difference) -> str:
    """Gives the same difference as a smaller case shows it."""
    with suppress(Died):
        told: list[str] = isolated(lambda: _alike(case, difference), LIMITS)
        if told:
            return told[0]
    return difference.problem


def quiet_runtime() -> None:
    """Keeps ONNX Runtime from telling what it does not like."""
    runtime: Any = import_module("onnxruntime")
    runtime.set_default_logger_severity(4)
