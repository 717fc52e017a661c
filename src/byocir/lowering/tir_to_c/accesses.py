"""Turns index maps into addresses: offsets into flat arrays, and the checks for what lies outside
of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineExpr,
    AffineMap,
)

from byocir.dialects.intervals import Interval
from byocir.dialects.tir.affine import IndexForm, bounds, canonical, division_of, form_of
from byocir.dialects.types import Shape, strides_of


@dataclass(frozen=True)
class Inside:
    """Checks that an index is in [0, size); a side that always holds is left out."""

    expr: AffineExpr
    size: int | None
    """None where no index is too large."""
    from_zero: bool
    """Asks for a check that no index is negative."""


def offset_of(map_: AffineMap, shape: Shape) -> IndexForm:
    """Gives the offset of an element in a flat, row-major array of this shape: [i, j] → i * n +
    j."""
    flat = AffineExpr.constant(0)
    for expr, stride in zip(map_.results, strides_of(shape), strict=True):
        flat = AffineBinaryOpExpr(
            AffineBinaryOpKind.Add,
            flat,
            AffineBinaryOpExpr(AffineBinaryOpKind.Mul, expr, AffineExpr.constant(stride)),
        )
    return form_of(flat)


def outside_of(map_: AffineMap, shape: Shape, known: Sequence[Interval]) -> list[Inside]:
    """Lists the checks that an access needs to be inside its array, where iterators are in these
    intervals; those that always hold are left out.
    """
    checks: list[Inside] = []
    for expr, size in zip(map_.results, shape, strict=True):
        low, high = bounds(expr, known)
        if low < 0 or high >= size:
            checks.append(Inside(canonical(expr), size if high >= size else None, low < 0))
    return checks


class IndexText:
    """Writes index expressions in C, given what iterators are called and the intervals that they
    are in."""

    def __init__(self, names: Sequence[str], known: Sequence[Interval]) -> None:
        self._names, self._known = names, known
        self.helpers: dict[str, str] = {}

    def offset(self, form: IndexForm) -> str:
        """Writes a linear form as a C expression."""
        parts = [
            self._scaled(self._names[atom] if isinstance(atom, int) else self._division(atom), c)
            for atom, c in form.terms
        ]
        return self._sum(parts, form.constant)

    def expr(self, expr: AffineExpr) -> str:
        """Writes an index expression."""
        return self.offset(form_of(expr))

    def condition(self, check: Inside) -> str:
        """Writes the condition under which an index is inside."""
        text = self.expr(check.expr)
        parts = [f"{text} >= 0"] if check.from_zero else []
        parts += [f"{text} < {check.size}"] if check.size is not None else []
        return " && ".join(parts)

    def _sum(self, parts: list[str], constant: int) -> str:
        parts = [part for part in parts if part != "0"]
        text = " + ".join(parts)
        if not parts:
            return str(constant)
        if constant:
            text += f" {'+' if constant > 0 else '-'} {abs(constant)}"
        return text

    def _scaled(self, text: str, coefficient: int) -> str:
        if text == "0" or coefficient == 1:
            return text
        return f"{coefficient} * {text}" if coefficient > 0 else f"({coefficient}) * {text}"

    def _division(self, term: AffineExpr) -> str:
        """Writes floordiv or mod, which need more than C's operators where the dividend may be
        negative.
        """
        assert isinstance(term, AffineBinaryOpExpr)
        kind, (lhs, divisor) = term.kind, division_of(term)
        if kind is AffineBinaryOpKind.CeilDiv:  # ceil(a / b) = floor((a + b - 1) / b)
            lhs, kind = canonical(lhs + (divisor - 1)), AffineBinaryOpKind.FloorDiv
        floor = kind is AffineBinaryOpKind.FloorDiv
        text = self.expr(lhs)
        if bounds(lhs, self._known).low >= 0:
            return f"(({text}) {'/' if floor else '%'} {divisor})"
        name = "floor_div" if floor else "floor_mod"
        self.helpers[name] = _FLOOR[name]
        return f"{name}({text}, {divisor})"


_FLOOR = {
    "floor_div": (
        "static inline ptrdiff_t floor_div(ptrdiff_t x, ptrdiff_t y)\n"
        "{\n    return x >= 0 ? x / y : -((y - 1 - x) / y);\n}\n"
    ),
    "floor_mod": (
        "static inline ptrdiff_t floor_mod(ptrdiff_t x, ptrdiff_t y)\n"
        "{\n    return x >= 0 ? x % y : y - 1 - (-1 - x) % y;\n}\n"
    ),
}
