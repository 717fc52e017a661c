"""fix-point: turns requantize into arithmetic on integers alone, or by one float.

Does: `graph.requantize` with `#graph.float_half_even` becomes one with `#graph.fixed`: a multiplier
and a shift in place of two f32 scales (numbers: `byocir.dialects.graph.fixed_point`). With
`rounding=float_scale` it becomes one with the quotient of the two, for devices that scale by an f32
and round half to even; with `float_scale_last` the zero point joins the sums in front of it, for
devices that add nothing behind. A residual add, `quantize(dequantize(a) + dequantize(b))` with any
relu and clip between, or a difference, becomes two requantize to a common i32 grid, an i32 add and
a shift back; with `float_scale` both terms are rounded on the grid of the result, and added there,
with `float_scale_last` one of them on the grid of the other, and their sum is scaled. An average
pool between dequantize and quantize becomes a sum of integers and such a requantize, a product
element by element one of integers, a quotient by a constant above 0 that requantize alone,
a leaky relu or prelu a sum of what is above and below the zero point. With `tables` a softmax
between them takes its exponentials from a table of integers. Weights of nine bits without their
zero points, and products of two computed arrays that have some, become integers, too
(`wide_products`). Biases in float, or on grids of their own, come to the grid of the sums, batch
norms become scales of weights and biases (`float_biases`), and such layers integers. A transposed
convolution becomes convolutions, one for each phase of its strides.

With `sums`, layers whose result is a float that nothing quantises become dequantised sums of
integers (`sums_as_floats`).

Zero points stay what they are: that of a result is added to what was rounded, before it saturates,
or, divided by the scale, to sums; that of a term, times its multiplier, is taken off where the term
goes to the common grid; that of a pool, times the positions of a window, is taken off the sum, and
the pool's pads read it.

Requires: qdq-to-integer has run. A target asks for this pass; it runs before the first hand-off, so
that every placement computes the same numbers. Scales that are no constants and grids that are not
per-tensor and 8-bit keep the float form.

What stays in float is told why, in the module's trail.

Guarantees: this alone of all rewrites changes meaning, each value by at most one step: a
multiplier has up to 23 bits where f32 has 24, half_up sends ties up where ONNX sends them to the
even integer, a bias is rounded to a step of its sums, one scale is rounded where two were, terms
and zero points are rounded where floats follow, and the float errors that decide ties of a mean are
gone. With half_even, power-of-two scales, biases on the grid of their sums and sums below 2^24
nothing changes. The i32 sum of a residual add never overflows. Locations are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from byocir.dialects.array import constant_array
from byocir.dialects.graph import FixedAttr, FloatHalfEvenAttr, RequantizeOp
from byocir.dialects.graph.fixed_point import (
    FLOAT_SCALES,
    SCALE_LAST,
    FloatScale,
    Rounding,
    fixed_parameters,
    span_of,
)
from byocir.errors import ByocirError, did_you_mean
from byocir.rewrites import qdq_to_integer, sums_as_floats, wide_products
from byocir.rewrites.average_pools import average_pool_to_integer, global_average_pool_to_integer
from byocir.rewrites.driver import NewOps, Pattern, rewrite_module
from byocir.rewrites.early_half import with_early_half
from byocir.rewrites.early_zero import with_early_zero
from byocir.rewrites.float_biases import TO_GRID
from byocir.rewrites.grid import integer_range
from byocir.rewrites.integers import scaled
from byocir.rewrites.leaky_relus import leaky_relu_to_sum
from byocir.rewrites.left_in_float import forget_what_became_integers, tell_left_in_float
from byocir.rewrites.products_of_elements import product_of_elements, quotient_by_constant
from byocir.rewrites.residual_sums import in_fixed_point, residual_add_to_integer
from byocir.rewrites.softmax_tables import softmax_to_table
from byocir.rewrites.sum_bounds import reach_of
from byocir.rewrites.transposed_convs import transposed_conv_to_convs

T = TypeVar("T")

TO_INTEGERS = (
    average_pool_to_integer,
    global_average_pool_to_integer,
    leaky_relu_to_sum,
    product_of_elements,
    quotient_by_constant,
    transposed_conv_to_convs,
)
"""Ops that give integers whose requantize is in float first, as that of contractions."""

_ROUNDINGS: dict[str, Rounding | FloatScale] = {
    "floor": "floor",
    "half_up": "half_up",
    "half_even": "half_even",
    **{way: way for way in FLOAT_SCALES},
}


def check_rounding(rounding: str, where: str) -> None:
    """Raises ByocirError B291, at the place that asks for it, for one that there is not."""
    if rounding not in _ROUNDINGS:
        told = f"expected rounding {', '.join(_ROUNDINGS)}, found {rounding}"
        help = did_you_mean(rounding, list(_ROUNDINGS))
        raise ByocirError("B291", told, where=where, help=help)


@dataclass(frozen=True)
class FixPointPass(ModulePass):
    """Turns requantize, sums and products of two arrays, average pools and transposed convolutions
    into integer arithmetic; may change a value by one step.
    """

    name = "fix-point"

    rounding: str = "half_up"
    """Rounds values half-way between two integers: `half_up` or `half_even`; `floor` adds the half
    to sums of products before it multiplies them; `float_scale` for an f32 scale, and half to
    even; `float_scale_last` adds zero points to sums before that."""
    tables: bool = False
    """Tells whether a target has tables of 256 entries."""
    sums: bool = False
    """Tells whether a machine stores sums of 32 bits."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        check_rounding(self.rounding, "pass fix-point")
        rounding = _ROUNDINGS[self.rounding]
        if self.tables:
            rewrite_module(op, [softmax_to_table])
        if rewrite_module(op, TO_GRID):
            rewrite_module(op, qdq_to_integer.REWRITES)
        rewrite_module(op, [*TO_INTEGERS, *wide_products.REWRITES])
        residual_add = residual_add_to_integer(rounding)
        rewrite_module(op, [FloatScalesToOne(rounding), residual_add])
        tell_left_in_float(op, self.name, [*TO_INTEGERS, residual_add])
        if self.sums:
            rewrite_module(op, sums_as_floats.REWRITES)
        forget_what_became_integers(op)


def _behind(rounding: T) -> T | Rounding:
    """Gives the rounding to use where no half is added before the multiplier."""
    return "half_up" if rounding == "floor" else rounding


@dataclass(frozen=True)
class FloatScalesToOne(Pattern):
    """Turns a requantize with two f32 scales into one with an integer multiplier and a shift, or
    with one f32 scale.
    """

    rounding: Rounding | FloatScale
    roots = (RequantizeOp,)

    def rewrite(self, op: Operation, new: NewOps) -> Sequence[SSAValue] | None:
        assert isinstance(op, RequantizeOp)
        if not isinstance(op.rounding, FloatHalfEvenAttr) or len(op.scales) == 1:
            return None
        before, after = (constant_array(scale) for scale in op.scales)
        if before is None or after is None:
            return None
        scales = before.values().astype(np.float64) / after.values()
        if not np.all(np.isfinite(scales) & (scales > 0)):
            return None
        zero = op.zero_point.value.data
        if self.rounding in FLOAT_SCALES:
            is_early = zero and self.rounding == SCALE_LAST
            early = with_early_zero(op, scales, new) if is_early else None
            return [early or scaled(op.input, scales, op.to, new, zero)]
        span = span_of(integer_range(op.to), zero)
        reach = reach_of(op.input)
        multipliers, shift = fixed_parameters(scales, span, reach)
        if self.rounding == "floor":
            early = with_early_half(op, multipliers, shift, reach, new)
            if early is not None:
                return [early]
        rounding = FixedAttr.of(shift, _behind(self.rounding))
        return [in_fixed_point(op.input, multipliers, rounding, op.to, new, zero)]
