"""normalize-qdq: quantize and dequantize ops where integer ops can be found between them.

Does: moves dequantize down and quantize up across reshape, flatten, squeeze, unsqueeze, transpose,
max_pool and concat, so that these run on integers; drops dequantize-quantize pairs that change
nothing and quantize-dequantize pairs around relu and clip that do not either; turns a mean over all
spatial dimensions into a global average pool; gives every use of a dequantize its own op.

Requires: nothing; scales that are no constants, and those that are not positive, stay as they are.

Guarantees: every value that is not NaN keeps its bits, and locations are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from byocir.dialects.graph import (
    ConcatOp,
    DequantizeOp,
    FlattenOp,
    GlobalAveragePoolOp,
    MaxPoolOp,
    QuantizeOp,
    ReduceMeanOp,
    ReshapeOp,
    ShapeOp,
    SqueezeOp,
    TransposeOp,
    UnsqueezeOp,
)
from byocir.dialects.graph.base import int_tuple
from byocir.dialects.locations import fuse
from byocir.dialects.types import shape_of
from byocir.rewrites.activation import through_activations
from byocir.rewrites.driver import NewOps, Pattern, rewrite_module
from byocir.rewrites.grid import dequantized, grid_of
from byocir.rewrites.windows import window_counts

_SHAPE_OPS = (ReshapeOp, FlattenOp, SqueezeOp, UnsqueezeOp, TransposeOp)
_QdqT = TypeVar("_QdqT", QuantizeOp, DequantizeOp)


@dataclass(frozen=True)
class NormalizeQdqPass(ModulePass):
    """Moves quantize and dequantize ops to where integer ops can be found; exact."""

    name = "normalize-qdq"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite_module(
            op,
            [
                DropEqualRequantization(),
                DropQuantizationBeforeActivation(),
                MoveDequantizeAfterShapeOp(),
                MoveDequantizeAfterConcat(),
                MoveQuantizeBeforeShapeOp(),
                MoveQuantizeBeforeConcat(),
                SpatialMeanToGlobalAveragePool(),
            ],
        )
        for dequantize in [inner for inner in op.walk() if isinstance(inner, DequantizeOp)]:
            _give_each_use_its_own(dequantize)


def _give_each_use_its_own(op: DequantizeOp) -> None:
    # Uses are listed newest first; the oldest keeps the original op.
    for use in list(op.result.uses)[:-1]:
        copy = op.clone()
        copy.result.name_hint = op.result.name_hint
        Rewriter.insert_op(copy, InsertPoint.after(op))
        use.operation.operands[use.index] = copy.result


def _again(op: _QdqT, value: SSAValue, axis: int, new: NewOps) -> SSAValue:
    """The same quantize or dequantize op on another value."""
    moved = type(op).make(value, op.scale, op.zero_point, axis=axis, location=op.location)
    return new.add(moved).result


def _is_scalar(op: QuantizeOp | DequantizeOp) -> bool:
    return shape_of(op.scale.type) == ()


def _axis_after(op: ShapeOp | MaxPoolOp, source: DequantizeOp) -> int | None:
    """The axis of `source` in the result of `op`, None when it has no counterpart there."""
    axis = source.axis.value.data
    if _is_scalar(source):
        return axis
    return int_tuple(op.perm).index(axis) if isinstance(op, TransposeOp) else None


def _axis_before(op: ShapeOp | MaxPoolOp, last: QuantizeOp) -> int | None:
    """The axis of `last` in the input of `op`, None when it has no counterpart there."""
    axis = last.axis.value.data
    if _is_scalar(last):
        return axis
    return int_tuple(op.perm)[axis] if isinstance(op, TransposeOp) else None


def _pools_integers(op: MaxPoolOp, source: DequantizeOp) -> bool:
    """Whether pooling the integers finds the same values: they are 8-bit ones, scales are
    positive, and no window covers pads alone (whose greatest value is minus infinity)."""
    grid = grid_of(source)
    if grid is None or not grid.is_8_bit:
        return False
    return bool(window_counts(op, include_pads=False).all())


class DropEqualRequantization(Pattern):
    """`quantize(dequantize(x))` on one 8-bit grid is `x`."""

    roots = (QuantizeOp,)

    def rewrite(self, op: Operation, new: NewOps) -> Sequence[SSAValue] | None:
        assert isinstance(op, QuantizeOp)
        source = dequantized(op.input)
        if source is None or not (source[1].is_8_bit and source[1].same_as(grid_of(op))):
            return None
        return [source[0]]


class DropQuantizationBeforeActivation(Pattern):
    """`quantize(relu(dequantize(quantize(x))))` on one 8-bit grid is `quantize(relu(x))`, and so
    for clip: both sides clip the quantised `x` to the same integers."""

    roots = (QuantizeOp,)

    def rewrite(self, op: Operation, new: NewOps) -> Sequence[SSAValue] | None:
        assert isinstance(op, QuantizeOp)
        activations, start = through_activations(op.input)
        source = dequantized(start)
        if not activations or source is None or not isinstance(source[0].owner, QuantizeOp):
            return None
        inner, grid = source[0].owner, source[1]
        used_once = [inner.result, start, *(activation.result for activation in activations)]
        if not (grid.is_8_bit and all(value.has_one_use() for value in used_once)):
            return None
        if not (grid.same_as(grid_of(inner)) and grid.same_as(grid_of(op))):
            return None
        value = inner.input
        for activation in activations:
            value = new.again(activation, value, location=activation.location)
        return [new.again(op, value, op.scale, op.zero_point)]


class MoveDequantizeAfterShapeOp(Pattern):
    """`reshape(dequantize(x))` is `dequantize(reshape(x))`; the same for the other shape ops and
    for max_pool."""

    roots = (*_SHAPE_OPS, MaxPoolOp)

    def rewrite(self, op: Operation, new: NewOps) -> Sequence[SSAValue] | None:
        assert isinstance(op, ShapeOp | MaxPoolOp)
        source = op.input.owner
        if not isinstance(source, DequantizeOp):
            return None
        axis = _axis_after(op, source)
        if axis is None or (isinstance(op, MaxPoolOp) and not _pools_integers(op, source)):
            return None
        moved = new.again(op, source.input, location=op.location)
        return [_again(source, moved, axis, new)]


class MoveDequantizeAfterConcat(Pattern):
    """`concat(dequantize(x), dequantize(y))` on one grid is `dequantize(concat(x, y))`."""

    roots = (ConcatOp,)

    def rewrite(self, op: Operation, new: NewOps) -> Sequence[SSAValue] | None:
        assert isinstance(op, ConcatOp)
        sources = [value.owner for value in op.inputs]
        dequantizes = [source for source in sources if isinstance(source, DequantizeOp)]
        if len(dequantizes) < len(sources) or not _is_scalar(dequantizes[0]):
            return None
        grids = [grid_of(dequantize) for dequantize in dequantizes]
        if not all(grid is not None and grid.same_as(grids[0]) for grid in grids):
            return None
        integers = [dequantize.input for dequantize in dequantizes]
        moved = new.again(op, *integers, location=op.location)
        result = _again(dequantizes[0], moved, dequantizes[0].axis.value.data, new)
        new.ops[-1].location = fuse(*dequantizes)
        return [result]


class MoveQuantizeBeforeShapeOp(Pattern):
    """`quantize(reshape(x))` is `reshape(quantize(x))`; the same for the other shape ops and for
    max_pool, whose pads of minus infinity quantise to the least integer."""

    roots = (QuantizeOp,)

    def rewrite(self, op: Operation, new: NewOps) -> Sequence[SSAValue] | None:
        assert isinstance(op, QuantizeOp)
        shape_op = op.input.owner
        if not isinstance(shape_op, (*_SHAPE_OPS, MaxPoolOp)) or not op.input.has_one_use():
            return None
        axis = _axis_before(shape_op, op)
        if axis is None:
            return None
        if isinstance(shape_op, MaxPoolOp) and not ((grid := grid_of(op)) and grid.is_8_bit):
            return None
        moved = _again(op, shape_op.input, axis, new)
        return [new.again(shape_op, moved, location=shape_op.location)]


class MoveQuantizeBeforeConcat(Pattern):
    """`quantize(concat(x, y))` is `concat(quantize(x), quantize(y))`."""

    roots = (QuantizeOp,)

    def rewrite(self, op: Operation, new: NewOps) -> Sequence[SSAValue] | None:
        assert isinstance(op, QuantizeOp)
        concat = op.input.owner
        if not isinstance(concat, ConcatOp) or not op.input.has_one_use():
            return None
        if not _is_scalar(op):
            return None
        moved = [_again(op, value, op.axis.value.data, new) for value in concat.inputs]
        return [new.again(concat, *moved, location=concat.location)]


class SpatialMeanToGlobalAveragePool(Pattern):
    """A mean over all dimensions but the first two is a global average pool."""

    roots = (ReduceMeanOp,)

    def rewrite(self, op: Operation, new: NewOps) -> Sequence[SSAValue] | None:
        assert isinstance(op, ReduceMeanOp)
        rank = len(shape_of(op.input.type))
        if rank < 3 or sorted(int_tuple(op.axes)) != list(range(2, rank)):
            return None
        pool = new.add(GlobalAveragePoolOp.make(op.input))
        if op.keepdims.value.data:
            return [pool.result]
        return [new.add(ReshapeOp.make(pool.result, shape=shape_of(op.result.type))).result]
