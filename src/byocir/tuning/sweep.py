"""Sweeps a target's settings: compiles a model for each, and tells its cost.

Settings are options of the target or, where it has one, parts of its configuration
(`Target.varied`). Costs are cycles and energy of its programs, as it tells them
(`Target.profile`), and bits of memory (`Target.resources`). Points that no other beats in all
three are the Pareto set.

| code | what is wrong |
| --- | --- |
| B267 | a range of settings is none, or the target has no such setting |
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from itertools import product
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from xdsl.dialects.builtin import ModuleOp

from byocir.arguments import CALL, LEVEL_NAMES, SHAPES, check, instance_of, names_to
from byocir.compiler import generate, hand_over
from byocir.dialects.byoc import LEVELS
from byocir.dialects.context import load_context
from byocir.dialects.text import parse_module, print_module
from byocir.dialects.weights import dump_weights, read_weights
from byocir.errors import ByocirError, did_you_mean
from byocir.request import Request
from byocir.rewrites.pipeline import PassRunner
from byocir.runtime.read_model import read_model
from byocir.targets.base import Target
from byocir.targets.resolve_targets import named_target, the_target
from byocir.tuning.executors import JobQueue
from byocir.tuning.journal import Journal
from byocir.tuning.judge import CompileJob, code_of

if TYPE_CHECKING:
    from onnx import ModelProto

Setting = bool | int | str
MOST = 10_000
"""Points of one sweep."""


class SweepPoint(NamedTuple):
    """Records the costs of a model with some settings of a target. Without a refusal, cycles are
    above 0.
    """

    settings: Mapping[str, Setting]
    cycles: int = 0
    energy: float | None = None
    """Picojoules, where the target estimates them."""
    memory: int = 0
    """Bits of the target's memories."""
    utilisation: float | None = None
    """The model's multiply-accumulates there, of those that the target can do in these cycles."""
    refusal: str = ""

    @property
    def costs(self) -> tuple[float, ...]:
        """Gives the numbers of which smaller ones are better: cycles, energy and memory."""
        return (self.cycles, self.energy or 0.0, self.memory)


SweepJob = tuple[CompileJob, Mapping[str, Setting], Sequence[str]]
"""A model with a target to compile it for, the settings of that and the levels."""


def settings_of(texts: Sequence[str]) -> dict[str, list[Setting]]:
    """Reads ranges: `["log_block=3..5", "rounding=half_up,half_even"]` →
    `{"log_block": [3, 4, 5], "rounding": ["half_up", "half_even"]}`. Raises ByocirError B267."""
    found: dict[str, list[Setting]] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        if not equals or not name or not values or name in found:
            raise _no_range(text)
        first, dots, last = values.partition("..")
        if dots:
            found[name] = _counted(text, first, last)
        else:
            found[name] = [_value(each) for each in values.split(",")]
        if not found[name] or "" in found[name] or len(set(found[name])) < len(found[name]):
            raise _no_range(text)
    if prod(map(len, found.values())) > MOST:
        raise ByocirError("B267", f"expected at most {MOST:,} points, found more")
    return found


def sweep(
    model: str | Path | bytes | ModelProto | ModuleOp,
    vary: Mapping[str, Sequence[Setting]],
    *,
    target: str | Target = "vta",
    shapes: Mapping[str, Sequence[int]] | None = None,
    levels: Sequence[str] = LEVELS,
    executor: Executor | None = None,
    journal: str | Path | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> list[SweepPoint]:
    """Compiles a model for each combination of settings, in their order; `executor` is any of
    `concurrent.futures`, without one all is done in this process. A point that cannot be compiled
    says why. Points are kept in the file `journal`, from which a run that was interrupted goes on;
    it is removed in the end. Raises ByocirError B267 for settings that the target does not have,
    and what `compile` raises for the model.
    """
    check(
        vary=(vary, names_to("a mapping of names to values", '{"log_block": [4, 5]}', list, tuple)),
        shapes=(shapes, SHAPES.or_none()),
        levels=(levels, LEVEL_NAMES),
        executor=(executor, instance_of("a concurrent.futures.Executor", Executor).or_none()),
        journal=(journal, instance_of("a path", str, Path).or_none()),
        tell=(tell, CALL),
    )
    base = _varied(target, vary)
    named = (target,) if isinstance(target, str) else ()
    module = read_model(model, shapes=shapes, targets=target)
    spec = str(base.spec(include_default=True))
    text = print_module(module)  # the text keeps locations, which name the nodes
    job = CompileJob(text, dump_weights(module), named, spec)
    combinations = [dict(zip(vary, values, strict=True)) for values in product(*vary.values())]
    jobs: list[SweepJob] = [(job, settings, tuple(levels)) for settings in combinations]
    kept = Journal(point_of, Path(journal) if journal is not None else None)
    if kept.found:
        tell(f"goes on after {_points(kept.found)} that an earlier run compiled for")
    work = JobQueue(point, SweepPoint, executor, tell=tell)
    points = _outcomes(jobs, kept, work, code_of([base]))
    kept.remove()
    return points


def _points(number: int) -> str:
    return f"{number:,} point{'s' if number != 1 else ''}"


def _outcomes(
    jobs: Sequence[SweepJob],
    journal: Journal[SweepPoint],
    work: JobQueue[SweepJob, SweepPoint],
    code: bytes,
) -> list[SweepPoint]:
    """Gives the point of each job, which is compiled once; `code` is that of the target."""
    texts = [job.digest(code) + json.dumps([*more]) for job, *more in jobs]
    digests = [hashlib.sha256(text.encode()).hexdigest() for text in texts]
    new = [i for i, digest in enumerate(digests) if journal.get(digest) is None]
    for number, found in work.outcomes([jobs[i] for i in new]):
        i = new[number]
        journal.add(digests[i], found)
        shown = ", ".join(f"{name}={value}" for name, value in found.settings.items())
        told = found.refusal or f"{found.cycles:,} cycles"
        work.tell(f"[{i + 1}/{len(jobs)}] {told}  {shown}")
    return [each for each in map(journal.get, digests) if each is not None]


def _varied(target: str | Target, vary: Mapping[str, Any]) -> Target:
    """Gives the one target that is to be varied; raises ByocirError B213 for several, B267 for
    settings that it does not have.
    """
    base = the_target(target, "B213")
    known = list(base.settings())
    for name in vary:
        if name not in known:
            raise ByocirError(
                "B267",
                f"expected a setting of target '{base.name}', found '{name}'",
                help=did_you_mean(name, known),
            )
    return base


def point_of(row: Any) -> SweepPoint:
    """Makes a point of its fields by name; raises KeyError, TypeError or ValueError for others."""
    settings, cycles, energy, memory, utilisation, refusal = (
        row[name] for name in SweepPoint._fields
    )
    for number in (cycles, memory, *(each for each in (energy, utilisation) if each is not None)):
        if type(number) not in (int, float):
            raise TypeError(type(number).__name__)
    return SweepPoint(dict(settings), cycles, energy, memory, utilisation, str(refusal))


def point(job: SweepJob) -> SweepPoint:
    """Compiles a model for a target with some settings, and counts what it costs."""
    given, settings, levels = job
    for each in given.named:
        named_target(each)
    context = load_context()
    try:
        read_weights(given.weights, context.arrays, "weights of a job")
        module = parse_module(given.module, context)
        target = the_target(given.target).varied(settings)
        runner = PassRunner(keeps_start=False)
        report = hand_over(module, Request([target], levels), runner)
        package = generate(module, report, runner=runner)
    except ByocirError as error:
        return SweepPoint(settings, refusal=f"{error.message} ({error.code})")
    programs = package.profile()
    cycles = sum(each.cycles for each in programs)
    if not cycles:
        return SweepPoint(
            settings, refusal="the target takes nothing of it, or does not profile it"
        )
    energies = [each.details.get("energy_pj") for each in programs]
    known = [each for each in energies if each is not None]
    has = target.resources()
    rate, macs = has.get("macs_per_cycle"), package.report.macs.get(target.name, 0)
    return SweepPoint(
        settings,
        cycles,
        sum(known) if len(known) == len(energies) else None,
        int(has.get("memory_bits", 0)),
        macs / (cycles * rate) if rate else None,
    )


def pareto(points: Sequence[SweepPoint]) -> list[bool]:
    """Tells of each point if no other one is as good in all costs and better in one."""
    able = [each.costs for each in points if not each.refusal]
    return [
        not each.refusal
        and not any(
            other != each.costs and all(a <= b for a, b in zip(other, each.costs, strict=True))
            for other in able
        )
        for each in points
    ]


def _counted(text: str, first: str, last: str) -> list[Setting]:
    with suppress(ValueError):
        low, high = int(first), int(last)
        if high - low < MOST:
            return [*range(low, high + 1)]
    raise _no_range(text)


def _value(text: str) -> Setting:
    if text in ("true", "false"):
        return text == "true"
    with suppress(ValueError):
        return int(text)
    return text


def _no_range(text: str) -> ByocirError:
    return ByocirError(
        "B267",
        f"expected a setting and its values, each once, found '{text}'",
        help="--vary log_block=3..5, or --vary rounding=half_up,half_even",
    )
