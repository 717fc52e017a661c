"""Undoes staging: what goes through a buffer of one iteration is read and written where it comes
from or goes to.

```
for m: for n: for k:                        for m: for n: for k:
  a_1[i, j] = a[4 * m + i, 4 * k + j]         c[4 * m + i, …] += a[4 * m + i, 4 * k + j] * …
  c_1[i, …] += a_1[i, j] * …
```

A buffer that one copy fills, and nothing else writes, is read at its source, if nothing writes
that. A buffer that a copy stores in the end, and that begins as the same elements or as none, is
the place where they are stored, if nothing else touches that. All this is about a program whose
statements run in their loops' order, as it was written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr

from byocir.dialects.tir.affine import iterators_in
from byocir.dialects.types import shape_of
from byocir.lowering.scf_to_tir.statements import ElementAccess, SourceLoop, Statement, is_injective


def unstaged(
    statements: Sequence[Statement], own: Mapping[SSAValue, Sequence[SourceLoop]]
) -> list[Statement]:
    """Removes from statements the buffers of `own` that only stage. Each has an element for each
    iteration of these loops, which are its first indices.
    """
    found = list(statements)
    for buffer, loops in own.items():
        found = _read_at_source(buffer, loops, found) or found
        found = _kept_in_place(buffer, loops, found) or found
    return found


def _read_at_source(
    buffer: SSAValue, loops: Sequence[SourceLoop], statements: list[Statement]
) -> list[Statement] | None:
    """Replaces reads of a buffer by reads of what a copy filled it from; None where something else
    fills it.
    """
    touching = [each for each in statements if _touches(each, buffer)]
    if not touching or not _is_copy(touching[0]) or _written_in(touching[1:], buffer):
        return None
    load = touching[0]
    (home,), (staged,) = load.ins, load.outs
    if staged.buffer is not buffer or _written_in(statements, home.buffer):
        return None
    rest = [each for each in statements if each is not load]
    return _moved(rest, staged, home) if _is_whole(load, staged, loops, rest) else None


def _kept_in_place(
    buffer: SSAValue, loops: Sequence[SourceLoop], statements: list[Statement]
) -> list[Statement] | None:
    """Replaces a buffer by the place to which a copy stores it in the end; None where that would
    change the program.
    """
    touching = [each for each in statements if _touches(each, buffer)]
    if len(touching) < 2 or not _is_copy(touching[-1]):
        return None
    load, store = touching[0], touching[-1]
    (staged,), (home,) = store.ins, store.outs
    rest = [each for each in statements if each is not store]
    if staged.buffer is not buffer or not _is_whole(store, staged, loops, rest):
        return None
    if not is_injective(home, [loop for loop in store.loops if loop not in loops]):
        return None
    if _is_copy(load) and load.ins[0].buffer is home.buffer:
        rest.remove(load)
        (begun,), (source,) = load.outs, load.ins
        if not _is_whole(load, begun, loops, rest) or source != _at(begun, staged, home):
            return None
    return None if any(_touches(each, home.buffer) for each in rest) else _moved(rest, staged, home)


def _touches(statement: Statement, buffer: SSAValue) -> bool:
    return any(access.buffer is buffer for access, _ in statement.accesses)


def _written_in(statements: Sequence[Statement], buffer: SSAValue) -> bool:
    return any(access.buffer is buffer for each in statements for access in each.outs)


def _is_copy(statement: Statement) -> bool:
    """Tells if a statement moves elements as they are from one buffer to another."""
    if len(statement.ins) != 1 or len(statement.outs) != 1 or statement.guards:
        return False
    last, (source,), (target,) = statement.body.block.last_op, statement.ins, statement.outs
    is_moved = last is not None and last.operands[0] is statement.body.block.args[0]
    return is_moved and source.buffer is not target.buffer


def _is_whole(
    copy: Statement, staged: ElementAccess, loops: Sequence[SourceLoop], rest: Sequence[Statement]
) -> bool:
    """Tells if a copy goes once over all that each iteration has in a buffer: it stands in the
    iteration's loops, and in one more loop for each dimension, in which nothing else stands.
    """
    inner = [loop for loop in copy.loops if loop not in loops]
    if staged.pad is not None or any(loop in each.loops for each in rest for loop in inner):
        return False
    extents = {loop.number: loop.extent for loop in copy.loops}
    dims = [expr.position for expr in staged.index if isinstance(expr, AffineDimExpr)]
    if sorted(dims) != sorted(extents) or len(dims) != len(staged.index):
        return False
    in_order = dims[: len(loops)] == [loop.number for loop in loops]
    return in_order and tuple(extents[dim] for dim in dims) == shape_of(staged.buffer.type)


def _moved(
    statements: list[Statement], staged: ElementAccess, home: ElementAccess
) -> list[Statement] | None:
    """Moves accesses of a staged buffer to its home; None if one of them reads numbers outside the
    buffer.
    """
    accesses = [access for each in statements for access, _ in each.accesses]
    if any(each.buffer is staged.buffer and each.pad is not None for each in accesses):
        return None

    def moved(access: ElementAccess) -> ElementAccess:
        return _at(access, staged, home) if access.buffer is staged.buffer else access

    return [
        replace(each, ins=[*map(moved, each.ins)], outs=[*map(moved, each.outs)])
        for each in statements
    ]


def _at(access: ElementAccess, staged: ElementAccess, home: ElementAccess) -> ElementAccess:
    """Gives the element at home that corresponds to a staged one, by the copy between the two."""
    used = iterators_in(home.index)
    dims: list[AffineExpr] = [AffineExpr.constant(0)] * (max(used, default=-1) + 1)
    for expr, index in zip(staged.index, access.index, strict=True):
        if isinstance(expr, AffineDimExpr) and expr.position in used:
            dims[expr.position] = index
    index = [expr.replace_dims_and_symbols(dims, []) for expr in home.index]
    return ElementAccess.of(home.buffer, index, home.pad)
