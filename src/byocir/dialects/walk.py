"""Lists blocks and ops inside an op.

They take a third of the time of xDSL's `walk`, a generator within a generator for each level, and
passes ask for them again and again: they go from op to op without calling xDSL's property. Of a
whole module's ops it matters, too, how their class is asked for: `isinstance` calls Python for
classes of ops and attributes, which are abstract ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from xdsl.ir import Block, Operation

OpT = TypeVar("OpT", bound=Operation)


def ops_in(block: Block) -> list[Operation]:
    """Lists the ops of a block as they are now, without those inside of them."""
    found: list[Operation] = []
    op = block.first_op
    while op is not None:
        found.append(op)
        op = op._next_op  # pyrefly: ignore[protected-access]
    return found


def blocks_of(op: Operation) -> list[Block]:
    """Lists all blocks of a module, or of any op, outer ones first."""
    found: list[Block] = []
    left = [op]
    while left:
        blocks = [block for region in left.pop().regions for block in region.blocks]
        found += blocks
        inside = [inner for block in blocks for inner in ops_in(block) if inner.regions]
        left += reversed(inside)
    return found


def ops_of(op: Operation) -> list[Operation]:
    """Lists an op and all ops inside it as they are now, in the order of their text."""
    found = [op]
    _add_inside(op, found)
    return found


def ops_of_class(op: Operation, kind: type[OpT]) -> list[OpT]:
    """Lists the ops in an op that are of a class itself, not of one derived from it."""
    return [inner for inner in ops_of(op) if type(inner) is kind]


def makers_first(ops: Sequence[OpT]) -> list[OpT]:
    """Sorts ops, each behind those that make what it reads."""
    found, given = dict[Operation, None](), dict[Operation, OpT](zip(ops, ops, strict=True))

    def put(op: Operation) -> None:
        for owner in (value.owner for value in op.operands):
            if owner in given and owner not in found:
                put(owner)
        found[op] = None

    for op in ops:
        if op not in found:
            put(op)
    return [given[op] for op in found]


def enclosing(op: Operation, kind: type[OpT]) -> OpT | None:
    """Gives the innermost op of a class that an op is inside of; None where there is none."""
    around = op.parent_op()
    while around is not None and not isinstance(around, kind):
        around = around.parent_op()
    return around


def _add_inside(op: Operation, found: list[Operation]) -> None:
    for region in op.regions:
        for block in region.blocks:
            inner = block.first_op
            while inner is not None:
                found.append(inner)
                if inner.regions:
                    _add_inside(inner, found)
                inner = inner._next_op  # pyrefly: ignore[protected-access]
