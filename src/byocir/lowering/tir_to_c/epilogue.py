"""Finds epilogues: blocks that go over the result of a reduction within the reduction's own
function.

The reduction's element is still in a register when the epilogue reads it, and is never stored. In
value form they are two blocks; here is which pairs become one function, and the second's index maps
in the first's iterators.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap

from byocir.dialects.tir import BlockOp, FillOp
from byocir.dialects.tir.affine import linear
from byocir.dialects.tir.linear import finest_first
from byocir.dialects.types import shape_of


@dataclass(frozen=True)
class Epilogue:
    """Describes a block that reads a reduction's result as its input `position`; `maps` are its
    index maps, one per operand, in the reduction's iterators."""

    op: BlockOp
    position: int
    maps: list[AffineMap]

    @property
    def extent(self) -> int:
        """Counts the elements along the reduction's last dimension that the epilogue reads."""
        expr = self.op.in_maps[self.position].results[-1]
        return self.op.extents[expr.position] if isinstance(expr, AffineDimExpr) else 1


def epilogue_of(op: BlockOp) -> Epilogue | None:
    """Finds the epilogue of a reduction in value form: the one block that reads its result, once at
    each point, with nothing reduced; it may leave out the end of the last dimension. None for other
    results, and for those that are one number.
    """
    if len(op.outs) != 1 or op.where is not None or op.bases or not _starts_from_number(op):
        return None
    if not op.out_maps[0].results:
        return None
    uses = list(op.results[0].uses)
    consumer = uses[0].operation if len(uses) == 1 else None
    if not isinstance(consumer, BlockOp) or uses[0].index >= len(consumer.ins):
        return None
    if consumer.reductions or consumer.where is not None or len(consumer.outs) != 1:
        return None
    if consumer.bases or consumer.whole:
        return None
    # The epilogue may run twice at a point, so it must not read its old result.
    if list(consumer.body.block.args[-1].uses):
        return None
    if consumer.parent is not op.parent or consumer.pad_values[uses[0].index] is not None:
        return None
    at = _points(op, consumer, consumer.in_maps[uses[0].index])
    if at is None:
        return None
    count = len(op.iterators)
    attrs = consumer.maps.data
    maps = [attr.data.replace_dims_and_symbols(at, [], count, 0) for attr in attrs]
    return Epilogue(consumer, uses[0].index, maps)


def _starts_from_number(op: BlockOp) -> bool:
    """Tells if a reduction starts each element from a number and writes it once."""
    return bool(op.reductions) and isinstance(op.outs[0].owner, FillOp) and writes_each_once(op, 0)


def writes_each_once(op: BlockOp, index: int) -> bool:
    """Tells if a block writes each element of a result at one parallel point at most: every
    iterator is in one index, whose steps along an iterator pass over all that finer ones reach.
    """
    extents, used = op.extents, list[int]()
    for expr in op.out_maps[index].results:
        form = linear(expr)
        if form is None:
            return False
        digits = [(abs(c), extents[i]) for i, c in form.terms]
        if any(step < width for step, width in finest_first(digits)):
            return False
        used += [i for i in form.atoms if extents[i] > 1]
    return sorted(used) == [i for i in op.parallels if extents[i] > 1]


def writes_all(op: BlockOp, index: int) -> bool:
    """Tells if a block writes every element of a result that it accumulates or replaces: it has as
    many parallel points, each with a place of its own.
    """
    if op.where is not None and not op.reductions:
        return False
    points = prod(op.extents[i] for i in op.parallels)
    return points == prod(shape_of(op.outs[index].type)) and writes_each_once(op, index)


def _points(op: BlockOp, consumer: BlockOp, map_: AffineMap) -> list[AffineExpr] | None:
    """Gives, for each iterator of a consumer, its value in the iterators of the block whose result
    it reads at `map_`. None unless each of its points reads one element, and all are read but for
    the end of the last dimension.
    """
    at: list[AffineExpr] = [AffineExpr.constant(0)] * len(consumer.iterators)
    shape, extents = shape_of(op.results[0].type), consumer.extents
    written = op.out_maps[0].results
    bound: set[int] = set()
    for axis, (expr, size) in enumerate(zip(map_.results, shape, strict=True)):
        if isinstance(expr, AffineDimExpr) and expr.position not in bound:
            extent = extents[expr.position]
            if extent != size and (axis < len(shape) - 1 or extent > size):
                return None
            at[expr.position] = written[axis]
            bound.add(expr.position)
        elif size != 1:
            return None
    free = [extents[i] for i in range(len(extents)) if i not in bound]
    return at if all(extent == 1 for extent in free) else None
