"""Quantisation: quantize, dequantize and requantize, each one element-wise block."""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from byocir.dialects.graph import (
    DequantizeOp,
    FixedAttr,
    QuantizeOp,
    RequantizeOp,
)
from byocir.dialects.graph.quant import HALF_UP
from byocir.dialects.intervals import integer_range
from byocir.dialects.tir.bodies import saturate, scale_round, scale_round_even
from byocir.dialects.tir.emit import Emitter
from byocir.dialects.tir.scalar import Emitted
from byocir.dialects.types import element_type_of, f32, i32, i64, shape_of
from byocir.lowering.graph_to_tir.operands import accumulator_of, axis_read, known_values
from byocir.lowering.graph_to_tir.registry import lowers

_FAR = 2**17
"""Beyond this a quantised value is saturated, whatever its zero point of 16 bits."""


def _is_zero(value: SSAValue) -> bool:
    """Tells if this is known to be a constant of zeros."""
    values = known_values(value)
    return values is not None and not np.any(values)


@lowers(QuantizeOp)
def _quantize(emit: Emitter, op: QuantizeOp) -> SSAValue:
    """Rounded values are clamped before they become integers, for floats may be far outside."""
    shape, element = shape_of(op.result.type), element_type_of(op.result.type)
    wide, axis = accumulator_of(element_type_of(op.input.type)), op.axis.value.data
    low, high = integer_range(element)
    reads = [op.input, axis_read(op.scale, axis)]
    if _is_zero(op.zero_point):
        return emit.elementwise(
            shape,
            element,
            reads,
            lambda x, s: saturate((x / s).roundeven().to(wide), low, high, to=element),
        )

    def body(x: Emitted, scale: Emitted, zero: Emitted) -> Emitted:
        steps = (x / scale).roundeven().to(wide).clamp(-_FAR, _FAR).to(i32)
        return saturate(steps + zero.to(i32), low, high, to=element)

    return emit.elementwise(shape, element, [*reads, axis_read(op.zero_point, axis)], body)


@lowers(DequantizeOp)
def _dequantize(emit: Emitter, op: DequantizeOp) -> SSAValue:
    shape, element = shape_of(op.result.type), element_type_of(op.result.type)
    wide, axis = accumulator_of(element), op.axis.value.data
    scale = axis_read(op.scale, axis)
    if _is_zero(op.zero_point):
        return emit.elementwise(
            shape, element, [op.input, scale], lambda x, s: (x.to(wide) * s.to(wide)).to(element)
        )

    def body(x: Emitted, scale: Emitted, zero: Emitted) -> Emitted:
        return ((x.to(wide) - zero.to(wide)) * scale.to(wide)).to(element)

    reads = [op.input, scale, axis_read(op.zero_point, axis)]
    return emit.elementwise(shape, element, reads, body)


@lowers(RequantizeOp)
def _requantize(emit: Emitter, op: RequantizeOp) -> SSAValue:
    shape, element = shape_of(op.result.type), element_type_of(op.result.type)
    low, high = integer_range(element)
    rounding, zero = op.rounding, op.zero_point.value.data

    def in_float(x: Emitted, scale: Emitted, *after: Emitted) -> Emitted:
        scaled = x.to(f32) * scale
        steps = (scaled / after[0] if after else scaled).roundeven()
        if zero == 0:
            return saturate(steps, low, high, to=element)
        inside = steps.clamp(low - zero, high - zero).to(i32)
        return (inside.max(low - zero) + zero).to(element)  # what is no number is the least

    def in_integers(x: Emitted, multiplier: Emitted) -> Emitted:
        assert isinstance(rounding, FixedAttr)
        return saturate(_rescale(x, multiplier, rounding, zero), low, high, to=element)

    if _only_moves(op):
        return emit.elementwise(
            shape, element, [op.input], lambda x: (x.to(i32) + zero).to(element)
        )
    body = in_integers if isinstance(rounding, FixedAttr) else in_float
    return emit.elementwise(shape, element, [op.input, *op.scales], body)


def _only_moves(op: RequantizeOp) -> bool:
    """Tells if a requantize adds its zero point to bytes and nothing else, and saturates none."""
    fixed, source = op.rounding, element_type_of(op.input.type)
    if not isinstance(fixed, FixedAttr) or fixed.shift.data or source == i32:
        return False
    factor, zero, (low, high) = (
        known_values(op.scales[0]),
        op.zero_point.value.data,
        integer_range(op.to),
    )
    inside = all(low <= end + zero <= high for end in integer_range(source))
    return zero != 0 and inside and factor is not None and bool(np.all(factor == 1))


_ROOM = 2**61
"""Bounds what joins the rounding constant: products have up to 62 bits, half of 2^62 joins, too."""


def _rescale(x: Emitted, multiplier: Emitted, rounding: FixedAttr, zero: int) -> Emitted:
    """`x * multiplier / 2^shift + zero` in i64, rounded; shift 0 needs no rounding. A zero point
    joins the constant that rounds half up; with ties to even an odd one would turn them around."""
    shift = rounding.shift.data
    if shift == 0:
        return _plus(x.to(i64) * multiplier.to(i64), zero)
    half = 1 << (shift - 1)
    if rounding.ties.data != HALF_UP:
        return _plus(scale_round_even(x, multiplier, half - 1, shift), zero)
    if abs(zero) << shift > _ROOM:
        return _plus(scale_round(x, multiplier, half, shift), zero)
    return scale_round(x, multiplier, half + (zero << shift), shift)


def _plus(value: Emitted, zero: int) -> Emitted:
    return value + zero if zero else value
