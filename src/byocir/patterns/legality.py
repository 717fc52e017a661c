"""When a match may become a composite."""

from __future__ import annotations

from xdsl.ir import Block, Operation, SSAValue

from byocir.dialects.locations import names
from byocir.patterns.dataflow import uses
from byocir.patterns.match import State


def describe(op: Operation) -> str:
    """An op as a user knows it: its kind and the model's nodes it came from."""
    nodes = ", ".join(names(op.location))
    return f"{op.name} ({nodes})" if nodes else op.name


def illegality(state: State, root: Operation) -> str:
    """Why a match cannot be one node: an inner value is used outside it, or a path leaves it and
    comes back. Empty when it can."""
    inside = set(state.ops)
    for op in state.ops:
        if op is root or op in state.exposed:
            continue
        for value in _values(op):
            outside = [user for user in uses(value) if _top(user, op.parent) not in inside]
            if outside:
                return f"{describe(op)} is also used by {describe(outside[0])} outside the match"
    return _returning_path(state, inside) if state.exposed else ""


def _values(op: Operation) -> list[SSAValue]:
    return list(op.results)


def _top(op: Operation, block: Block | None) -> Operation | None:
    """The op of `block` that encloses `op`."""
    current: Operation | None = op
    while current is not None and current.parent is not block:
        current = current.parent_op()
    return current


def _returning_path(state: State, inside: set[Operation]) -> str:
    """Walks backwards from the match's inputs; reaching the match again is a path that returns."""
    pending = [v.owner for op in state.ops for v in op.operands if v.owner not in inside]
    seen: set[Operation] = set()
    while pending:
        owner = pending.pop()
        if not isinstance(owner, Operation) or owner in seen:
            continue
        if owner in inside:
            return f"a path leaves the match at {describe(owner)} and comes back"
        seen.add(owner)
        pending.extend(v.owner for v in owner.operands)
    return ""
