"""Finds the elements of an array that a block does not write: they alone must be filled."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
from xdsl.ir.affine import AffineDimExpr, AffineMap

from byocir.dialects.tir import BlockOp
from byocir.dialects.tir.affine import iterators_in
from byocir.dialects.types import shape_of
from byocir.evaluate.tir_access import IndexedView, PointGrid
from byocir.lowering.tir_to_c.epilogue import writes_each_once

MOST_POINTS = 2**20
"""Points that are looked at; a block of more has all of its array filled."""
MOST_RUNS = 16


@dataclass(frozen=True)
class Runs:
    """Stretches of elements: `count` stretches of `length` elements each, the first at `start`,
    each `step` elements after the one before.
    """

    start: int
    length: int
    count: int = 1
    step: int = 0


def unwritten_of(op: BlockOp, index: int) -> list[Runs]:
    """Lists the elements that must hold the initial number before a block writes a result: those
    that it does not write itself; all where it reads them, or where they are not a few runs.
    """
    shape = shape_of(op.outs[index].type)
    everything = [Runs(0, prod(shape))]
    if op.bases or (op.where is not None and not op.reductions):
        return everything
    argument = op.body.block.args[len(op.ins) + index]
    if not writes_each_once(op, index) if op.reductions else bool(list(argument.uses)):
        return everything
    left = _left(op, index)
    return everything if left is None else left


def writes_apart(op: BlockOp, index: int) -> bool:
    """Tells if no two parallel points of a block write the same element of a result."""
    if writes_each_once(op, index):
        return True
    used = iterators_in(op.out_maps[index].results)
    points = [op.extents[i] for i in op.parallels]
    if op.bases or any(op.extents[i] > 1 and i not in used for i in op.parallels):
        return False
    found = _written(op, index)
    return found is not None and int(found[0].sum()) * found[1] == prod(points)


def _left(op: BlockOp, index: int) -> list[Runs] | None:
    """Lists the elements that a block does not write, in order; None where they are too many to
    tell.
    """
    found = _written(op, index)
    if found is None:
        return None
    written, inner = found
    edges = np.flatnonzero(np.diff(~written.reshape(-1), prepend=False, append=False))
    runs = _gathered([(int(a) * inner, int(b - a) * inner) for a, b in edges.reshape(-1, 2)])
    return runs if len(runs) <= MOST_RUNS else None


def _written(op: BlockOp, index: int) -> tuple[np.ndarray, int] | None:
    """Marks the elements that a block writes. Innermost dimensions that are written throughout have
    no axis; the second result is the number of elements that each mark stands for. None where there
    are too many.
    """
    shape, exprs = list(shape_of(op.outs[index].type)), list(op.out_maps[index].results)
    inner = 1
    while exprs and isinstance(last := exprs[-1], AffineDimExpr):
        others = iterators_in(exprs[:-1])
        if op.extents[last.position] != shape[-1] or last.position in others:
            break
        inner *= shape.pop()
        exprs.pop()
    used = sorted(iterators_in(exprs))
    if prod(op.extents[i] for i in used) > MOST_POINTS or prod(shape) > MOST_POINTS:
        return None
    space = PointGrid(tuple(map(str, range(len(op.extents)))), tuple(op.extents), tuple(used))
    map_ = AffineMap(len(op.extents), 0, tuple(exprs))
    written = np.zeros(shape, np.bool_)
    written[IndexedView(space, map_, full=False).indices([0] * len(op.extents))] = True
    return written, inner


def _gathered(runs: list[tuple[int, int]]) -> list[Runs]:
    """Joins stretches, given as start and length, that are equally long and equally far apart: (0,
    2), (8, 2), (16, 2) → 3 stretches of 2, 8 apart.
    """
    gathered: list[Runs] = []
    for start, length in runs:
        last = gathered[-1] if gathered else None
        if last is not None and last.length == length:
            step = start - last.start - (last.count - 1) * last.step
            if last.count == 1 or step == last.step:
                gathered[-1] = Runs(last.start, length, last.count + 1, step)
                continue
        gathered.append(Runs(start, length))
    return gathered
