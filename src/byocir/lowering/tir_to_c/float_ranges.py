"""Bounds the floats of a body, so that conversions to integers within bounds need no check.

Every operation rounds monotonically, so that its values at the ends of the operands' ranges,
computed in the operands' own type, bound all values between. A quotient in f32 may be computed as a
product, which may be a neighbour of it (`reciprocal`): its bounds are one float further out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from xdsl.dialects import arith, math
from xdsl.ir import Attribute, Operation, SSAValue

from byocir.dialects.array import known_values
from byocir.dialects.intervals import Interval
from byocir.dialects.tir import BlockOp
from byocir.dialects.types import dtype_of, f32, f64, is_integer, width_of
from byocir.evaluate.scalar import number


@dataclass(frozen=True)
class FloatRange:
    """Describes the least and the greatest number that a float may be; `nan` tells whether it may
    be NaN."""

    low: float
    high: float
    nan: bool

    def converts(self, to: Interval) -> bool:
        """Tells if all numbers of the range, cut off towards zero, are in an interval of
        integers.
        """
        return to.low - 1 < self.low and self.high < to.high + 1

    @property
    def is_finite(self) -> bool:
        return bool(np.isfinite(self.low) and np.isfinite(self.high))


ANY = FloatRange(-np.inf, np.inf, True)

Ranges = Mapping[SSAValue, FloatRange]
Rule = Callable[..., FloatRange]
"""The range of an op's result of a type, from those of its operands."""


def range_of_array(values: np.ndarray) -> FloatRange:
    """Gives the range of the elements of a float array."""
    if not values.size or np.isnan(values).any():
        return ANY
    return FloatRange(float(values.min()), float(values.max()), False)


def known_floats(*ops: BlockOp | None) -> dict[SSAValue, FloatRange]:
    """Finds the ranges of those arguments of bodies that are elements of constant float arrays."""
    found: dict[SSAValue, FloatRange] = {}
    for op in ops:
        if op is None:
            continue
        for value, argument, pad in zip(op.ins, op.body.block.args, op.pad_values, strict=False):
            values = known_values(value)
            if values is not None and argument.type in (f32, f64) and pad is None:
                found[argument] = range_of_array(values)
    return found


def range_of(value: SSAValue, known: Ranges) -> FloatRange:
    """Bounds a float in a body, given what is `known` of the body's arguments."""
    if value in known:
        return known[value]
    op = value.owner
    if value.type not in (f32, f64) or not isinstance(op, Operation):
        return ANY
    if isinstance(op, arith.ConstantOp):
        return range_of_array(np.asarray(number(op.value)))
    if isinstance(op, arith.SIToFPOp | arith.UIToFPOp):
        return _of_integers(op, value.type)
    rule = _RULES.get(type(op))
    if rule is None:
        return ANY
    with np.errstate(all="ignore"):
        return rule(value.type, *(range_of(operand, known) for operand in op.operands))


def _of_integers(op: arith.SIToFPOp | arith.UIToFPOp, type_: Attribute) -> FloatRange:
    source = op.input.type
    if not is_integer(source):
        return ANY
    ends = Interval.of_bits(width_of(source), signed=isinstance(op, arith.SIToFPOp))
    low, high = (float(dtype_of(type_).type(end)) for end in ends)
    return FloatRange(low, high, False)


def _at_ends(operation: np.ufunc) -> Rule:
    """Makes the rule for an operation that is monotone in each operand between its zeros and poles:
    its range follows from the ends of the operands'.
    """

    def rule(type_: Attribute, one: FloatRange, other: FloatRange) -> FloatRange:
        crosses = operation is np.divide and other.low <= 0 <= other.high
        if crosses or not (one.is_finite and other.is_finite):
            return ANY
        dtype = dtype_of(type_)
        ends = operation.outer(
            np.array([one.low, one.high], dtype), np.array([other.low, other.high], dtype)
        )
        return FloatRange(float(ends.min()), float(ends.max()), one.nan or other.nan)

    return rule


def _quotient(type_: Attribute, one: FloatRange, other: FloatRange) -> FloatRange:
    exact = _at_ends(np.divide)(type_, one, other)
    if type_ != f32:
        return exact
    low = np.nextafter(np.float32(exact.low), np.float32(-np.inf))
    high = np.nextafter(np.float32(exact.high), np.float32(np.inf))
    return FloatRange(float(low), float(high), exact.nan)


def _extreme(pick: Callable[[float, float], float]) -> Rule:
    def rule(type_: Attribute, one: FloatRange, other: FloatRange) -> FloatRange:
        low, high = pick(one.low, other.low), pick(one.high, other.high)
        return FloatRange(low, high, one.nan or other.nan)

    return rule


def _rounded(type_: Attribute, one: FloatRange) -> FloatRange:
    return FloatRange(float(np.rint(one.low)), float(np.rint(one.high)), one.nan)


_RULES: dict[type[Operation], Rule] = {
    arith.AddfOp: _at_ends(np.add),
    arith.SubfOp: _at_ends(np.subtract),
    arith.MulfOp: _at_ends(np.multiply),
    arith.DivfOp: _quotient,
    arith.MaximumfOp: _extreme(max),
    arith.MinimumfOp: _extreme(min),
    math.RoundEvenOp: _rounded,
}
