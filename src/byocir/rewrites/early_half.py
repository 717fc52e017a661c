"""Adds the half that rounds up to sums before they are multiplied: this is a part of fix-point.

`(x * m + half) >> shift` becomes `(x + n) * m >> shift`, with n the nearest integer to half / m. A
bias that is there anyway takes n along, and a zero point, too.
"""

from __future__ import annotations

import numpy as np
from xdsl.ir import Operation, SSAValue

from byocir.dialects.array import known_values
from byocir.dialects.graph import (
    AddOp,
    ConvOp,
    FixedAttr,
    MatmulOp,
    ReluOp,
    RequantizeOp,
)
from byocir.dialects.graph.fixed_point import INT32_MAX
from byocir.dialects.intervals import integer_range
from byocir.dialects.types import shape_of
from byocir.rewrites.driver import NewOps
from byocir.rewrites.integers import clipped

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
    zero, sums, before = op.zero_point.value.data, op.input, op.input.owner
    added = early_half(multipliers, shift, zero)
    if added is None or reach is None or np.max(reach + np.abs(added)) > INT32_MAX:
        return None
    if isinstance(before, ReluOp) and _only_user(sums) is op:
        sums = before.input
    biased = _with_bias(sums, added.astype(np.int32), new)
    if biased is None:
        return None
    scale, rounding = new.constant(multipliers), FixedAttr.of(shift, "floor")
    made = new.add(RequantizeOp.make(biased, scale, rounding=rounding, to=op.to)).result
    limits = integer_range(op.to)
    return clipped(made, (zero, limits.high), new) if isinstance(before, ReluOp) else made


def _only_user(value: SSAValue) -> Operation | None:
    uses = [*value.uses]
    return uses[0].operation if len(uses) == 1 else None


def _with_bias(sums: SSAValue, added: np.ndarray, new: NewOps) -> SSAValue | None:
    """Adds a number for each channel to sums of products, through their bias; None where others use
    the sums, or the bias is unknown.
    """
    owner = sums.owner
    if _only_user(sums) is None:
        return None
    if isinstance(owner, ConvOp):
        channels = shape_of(sums.type)[1]
        own = known_values(owner.bias) if owner.bias else np.zeros(channels, np.int32)
        if own is None:
            return None
        total = own + np.broadcast_to(added.reshape(-1), channels)
        made = ConvOp.make(
            owner.input,
            owner.weight,
            new.constant(total),
            strides=owner.strides,
            pads=owner.pads,
            dilations=owner.dilations,
            group=owner.group,
        )
        return new.add(made).result
    if isinstance(owner, AddOp):
        bias = known_values(owner.rhs)
        if bias is None:
            return None
        return new.add(AddOp.make(owner.lhs, new.constant(bias + added))).result
    if isinstance(owner, MatmulOp):
        return new.add(AddOp.make(sums, new.constant(added))).result
    return None
