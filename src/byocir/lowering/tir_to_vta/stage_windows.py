"""Computes maxima over windows of accumulators along one dimension after the other.

A window of 3 by 3 elements takes the ALU nine maxima of two cycles. Where its rows are taken first,
in place, neighbours share them, and the result begins with an element, not with the least number:

    R[h, w] = max(S[2 h + r - 1, 2 w + s - 1] for r, s)
    →  S[y, 2 w] = max(S[y, 2 w - 1], S[y, 2 w], S[y, 2 w + 1]) for all y
       R[h, w] = max(S[2 h - 1, 2 w], S[2 h, 2 w], S[2 h + 1, 2 w])

Each window has an element that it shares with none, its centre, which is inside wherever it stands.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from byocir.dialects.intervals import integer_range
from byocir.dialects.tir import AllocOp, BlockOp, FillOp, IteratorAttr, IteratorKind, scope_of
from byocir.dialects.tir.affine import expression, linear
from byocir.dialects.tir.linear import Linear, spans
from byocir.dialects.types import i8, i32, shape_of
from byocir.dialects.uses import erase
from byocir.lowering.tir_to_vta import forms
from byocir.lowering.tir_to_vta.tile_nest import SCOPES
from byocir.vta_sim import Memory

MAXIMUM = 2
"""Cycles of a maximum of two accumulators."""

COPY = 3
"""Cycles of a copy of an accumulator: a zero, and a sum of two."""

LEAST = integer_range(i8).low
"""No byte is less; what begins the maxima of sums is less than all of them, too."""


def split_windows(body: Block) -> None:
    """Splits the maxima over windows in a composite by dimension, where that takes fewer cycles."""
    for op in [op for op in body.walk() if isinstance(op, BlockOp) and _is_pool(op)]:
        axes = _axes(op)
        if axes:
            order = min(permutations(axes), key=lambda each: _cycles(op, each))
            if _cycles(op, order) < MAXIMUM * math.prod(op.extents):
                _split(op, order)


@dataclass(frozen=True)
class _Axis:
    """Describes a dimension of the source along which windows slide: the iterators over windows and
    over elements of one, and the element that is the window's centre.
    """

    dimension: int
    parallel: int
    reduction: int
    centre: int


def _is_pool(op: BlockOp) -> bool:
    """Tells if a block takes maxima over windows of accumulators that nothing reads afterwards,
    into others that were filled with a number less than all.
    """
    if not op.reductions or len(op.ins) != 1 or scope_of(op.ins[0].type) != SCOPES[Memory.ACC]:
        return False
    is_maximum = isinstance(op.yielded[0].owner, arith.MaxSIOp)
    source = op.ins[0].owner
    alone = isinstance(source, AllocOp) and source.parent is op.parent and _is_last(op, op.ins[0])
    fill = _fill_of(op)
    return is_maximum and alone and fill is not None and _number(fill) <= LEAST


def _number(fill: FillOp) -> int:
    number = fill.value
    assert isinstance(number, IntegerAttr)
    return number.value.data


def _is_last(op: Operation, value: SSAValue) -> bool:
    """Tells if no op after this one in its block uses a value."""
    block = op.parent
    assert block is not None
    after = op.next_op
    while after is not None:
        if any(value in inner.operands for inner in after.walk()):
            return False
        after = after.next_op
    return True


def _fill_of(op: BlockOp) -> FillOp | None:
    """Finds the fill of a block's destination, if nothing else writes that before; else None."""
    before = op.prev_op
    while before is not None:
        if any(op.outs[0] in inner.operands for inner in before.walk()):
            return before if isinstance(before, FillOp) else None
        before = before.prev_op
    return None


def _axes(op: BlockOp) -> list[_Axis]:
    """Finds the axes of a block's windows; none where one of them has no centre, or where a guard
    concerns something else.
    """
    found: list[_Axis] = []
    for dimension, expr in enumerate(op.in_maps[0].results):
        form = linear(expr)
        own = [] if form is None else [i for i in form.atoms if i in op.reductions]
        if form is None or len(own) > 1:
            return []
        if own:
            centred = _centred(op, dimension, own[0], form)
            if centred is None:
                return []
            found.append(centred)
    sides = [{axis.parallel, axis.reduction} for axis in found]
    along = all(any({*form.atoms} <= side for side in sides) for form in _guards(op))
    return found if along and len(found) == len(op.reductions) else []


def _centred(op: BlockOp, dimension: int, reduction: int, form: Linear[int]) -> _Axis | None:
    parallels = [i for i in form.atoms if i != reduction]
    if len(parallels) != 1:
        return None
    step, dilation = form.coefficient(parallels[0]), form.coefficient(reduction)
    size, extent = shape_of(op.ins[0].type)[dimension], op.extents[reduction]
    for centre in range(extent):
        axis = _Axis(dimension, parallels[0], reduction, centre)
        others = (tap for tap in range(extent) if tap != centre)
        shared = any(dilation * (tap - centre) % step == 0 for tap in others)
        reads = _at(form, axis, centre).interval(spans(op.extents).__getitem__)
        inside = reads.low >= 0 and reads.high < size
        if inside and not shared and not _guards_of(op, axis, centre):
            return axis
    return None


def _guards(op: BlockOp) -> list[Linear[int]]:
    """Lists the conditions of a block, each `form >= 0`."""
    exprs = op.where.data.results if op.where is not None else ()
    forms = [linear(expr) for expr in exprs]
    return [form for form in forms if form is not None]


def _at(form: Linear[int], axis: _Axis, tap: int) -> Linear[int]:
    """Restates a form for a window's element, given by its position in the window."""
    return form.without(axis.reduction) + form.coefficient(axis.reduction) * tap


def _guards_of(op: BlockOp, axis: _Axis, tap: int) -> list[Linear[int]]:
    """Lists the guards along an axis that leave out this element of some windows."""
    along = {axis.parallel, axis.reduction}
    own = [_at(form, axis, tap) for form in _guards(op) if along & {*form.atoms}]
    return [form for form in own if form.interval(spans(op.extents).__getitem__).low < 0]


def _cycles(op: BlockOp, order: Sequence[_Axis]) -> int:
    """Counts the cycles of taking the maxima along these axes one after the other."""
    extents = [op.extents[i] for i in op.parallels]
    total = COPY * math.prod(extents)
    for position, axis in enumerate(order):
        sizes = _sizes(op, order[position + 1 :])
        total += MAXIMUM * math.prod(sizes) * (op.extents[axis.reduction] - 1)
    return total


def _sizes(op: BlockOp, later: Sequence[_Axis]) -> list[int]:
    """Gives the extents of the parallel iterators before the later axes are reduced: along these
    all elements are still there.
    """
    whole = {axis.parallel: shape_of(op.ins[0].type)[axis.dimension] for axis in later}
    return [whole.get(i, op.extents[i]) for i in op.parallels]


def _split(op: BlockOp, order: Sequence[_Axis]) -> None:
    """Replaces a block and its fill by blocks for one axis after the other."""
    source, target, fill, block = op.ins[0], op.outs[0], _fill_of(op), op.parent
    assert fill is not None
    assert block is not None
    made: list[Operation] = []
    out = op.out_maps[0]
    for position, axis in enumerate(order):
        later = order[position + 1 :]
        centres = {each: each.centre for each in order[: position + 1]}
        if later:
            written, place = source, _index(op, later, centres)
        else:
            written, place = target, AffineMap(len(op.parallels), 0, out.results)
            made.append(FillOp.of(IntegerAttr(0, i32), target))
            made.append(_step(op, "add", written, place, _index(op, later, centres), (), later))
        for tap in range(op.extents[axis.reduction]):
            if tap != axis.centre:
                read = _index(op, later, {**centres, axis: tap})
                guards = _guards_of(op, axis, tap)
                made.append(_step(op, "max", written, place, read, guards, later))
    for new in made:
        new.location = op.location
    block.insert_ops_before(made, op)
    for old in (fill, op):
        erase(old)


def _index(op: BlockOp, later: Sequence[_Axis], taps: dict[_Axis, int]) -> AffineMap:
    """Gives the index of the source for these elements of windows; along later axes all elements
    are read.
    """
    exprs: list[AffineExpr] = []
    whole = {axis.dimension: axis.parallel for axis in later}
    at = {axis.dimension: (axis, tap) for axis, tap in taps.items()}
    for dimension, expr in enumerate(op.in_maps[0].results):
        if dimension in whole:
            exprs.append(AffineExpr.dimension(whole[dimension]))
            continue
        form = linear(expr)
        assert form is not None
        exprs.append(expression(_at(form, *at[dimension]) if dimension in at else form))
    return AffineMap(len(op.parallels), 0, tuple(exprs))


def _step(
    op: BlockOp,
    name: str,
    target: SSAValue,
    place: AffineMap,
    read: AffineMap,
    guards: Sequence[Linear[int]],
    later: Sequence[_Axis],
) -> BlockOp:
    """Makes the block of an ALU operation of each accumulator at `place` with an element of the
    source.
    """
    iterators = [
        IteratorAttr.of(op.names[i], IteratorKind.PARALLEL, size)
        for i, size in zip(op.parallels, _sizes(op, later), strict=True)
    ]
    where = tuple(map(expression, guards))
    return BlockOp(
        iterators,
        [op.ins[0]],
        [target],
        [read, place],
        forms.alu(name).region(),
        where=AffineMap(len(iterators), 0, where) if where else None,
    )
