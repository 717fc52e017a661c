"""Chooses the target that takes a match for the least cost.

Where a module names an objective (latency, energy or bytes), a match that a target would take goes
to a later target that covers the very same ops for less; the host competes in the end
(`choose_host`). What was measured (`costs`) counts before what targets estimate. Targets that give
no cost neither underbid nor are underbid: their order of preference counts, and the decision says
so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from numbers import Real
from typing import Any, ClassVar, Protocol, cast

from xdsl.ir import Operation

from byocir.errors import ByocirError
from byocir.patterns.composite import Attempt, Composite
from byocir.patterns.match import State
from byocir.rewrites.byoc.costs import NONE, CostTable
from byocir.rewrites.byoc.count_work import MatchedOps
from byocir.vendor.blame import place_in_class
from byocir.vendor.hooks import ask, expect_given

Blocked = Callable[[str, State], str]
"""Says why a target (by name) cannot have a match; empty if it can."""

BY_ORDER = "the order of targets decided"
"""Ends the sentence of a decision that several targets could have had, and no two costs made."""


class Bidder(Protocol):
    """Says what composites cost: a target, or the host."""

    name: ClassVar[str]

    def cost(self, composite: str, ops: Any) -> Mapping[str, float]:
        """Estimates a match of a composite as `byocir.Target.cost` does."""
        ...


@dataclass(frozen=True)
class Offer:
    """Lists the composites that a target can take at one level, with their measured costs. That of
    the host has no composites: it computes what targets do not take.
    """

    target: str
    bidder: Bidder
    composites: Sequence[Composite] = ()
    costs: CostTable = NONE

    def refusal(self, state: State) -> str:
        """Gives the reason why the target cannot run a match; empty if it can."""
        found: Any = ask(self.bidder, "refusal", MatchedOps.of(state.ops, state.constants))
        expect_given(self.bidder, "refusal", isinstance(found, str), "text", found)
        return f"{self.target} refuses it: {found}" if found else ""

    def bid(self, attempts: Sequence[Attempt], objective: str) -> Bid:
        """Adds up the costs of these matches; the cost is None where one is unknown."""
        return self._bid([(a, a.composite.name) for a in attempts], objective)

    def as_host(self, attempt: Attempt, objective: str) -> Bid:
        """Gives the cost, on the host whose offer this is, of a match of a target: its work is
        measured and recorded under the host's name.
        """
        return self._bid([(attempt, self.target)], objective)

    def _bid(self, works: Sequence[tuple[Attempt, str]], objective: str) -> Bid:
        found = [self.costs.of(name, a.matched).get(objective) for a, name in works]
        measured = all(cost is not None for cost in found)
        costs = [
            self._cost(attempt, name, objective).get(objective) if cost is None else cost
            for (attempt, name), cost in zip(works, found, strict=True)
        ]
        known = [cost for cost in costs if cost is not None]
        total = sum(known) if len(known) == len(costs) else None
        return Bid(self, [attempt for attempt, _ in works], total, measured)

    def _cost(self, attempt: Attempt, name: str, objective: str) -> Mapping[str, float]:
        found: Any = ask(self.bidder, "cost", name, MatchedOps(attempt.matched))
        fits = isinstance(found, Mapping)
        expect_given(
            self.bidder, "cost", fits, f'numbers by objective, as {{"{objective}": 1e-6}}', found
        )
        costs = cast("Mapping[str, Any]", found)
        for each, value in costs.items():
            is_number = not isinstance(value, bool) and isinstance(value, Real)
            if not is_number or not 0 <= float(value) < inf:  # this refuses NaN, too
                raise ByocirError(
                    "B228",
                    f"expected cost of target '{self.target}' to give {each} as a finite number of "
                    f"at least 0, found {value} for {name}",
                    where=place_in_class(type(self.bidder), "cost"),
                    help=f"leave {each} out where it is not known; a rule says what to refuse",
                )
        return costs


@dataclass(frozen=True)
class Bid:
    """Lists the matches with which a target covers some ops, and their cost: None where the target
    does not tell it.
    """

    offer: Offer
    attempts: Sequence[Attempt]
    cost: float | None
    measured: bool = False
    """Tells if all of it was measured."""


def bids(attempt: Attempt, offers: Sequence[Offer], objective: str, blocked: Blocked) -> list[Bid]:
    """Lists the bid of the first offer for its match, and those of later offers that cover the same
    ops, in order.
    """
    found = [offers[0].bid([attempt], objective)]
    for offer in offers[1:]:
        attempts = _cover(attempt.matched, offer, blocked)
        if attempts:
            found.append(offer.bid(attempts, objective))
    return found


def cheapest(found: Sequence[Bid]) -> Bid:
    """Chooses the bid that wins: the least cost, and the first bid at a tie or where the first
    tells no cost.
    """
    if found[0].cost is None:
        return found[0]
    return min(found, key=lambda bid: inf if bid.cost is None else bid.cost)


def _cover(ops: Sequence[Operation], offer: Offer, blocked: Blocked) -> list[Attempt]:
    """Finds matches of one target that cover exactly these ops, trying its composites in order at
    each op; empty when there are none.
    """
    left = dict.fromkeys(ops)  # users come before what they use: matches list roots first

    def outside(state: State) -> str:
        reason = blocked(offer.target, state) or offer.refusal(state)
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


def choice_text(best: Bid, found: Sequence[Bid], objective: str) -> str:
    """Words the decision among these bids; empty where there was only one."""
    silent = [bid.offer.target for bid in found if bid.cost is None]
    if len(found) < 2:
        return ""
    if len(silent) == len(found):
        return f"no target tells its {objective}; {BY_ORDER}"
    tells = f"{' and '.join(silent)} {'tells' if len(silent) == 1 else 'tell'} no {objective}"
    if found[0].cost is None or len(found) - len(silent) < 2:
        return f"{tells}; {BY_ORDER}"
    ranked = [best, *(bid for bid in found if bid is not best and bid.cost is not None)]
    prices = ", ".join(
        f"{bid.cost:g}{' measured' * bid.measured} on {bid.offer.target}" for bid in ranked
    )
    return f"{objective} {prices}" + (f"; {tells}" if silent else "")
