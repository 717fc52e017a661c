"""`match-composites`: wraps into `byoc.composite`s what the module's targets can take.

Requires: `byoc.targets`. Targets are asked in order of preference and each target's composites in
the order of its list; an op taken once is taken for good, and one that `place-nodes` placed goes
nowhere else, and into no composite with ops of another group. Where the module names an objective,
a later target takes what it covers for less, and in the end the host, if the module names it
(`byoc.host`), keeps what it computes for less.
Roots are tried from the end of the program backwards, so a pattern finds its longest form first.
Control flow that a target takes whole is asked for before what is in its graphs, and stays whole.

Guarantees: composites that do not overlap, each with one way out (unless its pattern says
otherwise), a record in `byoc.trail` for every attempt that matched at least one op, and one for a
block of which a target's patterns matched nothing but fitted its body, indices or inputs in part;
the level is no longer in `byoc.levels`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation
from xdsl.passes import ModulePass

from byocir.dialects.byoc import HOST, HOST_CODE, LEVELS, CallOp, DecisionAttr, TargetAttr
from byocir.dialects.gc_pause import gc_paused
from byocir.dialects.traits import is_constant, is_terminator
from byocir.dialects.walk import ops_in
from byocir.errors import ByocirError
from byocir.patterns.composite import Attempt
from byocir.patterns.legality import describe, returning_path
from byocir.patterns.match import State
from byocir.patterns.same_blocks import Alike
from byocir.patterns.targets import composites_of, find, objective_of, targets_of
from byocir.patterns.trail import append, nearest_misses, record
from byocir.rewrites.byoc.choose_host import TakenMatch, against_host
from byocir.rewrites.byoc.choose_target import Offer, bids, cheapest, choice_text
from byocir.rewrites.byoc.costs import CostTable, costs_of
from byocir.rewrites.byoc.extract import extract_composite
from byocir.rewrites.byoc.host_blocks import blocks_in, host_functions
from byocir.rewrites.byoc.levels import leave_level
from byocir.rewrites.byoc.markers import HandPlacement
from byocir.rewrites.byoc.sort_ops import sort_block
from byocir.rewrites.host.c_host import c_host_of


@dataclass(frozen=True)
class MatchCompositesPass(ModulePass):
    """Matches at `level` ("graph" or "tensor") in every function that no target has taken."""

    name = "match-composites"

    level: str = "graph"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.level not in LEVELS:
            raise ByocirError("B212", f"expected level graph or tensor, found '{self.level}'")
        objective, costs = objective_of(op), costs_of(op)
        offers = [_offer(target, self.level, costs) for target in targets_of(op)]
        competes = objective and HOST_CODE in op.attributes
        host = Offer(HOST, c_host_of(op), costs=costs) if competes else None
        decisions: list[DecisionAttr] = []
        with gc_paused():
            for function in host_functions(op):
                blocks = list(blocks_in(function))
                decisions += match_blocks(blocks, offers, objective, host)
        if decisions:
            append(op, decisions)
        leave_level(op, self.level)


@dataclass
class _Claims:
    """Keeps the ops that were taken so far, by target, and the decisions."""

    taken: dict[Operation, str] = field(default_factory=dict[Operation, str])
    groups: dict[Operation, tuple[Operation, ...]] = field(
        default_factory=dict[Operation, tuple[Operation, ...]]
    )
    """The ops that become one node with an op, where that node has several results."""
    placed: list[TakenMatch] = field(default_factory=list[TakenMatch])
    decisions: list[DecisionAttr] = field(default_factory=list[DecisionAttr])

    nearest: dict[tuple[Operation, str], Attempt] = field(
        default_factory=dict[tuple[Operation, str], Attempt]
    )
    """The attempt of a target that came closest, of those that matched no op."""
    holding: dict[Operation, str] = field(default_factory=dict[Operation, str])
    """Control flow in whose graphs something was claimed, and by which composite first."""
    told: set[tuple[Operation, str]] = field(default_factory=set[tuple[Operation, str]])
    """Ops at which a target's attempt is on record."""
    alike: Alike = field(default_factory=Alike)
    _around: dict[Block | None, HandPlacement] = field(
        default_factory=dict["Block | None", HandPlacement]
    )
    """The hand placement of the control flow around the ops of each block."""

    def place_of(self, op: Operation) -> HandPlacement:
        """Reads where an op is placed by hand: by itself, or with the control flow around it."""
        place = HandPlacement.of(op)
        if place.target:
            return place
        if op.parent not in self._around:
            self._around[op.parent] = _place_around(op)
        return self._around[op.parent]

    def hold(self, op: Operation, what: str) -> None:
        """Notes that the control flow around an op can no longer be taken whole."""
        around = op.parent_op()
        while around is not None:
            self.holding.setdefault(around, what)
            around = around.parent_op()

    def tell(self, attempt: Attempt, target: str, note: str = "") -> None:
        """Records an attempt."""
        self.told.update((op, target) for op in attempt.matched)
        self.decisions.append(record(attempt, target, note))

    def blocked(self, target: str, state: State) -> str:
        """Says why a target cannot have a match: another one claimed an op of it, or a user placed
        one elsewhere.
        """
        places = {op: self.place_of(op) for op in state.ops}
        for op, place in places.items():
            if place.target not in ("", target):
                return f"{describe(op)} is placed on {place.target}"
        if len({place.group for place in places.values()}) > 1:
            groups = (f"{describe(op)} in {p.group or 'none'}" for op, p in places.items())
            return f"ops are in several groups: {', '.join(groups)}"
        overlap = next((op for op in state.ops if op in self.taken), None)
        if overlap is not None:
            return f"{describe(overlap)} belongs to {self.taken[overlap]} already"
        holder = next((op for op in state.ops if op in self.holding), None)
        if holder is not None:
            return f"{describe(holder)} has work of {self.holding[holder]} inside"
        if state.exposed and self.groups:
            return returning_path(set(state.ops), self.groups)
        return ""

    def choose(self, attempt: Attempt, offers: Sequence[Offer], objective: str) -> None:
        """Decides for the first offer, or for a later one that costs less, and records it."""
        if not objective:
            self.decide(attempt, offers[0])
            return
        found = bids(attempt, offers, objective, self.blocked)
        best = cheapest(found)
        note = choice_text(best, found, objective)
        if best is not found[0]:
            lost = replace(attempt, reason=note)
            self.decisions.append(record(lost, offers[0].target))
        for each in best.attempts:
            self.decide(each, best.offer, note)

    def decide(self, attempt: Attempt, offer: Offer, note: str = "") -> None:
        target = offer.target
        if attempt.matched:
            self.tell(attempt, target, note)
        elif attempt.near:
            place = (attempt.root, target)
            nearest = self.nearest.get(place)
            if nearest is None or attempt.near > nearest.near:
                self.nearest[place] = attempt
        if attempt.match is None or not attempt.fits:
            return
        self.taken.update(dict.fromkeys(attempt.matched, attempt.composite.name))
        self.hold(attempt.root, attempt.composite.name)
        is_fixed = any(self.place_of(op).target == target for op in attempt.matched)
        self.placed.append(TakenMatch(attempt, offer, is_fixed, note, len(self.decisions) - 1))
        if attempt.match.state.exposed:
            self.groups.update(dict.fromkeys(attempt.matched, attempt.matched))

    def give_back(self, host: Offer, objective: str) -> None:
        """Gives back to the host the matches that it does for less, and notes the costs of both."""
        verdicts = against_host(self.placed, host, objective)
        for i, verdict in verdicts.items():
            each = self.placed[i]
            attempt, note = each.attempt, "; ".join(filter(None, (each.note, verdict.reason)))
            if verdict.on_host:
                attempt = replace(attempt, reason=verdict.reason)
                for op in attempt.matched:
                    del self.taken[op]
                    self.groups.pop(op, None)
            self.decisions[each.record] = record(attempt, each.offer.target, note)
        on_host = {i for i, verdict in verdicts.items() if verdict.on_host}
        self.placed = [each for i, each in enumerate(self.placed) if i not in on_host]


def _place_around(op: Operation) -> HandPlacement:
    """Reads where the control flow around an op is placed by hand."""
    place, around = HandPlacement(), op.parent_op()
    while not place.target and around is not None:
        place = HandPlacement.of(around)
        if place.target == HOST:
            place = HandPlacement()  # the host runs it; what is inside may go elsewhere
        around = around.parent_op()
    return place


def match_blocks(
    blocks: Sequence[Block], offers: Sequence[Offer], objective: str = "", host: Offer | None = None
) -> list[DecisionAttr]:
    """Wraps the matches in the blocks of one function, outer blocks before those inside; gives the
    decisions. A `host` competes for the objective.
    """
    claims = _Claims()
    for op in (op for block in blocks for op in ops_in(block)):
        if type(op) is CallOp:  # an earlier hand-off took this
            claims.hold(op, f"@{op.callee.string_value()}")
    for i in range(len(offers)):
        for block in blocks:
            if not _is_taken(block, claims):
                _match_block(block, offers[i:], claims, objective)
    if host is not None:
        claims.give_back(host, objective)
    for block in blocks:
        if not _is_taken(block, claims):
            _record_misses(block, offers, claims)
    _extract(blocks, claims)
    return claims.decisions


def _extract(blocks: Sequence[Block], claims: _Claims) -> None:
    """Makes composites of what was claimed."""
    position = {op: i for block in blocks for i, op in enumerate(ops_in(block))}
    grouped = {op.parent for op in claims.groups}
    for each in claims.placed:
        extract_composite(each.attempt, position, claims.place_of(each.attempt.root).group)
    for block in blocks:
        if block in grouped:
            sort_block(block)


def _match_block(block: Block, offers: Sequence[Offer], claims: _Claims, objective: str) -> None:
    """Tries the composites of the first offer on the ops of a block."""
    by_name: dict[str, list[tuple[int, Operation]]] = {}
    for i, op in enumerate(ops_in(block)):
        by_name.setdefault(op.name, []).append((i, op))
    offer = offers[0]

    def blocked(state: State) -> str:
        return claims.blocked(offer.target, state) or offer.refusal(state)

    for composite in offer.composites:
        roots = [each for name in composite.root_names for each in by_name.get(name, [])]
        for _, root in sorted(roots, key=itemgetter(0), reverse=True):
            if root in claims.taken:
                continue
            attempt = composite.attempt(root, blocked, claims.alike)
            if attempt.fits:
                claims.choose(attempt, offers, objective)
            else:
                claims.decide(attempt, offer)


def _is_taken(block: Block, claims: _Claims) -> bool:
    """Tells if the control flow that a block is part of was taken whole."""
    around = block.parent_op()
    while around is not None and around not in claims.taken:
        around = around.parent_op()
    return around is not None


def _offer(target: TargetAttr, level: str, costs: CostTable) -> Offer:
    composites = [c for c in composites_of(target) if c.level == level]
    return Offer(target.target_name.data, find(target), composites, costs)


def _record_misses(block: Block, offers: Sequence[Offer], claims: _Claims) -> None:
    """Records, for each op that stays, how far every pattern with such an op inside would have
    come.
    """
    for op in ops_in(block):
        if op in claims.taken or is_constant(op) or is_terminator(op):
            continue
        for offer in offers:
            misses = nearest_misses(op, offer.composites, claims.taken, claims.alike)
            for miss in misses:
                claims.tell(miss, offer.target)
            place = (op, offer.target)
            nearest = claims.nearest.get(place)
            if nearest is not None and place not in claims.told:
                claims.tell(nearest, offer.target)
