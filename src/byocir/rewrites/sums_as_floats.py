"""Computes in integers what quantised layers give as floats: a part of fix-point.

Many nets quantise what layers read and not what they give: logits, terms of a sum that is a float,
what an activation reads. `conv(dequantize(x), dequantize(w))` is the dequantised sum of integers
there, which a machine that stores 32 bits computes. Floats that were rounded at each product and
sum are rounded once.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from xdsl.ir import SSAValue

from byocir.dialects.array import column
from byocir.dialects.graph import AddOp, ConvOp, DequantizeOp, MatmulOp
from byocir.patterns import Bound, Match, constant, op, optional_operand, present
from byocir.rewrites.driver import NewOps
from byocir.rewrites.integers import folded_bias, integer_weight, one_scale, padded
from byocir.rewrites.matching import rewrites
from byocir.rewrites.qdq_to_integer import (
    BIAS,
    DATA,
    PRODUCT,
    WEIGHT,
    bias_is_on_the_grid_of_the_sums,
    scale_of_sums,
    sums_fit,
    weight_has_8_bits,
    zero_points_are_folded,
)

_FLOATS = constant("added", where=present())
_CONV = op("graph.conv", DATA, WEIGHT, optional_operand(BIAS | _FLOATS)) @ "conv"


@rewrites(_CONV)
def conv_as_sums(m: Match, x: Bound, new: NewOps, added: Bound | None = None) -> SSAValue:
    """`conv(dequantize(x), dequantize(w), b)` is a dequantised conv of integers, plus b where that
    is a float."""
    image, window = padded(m, new)
    sums = new.add(ConvOp.make(image, integer_weight(m, new), folded_bias(m, new), **window)).result
    result = _dequantized(m, sums, 1, new)
    if added is None:
        return result
    added_to_each = column(added.numbers, x.type.rank - 1)
    return new.add(AddOp.make(result, new.constant(added_to_each))).result


@rewrites(PRODUCT)
def product_as_sums(m: Match, x: Bound, product: Bound, new: NewOps) -> SSAValue:
    """`matmul(dequantize(x), dequantize(w))` is a dequantised matmul of integers."""
    sums = new.add(MatmulOp.make(x.value, integer_weight(m, new))).result
    bias = folded_bias(m, new)
    if bias is not None:
        sums = new.add(AddOp.make(sums, bias)).result
    return _dequantized(m, sums, product.type.rank - 1, new)


def _dequantized(m: Match, sums: SSAValue, axis: int, new: NewOps) -> SSAValue:
    scale = scale_of_sums(m)
    assert scale is not None
    operands = new.constant(scale), new.constant(np.zeros(scale.shape, np.int32))
    return new.add(DequantizeOp.make(sums, *operands, axis=axis if scale.ndim else 1)).result


RULES: tuple[Callable[..., object], ...] = (
    one_scale("data", "The input"),
    weight_has_8_bits,
    zero_points_are_folded,
    sums_fit,
    bias_is_on_the_grid_of_the_sums,
)
REWRITES = (conv_as_sums, product_as_sums)
for _rewrite in REWRITES:
    for _rule in RULES:
        _rewrite.where(_rule)
