"""Moves the clamp of a float between whole numbers behind its conversion to an integer. Both are
monotone, so the result is the same, and compilers do it better."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.ir import Attribute, Operation, SSAValue

from byocir.dialects.intervals import Interval
from byocir.dialects.types import width_of
from byocir.evaluate.scalar import number
from byocir.lowering.tir_to_c.float_ranges import Ranges, range_of
from byocir.lowering.tir_to_c.literals import c_type
from byocir.lowering.tir_to_c.tree import Declare

INT32 = Interval.of_bits(32, signed=True)


@dataclass(frozen=True)
class ClampAfterCast:
    """Replaces the clamp of a float, done by these `ops`, by one of its integer between `low` and
    `high`.
    """

    value: SSAValue
    low: int
    high: int
    ops: tuple[Operation, ...]
    target: Attribute

    def statements(self, name: str, names: Mapping[SSAValue, str]) -> list[Declare]:
        """Writes statements that define the integer under its name; `names` has the float's."""
        own, low, high = c_type(self.target), f"({self.low})", f"({self.high})"
        return [
            Declare("int32_t", f"{name}_", f"(int32_t){names[self.value]}"),
            Declare("int32_t", f"{name}__", f"{name}_ > {low} ? {name}_ : {low}"),
            Declare(own, name, f"({own})({name}__ < {high} ? {name}__ : {high})"),
        ]


def clamp_after_cast(op: Operation, known: Ranges) -> ClampAfterCast | None:
    """Finds the clamp before a conversion to integers that can be done behind a conversion to 32
    bits.
    """
    if not isinstance(op, arith.FPToSIOp | arith.FPToUIOp) or width_of(op.result.type) > 32:
        return None
    smaller = op.input.owner
    larger = smaller.lhs.owner if isinstance(smaller, arith.MinimumfOp) else None
    if not isinstance(smaller, arith.MinimumfOp) or not isinstance(larger, arith.MaximumfOp):
        return None
    low, high = _whole(larger.rhs), _whole(smaller.rhs)
    alone = larger.result.has_one_use() and smaller.result.has_one_use()
    if low is None or high is None or low > high or not alone:
        return None
    seen = range_of(larger.lhs, known)
    signed = isinstance(op, arith.FPToSIOp)
    ends = Interval.of_bits(width_of(op.result.type), signed=signed)
    if seen.nan or not seen.converts(INT32) or low < ends.low or high > min(ends.high, INT32.high):
        return None
    return ClampAfterCast(larger.lhs, low, high, (larger, smaller), op.result.type)


def _whole(value: SSAValue) -> int | None:
    owner = value.owner
    if not isinstance(owner, arith.ConstantOp):
        return None
    found = float(number(owner.value))
    return int(found) if abs(found) < 2.0**31 and found == int(found) else None
