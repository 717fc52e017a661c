"""Rewrites floats between dequantize and quantize to integers, for all passes that do so.

Relu and clip in between become bounds on the integers. Quantising is monotone, so
`quantize(clip(x, a, b)) = clip(quantize(x), quantize(a), quantize(b))` bit for bit, for every x but
NaN; relu is the clip at 0.

Zero points of contractions: with the weights w known, `sum (x - z) * w` is `sum x * w - z * sum w`.
What is taken off is a number for each output, which joins the bias. A convolution reads z where it
is padded, for that is what stands for 0 there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from xdsl.ir import Attribute, SSAValue

from byocir.dialects.array import ArrayAttr, known_values
from byocir.dialects.graph import (
    ClipOp,
    ConvOp,
    ConvTransposeOp,
    FixedAttr,
    FloatHalfEvenAttr,
    PadOp,
    QuantizeOp,
    ReluOp,
    RequantizeOp,
)
from byocir.dialects.graph.base import int_tuple
from byocir.dialects.intervals import integer_range
from byocir.dialects.types import dtype_of, element_type_of, i32, ui8
from byocir.patterns import Bound, Match, Pattern, path
from byocir.rewrites.driver import NewOps
from byocir.rewrites.grid import Grid, grid_at, is_plain, known_grid, quantize, shown
from byocir.rewrites.matching import MatchedRewrite, Replace, rewrites


def output_axis(m: Match) -> int | None:
    """Gives the axis of a weight that counts outputs; None for a vector, which has one output."""
    if "conv" in m:
        return 1 if isinstance(m["conv"].op, ConvTransposeOp) else 0
    rank = m["w"].type.rank
    return rank - 1 if rank > 1 else None


def summed_axes(m: Match) -> tuple[int, ...]:
    """Gives the axes of a weight over which a contraction sums."""
    rank = m["w"].type.rank
    if "conv" not in m:
        return (max(rank - 2, 0),)
    return tuple(axis for axis in range(rank) if axis != output_axis(m))


def shifted_weight(m: Match) -> np.ndarray | None:
    """Computes a weight less its zero points: in its own type, else as int8, else as int16, where
    some need nine bits. None where it is no constant or its values were not supplied.
    """
    grid, values = grid_at(m["weight"]), known_values(m["w"].value)
    if grid is None or values is None:
        return None
    if grid.symmetric:
        return values
    shifted = grid.less_zero(values.astype(np.int32))
    least, greatest = shifted.min(initial=0), shifted.max(initial=0)
    fits = np.iinfo(np.int8).min <= least and greatest <= np.iinfo(np.int8).max
    return shifted.astype(np.int8 if fits else np.int16)


def integer_weight(m: Match, new: NewOps) -> SSAValue:
    """Gives the weight without its zero points, as a constant where they are not 0."""
    if known_grid(m["weight"]).symmetric:
        return m["w"].value
    shifted = shifted_weight(m)
    assert shifted is not None
    return new.constant(shifted)


def folded_bias(m: Match, new: NewOps) -> SSAValue | None:
    """Makes the bias without what the input's zero point brings into the sums; None for zeros."""
    zero, has_bias = int(known_grid(m["data"]).zero_point), "b" in m
    if zero == 0:
        return m["b"].value if has_bias else None
    weight = shifted_weight(m)
    assert weight is not None
    rows = "conv" not in m and m["x"].type.rank > 1 and weight.ndim > 2
    excess = zero * weight.astype(np.int64).sum(axis=summed_axes(m), keepdims=rows)
    own = m["b"].numbers.astype(np.int64) if has_bias else 0
    return new.constant((own - excess).astype(np.int32))


def padded(m: Match, new: NewOps) -> tuple[SSAValue, dict[str, Any]]:
    """Surrounds the input of a convolution by its zero point where it is padded; gives it, and the
    properties with which the convolution then slides.
    """
    zero, x, conv = known_grid(m["data"]).zero_point, m["x"], m["conv"].op
    assert isinstance(conv, ConvOp)
    pads, window = int_tuple(conv.pads), dict[str, Any](conv.properties)
    if not zero.any() or not any(pads):
        return x.value, window
    return surrounded(x.value, pads, zero, new), {**window, "pads": [0] * len(pads)}


def surrounded(x: SSAValue, pads: Sequence[int], number: np.ndarray, new: NewOps) -> SSAValue:
    """Surrounds the spatial dimensions of an array [N, C, …] by a number."""
    spatial = len(pads) // 2
    around = [0, 0, *pads[:spatial], 0, 0, *pads[spatial:]]
    fill = ArrayAttr.of(number.astype(dtype_of(element_type_of(x.type))))
    return new.add(PadOp.make(x, pads=around, mode="constant", value=fill)).result


def without_zero_point(value: SSAValue, zero: int, new: NewOps) -> SSAValue:
    """Takes the zero point off 8-bit integers, which become i32."""
    one, exact = new.constant(np.array(1, np.int32)), FixedAttr.of(0)
    op = RequantizeOp.make(value, one, rounding=exact, to=i32, zero_point=-zero)
    return new.add(op).result


Bounds = tuple[int, int]


def through_activations(value: SSAValue) -> tuple[list[ReluOp | ClipOp], SSAValue]:
    """Walks back through relu and clip ops: gives those that end in `value`, first to last, and the
    value that they start from.
    """
    ops: list[ReluOp | ClipOp] = []
    while isinstance(value.owner, ReluOp | ClipOp):
        ops.append(value.owner)
        value = value.owner.input
    return ops[::-1], value


def only_quantized(value: SSAValue, ops: list[ReluOp | ClipOp]) -> bool:
    """Tells if `value` is used by nothing but these activations and quantize ops at their end."""
    chain = [value, *(op.result for op in ops)]
    return all(v.has_one_use() for v in chain[:-1]) and all(
        isinstance(use.operation, QuantizeOp) for use in chain[-1].uses
    )


def quantized_bounds(ops: list[ReluOp | ClipOp], grid: Grid) -> Bounds | None:
    """Computes the bounds that these activations set on integers of a per-tensor grid; None if one
    is NaN.
    """
    lo, hi = grid.range
    for op in ops:
        low, high = _float_bounds(op)
        if np.isnan(low) or np.isnan(high):
            return None
        least, most = grid.quantize(low), grid.quantize(high)
        lo, hi = min(max(lo, least), most), min(max(hi, least), most)
    return lo, hi


def _float_bounds(op: ReluOp | ClipOp) -> tuple[float, float]:
    if isinstance(op, ReluOp):
        return 0.0, np.inf
    low = -np.inf if op.min is None else op.min.data.values().item()
    return low, np.inf if op.max is None else op.max.data.values().item()


def is_relu(bounds: Bounds, grid: Grid) -> bool:
    """Tells if bounds on integers of a per-tensor grid are those of a relu, and do bound
    something.
    """
    return bounds == (int(grid.zero_point), grid.range[1]) and bounds != grid.range


def relu_before(value: SSAValue, bounds: Bounds, grid: Grid, new: NewOps) -> SSAValue:
    """Adds a relu to `value`, which is still to be brought to a per-tensor grid, if bounds are
    those of a relu.
    """
    if not is_relu(bounds, grid) or element_type_of(value.type) == ui8:
        return value
    return new.add(ReluOp.make(value)).result


def clip_after(value: SSAValue, bounds: Bounds, grid: Grid, new: NewOps) -> SSAValue:
    """Clips `value`, which is on the grid, to the bounds, unless `relu_before` has set them."""
    return value if is_relu(bounds, grid) else clipped(value, bounds, new)


def clipped(value: SSAValue, bounds: Bounds, new: NewOps) -> SSAValue:
    """Clips integers to the bounds that their type does not set already."""
    element = element_type_of(value.type)
    properties: dict[str, Any] = {
        name: ArrayAttr.of(np.array(bound, dtype_of(element)))
        for name, bound, end in zip(("min", "max"), bounds, integer_range(element), strict=True)
        if bound != end
    }
    return new.add(ClipOp.make(value, **properties)).result if properties else value


ONE = np.ones((), np.float32)

ONE_SCALE = (
    "quantise activations to 8 bits (QInt8 or QUInt8) with one scale for the whole tensor that is "
    "known when the model is compiled"
)
"""Tells a user what to do where a tensor has other scales."""

CLOSER_SCALES = "calibrate again: the scales of input and result are too far apart"
FEWER_PRODUCTS = (
    "split the sum (fewer input channels, or a smaller kernel), or give weights whose bias comes "
    "near the ends of i32 a coarser scale"
)


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


def scaled(
    value: SSAValue, scale: np.ndarray | np.float64, to: Attribute, new: NewOps, zero: int = 0
) -> SSAValue:
    """Multiplies integers by an f32, rounding half to even, and adds a zero point."""
    factor, rounding = new.constant(np.asarray(scale, np.float32)), FloatHalfEvenAttr()
    made = RequantizeOp.make(value, factor, rounding=rounding, to=to, zero_point=zero)
    return new.add(made).result


def _is_on(integers: Integers, grid: Grid) -> bool:
    """Tells if the integers are on this grid already."""
    return (
        element_type_of(integers.value.type) == grid.element
        and grid.symmetric
        and np.array_equal(integers.scale, grid.scale)
        and bool(np.all(integers.count == 1))
    )
