"""Turns residual adds and differences into integer ops: a part of fix-point.

Both terms are brought to one grid that is so fine that none of them is rounded, added there, and
rounded once. Where two bytes are close enough to the ratio of the scales, the terms are multiplied
by these, and their sum by a number: units for products of bytes then add them. Where devices scale
by floats what they add (`float_scale`), each is rounded on the grid of the result: two halves of a
step are at most one. Where they scale the sum by a float, too (`float_scale_last`), it is on the
coarser grid of the two terms, with one number that their zero points and that of the result bring.
With either, constants of few elements stay in float, as the 3 of a hard swish does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from math import prod

import numpy as np
from xdsl.ir import Attribute, SSAValue

from byocir.dialects.array import constant_array
from byocir.dialects.graph import AddOp, CastOp, FixedAttr, RequantizeOp, SubOp
from byocir.dialects.graph.fixed_point import (
    FLOAT_SCALE,
    FLOAT_SCALES,
    INT32_MAX,
    MAX_SHIFT,
    SCALE_LAST,
    SHORT_ENOUGH,
    FloatScale,
    Rounding,
    common_powers_of_two,
    span_of,
)
from byocir.dialects.types import i8, i32
from byocir.patterns import Bound, Match, op, wildcard
from byocir.rewrites.driver import NewOps
from byocir.rewrites.early_half import early_half
from byocir.rewrites.grid import Grid, dequantize, grid_at, is_plain, known_grid
from byocir.rewrites.integers import (
    CLOSER_SCALES,
    ONE_SCALE,
    brought_to_grid,
    one_scale,
    scaled,
    to_integers,
)
from byocir.rewrites.matching import MatchedRewrite

LARGEST_BYTE = 127
ALMOST_ONE = 1 - 2.0**-10
"""The steps by which a sum may be off before it is rounded, so that it is one step off behind."""
LARGEST_ADDED = 2.0**24
"""The largest number that is added to a sum of bytes, which f32 then still holds."""


@cache
def residual_add_to_integer(rounding: Rounding | FloatScale) -> MatchedRewrite:
    """Makes the rewrite that turns a quantised sum, or difference, of two dequantised tensors into
    an i32 sum: on a common fine grid or, with float scales, on the grid of the result.
    """
    one_term, other = dequantize(wildcard("a"), "lhs"), dequantize(wildcard("b"), "rhs")
    either = op("graph.add", one_term, other) | op("graph.sub", one_term, other)

    @to_integers(either @ "total")
    def residual_add(m: Match, a: Bound, b: Bound, quantize: Bound, new: NewOps) -> SSAValue:
        """`quantize(dequantize(a) + dequantize(b))` becomes an i32 sum, and so does a
        difference."""
        if rounding == FLOAT_SCALE:
            return _on_grid_of_result(m, a, b, quantize, new)
        if rounding == SCALE_LAST:
            return _on_grid_of_a_term(m, a, b, quantize, new)
        return _on_fine_grid(m, a, b, quantize, new, rounding)

    residual_add.where(fix=ONE_SCALE)(one_scale("lhs", "The first term"))
    residual_add.where(fix=ONE_SCALE)(one_scale("rhs", "The second term"))
    residual_add.where(fix=ONE_SCALE)(one_scale("quantize", "The result"))

    ways: dict[str, Callable[[Match], tuple[bool, str]]] = {
        FLOAT_SCALE: terms_fit,
        SCALE_LAST: sum_is_near,
    }
    fits = ways.get(rounding, sum_fits)
    residual_add.where(fix=CLOSER_SCALES)(fits)
    if rounding in FLOAT_SCALES:
        residual_add.where()(constants_are_whole)
    return residual_add


def sum_fits(m: Match) -> tuple[bool, str]:
    """The sum on a fine grid fits in i32."""
    grids = [grid_at(m[name]) for name in ("lhs", "rhs", "quantize")]
    return not all(map(is_plain, grids)) or _parameters(
        m, "half_up"
    ) is not None, "scales too far apart"


def terms_fit(m: Match) -> tuple[bool, str]:
    """Terms fit on the grid of the result: signed bytes without zero points, no larger scales."""
    grids = [grid_at(m[name]) for name in ("lhs", "rhs", "quantize")]
    known = [g for g in grids if is_plain(g)]
    if len(known) < len(grids):
        return True, ""  # other rules report this
    fits = all(g.element == i8 and g.symmetric and g.scale <= known[-1].scale for g in known)
    return fits, "; ".join(map(str, known))


def sum_is_near(m: Match) -> tuple[bool, str]:
    """Terms are signed bytes, and their sum on the coarser of their grids is less than a step of
    the result off."""
    grids = [grid_at(m[name]) for name in ("lhs", "rhs", "quantize")]
    known = [g for g in grids if is_plain(g)]
    if len(known) < len(grids):
        return True, ""  # other rules report this
    made = SumOfFloats.of(m)
    fits = all(g.element == i8 for g in known) and made.off <= ALMOST_ONE
    return fits and abs(made.wanted) <= LARGEST_ADDED, "; ".join(map(str, known))


def constants_are_whole(m: Match) -> tuple[bool, object]:
    """A constant term has as many elements as the sum: what is added to many is rounded alike for
    all of them, and moves their mean."""
    total = prod(m["total"].type.shape)
    arrays = (constant_array(m[name].value) for name in "ab")
    sizes = [prod(array.shape) for array in arrays if array is not None]
    return all(size == total for size in sizes), f"constants of {sizes} elements, a sum of {total}"


def _on_fine_grid(
    m: Match, a: Bound, b: Bound, quantize: Bound, new: NewOps, rounding: Rounding
) -> SSAValue:
    """Makes the sum of two terms on a grid so fine that neither is rounded, and brings it to the
    result's grid.
    """
    parameters, element = _parameters(m, rounding), known_grid(quantize).element
    assert parameters is not None
    factors, multiplier, shift = parameters
    if m["total"].op.name == "graph.sub":
        factors = factors * np.array([1, -1], np.int32)
    zero, early = int(known_grid(quantize).zero_point), None
    if rounding == "floor":
        early, rounding = early_half(multiplier, shift, zero), "half_up"
    if early is not None:
        zero, rounding = 0, "floor"
    to_fine, added = FixedAttr.of(0, rounding), int(early or 0)
    terms: list[SSAValue] = []
    for x, name, factor in zip((a, b), ("lhs", "rhs"), factors, strict=True):
        excess = added - int(factor) * int(known_grid(m[name]).zero_point)
        terms.append(in_fixed_point(x.value, factor, to_fine, i32, new, excess))
        added = 0
    total = new.add(AddOp.make(*terms)).result
    back = FixedAttr.of(shift, rounding)

    def to_grid(wide: SSAValue) -> SSAValue:
        return in_fixed_point(wide, multiplier, back, element, new, zero)

    return brought_to_grid(quantize, total, to_grid, new, zero_moved=early is not None)


def _on_grid_of_result(m: Match, a: Bound, b: Bound, quantize: Bound, new: NewOps) -> SSAValue:
    """Makes the sum of two terms that are each rounded on the grid of the result."""
    grid = known_grid(quantize)
    terms: list[SSAValue] = []
    for x, name in ((a, "lhs"), (b, "rhs")):
        scale = np.float64(known_grid(m[name]).scale) / np.float64(grid.scale)
        term = scaled(x.value, scale, i8, new)
        terms.append(new.add(CastOp.make(term, to=i32)).result)
    total = (AddOp if m["total"].op.name == "graph.add" else SubOp).make(*terms)

    def to_grid(wide: SSAValue) -> SSAValue:
        return scaled(wide, np.ones(()), i8, new)

    return brought_to_grid(quantize, new.add(total).result, to_grid, new)


def _on_grid_of_a_term(m: Match, a: Bound, b: Bound, quantize: Bound, new: NewOps) -> SSAValue:
    """Makes the sum of two terms on the coarser of their grids, where only the other is rounded,
    with what all zero points bring, and scales it to the result's grid.
    """
    found = SumOfFloats.of(m)
    terms: list[SSAValue] = []
    for x, factor in zip((a, b), found.factors, strict=True):
        term = scaled(x.value, factor, i8, new)
        terms.append(new.add(CastOp.make(term, to=i32)).result)
    total = new.add((AddOp if found.signs[1] > 0 else SubOp).make(*terms)).result
    if found.added:
        total = new.add(AddOp.make(total, new.constant(np.array(found.added, np.int32)))).result

    def to_grid(wide: SSAValue) -> SSAValue:
        return scaled(wide, found.scale, i8, new)

    moved = bool(known_grid(quantize).zero_point)
    return brought_to_grid(quantize, total, to_grid, new, zero_moved=moved)


@dataclass(frozen=True)
class SumOfFloats:
    """Describes a sum of two terms that are scaled by f32 as they come in: by which factors (up to
    1, one of them is 1), which of them is taken off, what is added to it, and the scale behind it.
    """

    factors: np.ndarray
    signs: np.ndarray
    scale: np.float64
    wanted: float
    """The sum of what all zero points bring, a fraction; the nearest integer is added."""

    @staticmethod
    def of(m: Match) -> SumOfFloats:
        terms, grid = [known_grid(m[name]) for name in ("lhs", "rhs")], known_grid(m["quantize"])
        scales = np.array([term.scale for term in terms], np.float64)
        factors, scale = scales / scales.max(), scales.max() / np.float64(grid.scale)
        signs = np.array([1, 1 if m["total"].op.name == "graph.add" else -1])
        zeros = np.array([int(term.zero_point) for term in terms])
        wanted = int(grid.zero_point) / scale - float(np.sum(signs * factors * zeros))
        return SumOfFloats(factors, signs, scale, wanted)

    @property
    def added(self) -> int:
        return round(self.wanted)

    @property
    def off(self) -> float:
        """Gives the steps of the result by which the sum is off before it is rounded, at most."""
        bytes_ = np.arange(-128, 128, dtype=np.float32)
        rounded = np.rint(bytes_ * self.factors.astype(np.float32)[:, None])
        errors = self.signs[:, None] * (rounded - bytes_ * self.factors[:, None])
        ends = [float(np.sum(end(errors, axis=1))) for end in (np.min, np.max)]
        return float(self.scale) * max(abs(end + self.added - self.wanted) for end in ends)


def _parameters(m: Match, rounding: Rounding) -> tuple[np.ndarray, np.ndarray, int] | None:
    """Computes the multipliers (int32) of two terms and of their sum, and its shift; None when the
    sum leaves i32 whatever the shift.
    """
    terms, grid = [known_grid(m[name]) for name in ("lhs", "rhs")], known_grid(m["quantize"])
    scales = np.array([term.scale for term in terms], np.float64) / np.float64(grid.scale)
    farthest = [term.farthest for term in terms]
    found = sum_parameters(scales, farthest, grid)
    if found is None:
        return None
    are_bytes = np.abs(found[0]).max() <= LARGEST_BYTE
    short = None if are_bytes or rounding == "half_even" else byte_parameters(scales, farthest)
    return short or (found[0], np.array(1, np.int32), found[1])


def byte_parameters(
    scales: np.ndarray, farthest: Sequence[int]
) -> tuple[np.ndarray, np.ndarray, int] | None:
    """Computes the multipliers of two terms that are bytes, and that of their sum, of 15 bits (all
    int32), and its shift; None where they are not SHORT_ENOUGH, or where a sum leaves i32. With so
    few bits ties are no longer rare.
    """
    larger = int(np.argmax(scales))
    factors = np.rint(np.arange(1, LARGEST_BYTE + 1)[:, None] * (scales / scales[larger]))
    wanted = scales[larger] / factors[:, larger]
    shifts = np.minimum(14 - np.floor(np.log2(wanted)).astype(np.int64), MAX_SHIFT - 1)
    multipliers = np.rint(wanted * 2.0**shifts)
    steps = factors * (multipliers / 2.0**shifts)[:, None]
    moved = np.tensordot(np.abs(steps - scales), np.array(farthest, np.float64), 1)
    best = int(np.argmin(moved))
    shift, multiplier = int(shifts[best]), int(multipliers[best])
    greatest = multiplier * int(factors[best] @ np.array(farthest))
    if moved[best] > SHORT_ENOUGH or shift < 1 or greatest + 2**shift > INT32_MAX:
        return None
    return factors[best].astype(np.int32), np.array(multiplier, np.int32), shift


def sum_parameters(
    scales: np.ndarray, farthest: Sequence[int], grid: Grid
) -> tuple[np.ndarray, int] | None:
    """Computes multipliers (int32) of terms, and their shift, as large as the sum and the shift
    back allow: `sum(|multiplier * farthest|) + 2^(shift - 1) < 2^31`, which also bounds a term
    before its zero point is taken off. None when even shift 0 is too large.

    `scales` are those of the terms over that of the sum; further dimensions are those that they
    vary along. `farthest` is for each term the greatest magnitude of its integers.
    """
    span = span_of(grid.range, int(grid.zero_point))
    for shift in range(MAX_SHIFT, -1, -1):
        multipliers = np.rint(scales * 2.0**shift)
        sums = np.tensordot(np.array(farthest, np.float64), np.abs(multipliers), 1)
        if sums.max() + 2.0**shift / 2 <= INT32_MAX and (span << shift) < INT32_MAX:
            common = common_powers_of_two(multipliers.astype(np.int32), shift)
            return multipliers.astype(np.int32) >> common, shift - common
    return None


def in_fixed_point(
    value: SSAValue,
    multiplier: np.ndarray,
    rounding: FixedAttr,
    to: Attribute,
    new: NewOps,
    zero: int = 0,
) -> SSAValue:
    """Multiplies integers in fixed point, rounding, and adds a zero point."""
    scale = new.constant(multiplier)
    made = RequantizeOp.make(value, scale, rounding=rounding, to=to, zero_point=zero)
    return new.add(made).result
