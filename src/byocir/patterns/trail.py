"""The trail: every attempt as a record in the module, and the nearest miss of what was not tried.

Records are made from the very attempts that decided.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from xdsl.dialects.builtin import ArrayAttr, IntAttr, ModuleOp, StringAttr
from xdsl.ir import Attribute, Operation

from byocir.dialects.byoc import CompositeOp, DecisionAttr, RuleAttr, TrailOp
from byocir.dialects.locations import names
from byocir.patterns.composite import Composite
from byocir.patterns.dataflow import Producer, produced, uses
from byocir.patterns.match import Attempt, Progress, State
from byocir.patterns.nodes import AlternativesPattern, Pattern

TAKEN, DECLINED = "taken", "declined"


def record(attempt: Attempt, target: str) -> DecisionAttr:
    """An attempt as data."""
    nodes = dict.fromkeys(name for op in attempt.matched for name in names(op.location))
    rules = [
        RuleAttr(
            StringAttr(rule.sentence),
            StringAttr("holds" if rule.holds else "fails"),
            StringAttr(rule.seen),
        )
        for rule in attempt.rules
    ]
    return DecisionAttr(
        StringAttr(target),
        StringAttr(attempt.composite.level),
        StringAttr(attempt.composite.name),
        StringAttr(TAKEN if attempt.fits else DECLINED),
        ArrayAttr([StringAttr(node) for node in nodes]),
        IntAttr(len(attempt.matched)),
        IntAttr(attempt.total),
        StringAttr(attempt.reason),
        ArrayAttr(rules),
    )


def append(module: ModuleOp, decisions: Sequence[DecisionAttr]) -> None:
    """Adds decisions to the module's trail. What an earlier run of the matcher recorded is not
    recorded again, and the reason why a pattern declined a place stays the first one: later there
    are fewer ops left to look at."""
    trail = _trail(module)
    known = set(trail.decisions)
    declined = {_place(decision) for decision in known if decision.outcome.data == DECLINED}
    fresh = [
        decision
        for decision in decisions
        if decision not in known
        and (decision.outcome.data == TAKEN or _place(decision) not in declined)
    ]
    trail.decisions = ArrayAttr([*trail.decisions, *fresh])


def withdraw(module: ModuleOp, composites: Iterable[CompositeOp], reason: str) -> None:
    """Turns the records of composites that were taken and given back into declined ones."""
    places = {(op.pattern.data, op.level.data, frozenset(names(op.location))) for op in composites}
    trail, decisions = _trail(module), list[DecisionAttr]()
    for decision in trail.decisions:
        nodes = frozenset(node.data for node in decision.nodes)
        place = (decision.pattern.data, decision.level.data, nodes)
        if decision.outcome.data == TAKEN and place in places:
            decision = _declined(decision, reason)
        decisions.append(decision)
    trail.decisions = ArrayAttr(list(dict.fromkeys(decisions)))


def _trail(module: ModuleOp) -> TrailOp:
    trail = next((op for op in module.body.block.ops if isinstance(op, TrailOp)), None)
    if trail is None:
        trail = TrailOp.of([])
        module.body.block.add_op(trail)
    return trail


def _place(decision: DecisionAttr) -> tuple[Attribute, ...] | None:
    """The pattern and the op it was tried at; None when the op has no name."""
    root = next(iter(decision.nodes), None)
    return root and (decision.target, decision.level, decision.pattern, root)


def _declined(decision: DecisionAttr, reason: str) -> DecisionAttr:
    return DecisionAttr(
        decision.target,
        decision.level,
        decision.pattern,
        StringAttr(DECLINED),
        decision.nodes,
        decision.matched,
        decision.total,
        StringAttr(reason),
        decision.rules,
    )


def nearest_misses(op: Operation, composites: Iterable[Composite]) -> Iterator[Attempt]:
    """For an op that nothing took: how far each pattern that has such an op inside would have come.

    The op is held against the pattern's inner node, then the pattern is climbed towards its root
    along the op's users. Where that reaches the root, the attempt there has told the reason."""
    for composite in composites:
        misses = [_climb(op, composite, path) for path in _paths(composite, op.name)]
        partial = [miss for miss in misses if miss is not None]
        best = max(partial, key=lambda miss: len(miss.matched), default=None)
        if best is not None and best.matched and len(partial) == len(misses):
            yield best


@lru_cache(maxsize=1024)
def _paths(composite: Composite, name: str) -> tuple[tuple[Pattern, ...], ...]:
    """Paths from an inner pattern node that could match an op of this name up to a root; without
    the alternatives between, which match nothing themselves."""
    found: dict[tuple[Pattern, ...], None] = {}
    pending: list[tuple[Pattern, ...]] = [(pattern,) for pattern in composite.patterns]
    seen: set[tuple[Pattern, ...]] = set()
    while pending:
        path = pending.pop()
        if path in seen:
            continue
        seen.add(path)
        node, above = path[0], path[1:]
        chooses = isinstance(node, AlternativesPattern)
        if above and not chooses and name in node.root_names():
            found[path] = None
        pending.extend((child, *(above if chooses else path)) for child in node.children())
    return tuple(found)


def _climb(op: Operation, composite: Composite, path: tuple[Pattern, ...]) -> Attempt | None:
    """How far a path leads from this op; None when it leads to the root."""
    reached, candidates = tuple[Operation, ...](), [op]
    for node in path:
        miss = Progress()
        found = next((user for user in candidates if _fits(node, user, miss)), None)
        if found is None:
            wanted = " or ".join(sorted(node.root_names()))
            seen = ", ".join(dict.fromkeys(user.name for user in candidates)) or "nothing"
            reason = miss.reason or f"expected {wanted} to use its result, found {seen}"
            matched = reached or miss.matched
            return Attempt(composite, op, None, matched, composite.size, reason)
        reached = tuple(dict.fromkeys((*reached, found)))
        candidates = uses(produced(found)[0], found)
    return None


def _fits(node: Pattern, op: Operation, progress: Progress) -> bool:
    value = next(iter(produced(op)), None)
    if op.name not in node.root_names() or value is None:
        return False
    state = State(op.parent)
    return next(node.match(value, Producer(op), state, progress), None) is not None
