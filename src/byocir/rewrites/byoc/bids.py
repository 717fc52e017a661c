"""Which of several targets takes a match, by what it costs.

Where a module names an objective (latency, energy or bytes), a match that a target would take goes
to a later target that covers the very same ops for less. Targets that give no cost neither underbid
nor are underbid: their order of preference counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, cast

from xdsl.ir import Operation

from byocir.patterns.composite import Composite
from byocir.patterns.hooks import ask, expect_given
from byocir.patterns.match import Attempt, State
from byocir.patterns.targets import Taker

Blocked = Callable[[str, State], str]
"""Why a target (by name) cannot have a match; empty if it can."""


@dataclass(frozen=True)
class Offer:
    """What a target can take at one level."""

    target: str
    taker: Taker
    composites: Sequence[Composite]

    def cost(self, attempts: Iterable[Attempt], objective: str) -> float | None:
        """What these matches cost together, None where the target does not say."""
        costs = [self._cost(attempt).get(objective) for attempt in attempts]
        known = [cost for cost in costs if cost is not None]
        return sum(known) if len(known) == len(costs) else None

    def _cost(self, attempt: Attempt) -> Mapping[str, float]:
        found: Any = ask(self.taker, "cost", attempt.composite.name, attempt.matched)
        costs = cast("Mapping[str, Any]", found if isinstance(found, Mapping) else {"": None})
        numbers = all(isinstance(value, Real) for value in costs.values())
        expect_given(self.taker, "cost", numbers, "numbers by objective", cast("object", found))
        return costs


@dataclass(frozen=True)
class Bid:
    """The matches with which a target covers some ops, and what they cost."""

    offer: Offer
    attempts: Sequence[Attempt]
    cost: float


def bids(attempt: Attempt, offers: Sequence[Offer], objective: str, blocked: Blocked) -> list[Bid]:
    """What the first offer's match costs, and how later ones cover the same ops, in their order;
    empty when the first gives no cost."""
    cost = offers[0].cost([attempt], objective)
    if cost is None:
        return []
    found = [Bid(offers[0], [attempt], cost)]
    for offer in offers[1:]:
        attempts = _cover(attempt.matched, offer, blocked)
        cost = offer.cost(attempts, objective) if attempts else None
        if cost is not None:
            found.append(Bid(offer, attempts, cost))
    return found


def _cover(ops: Sequence[Operation], offer: Offer, blocked: Blocked) -> list[Attempt]:
    """Matches of one target that cover these ops exactly, its composites in order at each op; empty
    when they do not."""
    left = dict.fromkeys(ops)  # users come before what they use: matches list roots first

    def outside(state: State) -> str:
        reason = blocked(offer.target, state)
        return reason or ("" if left.keys() >= set(state.ops) else "reaches other ops")

    chosen: list[Attempt] = []
    while left:
        root = next(iter(left))
        attempts = (c.attempt(root, outside) for c in offer.composites if root.name in c.root_names)
        fitting = next((attempt for attempt in attempts if attempt.fits), None)
        if fitting is None:
            return []
        chosen.append(fitting)
        for op in fitting.matched:
            del left[op]
    return chosen


def told(bid: Bid, others: Iterable[Bid], objective: str) -> str:
    """The decision as a sentence."""
    rest = ", ".join(f"{other.cost:g} on {other.offer.target}" for other in others)
    return f"{objective} {bid.cost:g} on {bid.offer.target}, {rest}"
