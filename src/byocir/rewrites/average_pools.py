"""Average pools of integers: a part of fix-point.

A float pool adds dequantised values, divides and is quantised: where the exact mean is a tie, which
a quarter of all sums of a 2x2 window on one scale are, the rounding errors of those floats decide.
Integers cannot follow, so only the pass that may change meaning takes pools to integers.
"""

from __future__ import annotations

import math

import numpy as np
from xdsl.ir import SSAValue

from byocir.dialects.graph import AveragePoolOp, GlobalAveragePoolOp, SumPoolOp
from byocir.dialects.types import shape_of
from byocir.rewrites.driver import NewOps
from byocir.rewrites.grid import symmetric_bytes
from byocir.rewrites.integers import Integers, QuantizedToInteger
from byocir.rewrites.windows import window_counts


class AveragePoolToInteger(QuantizedToInteger):
    """`quantize(average_pool(dequantize(x)))` becomes a sum of integers and a requantize."""

    def integers(self, value: SSAValue, new: NewOps) -> Integers | None:
        match value.owner:
            case AveragePoolOp() as op:
                return _average_pool(op, new)
            case GlobalAveragePoolOp() as op:
                return _global_average_pool(op, new)
            case _:
                return None


def _average_pool(op: AveragePoolOp, new: NewOps) -> Integers | None:
    found = symmetric_bytes(op.input)
    counts = window_counts(op, include_pads=bool(op.count_include_pad.value.data))
    if found is None or not found[1].per_tensor or not counts.all():
        return None  # a window over pads alone has no mean
    pool = SumPoolOp.make(
        found[0],
        kernel_shape=op.kernel_shape,
        strides=op.strides,
        pads=op.pads,
        dilations=op.dilations,
        ceil_mode=op.ceil_mode,
    )
    count = counts if counts.min() < counts.max() else counts.max()
    return Integers(new.add(pool).result, found[1].scale, np.asarray(count, np.float32))


def _global_average_pool(op: GlobalAveragePoolOp, new: NewOps) -> Integers | None:
    found = symmetric_bytes(op.input)
    if found is None or not found[1].per_tensor:
        return None
    kernel = shape_of(op.input.type)[2:]
    ones, zeros = [1] * len(kernel), [0] * 2 * len(kernel)
    pool = SumPoolOp.make(
        found[0], kernel_shape=kernel, strides=ones, pads=zeros, dilations=ones, ceil_mode=0
    )
    count = np.array(math.prod(kernel), np.float32)
    return Integers(new.add(pool).result, found[1].scale, count)
