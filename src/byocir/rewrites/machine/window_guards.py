"""Puts guards in the place of pads around windows, and tells whether they leave each an element."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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
    groups = () if where is None else _by_iterators(where)
    return all(_leave(block, guards) for guards in groups)


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


def _leave(block: BlockOp, guards: Sequence[Linear[int]]) -> bool:
    """Tells if each result has a point of its sums at which these guards hold."""
    axes = sorted({i for form in guards for i in form.atoms})
    inside = np.ones((1,) * len(axes), np.bool_)
    for form in guards:
        left = np.full((1,) * len(axes), form.constant)
        for i, step in form.terms:
            side = [-1 if each == i else 1 for each in axes]
            left = left + step * np.arange(block.extents[i]).reshape(side)
        inside = inside & (left >= 0)
    sums = tuple(at for at, i in enumerate(axes) if i in block.reductions)
    return bool(inside.any(sums).all())
