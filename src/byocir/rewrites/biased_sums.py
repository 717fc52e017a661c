"""Adds numbers to the sums that a requantize scales: this is a part of fix-point.

A bias that is there anyway takes them along. A relu in front of the requantize no longer looks at
zero then, so that it becomes a clip behind it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from xdsl.ir import Operation, SSAValue

from byocir.dialects.array import known_values
from byocir.dialects.graph import AddOp, ConvOp, MatmulOp, ReluOp, RequantizeOp, SumPoolOp
from byocir.dialects.graph.fixed_point import INT32_MAX
from byocir.dialects.intervals import integer_range
from byocir.dialects.types import shape_of
from byocir.rewrites.driver import NewOps
from byocir.rewrites.integers import clipped


def requantized_later(
    op: RequantizeOp,
    added: np.ndarray,
    reach: np.ndarray | None,
    requantize: Callable[[SSAValue], SSAValue],
    new: NewOps,
) -> SSAValue | None:
    """Makes the integers of a requantize whose sums are greater by `added` (int64, broadcast to
    them). `requantize` makes the op that scales them; it adds no zero point. None where others use
    the sums, or where these, which lie within `reach`, would leave i32.
    """
    if reach is None or np.max(reach + np.abs(added)) > INT32_MAX:
        return None
    sums, before = op.input, op.input.owner
    if isinstance(before, ReluOp) and _only_user(sums) is op:
        sums = before.input
    biased = _with_bias(sums, added.astype(np.int32), new)
    if biased is None:
        return None
    made = requantize(biased)
    if not isinstance(before, ReluOp):
        return made
    return clipped(made, (op.zero_point.value.data, integer_range(op.to).high), new)


def _only_user(value: SSAValue) -> Operation | None:
    uses = [*value.uses]
    return uses[0].operation if len(uses) == 1 else None


def _with_bias(sums: SSAValue, added: np.ndarray, new: NewOps) -> SSAValue | None:
    """Adds a number for each channel to sums, through their bias; None where others use the sums,
    or the bias is unknown.
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
    if isinstance(owner, MatmulOp | SumPoolOp):
        return new.add(AddOp.make(sums, new.constant(added))).result
    return None
