"""Chooses the schedules to try for a composite, in batches that do not depend on who judges
them.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, cast

from byocir.dialects.byoc import CompositeOp, TargetAttr
from byocir.errors import ByocirError
from byocir.patterns.knobs import KnobChoices
from byocir.rewrites.schedule.composites import space_for
from byocir.targets.base import target_of
from byocir.tuning.judge import Outcome
from byocir.vendor.hooks import ask, expect_given

BATCH = 8
"""Ways of a large space that are judged before the next are chosen by what they cost."""

Batches = Generator[Sequence[str], Sequence[Outcome | None], None]
"""Gives schedules to judge, and is sent their outcomes, None for those that were not judged."""


def ways_of(composite: CompositeOp, target: TargetAttr, trials: int, seed: int) -> Batches:
    """Yields at most so many schedules of a composite beside its target's own: all fillings of its
    knobs if they are few, else those that optuna chooses, or without knobs the target's candidates.
    Raises ByocirError B228, B265, and B266 where optuna is not installed."""
    instance = target_of(target)
    space = space_for(instance, composite)
    if space.knobs and space.size > trials + 1:
        yield from _sampled(space, trials, seed)
        return
    given: Any = [*space.all()] if space.knobs else ask(instance, "candidates", composite, trials)
    fits = isinstance(given, (list, tuple))
    fits = fits and all(isinstance(each, str) for each in cast("Sequence[Any]", given))
    expect_given(instance, "candidates", fits, "a list of text", given)
    yield cast("Sequence[str]", given)[: trials + 1]


def _sampled(space: KnobChoices, trials: int, seed: int) -> Batches:
    """Yields ways of a large space, in batches that optuna chooses by the costs of those before."""
    try:
        import optuna
    except ImportError:
        raise ByocirError(
            "B266",
            f"optuna is not installed, which chooses among {space.size:,} ways",
            help=f"pip install 'byocir[tune]', or try all of them: --trials {space.size}",
        ) from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    sampler = optuna.samplers.TPESampler(seed=seed, constant_liar=True)
    study = optuna.create_study(sampler=sampler)
    for first in range(0, trials, BATCH):
        asked = [study.ask() for _ in range(min(BATCH, trials - first))]
        texts = [space.text(_suggested(trial, space)) for trial in asked]
        outcomes = yield texts
        for trial, outcome in zip(asked, outcomes, strict=True):
            if outcome is not None and outcome.unit:
                study.tell(trial, outcome.cost)
            else:
                study.tell(trial, state=optuna.trial.TrialState.FAIL)


def _suggested(trial: Any, space: KnobChoices) -> dict[str, int | str]:
    return {n: trial.suggest_categorical(n, list(values)) for n, values in space.knobs.items()}
