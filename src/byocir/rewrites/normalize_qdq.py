"""normalize-qdq: moves quantize and dequantize ops to where integer ops can be found between them.

Does: moves dequantize down and quantize up across what only moves elements (reshape, flatten,
squeeze, unsqueeze, transpose, expand, tile, pad, depth_to_space, space_to_depth, resize to the
nearest, concat) and max_pool, so that these run on integers, and dequantize down across slice,
gather and split, too; drops dequantize-quantize pairs that change
nothing and quantize-dequantize pairs around relu and clip that do not either; turns a mean over all
spatial dimensions into a global average pool, and a global max pool of dequantised bytes into a
max pool; gives every use of a dequantize its own op.

Requires: nothing; scales that are no constants, and those that are not positive, stay as they are.

Guarantees: every value that is not NaN keeps its bits, and locations are kept.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from byocir.dialects.array import ArrayAttr
from byocir.dialects.graph import (
    ConcatOp,
    DequantizeOp,
    GatherOp,
    GlobalAveragePoolOp,
    GraphOp,
    MaxPoolOp,
    PadOp,
    QuantizeOp,
    ReshapeOp,
    ResizeOp,
    SliceOp,
    SplitOp,
    TransposeOp,
)
from byocir.dialects.graph.pool import window_counts
from byocir.dialects.locations import fuse
from byocir.dialects.types import dtype_of, f32, shape_of
from byocir.dialects.uses import set_operand
from byocir.patterns import Bound, either, wildcard
from byocir.patterns import Pattern as AnyPattern
from byocir.patterns import op as op_pattern
from byocir.rewrites.driver import NewOps, Pattern, erase_dead, is_dead, rewrite_module
from byocir.rewrites.grid import (
    anything,
    dequantize,
    dequantized,
    grid_at,
    grid_of,
    is_plain,
    known_grid,
    quantize,
)
from byocir.rewrites.integers import through_activations
from byocir.rewrites.matching import rewrites
from byocir.rewrites.movement_ops import MOVING_OPS, is_nearest


@dataclass(frozen=True)
class NormalizeQdqPass(ModulePass):
    """Moves quantize and dequantize ops to where integer ops can be found; exact."""

    name = "normalize-qdq"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite_module(
            op,
            [
                drop_equal_requantization,
                DropQuantizationBeforeActivation(),
                move_dequantize_after_shape_op,
                MoveDequantizeAfterConcat(),
                MoveDequantizeAfterSplit(),
                move_quantize_before_shape_op,
                MoveQuantizeBeforeConcat(),
                spatial_mean_to_global_average_pool,
                global_max_pool_to_max_pool,
            ],
        )
        for inner in [inner for inner in op.walk() if isinstance(inner, DequantizeOp)]:
            _give_each_use_its_own(inner)


def _give_each_use_its_own(op: DequantizeOp) -> None:
    if is_dead(op):  # it belongs to a part of a split that nothing uses
        erase_dead(op)
        return
    # Uses are listed newest first; the oldest keeps the original op.
    for use in list(op.result.uses)[:-1]:
        copy = op.clone()
        copy.result.name_hint = op.result.name_hint
        Rewriter.insert_op(copy, InsertPoint.after(op))
        set_operand(use.operation, use.index, copy.result)


def _again(like: Bound, value: SSAValue, axis: int, new: NewOps) -> SSAValue:
    """Adds the same quantize or dequantize op on another value."""
    op = _qdq(like)
    made = type(op).make(value, op.scale, op.zero_point, axis=axis, location=op.location)
    return new.add(made).result


def _qdq(bound: Bound) -> QuantizeOp | DequantizeOp:
    assert isinstance(bound.op, QuantizeOp | DequantizeOp)
    return bound.op


def _is_scalar(op: QuantizeOp | DequantizeOp) -> bool:
    return shape_of(op.scale.type) == ()


def _keeps_axis(shape: Bound, by: Bound) -> bool:
    """Tells if the axis of a quantize or dequantize op is a single dimension before and after a
    shape op.
    """
    return _is_scalar(_qdq(by)) or isinstance(shape.op, TransposeOp)


def _axis_after(shape: Bound, source: Bound) -> int:
    """Finds the dimension of a shape op's result that the axis of `source` becomes."""
    axis = source.attrs["axis"]
    is_scalar = _is_scalar(_qdq(source))
    return axis if is_scalar else shape.attrs["perm"].index(axis)


def _axis_before(shape: Bound, last: Bound) -> int:
    """Finds the dimension of a shape op's input that the axis of `last` comes from."""
    axis = last.attrs["axis"]
    return axis if _is_scalar(_qdq(last)) else shape.attrs["perm"][axis]


@rewrites(quantize(dequantize(wildcard("x"), "inner"), "outer"))
def drop_equal_requantization(x: Bound) -> Bound:
    """`quantize(dequantize(x))` on one 8-bit grid is `x`."""
    return x


@drop_equal_requantization.where
def both_are_on_one_8_bit_grid(inner: Bound, outer: Bound) -> tuple[bool, str]:
    """Both are on one 8-bit grid."""
    before, after = grid_at(inner), grid_at(outer)
    fits = before is not None and before.is_8_bit and before.same_as(after)
    return fits, f"{before} and {after}"


class DropQuantizationBeforeActivation(Pattern):
    """Replaces `quantize(relu(dequantize(quantize(x))))` on one 8-bit grid by `quantize(relu(x))`,
    and likewise for clip: both clip the quantised `x` to the same integers.
    """

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


def _shape_op(value: AnyPattern) -> AnyPattern:
    """Matches a shape op of any kind, another op that only moves elements, or a max_pool."""
    moves = [op_pattern(kind.name, value) for kind in (*MOVING_OPS, MaxPoolOp)]
    return either(*moves, op_pattern(GatherOp.name, value, wildcard())) @ "shape"


def _on_integers(shape: Bound, x: SSAValue, grid: Bound, new: NewOps) -> SSAValue:
    """Adds a shape op on the integers of a grid."""
    op = shape.op
    assert isinstance(op, GraphOp)
    if not isinstance(op, PadOp) or op.mode.data != "constant":
        return new.again(op, x, *op.operands[1:], location=op.location)
    fill, known = _fill(op, grid), known_grid(grid)
    assert fill is not None
    value = ArrayAttr.of(np.array(fill, dtype_of(known.element)))
    return new.add(
        PadOp.make(x, pads=op.pads, mode="constant", value=value, location=op.location)
    ).result


def _fill(pad: PadOp, by: Bound) -> int | None:
    """Gives the integer that stands for the number that a pad adds; None if there is none."""
    grid = grid_at(by)
    number = 0.0 if pad.value is None else float(pad.value.data.values())
    return None if grid is None or np.isnan(number) else grid.quantize(number)


@rewrites(_shape_op(dequantize(wildcard("x"), "source", anything)))
def move_dequantize_after_shape_op(x: Bound, shape: Bound, source: Bound, new: NewOps) -> SSAValue:
    """`reshape(dequantize(x))` is `dequantize(reshape(x))`; the same for the other shape ops and
    for max_pool."""
    moved = _on_integers(shape, x.value, source, new)
    return _again(source, moved, _axis_after(shape, source), new)


@move_dequantize_after_shape_op.where
def the_axis_of_the_scales_stays(shape: Bound, source: Bound) -> tuple[bool, str]:
    """There is one scale, or the op only moves the axis of the scales."""
    return _keeps_axis(shape, source), str(grid_at(source))


@move_dequantize_after_shape_op.where
def a_pool_of_the_integers_finds_the_same(shape: Bound, source: Bound) -> tuple[bool, str]:
    """A pool is of 8-bit integers with positive scales, and none of its windows covers pads alone,
    whose greatest value is minus infinity."""
    pool, grid = shape.op, grid_at(source)
    if not isinstance(pool, MaxPoolOp):
        return True, "no pool"
    covered = bool(window_counts(pool, include_pads=False).all())
    return covered and grid is not None and grid.is_8_bit, str(grid)


class MoveDequantizeAfterConcat(Pattern):
    """Replaces `concat(dequantize(x), dequantize(y))` on one grid by `dequantize(concat(x, y))`."""

    roots = (ConcatOp,)

    def rewrite(self, op: Operation, new: NewOps) -> Sequence[SSAValue] | None:
        assert isinstance(op, ConcatOp)
        sources = [value.owner for value in op.inputs]
        dequantizes = [source for source in sources if isinstance(source, DequantizeOp)]
        if len(dequantizes) < len(sources) or not _is_scalar(dequantizes[0]):
            return None
        if _only_quantized(op.result):
            return None  # each part is requantised to the grid of the result where it is made
        grids = [grid_of(dequantize) for dequantize in dequantizes]
        if not all(grid is not None and grid.same_as(grids[0]) for grid in grids):
            return None
        integers = [dequantize.input for dequantize in dequantizes]
        moved, first = new.again(op, *integers, location=op.location), dequantizes[0]
        return [new.again(first, moved, *first.operands[1:], location=fuse(*dequantizes))]


class MoveDequantizeAfterSplit(Pattern):
    """Replaces `split(dequantize(x))` by `dequantize` of each part of `split(x)`."""

    roots = (SplitOp,)

    def rewrite(self, op: Operation, new: NewOps) -> Sequence[SSAValue] | None:
        assert isinstance(op, SplitOp)
        source = op.input.owner
        if not isinstance(source, DequantizeOp) or not _is_scalar(source):
            return None
        split = SplitOp.make(source.input, location=op.location, **op.properties)
        parts, grid = new.add(split).results, source.operands[1:]
        return [new.again(source, part, *grid, location=source.location) for part in parts]


def _only_quantized(value: SSAValue) -> bool:
    """Tells whether a value is used by one quantize op and nothing else."""
    users = [use.operation for use in value.uses]
    return len(users) == 1 and isinstance(users[0], QuantizeOp) and _is_scalar(users[0])


@rewrites(quantize(_shape_op(wildcard("x")), "last", anything), one_use=True)
def move_quantize_before_shape_op(x: Bound, shape: Bound, last: Bound, new: NewOps) -> SSAValue:
    """`quantize(reshape(x))` is `reshape(quantize(x))`; the same for the other shape ops and for
    max_pool, whose pads of minus infinity quantise to the least integer."""
    moved = _again(last, x.value, _axis_before(shape, last), new)
    return _on_integers(shape, moved, last, new)


@move_dequantize_after_shape_op.where
@move_quantize_before_shape_op.where
def a_resize_copies_elements(shape: Bound) -> tuple[bool, str]:
    """A resize takes the nearest element, and one of the input."""
    op = shape.op
    if not isinstance(op, ResizeOp):
        return True, "no resize"
    return is_nearest(op), f"{op.mode.data}, {op.coordinate_transformation_mode.data}"


@move_dequantize_after_shape_op.where
def what_a_pad_adds_is_on_the_grid(shape: Bound, source: Bound) -> tuple[bool, str]:
    """A pad adds elements of its input, or a number of their 8-bit grid."""
    pad, grid = shape.op, grid_at(source)
    if not isinstance(pad, PadOp) or pad.mode.data != "constant":
        return True, "elements"
    fill = _fill(pad, source)
    if fill is None or not is_plain(grid):
        return False, str(grid)
    number = np.float32(0 if pad.value is None else pad.value.data.values())
    return grid.number(fill).tobytes() == number.tobytes(), f"{number:.6g} for {grid}"


@move_quantize_before_shape_op.where
def what_a_pad_adds_is_a_number(shape: Bound, last: Bound) -> tuple[bool, str]:
    """A pad adds elements of its input, or a number that the 8-bit grid of the result rounds."""
    pad, grid = shape.op, grid_at(last)
    if not isinstance(pad, PadOp) or pad.mode.data != "constant":
        return True, "elements"
    return is_plain(grid) and _fill(pad, last) is not None, str(grid)


@move_quantize_before_shape_op.where
def no_more_is_quantised(x: Bound, shape: Bound) -> tuple[bool, str]:
    """The result has all elements of the input: others need not be quantised."""
    drops = isinstance(shape.op, SliceOp | GatherOp | ResizeOp | PadOp)
    sizes = math.prod(x.type.shape), math.prod(shape.type.shape)
    return not drops or sizes[0] <= sizes[1], f"{sizes[1]} of {sizes[0]}"


@move_quantize_before_shape_op.where
def the_axis_of_the_result_was_there(shape: Bound, last: Bound) -> tuple[bool, str]:
    """There is one scale, or the op only moves the axis of the scales."""
    return _keeps_axis(shape, last), str(grid_at(last))


@move_quantize_before_shape_op.where
def a_pool_of_the_result_finds_the_same(shape: Bound, last: Bound) -> tuple[bool, str]:
    """A pool is quantised to 8 bits with positive scales."""
    grid = grid_at(last)
    pools = isinstance(shape.op, MaxPoolOp)
    return not pools or (grid is not None and grid.is_8_bit), str(grid)


class MoveQuantizeBeforeConcat(Pattern):
    """Replaces `quantize(concat(x, y))` by `concat(quantize(x), quantize(y))`."""

    roots = (QuantizeOp,)

    def rewrite(self, op: Operation, new: NewOps) -> Sequence[SSAValue] | None:
        assert isinstance(op, QuantizeOp)
        concat = op.input.owner
        if not isinstance(concat, ConcatOp) or not op.input.has_one_use():
            return None
        if not _is_scalar(op):
            return None
        grid, place = op.operands[1:], op.location
        moved = [new.again(op, value, *grid, location=place) for value in concat.inputs]
        return [new.again(concat, *moved, location=concat.location)]


@rewrites(op_pattern("graph.reduce_mean", wildcard("x")) @ "mean")
def spatial_mean_to_global_average_pool(x: Bound, mean: Bound, new: NewOps) -> SSAValue:
    """A mean over all dimensions but the first two is a global average pool."""
    pool = new.add(GlobalAveragePoolOp.make(x.value)).result
    if mean.attrs["keepdims"]:
        return pool
    return new.add(ReshapeOp.make(pool, shape=mean.type.shape)).result


@spatial_mean_to_global_average_pool.where
def the_mean_is_over_all_spatial_dimensions(x: Bound, mean: Bound) -> tuple[bool, object]:
    """The mean is over all dimensions but the first two, of three or more."""
    axes = sorted(mean.attrs["axes"])
    return x.type.rank >= 3 and axes == list(range(2, x.type.rank)), axes


@spatial_mean_to_global_average_pool.where
def the_mean_is_of_f32(x: Bound) -> tuple[bool, object]:
    """The mean is of f32: narrower sums are rounded in other places."""
    return x.type.element == f32, x.type.element


@rewrites(op_pattern("graph.global_max_pool", dequantize(wildcard("x"), "source", anything)))
def global_max_pool_to_max_pool(source: Bound, new: NewOps) -> SSAValue:
    """A global max pool of dequantised bytes is one of a window as large as its input, which then
    runs on the bytes."""
    return new.add(MaxPoolOp.over_all(source.value)).result
