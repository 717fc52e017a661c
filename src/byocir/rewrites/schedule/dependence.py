"""Finds out if the iterations of a loop depend on each other.

They do not when each buffer that is written is split between them: an element's index tells the
iteration. For each dimension of a buffer, all accesses have the index `sum(step * index) + window`;
an index follows from the element when its step is at least as long as everything finer is wide.
Memrefs are taken not to overlap, as those of a call may not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.ir import Operation, SSAValue

from byocir.dialects.locations import names
from byocir.dialects.tir import ForOp
from byocir.rewrites.schedule.access import (
    BoxAccess,
    Side,
    accesses_in,
    folded,
    is_inside,
)
from byocir.rewrites.schedule.index import interval_of, loops_behind, sum_of


@dataclass(frozen=True)
class Conflict:
    """Names a buffer that two iterations may both access, one of them writing."""

    buffer: SSAValue
    op: Operation


def conflict(loop: ForOp, band: Sequence[ForOp] = ()) -> Conflict | None:
    """Finds a reason why iterations of `loop` may depend on each other; None when they do not,
    whatever iterations the other loops of `band`, a nest, are at.
    """
    return next(conflicts(loop, band), None)


def conflicts(loop: ForOp, band: Sequence[ForOp] = ()) -> Iterator[Conflict]:
    """Yields all buffers that may make iterations of `loop` depend on each other, as `conflict`."""
    if loop.extent.value.data == 1:
        return
    loops = [loop, *band]
    inner = max(loops, key=_depth).body.block
    outer = min(loops, key=_depth)
    by_buffer: dict[SSAValue, list[BoxAccess]] = {}
    for access in accesses_in(inner):
        by_buffer.setdefault(access.buffer, []).append(access)
    for buffer, accesses in by_buffer.items():
        writer = next((access.op for access in accesses if access.writes), None)
        if writer is None or is_inside(buffer, inner):
            continue
        boxes = [[folded(side, inner) for side in access.box] for access in accesses]
        atoms = {atom for sides in zip(*boxes, strict=True) for atom in _determined(sides, outer)}
        if not _is_determined(loop.index, atoms):
            yield Conflict(buffer, writer)


def _depth(op: Operation) -> int:
    depth, parent = 0, op.parent_op()
    while parent is not None:
        depth, parent = depth + 1, parent.parent_op()
    return depth


def _determined(sides: Sequence[Side], outer: ForOp) -> list[SSAValue]:
    """Lists the atoms whose values follow from an element's index in one dimension: those with
    steps at least as long as all finer ones together reach.
    """
    first = sides[0].start
    if any(side.start.variable != first.variable for side in sides):
        return []
    low = min(side.start.constant for side in sides)
    width = max(side.start.constant + side.size for side in sides) - low
    atoms: list[SSAValue] = []
    for atom, step in sorted(first.terms, key=lambda term: abs(term[1])):
        if not any(outer.is_ancestor(loop) for loop in loops_behind(atom)):
            continue  # the index is the same in all iterations
        atoms = [*atoms, atom] if abs(step) >= width else []
        found = interval_of(atom)
        if found is None:
            return []
        width += abs(step) * (found.size - 1)
    return atoms


def _is_determined(index: SSAValue, atoms: set[SSAValue]) -> bool:
    """Tells if the atoms determine an index: it is one of them, or its quotient and remainder by
    one number are determined.
    """
    if index in atoms:
        return True
    quotients: dict[int, SSAValue] = {}
    remainders: dict[int, SSAValue] = {}
    for use in index.uses:
        op = use.operation
        if use.index == 0 and isinstance(op, arith.DivUIOp | arith.RemUIOp):
            found = quotients if isinstance(op, arith.DivUIOp) else remainders
            found[sum_of(op.rhs).constant] = op.result
    return any(
        number in remainders
        and _is_determined(quotient, atoms)
        and _is_determined(remainders[number], atoms)
        for number, quotient in quotients.items()
    )


def described(op: Operation) -> str:
    """Words an op for messages: its kind, and for a loop its index and extent."""
    if isinstance(op, ForOp):
        name = op.index.name_hint
        return f"the loop{f' over {name}' if name else ''} (0 to {op.extent.value.data})"
    nodes = names(op.location)
    return f"{op.name} of {', '.join(nodes)}" if nodes else op.name
