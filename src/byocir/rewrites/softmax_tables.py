"""Computes softmax of bytes by a table: a part of fix-point, for targets that have tables.

`softmax(x)` is `e / sum(e)` where e is `exp(x - max(x))`. Of bytes on one grid the difference is
one of 256, so the exponentials are a table of integers, and their sum is exact. One division is
left.
"""

from __future__ import annotations

import math

import numpy as np
from xdsl.ir import SSAValue

from byocir.dialects.graph import (
    CastOp,
    DivOp,
    QuantizeOp,
    ReduceMaxOp,
    ReduceSumOp,
    SoftmaxOp,
    SubOp,
)
from byocir.dialects.types import f32, i32, ui8
from byocir.patterns import Bound, op, wildcard
from byocir.rewrites.driver import NewOps
from byocir.rewrites.grid import dequantize, grid_at, is_plain, known_grid
from byocir.rewrites.grid import quantize as quantized
from byocir.rewrites.integers import ONE_SCALE
from byocir.rewrites.matching import rewrites
from byocir.rewrites.tabulate_bytes import look_up

MOST_BITS = 23
"""Those of a fraction: a float holds each entry."""
FARTHEST = 0.25
"""Bounds the distance of what is rounded from the quotient of exponentials, in steps of the
result."""

_SOFTMAX = op("graph.softmax", dequantize(wildcard("x"), "data")) @ "softmax"


@rewrites(quantized(_SOFTMAX, "quantize"), one_use=True)
def softmax_to_table(
    x: Bound, data: Bound, softmax: Bound, quantize: Bound, new: NewOps
) -> SSAValue:
    """`quantize(softmax(dequantize(x)))` takes its exponentials from a table."""
    axes = [_axis(softmax)]
    wide = new.add(CastOp.make(x.value, to=i32)).result
    most = new.add(ReduceMaxOp.make(wide, axes=axes, keepdims=1)).result
    below = new.add(SubOp.make(most, wide)).result
    steps = new.add(CastOp.make(below, to=ui8)).result
    powers = look_up(_table(float(known_grid(data).scale), _bits(x, softmax)), steps, new)
    total = new.add(ReduceSumOp.make(powers, axes=axes, keepdims=1)).result
    parts = [new.add(CastOp.make(value, to=f32)).result for value in (powers, total)]
    quotient = new.add(DivOp.make(*parts)).result
    assert isinstance(quantize.op, QuantizeOp)
    return new.again(quantize, quotient, *quantize.op.operands[1:])


def _table(scale: float, bits: int) -> np.ndarray:
    """Tabulates `exp(-n * scale)` for each byte n, as integers (int32) with so many bits behind the
    point.
    """
    return np.rint(np.exp(-np.arange(256) * scale) * 2.0**bits).astype(np.int32)


def _bits(x: Bound, softmax: Bound) -> int:
    """Chooses the bits of a table's entries: as many as the sum of all has room for in i32."""
    count = x.type.shape[_axis(softmax)]
    return min(MOST_BITS, 30 - math.ceil(math.log2(max(count, 1))))


def _axis(softmax: Bound) -> int:
    assert isinstance(softmax.op, SoftmaxOp)
    return softmax.op.axis.value.data


@softmax_to_table.where(fix=ONE_SCALE)
def input_and_result_have_one_scale(data: Bound, quantize: Bound) -> tuple[bool, str]:
    """Input and result have 8 bits and one scale."""
    grids = [grid_at(each) for each in (data, quantize)]
    return all(map(is_plain, grids)), " and ".join(map(str, grids))


@softmax_to_table.where(fix="quantise the result more coarsely, or sum over fewer elements")
def the_sum_is_close_enough(x: Bound, softmax: Bound, quantize: Bound) -> tuple[bool, float]:
    """What rounding the entries does to the result is far from a step."""
    grid, count = grid_at(quantize), x.type.shape[_axis(softmax)]
    if grid is None or not grid.per_tensor:
        return False, 0.0
    off = (count + 1) / 2 ** (_bits(x, softmax) + 1) / float(grid.scale)
    return off <= FARTHEST, off
