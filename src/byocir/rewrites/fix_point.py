"""fix-point: requantize in integers alone.

Does: `graph.requantize` with `#graph.float_half_even` becomes one with `#graph.fixed`: a multiplier
and a shift in place of two f32 scales (numbers: `byocir.dialects.graph.fixed_point`). A residual
add, `quantize(dequantize(a) + dequantize(b))` with any relu and clip between, or a difference,
becomes two requantize to a common i32 grid, an i32 add and a shift back. An average pool between
dequantize and quantize becomes a sum of integers and such a requantize, a leaky relu a residual add
of the bytes above and below their zero point. With `tables` a softmax between them takes its
exponentials from a table of integers. Weights of nine bits without their zero points, and products
of two computed arrays that have some, become integers, too (`wide_products`).

Zero points stay what they are: that of a result is added to what was rounded, before it saturates;
that of a term, times its multiplier, is taken off where the term goes to the common grid; that of
a pool, times the positions of a window, is taken off the sum, and the pool's pads read it.

Requires: qdq-to-integer has run. A target asks for this pass; it runs before the first hand-off, so
that every placement computes the same numbers. Scales that are no constants and grids that are not
per-tensor and 8-bit keep the float form.

What stays in float is told why, in the module's trail.

Guarantees: this alone of all rewrites changes meaning, each value by at most one step: a
multiplier has up to 23 bits where f32 has 24, half_up sends ties up where ONNX sends them to the
even integer, and the float errors that decide ties of a mean are gone. With half_even, power-of-two
scales and sums below 2^24 nothing changes. The i32 sum of a residual add never overflows. Locations
are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass

from byocir.dialects.graph import (
    AddOp,
    FixedAttr,
    FloatHalfEvenAttr,
    RequantizeOp,
)
from byocir.dialects.graph.fixed_point import (
    INT32_MAX,
    MAX_SHIFT,
    Rounding,
    common_powers_of_two,
    fixed_parameters,
    span_of,
)
from byocir.dialects.types import i32
from byocir.errors import ByocirError, did_you_mean
from byocir.patterns import Bound, Match, op, wildcard
from byocir.rewrites import wide_products
from byocir.rewrites.average_pools import average_pool_to_integer, global_average_pool_to_integer
from byocir.rewrites.driver import NewOps, Pattern, rewrite_module
from byocir.rewrites.grid import (
    Grid,
    constant_array,
    dequantize,
    grid_at,
    integer_range,
    known_grid,
)
from byocir.rewrites.integers import ONE_SCALE, brought_to_grid, one_scale, to_integers
from byocir.rewrites.leaky_relus import leaky_relu_to_sum
from byocir.rewrites.left_in_float import tell_left_in_float
from byocir.rewrites.matching import MatchedRewrite
from byocir.rewrites.softmax_tables import softmax_to_table

_ROUNDINGS: dict[str, Rounding] = {"half_up": "half_up", "half_even": "half_even"}


@dataclass(frozen=True)
class FixPointPass(ModulePass):
    """Makes requantize, residual adds and average pools integer arithmetic; may change a value by
    one step."""

    name = "fix-point"

    rounding: str = "half_up"
    """Where values half-way between two integers go: `half_up` or `half_even`."""
    tables: bool = False
    """Tells whether a target has tables of 256 entries."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rounding = _ROUNDINGS.get(self.rounding)
        if rounding is None:
            raise ByocirError(
                "B291",
                f"expected rounding half_up or half_even, found {self.rounding}",
                where="pass fix-point",
                help=did_you_mean(self.rounding, list(_ROUNDINGS)),
            )
        if self.tables:
            rewrite_module(op, [softmax_to_table])
        pools = [average_pool_to_integer, global_average_pool_to_integer]
        residual_add = residual_add_to_integer(rounding)
        rewrite_module(op, [*pools, leaky_relu_to_sum, *wide_products.REWRITES])
        rewrite_module(op, [FloatScalesToMultiplier(rounding), residual_add])
        tell_left_in_float(op, self.name, [*pools, leaky_relu_to_sum, residual_add])


@dataclass(frozen=True)
class FloatScalesToMultiplier(Pattern):
    """A requantize with f32 scales becomes one with an integer multiplier and a shift."""

    rounding: Rounding
    roots = (RequantizeOp,)

    def rewrite(self, op: Operation, new: NewOps) -> Sequence[SSAValue] | None:
        assert isinstance(op, RequantizeOp)
        if not isinstance(op.rounding, FloatHalfEvenAttr):
            return None
        before, after = (constant_array(scale) for scale in op.scales)
        if before is None or after is None:
            return None
        scales = before.values().astype(np.float64) / after.values()
        if not np.all(np.isfinite(scales) & (scales > 0)):
            return None
        zero = op.zero_point.value.data
        multipliers, shift = fixed_parameters(scales, span_of(integer_range(op.to), zero))
        rounding = FixedAttr.of(shift, self.rounding)
        return [_requantize(op.input, multipliers, rounding, op.to, new, zero)]


@cache
def residual_add_to_integer(rounding: Rounding) -> MatchedRewrite:
    """A quantised sum of two dequantised tensors, or a difference, becomes an i32 sum on a common
    fine grid."""
    one_term, other = dequantize(wildcard("a"), "lhs"), dequantize(wildcard("b"), "rhs")
    either = op("graph.add", one_term, other) | op("graph.sub", one_term, other)

    @to_integers(either @ "total")
    def residual_add(m: Match, a: Bound, b: Bound, quantize: Bound, new: NewOps) -> SSAValue:
        """`quantize(dequantize(a) + dequantize(b))` becomes an i32 sum, and so does a
        difference."""
        parameters, element = _parameters(m), known_grid(quantize).element
        assert parameters is not None
        factors, shift = parameters
        if m["total"].op.name == "graph.sub":
            factors = factors * np.array([1, -1], np.int32)
        to_fine = FixedAttr.of(0, rounding)
        terms: list[SSAValue] = []
        for x, name, factor in zip((a, b), ("lhs", "rhs"), factors, strict=True):
            excess = -int(factor) * int(known_grid(m[name]).zero_point)
            terms.append(_requantize(x.value, factor, to_fine, i32, new, excess))
        total = new.add(AddOp.make(*terms)).result
        back, one = FixedAttr.of(shift, rounding), np.array(1, np.int32)
        zero = int(known_grid(quantize).zero_point)

        def to_grid(wide: SSAValue) -> SSAValue:
            return _requantize(wide, one, back, element, new, zero)

        return brought_to_grid(quantize, total, to_grid, new)

    residual_add.where(fix=ONE_SCALE)(one_scale("lhs", "The first term"))
    residual_add.where(fix=ONE_SCALE)(one_scale("rhs", "The second term"))
    residual_add.where(fix=ONE_SCALE)(one_scale("quantize", "The result"))

    @residual_add.where
    def sum_fits(m: Match) -> tuple[bool, str]:
        """The sum on a fine grid fits in i32."""
        grids = [grid_at(m[name]) for name in ("lhs", "rhs", "quantize")]
        plain = all(g is not None and g.is_8_bit and g.per_tensor for g in grids)
        return not plain or _parameters(m) is not None, "scales too far apart"

    return residual_add


def _parameters(m: Match) -> tuple[np.ndarray, int] | None:
    """The multipliers (int32) of two terms for their sum of `scale / 2^shift` per step, and the
    shift; None when the sum leaves i32 whatever the shift."""
    terms, grid = [known_grid(m[name]) for name in ("lhs", "rhs")], known_grid(m["quantize"])
    scales = np.array([term.scale for term in terms], np.float64) / np.float64(grid.scale)
    return _sum_parameters(scales, [term.farthest for term in terms], grid)


def _sum_parameters(
    scales: np.ndarray, farthest: Sequence[int], grid: Grid
) -> tuple[np.ndarray, int] | None:
    """Multipliers (int32) of the two terms and their shift, as large as the sum and the shift back
    allow: `sum(|multiplier * farthest|) + 2^(shift - 1) < 2^31`, which also bounds a term before
    its zero point is taken off. None when even shift 0 is not."""
    span = span_of(grid.range, int(grid.zero_point))
    for shift in range(MAX_SHIFT, -1, -1):
        multipliers = np.rint(scales * 2.0**shift)
        largest_sum = float(np.dot(multipliers, farthest)) + 2.0**shift / 2
        if largest_sum <= INT32_MAX and (span << shift) < INT32_MAX:
            common = common_powers_of_two(multipliers.astype(np.int32), shift)
            return multipliers.astype(np.int32) >> common, shift - common
    return None


def _requantize(
    value: SSAValue,
    multiplier: np.ndarray,
    rounding: FixedAttr,
    to: Attribute,
    new: NewOps,
    zero: int = 0,
) -> SSAValue:
    scale = new.constant(multiplier)
    op = RequantizeOp.make(value, scale, rounding=rounding, to=to, zero_point=zero)
    return new.add(op).result
