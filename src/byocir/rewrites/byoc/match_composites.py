"""`match-composites`: wraps what the module's targets can take into `byoc.composite`s.

Requires: `byoc.targets`. Targets are asked in order of preference and each target's composites in
the order of its list; an op taken once is taken for good. Roots are tried from the end of the
program backwards, so a pattern finds its longest form first.

Guarantees: composites that do not overlap, each with one way out (unless its pattern says
otherwise), and a record in `byoc.trail` for every attempt that matched at least one op.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation
from xdsl.passes import ModulePass
from xdsl.traits import ConstantLike, IsTerminator

from byocir.dialects.byoc import TARGET, DecisionAttr, TargetAttr
from byocir.errors import ByocirError
from byocir.patterns.composite import Composite
from byocir.patterns.legality import describe
from byocir.patterns.match import Attempt
from byocir.patterns.targets import find, targets_of
from byocir.patterns.trail import append, nearest_misses, record
from byocir.rewrites.byoc.extract import extract_composite

LEVELS = ("graph", "tensor")


@dataclass(frozen=True)
class MatchCompositesPass(ModulePass):
    """Matches at `level` ("graph" or "tensor") in every function that no target has taken."""

    name = "match-composites"

    level: str = "graph"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.level not in LEVELS:
            raise ByocirError("B212", f"expected level graph or tensor, found '{self.level}'")
        targets = targets_of(op)
        decisions: list[DecisionAttr] = []
        for function in op.body.block.ops:
            if isinstance(function, FuncOp) and TARGET not in function.attributes:
                for block in function.body.blocks:
                    decisions += match_block(block, targets, self.level)
        if decisions:
            append(op, decisions)


@dataclass
class _Claims:
    """Who took which op so far, and what was decided."""

    taken: dict[Operation, str] = field(default_factory=dict[Operation, str])
    attempts: list[Attempt] = field(default_factory=list[Attempt])
    decisions: list[DecisionAttr] = field(default_factory=list[DecisionAttr])

    def decide(self, attempt: Attempt, target: str) -> None:
        overlap = next((op for op in attempt.matched if op in self.taken), None)
        reason = attempt.reason
        if attempt.fits and overlap is not None:
            reason = f"{describe(overlap)} belongs to {self.taken[overlap]} already"
        if attempt.matched:
            self.decisions.append(record(attempt, target, reason))
        if not reason:
            self.taken.update(dict.fromkeys(attempt.matched, attempt.composite.name))
            self.attempts.append(attempt)


def match_block(block: Block, targets: Sequence[TargetAttr], level: str) -> list[DecisionAttr]:
    """Wraps the matches in one block; gives the decisions made."""
    claims = _Claims()
    by_name: dict[str, list[Operation]] = {}
    for op in block.ops:
        by_name.setdefault(op.name, []).append(op)
    for target in targets:
        for composite in _composites(target, level):
            for root in _roots(composite, by_name, block):
                if root not in claims.taken:
                    claims.decide(composite.attempt(root), target.target_name.data)
    _record_misses(block, targets, level, claims)
    for attempt in claims.attempts:
        extract_composite(attempt)
    return claims.decisions


def _composites(target: TargetAttr, level: str) -> list[Composite]:
    return [c for c in find(target).patterns if c.level == level]


def _roots(
    composite: Composite, by_name: dict[str, list[Operation]], block: Block
) -> list[Operation]:
    """Ops at which the pattern can begin, last ones first."""
    found = [by_name.get(name, []) for name in sorted(composite.root_names)]
    if len(found) == 1:
        return found[0][::-1]
    position = {op: i for i, op in enumerate(block.ops)}
    return sorted((op for ops in found for op in ops), key=lambda op: -position[op])


def _record_misses(
    block: Block, targets: Sequence[TargetAttr], level: str, claims: _Claims
) -> None:
    """Ops that stay: how far every pattern with such an op inside would have come."""
    for op in block.ops:
        if op in claims.taken or op.has_trait(ConstantLike) or op.has_trait(IsTerminator):
            continue
        for target in targets:
            for miss in nearest_misses(op, _composites(target, level)):
                claims.decisions.append(record(miss, target.target_name.data))
