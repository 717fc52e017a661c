"""Restates blocks in local coordinates.

A staged operand is read from where its box begins: at `index - point`, with the begin as a point,
an iterator of extent 1. Where all that an iterator is used for depends on its offset alone, base
and point cancel: it runs from 0, and the point goes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from byocir.dialects.tir import BlockOp
from byocir.dialects.tir.affine import expression, linear
from byocir.dialects.tir.linear import Linear
from byocir.rewrites.schedule.blocks import Parts, body_of
from byocir.rewrites.schedule.index import IndexBuilder, base_sums


def localise(
    block: BlockOp,
    operand: int,
    value: SSAValue,
    starts: Sequence[Linear[SSAValue]],
    indices: IndexBuilder,
) -> None:
    """Makes a block access `value`, which holds the box of an operand that begins at `starts`, in
    place of the operand. Reads of it need a pad only where an index divides, as its box may then be
    the whole side.
    """
    inside = block.parent
    assert inside is not None
    parts = Parts.of(block).with_operand(operand, value)
    covered = all(linear(expr) is not None for expr in parts.maps[operand].results)
    pads = tuple(None if i == operand and covered else pad for i, pad in enumerate(parts.pads))
    parts = replace(parts, pads=pads)
    for dim, start in enumerate(starts):
        offset = AffineExpr.constant(-start.constant)
        if start.terms:
            begin = indices.value(start.variable, inside, block)
            used = sorted(parts.maps[operand].results[dim].used_dims())
            name = parts.iterators[used[0]].iterator_name.data if used else "p"
            parts, point = parts.with_point(name, begin, indices.number(0))
            offset = offset + point * -1
        exprs = list(parts.maps[operand].results)
        exprs[dim] = exprs[dim] + offset
        parts = parts.with_map(operand, exprs)
    parts.put(block)
    rebase(block)


def rebase(block: BlockOp) -> None:
    """Drops the bases of a block, and its points, as far as its indices and guards allow."""
    if not block.bases:
        return
    parts, bases = Parts.of(block), base_sums(block.bases, len(block.extents))
    exprs = [expr for map_ in parts.maps for expr in map_.results] + list(parts.guards)
    free = _free(exprs, bases)

    def local(expr: AffineExpr) -> AffineExpr:
        form = linear(expr)
        if form is None or not all(i in free for i, _ in form.terms):
            return expr
        return expression(replace(form, constant=form.substituted(bases.__getitem__).constant))

    count = len(parts.iterators)
    maps = [AffineMap(count, 0, tuple(map(local, map_.results))) for map_ in parts.maps]
    zero = IndexBuilder(body_of(block), block.location).number(0)
    values = [zero if i in free else value for i, value in enumerate(parts.bases)]
    parts = replace(
        parts,
        maps=tuple(maps),
        guards=tuple(map(local, parts.guards)),
        bases=tuple(values) if any(i not in free for i in range(count)) else (),
    )
    _without_points(parts, free).put(block)


def _free(exprs: Sequence[AffineExpr], bases: Sequence[Linear[SSAValue]]) -> set[int]:
    """Finds the iterators whose bases may be dropped: each expression with one of them begins at a
    constant, and all its iterators may be dropped.
    """
    free = set(range(len(bases)))
    while True:
        bound: set[int] = set()
        for expr in exprs:
            form, used = linear(expr), expr.used_dims()
            if form is None or form.substituted(bases.__getitem__).terms or not used <= free:
                bound |= used
        if not bound & free:
            return free
        free -= bound


def _without_points(parts: Parts, free: set[int]) -> Parts:
    """Drops the iterators of extent 1 at 0 that indices only subtract, as they do points; but not
    the last one, as no instruction does a block without iterators.
    """
    forms = [linear(expr) for map_ in parts.maps for expr in map_.results]
    kept = {i for form in forms if form is not None for i, c in form.terms if c > 0}
    for expr in [expr for map_ in parts.maps for expr in map_.results]:
        kept |= expr.used_dims() if linear(expr) is None else set()
    gone = [
        i
        for i, it in enumerate(parts.iterators)
        if i in free and i not in kept and it.extent.data == 1 and not it.is_reduction
    ]
    if len(gone) == len(parts.iterators):
        gone = gone[1:]
    if not gone:
        return parts
    rest = [i for i in range(len(parts.iterators)) if i not in gone]
    exprs = [
        AffineExpr.constant(0) if i in gone else AffineExpr.dimension(rest.index(i))
        for i in range(len(parts.iterators))
    ]
    bases = [parts.bases[i] for i in rest] if parts.bases else []
    return parts.substituted([parts.iterators[i] for i in rest], exprs, bases)
