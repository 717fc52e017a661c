"""Decides if a match may become one composite."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Operation, SSAValue

from byocir.dialects.locations import names
from byocir.patterns.dataflow import ancestor_in, escapes, produced, read, uses, written
from byocir.patterns.match import State


def describe(op: Operation) -> str:
    """Words an op as a user knows it: its kind, and the model's nodes that it came from."""
    nodes = ", ".join(names(op.location))
    return f"{op.name} ({nodes})" if nodes else op.name


def illegality(state: State, root: Operation) -> str:
    """Says why a match cannot become one node: one of its inputs comes from inside it, an op
    outside uses an inner value, or a path leaves it and comes back. Empty when it can.
    """
    inside = set(state.ops)
    for op in state.ops:
        if op in state.sources:
            return f"{describe(op)} is both inside the match and an input of it"
    for op in state.ops:
        if op is not root and op not in state.exposed:
            reason = _leak(op, inside)
            if reason:
                return reason
    if state.exposed:
        reason = returning_path(inside, {})
        if reason:
            return reason
    return _disturbed(inside, root)


def _leak(op: Operation, inside: set[Operation]) -> str:
    """Names an op outside the match that uses the result of an inner op; empty if there is
    none.
    """
    for value in produced(op):
        for user in uses(value, op):
            if ancestor_in(op.parent, user) not in inside:
                return f"{describe(op)} is also used by {describe(user)} outside the match"
        if escapes(value, op):
            return f"{describe(op)} writes a buffer that outlives the match"
    return ""


def returning_path(inside: set[Operation], groups: Mapping[Operation, Iterable[Operation]]) -> str:
    """Describes a path that leaves these ops and comes back to them; empty when there is none. An
    op in `groups` stands for all ops of its group, which are going to be one node.
    """
    pending = [owner for op in inside for owner in _sources(op) if owner not in inside]
    seen: set[Operation] = set()
    while pending:
        op = pending.pop()
        if op in inside:
            return f"a path leaves the match at {describe(op)} and comes back"
        if op not in seen:
            group = groups.get(op, (op,))
            seen.update(group)
            pending.extend(owner for member in group for owner in _sources(member))
    return ""


def _sources(op: Operation) -> Iterable[Operation]:
    """Gives the ops whose results an op, or one inside it, takes."""
    for inner in op.walk():
        for value in inner.operands:
            if isinstance(value.owner, Operation) and value.owner.parent is op.parent:
                yield value.owner


def _disturbed(inside: set[Operation], root: Operation) -> str:
    """Names an op between those of a match that touches their memory, so that the order matters; ""
    if there is none. In buffer form all ops of a match move to the root's place.
    """
    if not any(isinstance(v.type, MemRefType) for op in inside for v in op.operands):
        return ""
    between: list[Operation] = []
    missing, current = inside - {root}, root.prev_op
    while missing and current is not None:
        between.append(current)
        missing.discard(current)
        current = current.prev_op
    reads, writes = set[SSAValue](), set[SSAValue]()
    for op in reversed(between):
        if op in inside:
            reads.update(read(op))
            writes.update(written(op))
        elif writes.intersection(read(op)) or (reads | writes).intersection(written(op)):
            return f"{describe(op)} touches a buffer of the match before it ends"
    return ""
