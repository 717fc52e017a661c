"""Turns products of quantised arrays element by element, and quotients by constants, into integer
ops: a part of fix-point.

Without their zero points two bytes have nine bits each, so their product always fits in i32, and
its scale is the product of theirs. A factor that is known and above 0 joins the scale instead: then
nothing is multiplied but what a change of grid multiplies. So does a divisor.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from xdsl.ir import SSAValue

from byocir.dialects.array import known_values
from byocir.dialects.graph import MulOp
from byocir.patterns import Bound, constant, op, wildcard, within
from byocir.rewrites.driver import NewOps
from byocir.rewrites.grid import dequantize, grid_at, known_grid
from byocir.rewrites.integers import (
    CLOSER_SCALES,
    ONE,
    ONE_SCALE,
    Integers,
    one_scale,
    requantized,
    to_integers,
    without_zero_point,
)

_FACTORS = dequantize(wildcard("a"), "lhs"), dequantize(wildcard("b"), "rhs")


@to_integers(op("graph.mul", *_FACTORS))
def product_of_elements(
    a: Bound, b: Bound, lhs: Bound, rhs: Bound, quantize: Bound, new: NewOps
) -> SSAValue:
    """`quantize(dequantize(a) * dequantize(b))` becomes a product of integers and a requantize, or
    the latter alone where one of them is a constant above 0."""
    for x, factor in (((a, lhs), (b, rhs)), ((b, rhs), (a, lhs))):
        known = _numbers_above_zero(*factor)
        if known is not None and x[0].type.shape == quantize.type.shape:
            return requantized(quantize, _centred(*x, known, new), new)
    both = [_centred(*each, ONE, new) for each in ((a, lhs), (b, rhs))]
    product = new.add(MulOp.make(*(each.value for each in both))).result
    scale = np.multiply(both[0].scale, both[1].scale, dtype=np.float32)
    return requantized(quantize, Integers(product, scale, ONE), new)


@to_integers(op("graph.div", _FACTORS[0], constant("divisor", where=within(2.0**-20, 2.0**20))))
def quotient_by_constant(
    a: Bound, lhs: Bound, divisor: Bound, quantize: Bound, new: NewOps
) -> SSAValue | None:
    """`quantize(dequantize(a) / c)` becomes a requantize."""
    if a.type.shape != quantize.type.shape:
        return None
    return requantized(quantize, replace(_centred(a, lhs, ONE, new), count=divisor.numbers), new)


def _centred(x: Bound, by: Bound, factor: np.ndarray, new: NewOps) -> Integers:
    """Gives bytes without their zero point, with their scale times a factor."""
    grid = known_grid(by)
    value = without_zero_point(x.value, int(grid.zero_point), new)
    return Integers(value, np.multiply(grid.scale, factor, dtype=np.float32), ONE)


def _numbers_above_zero(x: Bound, by: Bound) -> np.ndarray | None:
    """Dequantizes the bytes of a constant, if they are known and all above 0; else gives None."""
    grid, bytes_ = known_grid(by), known_values(x.value)
    if bytes_ is None:
        return None
    steps = bytes_.astype(np.int32) - grid.zero_point.astype(np.int32)
    return steps.astype(np.float32) * grid.scale if np.all(steps > 0) else None


product_of_elements.where(fix=ONE_SCALE)(one_scale("lhs", "The first factor"))
quotient_by_constant.where(fix=ONE_SCALE)(one_scale("lhs", "The dividend"))
product_of_elements.where(fix=ONE_SCALE)(one_scale("rhs", "The second factor"))


@product_of_elements.where(fix=CLOSER_SCALES)
def scales_are_far_from_the_limits_of_f32(lhs: Bound, rhs: Bound) -> tuple[bool, object]:
    """The product of the scales is a number of f32 that is not rounded to 0."""
    grids = [grid_at(each) for each in (lhs, rhs)]
    scales = [np.float64(grid.scale.max()) for grid in grids if grid is not None]
    product = float(np.prod(scales))
    return 2.0**-100 <= product <= 2.0**100, f"{product:.6g}"
