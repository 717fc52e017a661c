"""fix-point: requantize in integers alone.

Does: `graph.requantize` with `#graph.float_half_even` becomes one with `#graph.fixed`: a multiplier
and a shift in place of two f32 scales (numbers: `byocir.dialects.graph.fixed_point`). A residual
add, `quantize(dequantize(a) + dequantize(b))` with any relu and clip between, becomes two
requantize to a common i32 grid, an i32 add and a shift back. An average pool between dequantize and
quantize becomes a sum of integers and such a requantize. With `tables` a softmax between them
takes its exponentials from a table of integers.

Requires: qdq-to-integer has run. A target asks for this pass; it runs before the first hand-off, so
that every placement computes the same numbers. Scales that are no constants and grids that are not
symmetric, per-tensor and 8-bit keep the float form.

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
)
from byocir.dialects.types import i32
from byocir.errors import ByocirError, did_you_mean
from byocir.patterns import Bound, Match, op, wildcard
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
from byocir.rewrites.integers import brought_to_grid, symmetric, to_integers
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
    """Whether a target has tables of 256 entries."""

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
        rewrite_module(op, [average_pool_to_integer, global_average_pool_to_integer])
        rewrite_module(op, [FloatScalesToMultiplier(rounding), residual_add_to_integer(rounding)])


@dataclass(frozen=True)
class FloatScalesToMultiplier(Pattern):
    """A requantize with f32 scales becomes one with an integer multiplier and a shift."""

    rounding: Rounding
    roots = (RequantizeOp,)

    def rewrite(self, op: Operation, new: NewOps) -> Sequence[SSAValue] | None:
        assert isinstance(op, RequantizeOp)
        if not isinstance(op.rounding, FloatHalfEvenAttr) or op.zero_point.value.data != 0:
            return None
        before, after = (constant_array(scale) for scale in op.scales)
        if before is None or after is None:
            return None
        scales = before.values().astype(np.float64) / after.values()
        if not np.all(np.isfinite(scales) & (scales > 0)):
            return None
        multipliers, shift = fixed_parameters(scales, integer_range(op.to)[1] + 1)
        rounding = FixedAttr.of(shift, self.rounding)
        return [_requantize(op.input, multipliers, rounding, op.to, new)]


@cache
def residual_add_to_integer(rounding: Rounding) -> MatchedRewrite:
    """A quantised sum of two dequantised tensors becomes an i32 sum on a common fine grid."""
    one_term, other = dequantize(wildcard("a"), "lhs"), dequantize(wildcard("b"), "rhs")

    @to_integers(op("graph.add", one_term, other))
    def residual_add(m: Match, a: Bound, b: Bound, quantize: Bound, new: NewOps) -> SSAValue:
        """`quantize(dequantize(a) + dequantize(b))` becomes an i32 sum."""
        parameters, element = _parameters(m), known_grid(quantize).element
        assert parameters is not None
        (lhs, rhs), shift = parameters
        to_fine = FixedAttr.of(0, rounding)
        terms = [_requantize(x.value, f, to_fine, i32, new) for x, f in ((a, lhs), (b, rhs))]
        total = new.add(AddOp.make(*terms)).result
        back, one = FixedAttr.of(shift, rounding), np.array(1, np.int32)

        def to_grid(wide: SSAValue) -> SSAValue:
            return _requantize(wide, one, back, element, new)

        return brought_to_grid(quantize, total, to_grid, new)

    residual_add.where(symmetric("lhs", "The first term"))
    residual_add.where(symmetric("rhs", "The second term"))
    residual_add.where(symmetric("quantize", "The result"))

    @residual_add.where
    def sum_fits(m: Match) -> tuple[bool, str]:
        """The sum on a fine grid fits in i32."""
        grids = [grid_at(m[name]) for name in ("lhs", "rhs", "quantize")]
        plain = all(grid is not None and grid.is_plain for grid in grids)
        return not plain or _parameters(m) is not None, "scales too far apart"

    return residual_add


def _parameters(m: Match) -> tuple[np.ndarray, int] | None:
    """The multipliers (int32) of two terms for their sum of `scale / 2^shift` per step, and the
    shift; None when the sum leaves i32 whatever the shift."""
    terms, grid = [known_grid(m[name]) for name in ("lhs", "rhs")], known_grid(m["quantize"])
    scales = np.array([term.scale for term in terms], np.float64) / np.float64(grid.scale)
    farthest = [max(abs(end) for end in term.range) for term in terms]
    return _sum_parameters(scales, farthest, grid)


def _sum_parameters(
    scales: np.ndarray, farthest: Sequence[int], grid: Grid
) -> tuple[np.ndarray, int] | None:
    """Multipliers (int32) of the two terms and their shift, as large as the sum and the shift back
    allow: `sum(|multiplier * farthest|) + 2^(shift - 1) < 2^31`. None when even shift 0 is not."""
    span = grid.range[1] + 1
    for shift in range(MAX_SHIFT, -1, -1):
        multipliers = np.rint(scales * 2.0**shift)
        largest_sum = float(np.dot(multipliers, farthest)) + 2.0**shift / 2
        if largest_sum <= INT32_MAX and (span << shift) < INT32_MAX:
            common = common_powers_of_two(multipliers.astype(np.int32), shift)
            return multipliers.astype(np.int32) >> common, shift - common
    return None


def _requantize(
    value: SSAValue, multiplier: np.ndarray, rounding: FixedAttr, to: Attribute, new: NewOps
) -> SSAValue:
    scale = new.constant(multiplier)
    return new.add(RequantizeOp.make(value, scale, rounding=rounding, to=to)).result
