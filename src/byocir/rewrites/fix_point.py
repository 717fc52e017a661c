"""fix-point: requantize in integers alone.

Does: `graph.requantize` with `#graph.float_half_even` becomes one with `#graph.fixed`: a multiplier
and a shift in place of two f32 scales (numbers: `byocir.dialects.graph.fixed_point`). A residual
add, `quantize(dequantize(a) + dequantize(b))` with any relu and clip between, becomes two
requantize to a common i32 grid, an i32 add and a shift back. An average pool between dequantize and
quantize becomes a sum of integers and such a requantize.

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

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
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
from byocir.rewrites.average_pools import AveragePoolToInteger
from byocir.rewrites.driver import NewOps, Pattern, rewrite_module
from byocir.rewrites.grid import Grid, constant_array, integer_range, symmetric_bytes
from byocir.rewrites.integers import QuantizedChain, ToGrid

_ROUNDINGS: dict[str, Rounding] = {"half_up": "half_up", "half_even": "half_even"}


@dataclass(frozen=True)
class FixPointPass(ModulePass):
    """Makes requantize, residual adds and average pools integer arithmetic; may change a value by
    one step."""

    name = "fix-point"

    rounding: str = "half_up"
    """Where values half-way between two integers go: `half_up` or `half_even`."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rounding = _ROUNDINGS.get(self.rounding)
        if rounding is None:
            raise ByocirError(
                "B291",
                f"expected rounding half_up or half_even, found {self.rounding}",
                where="pass fix-point",
                help=did_you_mean(self.rounding, list(_ROUNDINGS)),
            )
        rewrite_module(op, [AveragePoolToInteger()])
        rewrite_module(op, [FloatScalesToMultiplier(rounding), ResidualAddToInteger(rounding)])


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
        multipliers, shift = fixed_parameters(scales, integer_range(op.to)[1] + 1)
        rounding = FixedAttr.of(shift, self.rounding)
        return [_requantize(op.input, multipliers, rounding, op.to, new)]


@dataclass(frozen=True)
class ResidualAddToInteger(QuantizedChain):
    """A quantised sum of two dequantised tensors becomes an i32 sum on a common fine grid."""

    rounding: Rounding

    def wide(self, value: SSAValue, grid: Grid, new: NewOps) -> tuple[SSAValue, ToGrid] | None:
        added = _sum_on_fine_grid(value.owner, grid, self.rounding, new)
        if added is None:
            return None
        total, shift = added
        back, one = FixedAttr.of(shift, self.rounding), np.array(1, np.int32)
        return total, lambda wide: _requantize(wide, one, back, grid.element, new)


def _sum_on_fine_grid(
    op: Operation | Block, grid: Grid, rounding: Rounding, new: NewOps
) -> tuple[SSAValue, int] | None:
    """The i32 sum that stands for `grid.scale / 2^shift` per step, and the shift; None when `op` is
    not a sum of two symmetric 8-bit tensors or the sum leaves i32 whatever the shift."""
    if not isinstance(op, AddOp):
        return None
    terms = [symmetric_bytes(value) for value in (op.lhs, op.rhs)]
    found = [term for term in terms if term is not None and term[1].per_tensor]
    if len(found) < 2:
        return None
    scales = np.array([term[1].scale for term in found], np.float64) / np.float64(grid.scale)
    farthest = [max(abs(end) for end in term[1].range) for term in found]
    parameters = _sum_parameters(scales, farthest, grid)
    if parameters is None:
        return None
    multipliers, shift = parameters
    to_fine = FixedAttr.of(0, rounding)
    lhs, rhs = (
        _requantize(value, np.asarray(multiplier), to_fine, i32, new)
        for (value, _), multiplier in zip(found, multipliers, strict=True)
    )
    return new.add(AddOp.make(lhs, rhs)).result, shift


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
