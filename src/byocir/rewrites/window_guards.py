"""Puts guards in the place of pads around windows, and counts the elements that they leave each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

import numpy as np
from xdsl.ir.affine import AffineExpr, AffineMap

from byocir.dialects.tir import BlockOp
from byocir.dialects.tir.affine import bounds, iterators_in
from byocir.dialects.tir.linear import spans
from byocir.dialects.types import Shape, shape_of


def guards_of(op: BlockOp) -> AffineMap | None:
    """Gives the guard that leaves out the points at which a block of one input reads its pad; None
    where there are none.
    """
    guards = [*_guards(op.in_maps[0], shape_of(op.ins[0].type), op.extents)]
    return AffineMap(len(op.extents), 0, tuple(guards)) if guards else None


def _guards(map_: AffineMap, shape: Shape, extents: Shape) -> Iterator[AffineExpr]:
    """Lists expressions that are negative where an index is outside of an array."""
    for expr, size in zip(map_.results, shape, strict=True):
        low, high = bounds(expr, spans(extents))
        if low < 0:
            yield expr
        if high >= size:
            yield expr * -1 + (size - 1)


def leaves_elements(block: BlockOp, where: AffineMap | None) -> bool:
    """Tells whether guards leave each result of a block an element of its window."""
    return where is None or bool(points_left(block, where).all())


def points_left(block: BlockOp, where: AffineMap) -> np.ndarray:
    """Counts the points of sums that guards leave each result of a block, over its iterators
    (int64); along those that make no difference there is one.
    """
    sums = tuple(block.reductions)
    found = np.ones((1,) * len(block.extents), np.int64)
    for guards in _by_iterators(where):
        found = found * _inside(block, guards).sum(sums, keepdims=True)
    guarded = iterators_in(where.results)
    return found * prod(block.extents[i] for i in sums if i not in guarded)


def _by_iterators(where: AffineMap) -> list[list[AffineExpr]]:
    """Groups guards: those of different groups share no iterators."""
    groups: list[list[AffineExpr]] = []
    for expr in where.results:
        used = expr.used_dims()
        joined = [g for g in groups if any(used & other.used_dims() for other in g)]
        groups = [g for g in groups if g not in joined]
        groups.append([expr, *(each for group in joined for each in group)])
    return groups


def _inside(block: BlockOp, guards: Sequence[AffineExpr]) -> np.ndarray:
    """Marks the points at which guards hold, over the iterators of a block."""
    used = iterators_in(guards)
    points = np.ogrid[tuple(slice(n if i in used else 1) for i, n in enumerate(block.extents))]
    left = [np.asarray(guard.eval(points, [])) for guard in guards]
    return np.logical_and.reduce([each >= 0 for each in left])
