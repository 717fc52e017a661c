"""Keeps the trail: a record in the module of every attempt, and of the nearest miss at ops that no
attempt began at.

Records are made from the very attempts that decided.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from xdsl.dialects.builtin import ArrayAttr, ModuleOp
from xdsl.ir import Attribute, Operation

from byocir.dialects.byoc import CompositeOp, DecisionAttr, TrailOp
from byocir.dialects.decisions import Decision, Gap
from byocir.dialects.locations import names
from byocir.dialects.tir import BlockOp
from byocir.dialects.uses import erase
from byocir.patterns.blocks import BlockPattern
from byocir.patterns.composite import Attempt, Composite
from byocir.patterns.dataflow import Producer, produced, uses
from byocir.patterns.legality import describe
from byocir.patterns.match import Progress, State
from byocir.patterns.nodes import AlternativesPattern, Pattern
from byocir.patterns.same_blocks import Alike, OutlineMisfit

_Fits = tuple[list[State], Progress]


def record(attempt: Attempt, target: str, note: str = "") -> DecisionAttr:
    """Makes the record of an attempt; `note` says why a target got what fits it. An attempt that
    matched nothing is recorded for the op at which it began.
    """
    ops = attempt.matched or (attempt.root,)
    nodes = dict.fromkeys(name for op in ops for name in names(op.location))
    return DecisionAttr.of(
        Decision(
            target,
            attempt.composite.level,
            attempt.composite.name,
            attempt.fits,
            [*nodes],
            len(attempt.matched),
            attempt.total,
            attempt.reason or note,
            [*attempt.rules],
            attempt.gap,
        )
    )


def append(module: ModuleOp, decisions: Sequence[DecisionAttr]) -> None:
    """Adds decisions to the module's trail, without those that an earlier run of the matcher
    recorded. Why a pattern declined a place stays what was recorded first: later there are fewer
    ops left to look at.
    """
    trail = _trail(module)
    known = set(trail.decisions)
    declined = {_place(decision) for decision in known if not decision.taken}
    fresh = [
        decision
        for decision in decisions
        if decision not in known and (decision.taken or _place(decision) not in declined)
    ]
    trail.decisions = ArrayAttr([*trail.decisions, *fresh])


def forget(module: ModuleOp, is_past: Callable[[Decision], bool]) -> None:
    """Drops the records that are true no more, since what they tell of was rewritten."""
    for trail in [op for op in module.body.block.ops if isinstance(op, TrailOp)]:
        kept = [decision for decision in trail.decisions if not is_past(decision.plain)]
        trail.decisions = ArrayAttr(kept)
        if not kept:
            erase(trail)


def withdraw(module: ModuleOp, reasons: Mapping[CompositeOp, str]) -> None:
    """Marks the records of composites that were taken and given back as declined."""
    places = {
        (op.pattern.data, op.level.data, frozenset(names(op.location))): reason
        for op, reason in reasons.items()
    }
    trail, decisions = _trail(module), list[DecisionAttr]()
    for decision in trail.decisions:
        nodes = frozenset(node.data for node in decision.nodes)
        reason = places.get((decision.pattern.data, decision.level.data, nodes))
        if decision.taken and reason is not None:
            decision = DecisionAttr.of(replace(decision.plain, taken=False, reason=reason))
        decisions.append(decision)
    trail.decisions = ArrayAttr(list(dict.fromkeys(decisions)))


def _trail(module: ModuleOp) -> TrailOp:
    trail = next((op for op in module.body.block.ops if isinstance(op, TrailOp)), None)
    if trail is None:
        trail = TrailOp.of([])
        module.body.block.add_op(trail)
    return trail


def _place(decision: DecisionAttr) -> tuple[Attribute, ...] | None:
    """Identifies where a decision was made: the pattern and the op it was tried at; None when the
    op has no name.
    """
    root = next(iter(decision.nodes), None)
    return None if root is None else (decision.target, decision.level, decision.pattern, root)


def nearest_misses(
    op: Operation,
    composites: Iterable[Composite],
    taken: Mapping[Operation, str],
    alike: Alike | None = None,
) -> Iterator[Attempt]:
    """Yields, for an op that nothing took, how far each pattern with such an op inside has come.

    The op is held against the pattern's inner node, then the pattern is climbed towards its root
    along the op's users, as far as ops are not `taken` (by the composite of that name). Where that
    reaches the root, the attempt there has told the reason. `alike` is as in `attempt`."""
    alike = alike or Alike()
    for composite in composites:
        paths = _paths(composite, op.name)
        miss = _nearest_miss(op, composite, paths, taken, alike) if paths.all else None
        if miss is not None:
            yield miss


def _nearest_miss(
    op: Operation,
    composite: Composite,
    paths: _Paths,
    taken: Mapping[Operation, str],
    alike: Alike,
) -> Attempt | None:
    """Gives the attempt along the path that comes furthest; None where one leads to the root, or
    none fits the op.
    """
    outlined = composite.outlined(op, alike)
    if outlined in alike.remote:
        return None
    known = alike.inner.setdefault(outlined, {}) if outlined else dict[object, OutlineMisfit]()
    starts: dict[Pattern, _Fits] = {}
    for node in (path[0] for path in paths.first if path[0] not in known):
        misfit = _known_misfit(op, node, alike)
        if misfit is None:
            states, miss = starts[node] = _start(op, node, alike)
            misfit = miss.misfit() if not states and miss.by_outline else None
        if misfit is not None:
            known[node] = misfit
    # Alternatives above it give many paths from one inner node; where that does not fit, all of
    # them miss alike.
    fitting = {node for node, (states, _) in starts.items() if states}
    differing = (
        [p for p in paths.all if p[0] in fitting or p in paths.first] if fitting else paths.first
    )
    misses: list[Attempt | None] = []
    for path in differing:
        misfit = known.get(path[0])
        if misfit is None:
            misses.append(_climb(op, composite, path, starts[path[0]], taken))
        elif misfit.shaped:
            misses.append(Attempt.missed(composite, op, (op,), misfit.text_for(op), misfit.gap))
    if outlined and not misses:
        alike.remote.add(outlined)
    return _furthest(misses)


def _furthest(misses: Sequence[Attempt | None]) -> Attempt | None:
    """Gives the attempt that matched the most ops; None where none matched one, or where one of the
    paths leads to the root.
    """
    missed = [miss for miss in misses if miss is not None and miss.matched]
    best = max(missed, key=lambda miss: len(miss.matched), default=None)
    return None if None in misses else best


class _Paths(NamedTuple):
    """Lists the paths through a pattern; of those that begin at the same inner node only
    the first."""

    all: tuple[tuple[Pattern, ...], ...]
    first: tuple[tuple[Pattern, ...], ...]


MOST_PATHS = 64
"""Paths from one inner node that are looked at: alternatives behind alternatives have thousands."""


@lru_cache(maxsize=1024)
def _paths(composite: Composite, name: str) -> _Paths:
    """Lists the paths up to a root from the inner nodes of a pattern that could match an op of this
    name.
    """
    found = [path for path in _all_paths(composite) if name in path[0].root_names()]
    first = {path[0]: path for path in reversed(found)}
    return _Paths(tuple(found), tuple(path for path in found if first[path[0]] is path))


@lru_cache(maxsize=1024)
def _all_paths(composite: Composite) -> tuple[tuple[Pattern, ...], ...]:
    """Lists the paths from the inner nodes of a pattern up to a root, at most `MOST_PATHS` from
    each. Alternatives on the way are left out, as they match nothing themselves.
    """
    found: list[tuple[Pattern, ...]] = []
    pending: list[tuple[Pattern, ...]] = [(pattern,) for pattern in composite.patterns]
    seen: set[tuple[Pattern, ...]] = set()
    counts = Counter[Pattern]()
    while pending:
        path = pending.pop()
        node, above = path[0], path[1:]
        if path in seen or counts[node] == MOST_PATHS:
            continue
        seen.add(path)
        counts[node] += 1
        chooses = isinstance(node, AlternativesPattern)
        if above and not chooses:
            found.append(path)
        pending.extend((child, *(above if chooses else path)) for child in node.children())
    return tuple(found)


def _known_misfit(op: Operation, node: Pattern, alike: Alike) -> OutlineMisfit | None:
    """Says why an inner node fits no block like the op, as far as that is known yet."""
    if isinstance(node, BlockPattern) and isinstance(op, BlockOp):
        return node.misfit(op, alike)
    return None


def _start(op: Operation, node: Pattern, alike: Alike) -> _Fits:
    """Gives the ways in which an inner node fits at the op, and how far it came where it does
    not.
    """
    miss = Progress(alike=alike)
    return _fitting(node, [op], (), miss), miss


def _climb(
    op: Operation,
    composite: Composite,
    path: Sequence[Pattern],
    start: _Fits,
    taken: Mapping[Operation, str],
) -> Attempt | None:
    """Follows a path from this op towards the root as far as it fits, and gives that as an attempt;
    None when it leads to the root.
    """
    reached, candidates = tuple[Operation, ...](), [op]
    for node in path:
        if reached:
            miss = Progress(alike=start[1].alike)
            fitting = _fitting(node, candidates, reached, miss)
        else:
            fitting, miss = start
        free = next((state for state in fitting if taken.keys().isdisjoint(state.ops)), None)
        if free is None:
            reason, gap = miss.reason or _not_used(node, candidates), miss.gap
            if fitting:
                other = next(other for other in fitting[0].ops if other in taken)
                reason = f"expected ops that are free, found {describe(other)} of {taken[other]}"
            matched = reached or ((op,) if fitting else miss.matched)
            return Attempt.missed(composite, op, matched, reason, Gap.PART if fitting else gap)
        reached = tuple(dict.fromkeys((*reached, free.ops[0])))
        candidates = uses(produced(free.ops[0])[0], free.ops[0])
    return None


def _fitting(
    node: Pattern, candidates: Sequence[Operation], reached: Sequence[Operation], miss: Progress
) -> list[State]:
    fits = (_fit(node, user, reached, miss) for user in candidates)
    return [state for state in fits if state is not None]


def _not_used(node: Pattern, users: Sequence[Operation]) -> str:
    wanted = " or ".join(sorted(node.root_names()))
    seen = ", ".join(dict.fromkeys(user.name for user in users)) or "nothing"
    return f"expected {wanted} to use its result, found {seen}"


def _fit(
    node: Pattern, op: Operation, reached: Sequence[Operation], progress: Progress
) -> State | None:
    """Gives the first way in which a pattern fits at an op, with all of `reached` inside."""
    value = next(iter(produced(op)), None)
    if op.name not in node.root_names() or value is None:
        return None
    states = node.match(value, Producer(op), State(op.parent), progress)
    return next((state for state in states if set(reached) <= set(state.ops)), None)
