"""signed-bytes: arrays of unsigned bytes become arrays of signed ones.

Does: quantize ops to u8 quantise to i8 with a zero point that is 128 less, and dequantize ops read
it so; between them max pools and what moves elements (shape ops, concat, slice, split, gather, pad,
resize to the nearest, …) work on i8. Constants of u8 that
are dequantised become constants of i8. At the borders, where u8 goes in or comes out, or where
another op works on it, `graph.requantize` adds -128 or 128 and nothing else.

Requires: nothing; zero points that are no constants stay as they are. A target asks for this pass
(`Target.signed_bytes`). It runs first, while all that computes is between dequantize and quantize.

Guarantees: every value keeps its bits but those that are i8 now, which are 128 less. Locations are
kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass

from byocir.dialects.array import ArrayAttr
from byocir.dialects.graph import (
    ConcatOp,
    DequantizeOp,
    FixedAttr,
    GatherOp,
    GraphOp,
    MaxPoolOp,
    PadOp,
    QuantizeOp,
    RequantizeOp,
    ResizeOp,
    SplitOp,
)
from byocir.dialects.types import element_type_of, i8, ui8
from byocir.rewrites.clean_up import DropUndone, added_by
from byocir.rewrites.driver import NewOps, Pattern, rewrite_module
from byocir.rewrites.grid import constant_array
from byocir.rewrites.movement_ops import MOVING_OPS, is_nearest

OFFSET = 128
"""The number by which a signed byte is less than the unsigned one that it stands for."""

_SAME_FOR_BOTH = (*MOVING_OPS, GatherOp, SplitOp, ConcatOp, MaxPoolOp)
"""Ops that move or compare bytes, which the offset leaves alone."""


@dataclass(frozen=True)
class SignedBytesPass(ModulePass):
    """Makes arrays of unsigned bytes between quantize and dequantize ops signed; exact."""

    name = "signed-bytes"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite_module(
            op,
            [
                QuantizeToSigned(),
                DequantizeFromSigned(),
                MoveChangeOfSignDown(),
                DropUndone(),
            ],
        )


class QuantizeToSigned(Pattern):
    """`quantize(x)` to u8 is `quantize(x)` to i8 and 128 more."""

    roots = (QuantizeOp,)

    def rewrite(self, op: Operation, new: NewOps) -> Sequence[SSAValue] | None:
        assert isinstance(op, QuantizeOp)
        zero = _signed_zero(op.zero_point, new)
        if zero is None:
            return None
        made = QuantizeOp.make(op.input, op.scale, zero, axis=op.axis, location=op.location)
        return [changed_sign(new.add(made).result, ui8, new)]


class DequantizeFromSigned(Pattern):
    """`dequantize(x)` of u8 is that of 128 less."""

    roots = (DequantizeOp,)

    def rewrite(self, op: Operation, new: NewOps) -> Sequence[SSAValue] | None:
        assert isinstance(op, DequantizeOp)
        zero = _signed_zero(op.zero_point, new)
        if zero is None:
            return None
        known = constant_array(op.input)
        signed = (
            new.constant(_less(known.values()))
            if known is not None and known.present
            else changed_sign(op.input, i8, new)
        )
        made = DequantizeOp.make(signed, op.scale, zero, axis=op.axis, location=op.location)
        return [new.add(made).result]


class MoveChangeOfSignDown(Pattern):
    """A shape op, or another that only moves or compares, of bytes with 128 added is 128 more than
    that of the bytes."""

    roots = _SAME_FOR_BOTH

    def rewrite(self, op: Operation, new: NewOps) -> Sequence[SSAValue] | None:
        assert isinstance(op, GraphOp)
        if isinstance(op, ResizeOp) and not is_nearest(op):
            return None
        moved = list(op.operands[:1] if isinstance(op, GatherOp) else op.operands)
        sources = [_changed_from(value, ui8) for value in moved]
        signed = [source for source in sources if source is not None]
        if not signed or len(signed) < len(sources):
            return None
        operands = [*signed, *op.operands[len(signed) :]]
        made = type(op).make(*operands, location=op.location, **_signed_properties(op))
        return [changed_sign(value, ui8, new) for value in new.add(made).results]


def _signed_properties(op: GraphOp) -> dict[str, Any]:
    """Gives the properties with which an op on bytes works on those of 128 less: a pad adds such,
    too.
    """
    properties = dict[str, Any](op.properties)
    if isinstance(op, PadOp) and op.mode.data == "constant":
        fill = np.zeros((), np.uint8) if op.value is None else op.value.data.values()
        properties["value"] = ArrayAttr.of(_less(fill))
    return properties


def _signed_zero(zero_point: SSAValue, new: NewOps) -> SSAValue | None:
    """Gives the zero point of the signed grid; None where that of the grid is not u8, or not
    known."""
    known = constant_array(zero_point)
    if known is None or not known.present or known.dtype != np.uint8:
        return None
    return new.constant(_less(known.values()))


def _less(values: np.ndarray) -> np.ndarray:
    return (values.astype(np.int16) - OFFSET).astype(np.int8)


def changed_sign(value: SSAValue, to: Attribute, new: NewOps) -> SSAValue:
    """Gives the bytes of one sign as those of the other."""
    zero, one = (-OFFSET if to == i8 else OFFSET), new.constant(np.array(1, np.int32))
    op = RequantizeOp.make(value, one, rounding=FixedAttr.of(0), to=to, zero_point=zero)
    return new.add(op).result


def _changed_from(value: SSAValue, to: Attribute) -> SSAValue | None:
    """Gives the bytes whose change of sign makes a value of this type; None for other values."""
    op = value.owner
    if not isinstance(op, RequantizeOp) or op.to != to:
        return None
    came_from, offset = (i8, OFFSET) if to == ui8 else (ui8, -OFFSET)
    changes = element_type_of(op.input.type) == came_from and added_by(op) == offset
    return op.input if changes else None
