"""Writes index expressions as arith ops, and the index constants of a function, each once."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, IntegerAttr
from xdsl.ir import Block, SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineExpr,
)
from xdsl.rewriter import InsertPoint, Rewriter

from byocir.dialects.emitting import emit
from byocir.dialects.intervals import Interval
from byocir.dialects.tir.affine import bounds, canonical, division_of, form_of


class Numbers:
    """Collects index constants, to be put at the begin of a function."""

    def __init__(self, entry: Block) -> None:
        self._entry = entry
        self._made: dict[int, arith.ConstantOp] = {}

    def index(self, number: int) -> SSAValue:
        if number not in self._made:
            made = arith.ConstantOp.create(
                properties={"value": IntegerAttr.from_index_int_value(number)},
                result_types=[IndexType()],
            )
            made.result.name_hint = f"c{number}" if number >= 0 else f"cm{-number}"
            self._made[number] = made
        return self._made[number].result

    def insert(self) -> None:
        """Puts the constants into the function, in order."""
        ops = [op for _, op in sorted(self._made.items())]
        if ops:
            Rewriter.insert_op(ops, InsertPoint.at_start(self._entry))


class NestPoint:
    """Describes the iterators of a nest at its innermost place: their values and, if known,
    intervals.

    Emits as `emitting_to` says; what was computed once is used again, so a point must
    not outlive the place where it was made.
    """

    def __init__(
        self, numbers: Numbers, values: Sequence[SSAValue], intervals: Sequence[Interval | None]
    ) -> None:
        self._numbers, self._values, self._intervals = numbers, values, intervals
        self._known: dict[AffineExpr, SSAValue] = {}

    def bounds(self, expr: AffineExpr) -> Interval | None:
        """Gives an interval that contains the values of an expression, if one is known."""
        used = expr.used_dims()
        if any(self._intervals[i] is None for i in used):
            return None
        return bounds(expr, [interval or Interval.at(0) for interval in self._intervals])

    def index(self, expr: AffineExpr) -> SSAValue:
        """Emits the value of an expression."""
        expr = canonical(expr)
        if expr not in self._known:
            self._known[expr] = self._emit(expr)
        return self._known[expr]

    def _emit(self, expr: AffineExpr) -> SSAValue:
        form = form_of(expr)
        parts = [
            self._scaled(self._values[atom] if isinstance(atom, int) else self._division(atom), c)
            for atom, c in form.terms
        ]
        if form.constant or not parts:
            parts.append(self._numbers.index(form.constant))
        total = parts[0]
        for part in parts[1:]:
            total = emit(arith.AddiOp(total, part)).result
        return total

    def _scaled(self, value: SSAValue, factor: int) -> SSAValue:
        if factor == 1:
            return value
        return emit(arith.MuliOp(value, self._numbers.index(factor))).result

    def _division(self, expr: AffineExpr) -> SSAValue:
        """Emits a quotient or remainder; signed division rounds as affine maps do from 0 on
        only.
        """
        assert isinstance(expr, AffineBinaryOpExpr)
        dividend, divisor = division_of(expr)
        if expr.kind is AffineBinaryOpKind.CeilDiv:
            dividend = dividend + (divisor - 1)
        within = self.bounds(dividend)
        is_positive = within is not None and within.low >= 0
        divide = arith.DivSIOp if is_positive else arith.FloorDivSIOp
        value, by = self.index(dividend), self._numbers.index(divisor)
        if expr.kind is not AffineBinaryOpKind.Mod:
            return emit(divide(value, by)).result
        if is_positive:
            return emit(arith.RemSIOp(value, by)).result
        quotient = emit(divide(value, by)).result
        return emit(arith.SubiOp(value, emit(arith.MuliOp(quotient, by)).result)).result

    def condition(self, exprs: Sequence[AffineExpr]) -> SSAValue | None:
        """Emits the test that all expressions are at least 0; None where that is known to hold."""
        zero = self._numbers.index(0)
        holds: SSAValue | None = None
        for expr in exprs:
            within = self.bounds(expr)
            if within is not None and within.low >= 0:
                continue
            more = emit(arith.CmpiOp(self.index(expr), zero, "sge")).result
            holds = more if holds is None else emit(arith.AndIOp(holds, more)).result
        return holds
