"""Index maps as addresses: offsets into flat arrays, and what lies outside of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineExpr,
    AffineMap,
)

from byocir.dialects.tir.affine import bounds, canonical, decompose
from byocir.dialects.types import Shape


@dataclass(frozen=True)
class Inside:
    """That an index is in [0, size); either side may be known."""

    expr: AffineExpr
    size: int | None
    """None where no index is too large."""
    from_zero: bool
    """Whether an index may be negative."""


@dataclass(frozen=True)
class Offset:
    """`sum(coefficient * iterator) + sum(coefficient * term) + constant`, where terms divide or
    take remainders."""

    coefficients: dict[int, int]
    terms: tuple[tuple[AffineExpr, int], ...]
    constant: int

    @property
    def in_terms(self) -> set[int]:
        """The iterators that terms depend on."""
        return {i for term, _ in self.terms for i in term.used_dims()}

    def coefficient(self, iterator: int) -> int:
        return self.coefficients.get(iterator, 0)

    def without(self, iterator: int) -> Offset:
        """The offset where an iterator, which is in no term, is 0."""
        rest = {i: c for i, c in self.coefficients.items() if i != iterator}
        return replace(self, coefficients=rest)


def strides_of(shape: Shape) -> list[int]:
    """Row-major, in elements."""
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.insert(0, step)
        step *= size
    return strides


def offset_of(map_: AffineMap, shape: Shape) -> Offset:
    """Where in a flat, row-major array of this shape the element is."""
    flat = AffineExpr.constant(0)
    for expr, stride in zip(map_.results, strides_of(shape), strict=True):
        flat = AffineBinaryOpExpr(
            AffineBinaryOpKind.Add,
            flat,
            AffineBinaryOpExpr(AffineBinaryOpKind.Mul, expr, AffineExpr.constant(stride)),
        )
    coefficients, terms, constant = decompose(flat)
    ordered = sorted(terms.items(), key=lambda item: str(item[0]))
    return Offset(dict(sorted(coefficients.items())), tuple(ordered), constant)


def outside_of(
    map_: AffineMap, shape: Shape, lows: Sequence[int], highs: Sequence[int]
) -> list[Inside]:
    """What must hold for an access to be inside, as far as it does not always where iterators are
    from `lows` to `highs`."""
    checks: list[Inside] = []
    for expr, size in zip(map_.results, shape, strict=True):
        low, high = bounds(expr, lows, highs)
        if low < 0 or high >= size:
            checks.append(Inside(canonical(expr), size if high >= size else None, low < 0))
    return checks


class Indices:
    """Writes index expressions in C, given what iterators are called and their least and greatest
    values."""

    def __init__(self, names: Sequence[str], lows: Sequence[int], highs: Sequence[int]) -> None:
        self._names, self._lows, self._highs = names, lows, highs
        self.helpers: dict[str, str] = {}

    def offset(self, offset: Offset) -> str:
        """An offset as a C expression."""
        parts = [self._scaled(self._names[i], c) for i, c in offset.coefficients.items()]
        parts += [self._scaled(self._division(term), c) for term, c in offset.terms]
        return self._sum(parts, offset.constant)

    def expr(self, expr: AffineExpr) -> str:
        """An index expression."""
        coefficients, terms, constant = decompose(expr)
        parts = [self._scaled(self._names[i], c) for i, c in sorted(coefficients.items())]
        ordered = sorted(terms.items(), key=lambda item: str(item[0]))
        parts += [self._scaled(self._division(term), c) for term, c in ordered]
        return self._sum(parts, constant)

    def condition(self, check: Inside) -> str:
        """That an index is inside."""
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
        """floordiv and mod of what may be negative need more than C's operators."""
        assert isinstance(term, AffineBinaryOpExpr)
        assert isinstance(term.rhs, AffineConstantExpr)
        divisor, lhs = term.rhs.value, term.lhs
        kind = term.kind
        if kind is AffineBinaryOpKind.CeilDiv:  # the floor of what is almost one more
            lhs, kind = canonical(lhs + (divisor - 1)), AffineBinaryOpKind.FloorDiv
        floor = kind is AffineBinaryOpKind.FloorDiv
        text = self.expr(lhs)
        if bounds(lhs, self._lows, self._highs)[0] >= 0:
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
