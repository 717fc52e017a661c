"""Replaces quotients by a constant with products, where they are rounded to integers and clamped.

A division takes as long as ten multiplications. `x / y` is rounded, and `x * (high + low)`,
computed by one fused operation with `high + low` close to 1 / y, may round to a neighbour. The
integers to which both are rounded grow with x, so they are equal everywhere if they step from one
integer to the next at the same x. There are as many steps as integers between the bounds of the
clamp, and all of them are compared.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from xdsl.dialects import arith, math
from xdsl.ir import Operation, SSAValue

from byocir.dialects.types import f32
from byocir.evaluate.scalar import number
from byocir.lowering.tir_to_c.float_ranges import Ranges, range_of

MOST_STEPS = 2**16 + 1
NEAR = 4
"""Floats on either side of where a step is in real numbers."""

QUOTIENT = """/* x / y, or a neighbour of it where high + low is 1 / y for that purpose. */
static inline float quotient(float x, float y, float high, float low)
{
#if defined(__FMA__)
    (void)y;
    return fmaf(x, high, x * low);
#else
    (void)high;
    (void)low;
    return x / y;
#endif
}
"""


def as_product(op: arith.DivfOp, known: Ranges) -> tuple[float, float] | None:
    """Finds two numbers to multiply by in place of a division whose result is only rounded and
    clamped; None where there are none.
    """
    divisor, bounds = _constant(op.rhs), _clamp(op.result)
    if divisor is None or bounds is None or op.result.type != f32:
        return None
    seen = range_of(op.lhs, known)
    if seen.nan or not seen.is_finite or not 2.0**-60 < divisor < 2.0**60:
        return None
    return reciprocal_of(divisor, *bounds)


def _clamp(value: SSAValue) -> tuple[int, int] | None:
    """Finds the whole numbers between which a value is clamped after rounding; None where it is
    used otherwise.
    """
    rounded = _only_user(value, math.RoundEvenOp)
    larger = _only_user(rounded, arith.MaximumfOp)
    smaller = _only_user(larger, arith.MinimumfOp)
    low, high = _bound(larger, rounded), _bound(smaller, larger)
    if low is None or high is None or not (low < high and low % 1 == high % 1 == 0):
        return None
    return (int(low), int(high)) if high - low < MOST_STEPS else None


def _only_user(value: SSAValue | None, kind: type[Operation]) -> SSAValue | None:
    if value is None or not value.has_one_use():
        return None
    (use,) = value.uses
    return use.operation.results[0] if isinstance(use.operation, kind) else None


def _bound(result: SSAValue | None, value: SSAValue | None) -> float | None:
    if result is None:
        return None
    assert isinstance(result.owner, Operation)
    others = [operand for operand in result.owner.operands if operand is not value]
    return _constant(others[0]) if len(others) == 1 else None


def _constant(value: SSAValue) -> float | None:
    owner = value.owner
    return float(number(owner.value)) if isinstance(owner, arith.ConstantOp) else None


@cache
def reciprocal_of(divisor: float, low: int, high: int) -> tuple[float, float] | None:
    """Finds two f32 with `fmaf(x, first, x * rest)` rounding to the same integer from `low` to
    `high` as x over this f32, for every finite f32 x. None if those nearest to 1 / divisor do not.
    """
    y = np.float32(divisor)
    first = np.float32(1.0 / float(y))
    rest = np.float32((1.0 - float(first) * float(y)) / float(y))
    steps = np.arange(low, high, dtype=np.float64)
    around = (steps + 0.5) * float(y)
    x = around.astype(np.float32)
    for _ in range(NEAR):
        x = np.nextafter(x, np.float32(-np.inf))
    columns = [x]
    for _ in range(2 * NEAR):
        columns.append(np.nextafter(columns[-1], np.float32(np.inf)))
    points = np.stack(columns, axis=1)
    above = np.rint(points / y) > steps[:, None]
    products, sure = _products(points, first, rest)
    equal = np.array_equal(np.rint(products) > steps[:, None], above)
    crossed = not above[:, 0].any() and bool(above[:, -1].all())
    return (float(first), float(rest)) if equal and crossed and sure else None


def _products(x: np.ndarray, first: np.float32, rest: np.float32) -> tuple[np.ndarray, bool]:
    """Computes `fmaf(x, first, x * rest)`, and tells whether all are known to be rounded right: a
    sum in f64 that was rounded itself must not lie half-way between two f32.
    """
    large, small = x.astype(np.float64) * float(first), (x * rest).astype(np.float64)
    total = large + small
    back = total - large
    error = (large - (total - back)) + (small - back)
    half_way = (total.view(np.int64) & (2**29 - 1)) == 2**28
    return total.astype(np.float32), not bool((half_way & (error != 0)).any())
