"""`match-composites`: wraps what the module's targets can take into `byoc.composite`s.

Requires: `byoc.targets`. Targets are asked in order of preference and each target's composites in
the order of its list; an op taken once is taken for good, and one that `place-nodes` placed goes
nowhere else. Where the module names an objective, a later target takes what it covers for less.
Roots are tried from the end of the program backwards, so a pattern finds its longest form first.

Guarantees: composites that do not overlap, each with one way out (unless its pattern says
otherwise), a record in `byoc.trail` for every attempt that matched at least one op, and one for a
block of which a target's patterns matched nothing but fitted its body, indices or inputs in part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation
from xdsl.passes import ModulePass
from xdsl.traits import ConstantLike, IsTerminator

from byocir.dialects.byoc import LEVELS, PLACE, TARGET, DecisionAttr, TargetAttr
from byocir.dialects.collector import collector_paused
from byocir.errors import ByocirError
from byocir.patterns.legality import describe, returning_path
from byocir.patterns.match import Attempt, State
from byocir.patterns.targets import composites_of, find, objective_of, targets_of
from byocir.patterns.trail import append, nearest_misses, record
from byocir.rewrites.byoc.bids import Offer, bids, told
from byocir.rewrites.byoc.extract import extract_composite
from byocir.rewrites.byoc.order import sort_block


@dataclass(frozen=True)
class MatchCompositesPass(ModulePass):
    """Matches at `level` ("graph" or "tensor") in every function that no target has taken."""

    name = "match-composites"

    level: str = "graph"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.level not in LEVELS:
            raise ByocirError("B212", f"expected level graph or tensor, found '{self.level}'")
        targets, objective = targets_of(op), objective_of(op)
        decisions: list[DecisionAttr] = []
        with collector_paused():
            for function in op.body.block.ops:
                if isinstance(function, FuncOp) and TARGET not in function.attributes:
                    for block in function.body.blocks:
                        decisions += match_block(block, targets, self.level, objective)
        if decisions:
            append(op, decisions)


@dataclass
class _Claims:
    """Who took which op so far, and what was decided."""

    taken: dict[Operation, str] = field(default_factory=dict[Operation, str])
    groups: dict[Operation, tuple[Operation, ...]] = field(
        default_factory=dict[Operation, tuple[Operation, ...]]
    )
    """The ops that become one node with an op, where that node has several results."""
    attempts: list[Attempt] = field(default_factory=list[Attempt])
    decisions: list[DecisionAttr] = field(default_factory=list[DecisionAttr])

    nearest: dict[tuple[Operation, str], Attempt] = field(
        default_factory=dict[tuple[Operation, str], Attempt]
    )
    """Of the attempts of a target at an op that matched no op, the one that came closest."""
    told: set[tuple[Operation, str]] = field(default_factory=set[tuple[Operation, str]])
    """Ops at which a target's attempt is on record."""

    def tell(self, attempt: Attempt, target: str, note: str = "") -> None:
        """Puts an attempt on record."""
        self.told.update((op, target) for op in attempt.matched)
        self.decisions.append(record(attempt, target, note))

    def blocked(self, target: str, state: State) -> str:
        """Why a target cannot have a match: what others claimed already, or a user placed."""
        for op in state.ops:
            place = op.attributes.get(PLACE)
            if isinstance(place, StringAttr) and place.data != target:
                return f"{describe(op)} is placed on {place.data}"
        overlap = next((op for op in state.ops if op in self.taken), None)
        if overlap is not None:
            return f"{describe(overlap)} belongs to {self.taken[overlap]} already"
        if state.exposed and self.groups:
            return returning_path(set(state.ops), self.groups)
        return ""

    def choose(self, attempt: Attempt, offers: Sequence[Offer], objective: str) -> None:
        """Decides for the first offer, or for a later one that costs less."""
        found = bids(attempt, offers, objective, self.blocked) if objective else []
        if len(found) < 2:
            self.decide(attempt, offers[0].target)
            return
        best = min(found, key=lambda bid: bid.cost)
        note = told(best, [bid for bid in found if bid is not best], objective)
        if best is not found[0]:
            lost = replace(attempt, reason=note)
            self.decisions.append(record(lost, offers[0].target))
        for each in best.attempts:
            self.decide(each, best.offer.target, note)

    def decide(self, attempt: Attempt, target: str, note: str = "") -> None:
        if attempt.matched:
            self.tell(attempt, target, note)
        elif attempt.near:
            place = (attempt.root, target)
            nearest = self.nearest.setdefault(place, attempt)
            self.nearest[place] = max(nearest, attempt, key=lambda each: each.near)
        if attempt.match is None or not attempt.fits:
            return
        self.taken.update(dict.fromkeys(attempt.matched, attempt.composite.name))
        self.attempts.append(attempt)
        if attempt.match.state.exposed:
            self.groups.update(dict.fromkeys(attempt.matched, attempt.matched))


def match_block(
    block: Block, targets: Sequence[TargetAttr], level: str, objective: str = ""
) -> list[DecisionAttr]:
    """Wraps the matches in one block; gives the decisions made."""
    claims = _Claims()
    by_name: dict[str, list[Operation]] = {}
    for op in block.ops:
        by_name.setdefault(op.name, []).append(op)
    position = {op: i for i, op in enumerate(block.ops)}
    offers = [_offer(target, level) for target in targets]
    for i, offer in enumerate(offers):
        blocked = partial(claims.blocked, offer.target)
        for composite in offer.composites:
            roots = [op for name in composite.root_names for op in by_name.get(name, [])]
            for root in sorted(roots, key=lambda op: -position[op]):
                if root in claims.taken:
                    continue
                attempt = composite.attempt(root, blocked)
                if attempt.fits:
                    claims.choose(attempt, offers[i:], objective)
                else:
                    claims.decide(attempt, offer.target)
    _record_misses(block, offers, claims)
    for attempt in claims.attempts:
        extract_composite(attempt, position)
    if claims.groups:
        sort_block(block)
    return claims.decisions


def _offer(target: TargetAttr, level: str) -> Offer:
    composites = [c for c in composites_of(target) if c.level == level]
    return Offer(target.target_name.data, find(target), composites)


def _record_misses(block: Block, offers: Sequence[Offer], claims: _Claims) -> None:
    """Ops that stay: how far every pattern with such an op inside would have come."""
    for op in block.ops:
        if op in claims.taken or op.has_trait(ConstantLike) or op.has_trait(IsTerminator):
            continue
        for offer in offers:
            misses = nearest_misses(op, offer.composites, claims.taken)
            for miss in misses:
                claims.tell(miss, offer.target)
            place = (op, offer.target)
            nearest = claims.nearest.get(place)
            if nearest is not None and place not in claims.told:
                claims.tell(replace(nearest, matched=(op,)), offer.target)
