"""Writes comparisons and extremes of scalars in C."""

from __future__ import annotations

import math

from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, IntegerAttr
from xdsl.ir import Operation, SSAValue

from byocir.dialects.intervals import Interval
from byocir.dialects.types import i1, is_integer, width_of
from byocir.lowering.tir_to_c.literals import unsigned_type

_COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_OPPOSITE = {"eq": "ne", "ne": "eq", "lt": "ge", "le": "gt", "gt": "le", "ge": "lt"}


def _is_number(value: SSAValue) -> bool:
    """Tells if a float is a constant other than NaN."""
    constant = value.owner.value if isinstance(value.owner, arith.ConstantOp) else None
    return isinstance(constant, FloatAttr) and not math.isnan(constant.value.data)


def extreme_float(op: Operation, operands: list[str]) -> str:
    """Writes the minimum or maximum of floats, which is NaN if one is. Against a number it takes
    one comparison.
    """
    sign = ">" if isinstance(op, arith.MaximumfOp) else "<"
    x, y = operands
    for value, known, other in ((op.operands[1], y, x), (op.operands[0], x, y)):
        if _is_number(value):
            return f"{known} {sign} {other} ? {known} : {other}"
    return f"{x} {sign} {y} || {x} != {x} ? {x} : {y}"


def compare_integers(op: arith.CmpiOp, operands: list[str]) -> str:
    """Writes a comparison of integers."""
    predicate, type_ = arith.CMPI_COMPARISON_OPERATIONS[op.predicate.value.data], op.lhs.type
    x, y = operands
    if predicate[0] == "u" and type_ != i1:
        x, y = (f"({unsigned_type(type_)}){value}" for value in operands)
    elif predicate[0] == "s" and type_ == i1:  # as a signed i1, true is -1
        x, y = y, x
    known = decided(op, _COMPARE[predicate[-2:]], signed=predicate[0] != "u")
    if known is not None:
        return str(int(known))
    return f"(uint8_t)({x} {_COMPARE[predicate[-2:]]} {y})"


def decided(op: Operation, sign: str, *, signed: bool) -> bool | None:
    """Tells if a comparison holds for all numbers in the ranges of its operands, or for none; None
    if for some.
    """
    type_ = op.operands[0].type
    if not is_integer(type_) or type_ == i1:
        return None
    whole = Interval.of_bits(width_of(type_), signed=signed)
    ranges = [_range(value, whole) for value in op.operands]
    (least, most), (other_least, other_most) = ranges
    if sign in (">", "<="):
        always, never = least > other_most, most <= other_least
    elif sign in ("<", ">="):
        always, never = most < other_least, least >= other_most
    else:
        return None
    if sign in ("<=", ">="):
        always, never = never, always
    return True if always else False if never else None


def _range(value: SSAValue, whole: Interval) -> Interval:
    """Bounds the number that a value is: a constant, else any number of its type."""
    owner = value.owner
    if not isinstance(owner, arith.ConstantOp) or not isinstance(owner.value, IntegerAttr):
        return whole
    number = owner.value.value.data % whole.size
    return Interval.at(number - whole.size if number > whole.high else number)


def compare_floats(op: arith.CmpfOp, operands: list[str]) -> str:
    """Writes a comparison of floats, some of which hold for NaN."""
    predicate = arith.CMPF_COMPARISON_OPERATIONS[op.predicate.value.data]
    x, y = operands
    special = {
        "false": "0",
        "true": "1",
        "ord": f"({x} == {x} && {y} == {y})",
        "uno": f"({x} != {x} || {y} != {y})",
        "one": f"({x} < {y} || {x} > {y})",
        "ueq": f"!({x} < {y} || {x} > {y})",
        "oeq": f"({x} == {y})",
        "une": f"({x} != {y})",
    }
    if predicate in special:
        return f"(uint8_t){special[predicate]}"
    if predicate[0] == "o":
        return f"(uint8_t)({x} {_COMPARE[predicate[1:]]} {y})"
    return f"(uint8_t)!({x} {_COMPARE[_OPPOSITE[predicate[1:]]]} {y})"
