"""Reads index values as affine expressions of loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import affine, arith
from xdsl.dialects.builtin import AffineMapAttr, IntegerAttr
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineBinaryOpExpr, AffineBinaryOpKind, AffineConstantExpr, AffineExpr

from byocir.dialects.intervals import Interval
from byocir.dialects.tir.affine import bounds, canonical
from byocir.dialects.tir.linear import spans
from byocir.lowering.scf_to_tir.statements import NotRaised, SourceLoop


class IndexExprs:
    """Holds the index values known so far: the loops, by number, and expressions of their
    indices.
    """

    def __init__(self) -> None:
        self.loops: list[SourceLoop] = []
        self._known: dict[SSAValue, AffineExpr] = {}

    def new_loop(self, extent: int, name: str) -> SourceLoop:
        made = SourceLoop(len(self.loops), extent, name)
        self.loops.append(made)
        return made

    def learn(self, value: SSAValue, expr: AffineExpr) -> None:
        """Notes the expression of an index value."""
        self._known[value] = canonical(expr)

    def bounds(self, expr: AffineExpr) -> Interval:
        """Gives an interval that contains all values of an expression."""
        return bounds(expr, spans([loop.extent for loop in self.loops]))

    def expr(self, value: SSAValue) -> AffineExpr:
        """Gives an index value as an expression; raises NotRaised."""
        least = self.least(value)
        if len(least) > 1:
            raise NotRaised("expected an affine index, found a minimum")
        return least[0]

    def number(self, value: SSAValue) -> int:
        """Gives an index value that is a constant; raises NotRaised."""
        found = self.expr(value)
        if not isinstance(found, AffineConstantExpr):
            raise NotRaised("expected a constant step, found another")
        return found.value

    def least(self, value: SSAValue) -> list[AffineExpr]:
        """Gives expressions the smallest of which is an index value; raises NotRaised."""
        if value in self._known:
            return [self._known[value]]
        op = value.owner
        if not isinstance(op, Operation):
            raise NotRaised("expected an index of the loops around, found an argument")
        if isinstance(op, arith.MinSIOp):
            return self._smallest([*self.least(op.lhs), *self.least(op.rhs)])
        if isinstance(op, affine.MinOp):
            return self._smallest(self.mapped(op.map, list(op.operands)))
        try:
            found = canonical(self._computed(op))
        except ValueError as error:
            raise NotRaised("expected an affine index, found another") from error
        self._known[value] = found
        return [found]

    def _smallest(self, exprs: Sequence[AffineExpr]) -> list[AffineExpr]:
        """Drops the expressions that are never below all others."""
        kept: list[AffineExpr] = []
        for i, expr in enumerate(exprs):
            others = [*kept, *exprs[i + 1 :]]
            if not any(self.bounds(canonical(expr + other * -1))[0] >= 0 for other in others):
                kept.append(canonical(expr))
        return kept

    def mapped(self, map_: AffineMapAttr, operands: Sequence[SSAValue]) -> list[AffineExpr]:
        """Applies a map to index values; raises NotRaised."""
        given = [self.expr(operand) for operand in operands]
        dims, symbols = given[: map_.data.num_dims], given[map_.data.num_dims :]
        try:
            return [
                canonical(expr.replace_dims_and_symbols(dims, symbols))
                for expr in map_.data.results
            ]
        except ValueError as error:
            raise NotRaised(str(error)) from error

    def _computed(self, op: Operation) -> AffineExpr:
        if isinstance(op, arith.ConstantOp) and isinstance(op.value, IntegerAttr):
            return AffineExpr.constant(op.value.value.data)
        if isinstance(op, affine.ApplyOp):
            return self.mapped(op.map, list(op.mapOperands))[0]
        rule = _RULES.get(type(op))
        if rule is None:
            raise NotRaised(f"expected an affine index, found one that {op.name} computes")
        if len(op.operands) == 1:
            return self.expr(op.operands[0])
        return rule(self, self.expr(op.operands[0]), self.expr(op.operands[1]))

    def divided(self, kind: AffineBinaryOpKind, lhs: AffineExpr, rhs: AffineExpr) -> AffineExpr:
        """Makes a quotient or remainder. Raises NotRaised for a dividend that may be negative, for
        signed division rounds otherwise there.
        """
        if self.bounds(lhs)[0] < 0:
            raise NotRaised("expected an index from 0 on to divide, found one that may be less")
        return AffineBinaryOpExpr(kind, lhs, rhs)


_Rule = Callable[[IndexExprs, AffineExpr, AffineExpr], AffineExpr]


def _divide(indices: IndexExprs, x: AffineExpr, y: AffineExpr) -> AffineExpr:
    return indices.divided(AffineBinaryOpKind.FloorDiv, x, y)


def _remainder(indices: IndexExprs, x: AffineExpr, y: AffineExpr) -> AffineExpr:
    return indices.divided(AffineBinaryOpKind.Mod, x, y)


_RULES: dict[type[Operation], _Rule] = {
    arith.AddiOp: lambda _, x, y: x + y,
    arith.SubiOp: lambda _, x, y: x + y * -1,
    arith.MuliOp: lambda _, x, y: AffineBinaryOpExpr(AffineBinaryOpKind.Mul, x, y),
    arith.FloorDivSIOp: lambda _, x, y: AffineBinaryOpExpr(AffineBinaryOpKind.FloorDiv, x, y),
    arith.DivSIOp: _divide,
    arith.DivUIOp: _divide,
    arith.RemSIOp: _remainder,
    arith.RemUIOp: _remainder,
    arith.IndexCastOp: lambda _, x, y: x,
}


def conditions(indices: IndexExprs, value: SSAValue) -> list[AffineExpr]:
    """Gives the expressions that must be at least 0 for an i1 to hold; raises NotRaised."""
    op = value.owner
    if isinstance(op, arith.AndIOp):
        return [*conditions(indices, op.lhs), *conditions(indices, op.rhs)]
    if not isinstance(op, arith.CmpiOp):
        raise NotRaised("expected a comparison of indices as condition, found another")
    predicate = arith.CMPI_COMPARISON_OPERATIONS[op.predicate.value.data]
    lhs, rhs = indices.expr(op.lhs), indices.expr(op.rhs)
    more, less = canonical(lhs + rhs * -1), canonical(rhs + lhs * -1)
    if predicate[0] == "u" and min(indices.bounds(lhs)[0], indices.bounds(rhs)[0]) < 0:
        raise NotRaised("expected a comparison of signed indices, found an unsigned one")
    told = {"ge": [more], "gt": [more + -1], "le": [less], "lt": [less + -1], "eq": [more, less]}
    found = told.get(predicate[-2:])
    if found is None:
        raise NotRaised(f"expected a comparison that bounds an index, found '{predicate}'")
    return [canonical(expr) for expr in found]
