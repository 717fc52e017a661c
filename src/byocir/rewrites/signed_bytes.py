"""signed-bytes, unsigned-bytes: turn arrays of bytes of one sign into arrays of the other.

`signed-bytes` does: quantize ops to u8 quantise to i8 with a zero point that is 128 less, and
dequantize ops read it so; between them max pools and what moves elements (shape ops, concat, slice,
split, gather, pad, resize to the nearest, …) work on i8. Constants of u8 that are dequantised
become constants of i8. Products of u8 with constants that are summed as integers (ConvInteger,
MatMulInteger) become those of i8, plus 128 times the sum of an output's weights. At the borders,
where u8 goes in or comes out, or where another op works on it, `graph.requantize` adds -128 or 128
and nothing else.

`unsigned-bytes` does the opposite to what has the zero point -128, as what follows a relu has: it
becomes u8 without a zero point. It leaves what is not quantised, moved and dequantised alone, and
so has no borders.

Requires: nothing; zero points that are no constants stay as they are. A target asks for these
passes (`Target.signed_bytes`, `Target.unsigned_bytes`). They run first, while all that computes is
between dequantize and quantize.

Guarantees: every value keeps its bits but those that are of the other sign now, which are 128 less
or more. Locations are kept.
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

from byocir.dialects.array import ArrayAttr, known_values
from byocir.dialects.graph import (
    AddOp,
    ConcatOp,
    ConvOp,
    DequantizeOp,
    FixedAttr,
    GatherOp,
    GraphOp,
    MatmulOp,
    MaxPoolOp,
    PadOp,
    QuantizeOp,
    RequantizeOp,
    ResizeOp,
    SplitOp,
)
from byocir.dialects.graph.base import int_tuple
from byocir.dialects.types import dtype_of, element_type_of, i8, ui8
from byocir.patterns import Bound, constant, op, present, wildcard
from byocir.rewrites.clean_up import DropUndone, added_by
from byocir.rewrites.driver import NewOps, Pattern, rewrite_module
from byocir.rewrites.integers import surrounded
from byocir.rewrites.matching import rewrites
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
        patterns = _patterns(Change(ui8, i8, -OFFSET))
        rewrite_module(op, [*patterns, conv_of_signed_bytes, product_of_signed_bytes])


@dataclass(frozen=True)
class UnsignedBytesPass(ModulePass):
    """Makes arrays of signed bytes with zero point -128 between quantize and dequantize ops
    unsigned, without a zero point; exact."""

    name = "unsigned-bytes"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite_module(op, _patterns(Change(i8, ui8, OFFSET)))


@dataclass(frozen=True)
class Change:
    """Describes the change of arrays from bytes of type `old` to those of type `new`, which are
    greater by `offset`.
    """

    old: Attribute
    new: Attribute
    offset: int

    def of(self, values: np.ndarray) -> np.ndarray:
        """Converts numbers of the old type to the new one."""
        return (values.astype(np.int16) + self.offset).astype(dtype_of(self.new))

    def zero_of(self, zero_point: SSAValue, new: NewOps) -> SSAValue | None:
        """Makes the zero point of the new grid. None where the old one is of another type or not
        known, or where the new one of unsigned bytes would not be 0.
        """
        known = known_values(zero_point)
        if known is None or known.dtype != dtype_of(self.old):
            return None
        made = self.of(known)
        return None if self.new == ui8 and made.any() else new.constant(made)


def _patterns(change: Change) -> list[Pattern]:
    return [
        QuantizeToOther(change),
        DequantizeFromOther(change),
        MoveChangeOfSignDown(change),
        DropUndone(),
    ]


@dataclass(frozen=True)
class QuantizeToOther(Pattern):
    """Replaces `quantize(x)` to u8 by `quantize(x)` to i8 and 128 more, or the other way round."""

    change: Change
    roots = (QuantizeOp,)

    def rewrite(self, op: Operation, new: NewOps) -> Sequence[SSAValue] | None:
        assert isinstance(op, QuantizeOp)
        if self.change.new == ui8 and not _is_dequantized(op.result):
            return None
        zero = self.change.zero_of(op.zero_point, new)
        if zero is None:
            return None
        made = QuantizeOp.make(op.input, op.scale, zero, axis=op.axis, location=op.location)
        return [changed_sign(new.add(made).result, self.change.old, new)]


@dataclass(frozen=True)
class DequantizeFromOther(Pattern):
    """Replaces `dequantize(x)` of u8 by that of i8, 128 less; or that of i8 by that of u8, if bytes
    of the other sign are at hand.
    """

    change: Change
    roots = (DequantizeOp,)

    def rewrite(self, op: Operation, new: NewOps) -> Sequence[SSAValue] | None:
        assert isinstance(op, DequantizeOp)
        if self.change.new == ui8 and _changed_from(op.input, self.change.old) is None:
            return None
        zero = self.change.zero_of(op.zero_point, new)
        if zero is None:
            return None
        known = known_values(op.input)
        other = (
            new.constant(self.change.of(known))
            if known is not None
            else changed_sign(op.input, self.change.new, new)
        )
        made = DequantizeOp.make(other, op.scale, zero, axis=op.axis, location=op.location)
        return [new.add(made).result]


_UNSIGNED, _WEIGHT = wildcard("x", dtype=ui8), constant("w", where=present())


@rewrites(op("graph.conv", _UNSIGNED, _WEIGHT) @ "conv")
def conv_of_signed_bytes(x: Bound, w: Bound, conv: Bound, new: NewOps) -> SSAValue:
    """A conv of u8 with constants is one of i8, with a bias."""
    assert isinstance(conv.op, ConvOp)
    pads, window = int_tuple(conv.op.pads), dict[str, Any](conv.op.properties)
    image = changed_sign(x.value, i8, new)
    if any(pads):
        image = surrounded(image, pads, np.array(-OFFSET), new)
        window["pads"] = [0] * len(pads)
    weights = w.numbers.astype(np.int32).sum(axis=tuple(range(1, w.type.rank)))
    bias = new.constant((OFFSET * weights).astype(np.int32))
    return new.add(ConvOp.make(image, _signed_weight(w, new), bias, **window)).result


@rewrites(op("graph.matmul", _UNSIGNED, _WEIGHT))
def product_of_signed_bytes(x: Bound, w: Bound, new: NewOps) -> SSAValue:
    """A matmul of u8 with constants is one of i8, plus a number for each column."""
    factors = changed_sign(x.value, i8, new), _signed_weight(w, new)
    product = new.add(MatmulOp.make(*factors)).result
    row = max(w.type.rank - 2, 0)
    keep = x.type.rank > 1 and w.type.rank > 2
    columns = w.numbers.astype(np.int32).sum(axis=row, keepdims=keep)
    return new.add(AddOp.make(product, new.constant((OFFSET * columns).astype(np.int32)))).result


def _signed_weight(w: Bound, new: NewOps) -> SSAValue:
    """Gives weights of u8 as i8 if they fit, else as i16."""
    if w.type.element != ui8:
        return w.value
    narrow = w.numbers.max(initial=0) <= np.iinfo(np.int8).max
    return new.constant(w.numbers.astype(np.int8 if narrow else np.int16))


@dataclass(frozen=True)
class MoveChangeOfSignDown(Pattern):
    """Moves a change of sign, 128 more or less, behind a shape op, or another op that only moves or
    compares bytes.
    """

    change: Change
    roots = _SAME_FOR_BOTH

    def rewrite(self, op: Operation, new: NewOps) -> Sequence[SSAValue] | None:
        assert isinstance(op, GraphOp)
        if not _moves(op):
            return None
        moved = list(op.operands[:1] if isinstance(op, GatherOp) else op.operands)
        sources = [_changed_from(value, self.change.old) for value in moved]
        known = [source for source in sources if source is not None]
        if not known or len(known) < len(sources):
            return None
        operands = [*known, *op.operands[len(known) :]]
        made = type(op).make(
            *operands, location=op.location, **_changed_properties(op, self.change)
        )
        return [changed_sign(value, self.change.old, new) for value in new.add(made).results]


def _moves(op: Operation) -> bool:
    """Tells if an op of one of these kinds only moves or compares elements."""
    return not isinstance(op, ResizeOp) or is_nearest(op)


def _is_dequantized(value: SSAValue) -> bool:
    """Tells if every reader of a value dequantises it, perhaps after only moving it."""
    for use in value.uses:
        op = use.operation
        if isinstance(op, DequantizeOp) and use.index == 0:
            continue
        alone = isinstance(op, _SAME_FOR_BOTH) and not isinstance(op, ConcatOp) and use.index == 0
        if not (alone and _moves(op) and all(map(_is_dequantized, op.results))):
            return False
    return True


def _changed_properties(op: GraphOp, change: Change) -> dict[str, Any]:
    """Gives the properties with which an op works on bytes of the other sign: the number that a pad
    adds changes, too.
    """
    properties = dict[str, Any](op.properties)
    if isinstance(op, PadOp) and op.mode.data == "constant":
        fill = np.zeros((), dtype_of(change.old)) if op.value is None else op.value.data.values()
        properties["value"] = ArrayAttr.of(change.of(fill))
    return properties


def changed_sign(value: SSAValue, to: Attribute, new: NewOps) -> SSAValue:
    """Converts bytes of one sign to the other."""
    zero, one = (-OFFSET if to == i8 else OFFSET), new.constant(np.array(1, np.int32))
    op = RequantizeOp.make(value, one, rounding=FixedAttr.of(0), to=to, zero_point=zero)
    return new.add(op).result


def _changed_from(value: SSAValue, to: Attribute) -> SSAValue | None:
    """Finds the bytes that were converted to a value of this type by a change of sign; None for
    other values.
    """
    op = value.owner
    if not isinstance(op, RequantizeOp) or op.to != to:
        return None
    came_from, offset = (i8, OFFSET) if to == ui8 else (ui8, -OFFSET)
    changes = element_type_of(op.input.type) == came_from and added_by(op) == offset
    return op.input if changes else None
