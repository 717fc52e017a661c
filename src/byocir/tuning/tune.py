"""Tunes a model: for each composite that a target took, the schedule that costs least.

The model is handed over as it is compiled. Composites on the same work are judged once, by the
schedules in `ways`, with those before and behind them. Of the schedules that are better, as many
are kept as make the whole model better. Their table is what `compile(…, tuned=)` takes.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ModuleOp, StringAttr

from byocir.arguments import (
    CALL,
    COUNT,
    SECONDS,
    SHAPES,
    check,
    instance_of,
)
from byocir.compiler import hand_over
from byocir.dialects.byoc import LEVELS
from byocir.dialects.locations import names
from byocir.errors import ByocirError, shortened
from byocir.patterns.targets import targets_of
from byocir.request import Request
from byocir.rewrites.byoc.costs import CostTable
from byocir.rewrites.byoc.single_composite import alone
from byocir.rewrites.byoc.tuned import Key, Tuned, TunedTable
from byocir.rewrites.pipeline import PassRunner, with_care
from byocir.runtime.read_model import read_model
from byocir.targets.base import target_of
from byocir.targets.resolve_targets import Targets, listed
from byocir.targets.tuned import TakenComposite, places_in
from byocir.tuning.executors import JobQueue
from byocir.tuning.journal import Journal
from byocir.tuning.judge import CompileJob, Outcome, code_of, job_of, judge, outcome_of
from byocir.tuning.ways import ways_of

if TYPE_CHECKING:
    from onnx import ModelProto

AROUND = 1
"""A composite is judged with so many of its region before and behind it: what follows each other
overlaps, and a schedule that is best alone, with nothing to overlap, seldom is the best there."""

TRIALS = 30
"""Schedules that are tried for each composite, unless the caller says otherwise."""

Tell = Callable[[str], None]


def tune(
    model: str | Path | bytes | ModelProto | ModuleOp,
    *,
    targets: Targets | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    levels: Sequence[str] = LEVELS,
    placement: Mapping[str, str] | None = None,
    objective: str = "",
    costs: str | Path | CostTable | None = None,
    trials: int = TRIALS,
    seconds: float | None = None,
    seed: int = 0,
    executor: Executor | None = None,
    journal: str | Path | None = None,
    tell: Tell = lambda line: None,
) -> TunedTable:
    """Finds the schedule that costs least for each composite of a model, for `compile(…, tuned=)`.

    At most `trials` schedules of each are tried, for at most `seconds`, by `executor`, any of
    `concurrent.futures`, else in this process. What is judged is kept in the file `journal`, from
    which a run that was interrupted goes on; it is removed in the end. `tell` is told of progress.
    Other arguments as `compile`. Where costs are simulated the same arguments without `seconds`
    give the same table, whoever judges. Raises ByocirError B265 where there is nothing to choose,
    and what `compile` raises.
    """
    check(
        shapes=(shapes, SHAPES.or_none()),
        trials=(trials, COUNT),
        seed=(seed, instance_of("a whole number", int)),
        journal=(journal, instance_of("a path", str, Path).or_none()),
        tell=(tell, CALL),
        seconds=(seconds, SECONDS.or_none()),
        executor=(executor, instance_of("a concurrent.futures.Executor", Executor).or_none()),
    )
    request = Request(targets, levels, placement, objective, costs)
    until = inf if seconds is None else time.monotonic() + seconds

    def attempt(runner: PassRunner) -> ModuleOp:
        module = read_model(model, shapes=shapes, targets=targets)
        hand_over(module, request, runner)
        return module

    module = with_care(attempt)
    named = tuple(
        each for each in listed(() if targets is None else targets) if isinstance(each, str)
    )
    kept = Journal(outcome_of, Path(journal) if journal is not None else None)
    if kept.found:
        tell(f"goes on after {kept.found:,} schedules that were judged before")
    run = _Run(module, named, JobQueue(judge, Outcome, executor, until, tell), kept, tell)
    table = run.tuned(trials, seed)
    kept.remove()
    return table


@dataclass
class _Run:
    """Holds one run of the search: the model, who judges, and what is known."""

    module: ModuleOp
    named: tuple[str, ...]
    work: JobQueue[CompileJob, Outcome]
    journal: Journal[Outcome]
    tell: Tell

    def __post_init__(self) -> None:
        self.places = list(places_in(self.module))
        self.code = code_of(map(target_of, targets_of(self.module)))

    def tuned(self, trials: int, seed: int) -> TunedTable:
        """Finds the best schedules. Raises ByocirError B265 where no target leaves anything to
        choose.
        """
        entries: dict[Key, Tuned] = {}
        reasons: list[str] = []
        times = Counter(place.key for place in self.places)
        first = {place.key: place for place in reversed(self.places)}
        for i, key in enumerate(times):
            found = self._best(first[key], trials, seed)
            if isinstance(found, str):
                reasons.append(f"{key[1][0]} is left as it is: {found}")
                self.tell(f"[{i + 1}/{len(times)}] {reasons[-1]}")
                continue
            entries[key] = found
            self.tell(f"[{i + 1}/{len(times)}] {_summary(first[key], times[key], found)}")
        if not entries and not self.work.is_over:
            raise ByocirError(
                "B265",
                f"expected composites with schedules to choose from, found {len(times) or 'none'}"
                f"{' without' if times else ''}",
                help=reasons[0] if reasons else "name targets that take some of the model",
            )
        self.work = replace(self.work, until=inf)
        for target in sorted({key[0] for key in entries}):
            entries |= self._together(target, {k: e for k, e in entries.items() if k[0] == target})
        return TunedTable(entries)

    def _best(self, place: TakenComposite, trials: int, seed: int) -> Tuned | str:
        """Finds the schedule of a composite that costs least, of equal ones the first; says why
        where there is none, as where the time does not suffice.
        """
        ways = ways_of(place.composite, place.target, trials, seed)
        batch = next(ways, ())
        if not batch:
            return "its target has no knobs, and byocir finds no schedules for it"
        (own,) = self._tried(place, [""])
        if own is None or not own.unit:
            return "the time is over" if own is None else own.refusal
        best = Tuned("", own.cost, own.cost, own.unit)
        while batch and not self.work.is_over:
            outcomes = self._tried(place, batch)
            for text, outcome in zip(batch, outcomes, strict=True):
                if outcome is not None and outcome.unit == own.unit and outcome.cost < best.cost:
                    best = Tuned(text, outcome.cost, own.cost, own.unit)
            try:
                batch = ways.send(outcomes)
            except StopIteration:
                break
        return best

    def _tried(self, place: TakenComposite, schedules: Sequence[str]) -> list[Outcome | None]:
        """Tries a composite, between its neighbours, with each of these schedules; gives the
        outcomes.
        """
        modules = (alone(place.composite, schedule, AROUND) for schedule in schedules)
        name = place.target.target_name.data
        return self._outcomes([job_of(module, self.named, name) for module in modules])

    def _together(self, target: str, entries: Mapping[Key, Tuned]) -> dict[Key, Tuned]:
        """Keeps those schedules of a target that also make the whole model better, for composites
        that follow each other share units and memories; the others become the target's own choice.
        """
        kept: dict[Key, Tuned] = {}
        own = least = self._whole(target, kept)
        better = [key for key, each in entries.items() if each.cost < each.default]
        better.sort(key=lambda key: entries[key].cost - entries[key].default)
        halves = [better] if better and own.unit else []
        while halves:
            some = halves.pop()
            cost = self._whole(target, {**kept, **{key: entries[key] for key in some}})
            if cost.unit == least.unit and cost.cost < least.cost:
                kept.update((key, entries[key]) for key in some)
                least = cost
            elif len(some) > 1:
                halves += [some[len(some) // 2 :], some[: len(some) // 2]]
        if better:
            told = f"{_costs(own.cost, least.cost, own.unit)} in the whole model"
            self.tell(f"{told}, with {len(kept)} of {len(better)} schedules that were better")
        own_choice = {k: Tuned("", e.default, e.default, e.unit) for k, e in entries.items()}
        return {**own_choice, **kept}

    def _whole(self, target: str, entries: Mapping[Key, Tuned]) -> Outcome:
        """Costs a target's code for the whole model with these schedules."""
        own = [place.composite.schedule for place in self.places]
        for place in self.places:
            if place.key in entries:
                place.composite.schedule = StringAttr(entries[place.key].schedule)
        name = next(p.target.target_name.data for p in self.places if p.key[0] == target)
        job = job_of(self.module, self.named, name)
        for place, schedule in zip(self.places, own, strict=True):
            place.composite.schedule = schedule
        (outcome,) = self._outcomes([job])
        assert outcome is not None
        return outcome

    def _outcomes(self, jobs: Sequence[CompileJob]) -> list[Outcome | None]:
        """Gives the outcome of each job, which is judged once; None where the time did not
        suffice.
        """
        digests = [job.digest(self.code) for job in jobs]
        new = {d: j for d, j in zip(digests, jobs, strict=True) if self.journal.get(d) is None}
        for i, outcome in self.work.outcomes(list(new.values())):
            self.journal.add(list(new)[i], outcome)
        return [self.journal.get(digest) for digest in digests]


def _summary(place: TakenComposite, times: int, found: Tuned) -> str:
    nodes = shortened(", ".join(names(place.composite.location)), 60) or "a composite"
    often = f", {times} times" if times > 1 else ""
    costs = _costs(found.default, found.cost, found.unit)
    return f"{costs:<28} {place.composite.pattern.data}{often} ({nodes})"


def _costs(before: float, now: float, unit: str) -> str:
    if unit == "cycles":
        return f"{before:,} -> {now:,} cycles"
    return f"{before:.3g} -> {now:.3g} s"
