"""Judges the schedules in a module: compiles it, and asks a target what its code costs.

A job is texts and bytes alone, so that any process can do it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from xdsl.dialects.builtin import ModuleOp

from byocir.compiler import generate
from byocir.dialects.context import load_context
from byocir.dialects.text import parse_module, print_module
from byocir.dialects.weights import dump_weights, read_weights
from byocir.errors import ByocirError
from byocir.rewrites.byoc.tuned import TunedTable
from byocir.runtime.report_of_module import report_of
from byocir.runtime.time_regions import seconds_of
from byocir.targets.base import Target
from byocir.targets.resolve_targets import named_target
from byocir.vendor.user_code import given_file


class CompileJob(NamedTuple):
    """Describes a job to compile a module and to ask what the code of a target costs: a partitioned
    module as text, with its large constants. `named` are the targets that the user gave by name,
    which a process has to make known.
    """

    module: str
    weights: bytes
    named: tuple[str, ...]
    target: str

    def digest(self, code: bytes) -> str:
        """Identifies the job by a digest; `code` is that of the targets, where it is known."""
        texts = (TunedTable().byocir, self.module, self.target)
        data = [*(text.encode() for text in texts), self.weights, code]
        return hashlib.sha256(b"".join(b"%d " % len(part) + part for part in data)).hexdigest()


class Outcome(NamedTuple):
    """Records the cost of a target's code, in some unit; where that is empty, the reason why there
    is none.
    """

    cost: float
    unit: str
    refusal: str = ""


def outcome_of(row: Any) -> Outcome:
    """Makes an outcome of its fields by name; raises KeyError, TypeError or ValueError for
    others.
    """
    cost, unit, refusal = (row[name] for name in Outcome._fields)
    if type(cost) not in (int, float):
        raise TypeError(type(cost).__name__)
    return Outcome(cost, str(unit), str(refusal))


def job_of(module: ModuleOp, named: tuple[str, ...], target: str) -> CompileJob:
    """Makes the job of judging a module."""
    return CompileJob(print_module(module, debuginfo=False), dump_weights(module), named, target)


def judge(job: CompileJob) -> Outcome:
    """Compiles a job's module and gives the cost of its code: cycles where the target profiles its
    programs, else the least seconds of several runs here, of all its regions together.
    """
    for target in job.named:
        named_target(target)
    context = load_context()
    try:
        read_weights(job.weights, context.arrays, "weights of a job")
        module = parse_module(job.module, context)
        package = generate(module, report_of(module))
        called = [each.symbol for each in package.report.regions if each.target == job.target]
        costs: Mapping[str, float] = {each.symbol: each.cycles for each in package.profile()}
        unit = "cycles"
        if not any(symbol in costs for symbol in called):
            costs, unit = seconds_of(package), "seconds"
    except ByocirError as error:
        return Outcome(0, "", f"{error.message} ({error.code})")
    if not any(symbol in costs for symbol in called):
        return Outcome(0, "", "its target makes no code for it, and does not profile it")
    return Outcome(sum(costs.get(symbol, 0) for symbol in called), unit)


def code_of(targets: Iterable[Target]) -> bytes:
    """Reads the files in which targets are defined: costs change with these."""
    files = [given_file(type(target)) for target in targets]
    return b"".join(Path(file).read_bytes() for file in files if Path(file).is_file())
