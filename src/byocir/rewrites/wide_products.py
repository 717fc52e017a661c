"""Handles contractions of bytes that need more than eight bits without their zero points: a part of
fix-point.

A weight less its zero point may have nine bits: it becomes i16, which a machine of bytes takes as a
sum of bytes (`wide_weights`). In a product of two computed arrays with zero points a and b,

    sum (x - a) * (y - b)  =  sum x * y  +  sum x * -b  +  sum -a * y  +  K * a * b,

and all three sums are one over K, 2 K or 3 K: [x, x, -a] times [y, -b, y]. A processor that knows
floats has no use for either, so that they stay in float where no target computes in integers.
"""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from byocir.dialects.array import constant_array
from byocir.dialects.graph import AddOp, ConcatOp, MatmulOp
from byocir.dialects.types import i8
from byocir.patterns import Bound, Match
from byocir.rewrites.driver import NewOps
from byocir.rewrites.grid import Grid, grid_at, known_grid, shown
from byocir.rewrites.integers import (
    FEWER_PRODUCTS,
    ONE,
    ONE_SCALE,
    Integers,
    one_scale,
    output_axis,
    requantized,
    shifted_weight,
    to_integers,
)
from byocir.rewrites.matching import MatchedRewrite
from byocir.rewrites.qdq_to_integer import (
    PRODUCT,
    SIGNED_WEIGHT,
    quantized_conv,
    quantized_matmul,
    weight_has_8_bits,
)
from byocir.rewrites.signed_bytes import OFFSET, changed_sign


def _with_wide_weights(narrow: MatchedRewrite) -> MatchedRewrite:
    """Makes of a rewrite the one for weights that need nine bits without their zero points."""
    made = MatchedRewrite(narrow.composite.patterns[0], narrow.replace)
    kept = [rule for rule in narrow.composite.rules if rule.name != weight_has_8_bits.__name__]
    made.composite.rules += kept
    made.where(fix=SIGNED_WEIGHT)(weight_has_9_bits)
    return made


def weight_has_9_bits(m: Match, weight: Bound) -> tuple[bool, object]:
    """The weight is a constant of 8 bits, of nine without its zero point, and has one scale or one
    for each output channel."""
    grid, shifted = grid_at(weight), None
    if grid is not None and grid.is_8_bit:
        shifted = shifted_weight(m)
    if grid is None or shifted is None:
        return False, shown(grid)
    return shifted.dtype == np.int16 and grid.axis in (None, output_axis(m)), shown(grid)


@to_integers(PRODUCT)
def product_of_two(m: Match, x: Bound, w: Bound, quantize: Bound, new: NewOps) -> SSAValue:
    """`quantize(matmul(dequantize(x), dequantize(y)))` of computed arrays becomes one product over
    what x and y have and what their zero points bring."""
    data, weight = known_grid(m["data"]), known_grid(m["weight"])
    (left, a), (right, b) = _signed(x, data, new), _signed(w, weight, new)
    lhs, rhs = [left], [right]
    for part in _bytes_that_add_up_to(-b):
        lhs.append(left)
        rhs.append(new.constant(np.full(w.type.shape, part, np.int8)))
    for part in _bytes_that_add_up_to(-a):
        lhs.append(new.constant(np.full(x.type.shape, part, np.int8)))
        rhs.append(right)
    factors = [_joined(lhs, x.type.rank - 1, new), _joined(rhs, w.type.rank - 2, new)]
    sums = new.add(MatmulOp.make(*factors)).result
    both = x.type.shape[-1] * a * b
    if both:
        sums = new.add(AddOp.make(sums, new.constant(np.array(both, np.int32)))).result
    scale = np.multiply(data.scale, weight.scale, dtype=np.float32)
    return requantized(quantize, Integers(sums, scale, ONE), new)


def _signed(x: Bound, grid: Grid, new: NewOps) -> tuple[SSAValue, int]:
    """Gives bytes as signed ones, and the zero point that they have then."""
    zero = int(grid.zero_point)
    return (
        (x.value, zero) if grid.element == i8 else (changed_sign(x.value, i8, new), zero - OFFSET)
    )


def _bytes_that_add_up_to(number: int) -> list[int]:
    """Splits a number into signed bytes, as few as can be, whose sum it is."""
    if number == 0:
        return []
    return [number] if number <= 127 else [number // 2, number - number // 2]


def _joined(parts: list[SSAValue], axis: int, new: NewOps) -> SSAValue:
    return new.add(ConcatOp.make(*parts, axis=axis)).result if len(parts) > 1 else parts[0]


product_of_two.where(fix=ONE_SCALE)(one_scale("data", "The input"))


@product_of_two.where(fix="give both factors at least two dimensions")
def factors_are_computed_matrices(x: Bound, w: Bound) -> tuple[bool, object]:
    """Both factors are computed matrices, or several."""
    known = constant_array(w.value) is not None
    seen = (x.type.shape, w.type.shape, "constant" if known else "computed")
    return min(x.type.rank, w.type.rank) >= 2 and not known, ", ".join(map(str, seen))


product_of_two.where(fix=ONE_SCALE)(one_scale("weight", "The second factor"))


@product_of_two.where(fix=FEWER_PRODUCTS)
def its_sums_fit(x: Bound) -> tuple[bool, int]:
    """No sum of products can leave i32."""
    worst = 4 * 2**14 * x.type.shape[-1]
    return worst < 2**31, worst


REWRITES: tuple[MatchedRewrite, ...] = (
    _with_wide_weights(quantized_conv),
    _with_wide_weights(quantized_matmul),
    product_of_two,
)
