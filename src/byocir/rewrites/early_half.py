"""Adds the half that rounds up to sums before they are multiplied: this is a part of fix-point.

`(x * m + half) >> shift` becomes `(x + n) * m >> shift`, with n the nearest integer to half / m. A
bias that is there anyway takes n along, and a zero point, too.
"""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from byocir.dialects.graph import FixedAttr, RequantizeOp
from byocir.rewrites.biased_sums import requantized_later
from byocir.rewrites.driver import NewOps

NEAR = 2.0**-8
"""The part of a step by which the half may be off on the mean of all channels: for as large a part
of values the nearest integer is another one."""


def early_half(multipliers: np.ndarray, shift: int, zero: int) -> np.ndarray | None:
    """Computes the numbers (int64, of the shape of the multipliers) that, added to sums before they
    are multiplied by these (int32) and shifted, add half a step and a zero point. None where the
    half would be too far off, or where one number for all channels does it as well.
    """
    if not shift or np.min(multipliers) < 1 or np.all(multipliers == 1):
        return None
    wanted = (1 << shift >> 1) + (zero << shift)
    added = np.rint(wanted / multipliers.astype(np.float64)).astype(np.int64)
    is_near = np.mean(np.abs(added * multipliers - wanted)) <= NEAR * 2.0**shift
    return added if is_near else None


def with_early_half(
    op: RequantizeOp, multipliers: np.ndarray, shift: int, reach: np.ndarray | None, new: NewOps
) -> SSAValue | None:
    """Makes the integers of a requantize by these multipliers (int32, broadcast to its input) and
    this shift, of sums of products that lie within `reach`. None where others use the sums, or they
    would leave i32.
    """
    added = early_half(multipliers, shift, op.zero_point.value.data)
    if added is None:
        return None

    def back(sums: SSAValue) -> SSAValue:
        scale, rounding = new.constant(multipliers), FixedAttr.of(shift, "floor")
        return new.add(RequantizeOp.make(sums, scale, rounding=rounding, to=op.to)).result

    return requantized_later(op, added, reach, back, new)
