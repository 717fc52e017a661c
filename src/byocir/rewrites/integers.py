"""Rewrites floats between dequantize and quantize to integers, for all passes that do so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from xdsl.ir import SSAValue

from byocir.dialects.graph import ClipOp, FloatHalfEvenAttr, QuantizeOp, ReluOp, RequantizeOp
from byocir.dialects.types import element_type_of
from byocir.patterns import Bound, Match, Pattern, path
from byocir.rewrites.activation import (
    clip_after,
    clipped,
    only_quantized,
    quantized_bounds,
    relu_before,
    through_activations,
)
from byocir.rewrites.driver import NewOps
from byocir.rewrites.grid import Grid, grid_at, is_plain, known_grid, quantize, shown
from byocir.rewrites.matching import MatchedRewrite, Replace, rewrites

ONE = np.ones((), np.float32)

ONE_SCALE = (
    "quantise activations to 8 bits (QInt8 or QUInt8) with one scale for the whole tensor that is "
    "known when the model is compiled"
)
"""Tells a user what to do where a tensor has other scales."""

CLOSER_SCALES = "calibrate again: the scales of input and result are too far apart"
FEWER_PRODUCTS = "split the sum: fewer input channels, or a smaller kernel"


@dataclass(frozen=True)
class Integers:
    """Describes integers that stand for `value * scale / count`.

    `scale` and `count` (both f32) broadcast to the value. They are kept apart because dividing by
    the count of a pool is exact only after multiplying by the scale, as ONNX does.
    """

    value: SSAValue
    scale: np.ndarray
    count: np.ndarray


ToGrid = Callable[[SSAValue], SSAValue]


def to_integers(start: Pattern) -> Callable[[Replace], MatchedRewrite]:
    """Decorates a function that rewrites `quantize(clip(start))`, with any number of relu and clip
    ops between, where the result is on an 8-bit grid of one scale. The quantize op is bound to
    "quantize"."""

    def build(replace: Replace) -> MatchedRewrite:
        made = rewrites(quantize(path(start, "graph.relu", "graph.clip"), "quantize"))(replace)
        made.where(fix=ONE_SCALE)(one_scale("quantize", "The result"))
        made.where(fix="give the clip bounds that are numbers")(_bounds_are_numbers)
        made.where(fix="quantise what else reads them, too")(_floats_are_not_used)
        return made

    return build


def _bounds_are_numbers(quantize: Bound) -> tuple[bool, object]:
    """No bound of a clip is NaN."""
    grid, (activations, _) = grid_at(quantize), _before(quantize)
    if grid is None or not grid.per_tensor:
        return True, "no bounds"
    return quantized_bounds(activations, grid) is not None, "NaN"


def _floats_are_not_used(quantize: Bound) -> tuple[bool, object]:
    """Nothing but quantize ops uses the floats in between."""
    activations, start = _before(quantize)
    users = [use.operation.name for use in start.uses]
    users += [use.operation.name for op in activations for use in op.result.uses]
    return only_quantized(start, activations), ", ".join(dict.fromkeys(users))


def _before(quantize: Bound) -> tuple[list[ReluOp | ClipOp], SSAValue]:
    assert isinstance(quantize.op, QuantizeOp)
    return through_activations(quantize.op.input)


def one_scale(name: str, called: str) -> Replace:
    """Gives a rule: the grid of the quantize or dequantize op of this name has 8 bits and one
    scale.
    """

    def has_one_scale(m: Match) -> tuple[bool, object]:
        grid = grid_at(m[name])
        return is_plain(grid), shown(grid)

    has_one_scale.__doc__ = f"{called} has 8 bits and one scale"
    return has_one_scale


def brought_to_grid(
    quantize: Bound, wide: SSAValue, to_grid: ToGrid, new: NewOps, *, zero_moved: bool = False
) -> SSAValue:
    """Makes the 8-bit integers of a chain that starts from the integers `wide`, which `to_grid`
    brings to the grid at its end. A relu comes first, unless zero in `wide` no longer stands for 0
    (`zero_moved`).
    """
    grid, (activations, _) = known_grid(quantize), _before(quantize)
    bounds = quantized_bounds(activations, grid)
    assert bounds is not None
    if zero_moved:
        return clipped(to_grid(wide), bounds, new)
    return clip_after(to_grid(relu_before(wide, bounds, grid, new)), bounds, grid, new)


def requantized(quantize: Bound, integers: Integers, new: NewOps) -> SSAValue:
    """Makes the 8-bit integers of a chain that starts from these integers."""

    def back(wide: SSAValue) -> SSAValue:
        return _requantize(replace(integers, value=wide), known_grid(quantize), new)

    return brought_to_grid(quantize, integers.value, back, new)


def _requantize(integers: Integers, grid: Grid, new: NewOps) -> SSAValue:
    if _is_on(integers, grid):
        return integers.value
    scales = (integers.scale, (grid.scale * integers.count).astype(np.float32))
    rounding = FloatHalfEvenAttr()
    operands = [new.constant(scale) for scale in scales]
    zero = int(grid.zero_point)
    op = RequantizeOp.make(
        integers.value, *operands, rounding=rounding, to=grid.element, zero_point=zero
    )
    return new.add(op).result


def _is_on(integers: Integers, grid: Grid) -> bool:
    """Tells if the integers are on this grid already."""
    return (
        element_type_of(integers.value.type) == grid.element
        and grid.symmetric
        and np.array_equal(integers.scale, grid.scale)
        and bool(np.all(integers.count == 1))
    )
