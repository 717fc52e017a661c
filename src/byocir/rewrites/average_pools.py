"""Turns average pools into integer ops: a part of fix-point.

A float pool adds dequantised values, divides and is quantised: where the exact mean is a tie, which
a quarter of all sums of a 2x2 window on one scale are, the rounding errors of those floats decide.
Integers cannot follow, so only the pass that may change meaning takes pools to integers.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from byocir.dialects.graph import AddOp, AveragePoolOp, SumPoolOp
from byocir.dialects.graph.base import int_tuple
from byocir.dialects.graph.pool import reached_beyond, window_counts
from byocir.patterns import Bound, op, wildcard
from byocir.rewrites.driver import NewOps
from byocir.rewrites.grid import dequantize, known_grid
from byocir.rewrites.integers import (
    ONE_SCALE,
    Integers,
    one_scale,
    requantized,
    surrounded,
    to_integers,
)

_DATA = dequantize(wildcard("x"), "data")


@to_integers(op("graph.average_pool", _DATA) @ "pool")
def average_pool_to_integer(
    x: Bound, data: Bound, pool: Bound, quantize: Bound, new: NewOps
) -> SSAValue:
    """`quantize(average_pool(dequantize(x)))` becomes a sum of integers and a requantize."""
    image, window = _padded(x, data, pool, new)
    sums = new.add(SumPoolOp.make(image, **window)).result
    counts = _counts(pool)
    count = counts if counts.min() < counts.max() else counts.max()
    return _averaged(quantize, data, sums, count, new)


def _padded(x: Bound, data: Bound, pool: Bound, new: NewOps) -> tuple[SSAValue, dict[str, Any]]:
    """Surrounds the input of a pool by its zero point wherever windows reach past it; gives it, and
    the properties with which the sum of integers then slides.
    """
    assert isinstance(pool.op, AveragePoolOp)
    names = ("kernel_shape", "strides", "pads", "dilations", "ceil_mode")
    window = {name: pool.attrs[name] for name in names}
    zero = known_grid(data).zero_point
    around = reached_beyond(pool.op)
    if not zero.any() or not any(around):
        return x.value, window
    none = [0] * len(around)
    return surrounded(x.value, around, zero, new), {**window, "pads": none, "ceil_mode": 0}


@average_pool_to_integer.where(fix="make pads smaller than the kernel, or set count_include_pad")
def no_window_is_over_pads_alone(pool: Bound) -> tuple[bool, str]:
    """No window covers pads alone, which has no mean."""
    return bool(_counts(pool).all()), "one of nothing"


@to_integers(op("graph.global_average_pool", _DATA))
def global_average_pool_to_integer(x: Bound, data: Bound, quantize: Bound, new: NewOps) -> SSAValue:
    """`quantize(global_average_pool(dequantize(x)))` becomes a sum of integers and a requantize."""
    sums = new.add(SumPoolOp.over_all(x.value)).result
    return _averaged(quantize, data, sums, math.prod(x.type.shape[2:]), new)


for _pool in (average_pool_to_integer, global_average_pool_to_integer):
    _pool.where(fix=ONE_SCALE)(one_scale("data", "The input"))
    _pool.where(fix=ONE_SCALE)(one_scale("quantize", "The result"))


def _counts(pool: Bound) -> np.ndarray:
    assert isinstance(pool.op, AveragePoolOp)
    return window_counts(pool.op, include_pads=bool(pool.attrs["count_include_pad"]))


def _averaged(
    quantize: Bound, data: Bound, sums: SSAValue, count: np.ndarray | int, new: NewOps
) -> SSAValue:
    scale, counted = known_grid(data).scale, np.asarray(count, np.float32)
    pool = sums.owner
    assert isinstance(pool, SumPoolOp)
    excess = int(known_grid(data).zero_point) * math.prod(int_tuple(pool.kernel_shape))
    if excess:
        sums = new.add(AddOp.make(sums, new.constant(np.array(-excess, np.int32)))).result
    return requantized(quantize, Integers(sums, scale, counted), new)
