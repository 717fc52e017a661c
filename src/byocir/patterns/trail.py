"""The trail: every attempt as a record in the module, and the nearest miss of what was not tried.

Records are made from the very attempts that decided.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from xdsl.dialects.builtin import ArrayAttr, IntAttr, ModuleOp, StringAttr
from xdsl.ir import Operation

from byocir.dialects.byoc import DecisionAttr, RuleAttr, TrailOp
from byocir.dialects.locations import names
from byocir.patterns.composite import Composite
from byocir.patterns.dataflow import Producer, uses
from byocir.patterns.match import Attempt, Progress, State
from byocir.patterns.nodes import AlternativesPattern, Pattern

TAKEN, DECLINED = "taken", "declined"


def record(attempt: Attempt, target: str, reason: str | None = None) -> DecisionAttr:
    """An attempt as data; `reason` is one that came up after the match, such as an overlap."""
    why = attempt.reason if reason is None else reason
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
        StringAttr(DECLINED if why else TAKEN),
        ArrayAttr([StringAttr(node) for node in nodes]),
        IntAttr(len(attempt.matched)),
        IntAttr(attempt.total),
        StringAttr(why),
        ArrayAttr(rules),
    )


def append(module: ModuleOp, decisions: Sequence[DecisionAttr]) -> None:
    """Adds decisions to the module's trail."""
    trail = next((op for op in module.body.block.ops if isinstance(op, TrailOp)), None)
    if trail is None:
        module.body.block.add_op(TrailOp.of(decisions))
        return
    trail.decisions = ArrayAttr([*trail.decisions, *decisions])


def nearest_misses(op: Operation, composites: Iterable[Composite]) -> Iterator[Attempt]:
    """For an op that nothing took: how far each pattern that has such an op inside would have come.

    The op is held against the pattern's inner node, then the pattern is climbed towards its root
    along the op's users."""
    for composite in composites:
        misses = (_climb(op, composite, path) for path in _paths(composite, op.name))
        best = max(misses, key=lambda miss: len(miss.matched), default=None)
        if best is not None and best.matched:
            yield best


def _paths(composite: Composite, name: str) -> Iterator[tuple[Pattern, ...]]:
    """Paths from an inner pattern node that could match an op of this name up to a root."""
    pending: list[tuple[Pattern, ...]] = [(pattern,) for pattern in composite.patterns]
    while pending:
        path = pending.pop()
        node = path[0]
        is_op = not isinstance(node, AlternativesPattern)
        if is_op and len(path) > 1 and name in node.root_names():
            yield path
        pending.extend((child, *path) for child in node.children())


def _climb(op: Operation, composite: Composite, path: tuple[Pattern, ...]) -> Attempt:
    steps = [node for node in path if not isinstance(node, AlternativesPattern)]
    progress, current = Progress(), op
    for node in steps:
        candidates = [current] if node is steps[0] else uses(current.results[0])
        found = next((u for u in candidates if _fits(node, u, progress)), None)
        if found is None:
            if node is not steps[0]:
                wanted = " or ".join(sorted(node.root_names()))
                seen = ", ".join(dict.fromkeys(u.name for u in candidates)) or "nothing"
                progress.reason = f"expected {wanted} to use its result, found {seen}"
            break
        current = found
        progress.matched = tuple(dict.fromkeys((*progress.matched, found)))
    return Attempt(composite, op, None, progress.matched, composite.size, progress.reason)


def _fits(node: Pattern, op: Operation, progress: Progress) -> bool:
    if op.name not in node.root_names() or len(op.results) == 0:
        return False
    inner = Progress()
    state = next(node.match(op.results[0], Producer(op), State(op.parent), inner), None)
    if state is None:
        progress.reason = inner.reason
        progress.matched = progress.matched or inner.matched
        return False
    return True
