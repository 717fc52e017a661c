"""Adds zero points to sums before these are scaled by an f32: this is a part of fix-point.

`round(x * s) + z` becomes `round((x + n) * s)`, with n the nearest integer to z / s, for devices
that add nothing behind the scale. What is rounded is off by half of s at most.
"""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from byocir.dialects.graph import RequantizeOp
from byocir.dialects.graph.fixed_point import INT32_MAX, SHORT_ENOUGH
from byocir.rewrites.biased_sums import requantized_later
from byocir.rewrites.driver import NewOps
from byocir.rewrites.integers import scaled
from byocir.rewrites.sum_bounds import reach_of


def early_zero(scales: np.ndarray, zero: int) -> np.ndarray | None:
    """Computes the numbers (int64, of the shape of the scales) that, added to sums before they are
    multiplied by these (float64), add a zero point. None where it would be off by more than half a
    step somewhere, or by more than SHORT_ENOUGH on the mean of all channels, and where a number
    does not fit in i32.
    """
    added = np.rint(zero / scales)
    off = np.abs(added * scales - zero)
    fits = np.max(off) <= 0.5 and np.mean(off) <= SHORT_ENOUGH and np.max(np.abs(added)) < INT32_MAX
    return added.astype(np.int64) if fits else None


def with_early_zero(op: RequantizeOp, scales: np.ndarray, new: NewOps) -> SSAValue | None:
    """Makes the integers of a requantize that adds a zero point, by these scales (float64,
    broadcast to its input). None where the zero point has to be added behind them.
    """
    added = early_zero(scales, op.zero_point.value.data)
    if added is None:
        return None

    def back(sums: SSAValue) -> SSAValue:
        return scaled(sums, scales, op.to, new)

    return requantized_later(op, added, reach_of(op.input, computed=True), back, new)
