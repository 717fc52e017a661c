"""Puts guards in the place of pads around windows, and counts the elements that they leave each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

import numpy as np
from xdsl.ir.affine import AffineExpr, AffineMap

from byocir.dialects.tir import BlockOp
from byocir.dialects.tir.affine import bounds, linear
from byocir.dialects.tir.linear import Linear, spans
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
    guarded = {i for expr in where.results for i in expr.used_dims()}
    return found * prod(block.extents[i] for i in sums if i not in guarded)


def _by_iterators(where: AffineMap) -> list[list[Linear[int]]]:
    """Groups guards: those of different groups share no iterators."""
    groups: list[list[Linear[int]]] = []
    for expr in where.results:
        form = linear(expr)
        assert form is not None, "guards are linear"
        joined = [g for g in groups if any({*form.atoms} & {*other.atoms} for other in g)]
        groups = [g for g in groups if g not in joined]
        groups.append([form, *(each for group in joined for each in group)])
    return groups


def _inside(block: BlockOp, guards: Sequence[Linear[int]]) -> np.ndarray:
    """Marks the points at which guards hold, over the iterators of a block."""
    inside = np.ones((1,) * len(block.extents), np.bool_)
    for form in guards:
        left = np.array(form.constant)
        for i, step in form.terms:
            side = [-1 if n == i else 1 for n in range(len(block.extents))]
            left = left + step * np.arange(block.extents[i]).reshape(side)
        inside = inside & (left >= 0)
    return inside
