"""Index expressions: canonical form, bounds, and text with iterator names.

Index maps are xDSL's `AffineMap`s with one dimension per iterator of a block. Here they are kept in
one canonical form (linear terms in order of their iterators, then floordiv/mod terms, then the
constant), so that equal maps compare equal however they were built, and printing then parsing
gives the same map.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
)
from xdsl.parser import AttrParser

_KIND_WORDS = {
    AffineBinaryOpKind.FloorDiv: "floordiv",
    AffineBinaryOpKind.CeilDiv: "ceildiv",
    AffineBinaryOpKind.Mod: "mod",
}


@dataclass(frozen=True)
class Linear:
    """`sum(coefficient * iterator) + constant`; `terms` holds non-zero coefficients by iterator."""

    terms: tuple[tuple[int, int], ...]
    constant: int

    def coefficient(self, iterator: int) -> int:
        return dict(self.terms).get(iterator, 0)

    def bounds(self, lows: Sequence[int], highs: Sequence[int]) -> tuple[int, int]:
        """Smallest and largest value when iterator i runs over [lows[i], highs[i]]."""
        ends = [sorted((c * lows[i], c * highs[i])) for i, c in self.terms]
        return (
            sum(low for low, _ in ends) + self.constant,
            sum(high for _, high in ends) + self.constant,
        )


def linear(expr: AffineExpr) -> Linear | None:
    """The linear form of an expression, or None when it divides or takes a remainder."""
    terms, rest, constant = decompose(expr)
    return None if rest else Linear(tuple(sorted(terms.items())), constant)


def canonical(expr: AffineExpr) -> AffineExpr:
    """The one form in which equal expressions are equal objects."""
    if type(expr) is AffineDimExpr or type(expr) is AffineConstantExpr:
        return expr
    terms, rest, constant = decompose(expr)
    parts = [_scaled(AffineExpr.dimension(i), c) for i, c in sorted(terms.items())]
    parts += [_scaled(term, c) for term, c in sorted(rest.items(), key=lambda item: str(item[0]))]
    if constant or not parts:
        parts.append(AffineExpr.constant(constant))
    result = parts[0]
    for part in parts[1:]:
        result = AffineBinaryOpExpr(AffineBinaryOpKind.Add, result, part)
    return result


def canonical_map(map_: AffineMap) -> AffineMap:
    """The map with every result in canonical form."""
    return AffineMap(map_.num_dims, 0, tuple(canonical(expr) for expr in map_.results))


def modulo(index: AffineExpr, size: int) -> AffineExpr:
    """`index mod size`, at least 0."""
    return AffineBinaryOpExpr(AffineBinaryOpKind.Mod, index, AffineExpr.constant(size))


def divided(index: AffineExpr, size: int) -> AffineExpr:
    """`index / size`, rounded down."""
    return AffineBinaryOpExpr(AffineBinaryOpKind.FloorDiv, index, AffineExpr.constant(size))


def bounds(expr: AffineExpr, lows: Sequence[int], highs: Sequence[int]) -> tuple[int, int]:
    """An interval that contains all values of `expr` when iterator i is in [lows[i], highs[i]];
    it is tight for linear expressions."""
    if isinstance(expr, AffineDimExpr):
        return lows[expr.position], highs[expr.position]
    terms, rest, constant = decompose(expr)
    low, high = Linear(tuple(terms.items()), constant).bounds(lows, highs)
    for term, coefficient in rest.items():
        ends = sorted(coefficient * end for end in _division_bounds(term, lows, highs))
        low, high = low + ends[0], high + ends[1]
    return low, high


def _division_bounds(
    expr: AffineExpr, lows: Sequence[int], highs: Sequence[int]
) -> tuple[int, int]:
    assert isinstance(expr, AffineBinaryOpExpr)
    assert isinstance(expr.rhs, AffineConstantExpr)
    low, high = bounds(expr.lhs, lows, highs)
    divisor = expr.rhs.value
    if expr.kind is AffineBinaryOpKind.FloorDiv:
        return low // divisor, high // divisor
    if expr.kind is AffineBinaryOpKind.CeilDiv:
        return -(-low // divisor), -(-high // divisor)
    if low // divisor == high // divisor:
        return low % divisor, high % divisor
    return 0, divisor - 1


def _scaled(expr: AffineExpr, coefficient: int) -> AffineExpr:
    if coefficient == 1:
        return expr
    return AffineBinaryOpExpr(AffineBinaryOpKind.Mul, expr, AffineExpr.constant(coefficient))


def decompose(expr: AffineExpr) -> tuple[dict[int, int], dict[AffineExpr, int], int]:
    """An expression as coefficients of iterators, coefficients of division terms, each of which is
    a floordiv, ceildiv or mod of an expression by a positive constant, and a constant."""
    # Asking for the type itself: isinstance of an abstract class runs Python code.
    if type(expr) is AffineConstantExpr:
        return {}, {}, expr.value
    if type(expr) is AffineDimExpr:
        return {expr.position: 1}, {}, 0
    if type(expr) is not AffineBinaryOpExpr:
        raise ValueError(f"expected an expression of iterators, found {expr}")
    if expr.kind is AffineBinaryOpKind.Add:
        return _sum(decompose(expr.lhs), decompose(expr.rhs))
    if expr.kind is AffineBinaryOpKind.Mul:
        return _product(decompose(expr.lhs), decompose(expr.rhs))
    return _division(expr.kind, expr.lhs, expr.rhs)


_Terms = tuple[dict[int, int], dict[AffineExpr, int], int]


def _sum(left: _Terms, right: _Terms) -> _Terms:
    terms, rest = dict(left[0]), dict(left[1])
    for i, c in right[0].items():
        terms[i] = terms.get(i, 0) + c
    for term, c in right[1].items():
        rest[term] = rest.get(term, 0) + c
    return (
        {i: c for i, c in terms.items() if c},
        {term: c for term, c in rest.items() if c},
        left[2] + right[2],
    )


def _product(left: _Terms, right: _Terms) -> _Terms:
    if left[0] or left[1]:
        left, right = right, left
    if left[0] or left[1]:
        raise ValueError("expected an affine expression, found a product of iterators")
    factor = left[2]
    if factor == 0:
        return {}, {}, 0
    return (
        {i: c * factor for i, c in right[0].items()},
        {term: c * factor for term, c in right[1].items()},
        right[2] * factor,
    )


def _division(kind: AffineBinaryOpKind, lhs: AffineExpr, rhs: AffineExpr) -> _Terms:
    divisor = decompose(rhs)
    if divisor[0] or divisor[1] or divisor[2] <= 0:
        raise ValueError("expected division by a positive constant")
    dividend = canonical(lhs)
    if isinstance(dividend, AffineConstantExpr):
        folded = AffineBinaryOpExpr(kind, dividend, AffineExpr.constant(divisor[2]))
        return {}, {}, folded.eval([], [])
    if divisor[2] == 1:
        return ({}, {}, 0) if kind is AffineBinaryOpKind.Mod else decompose(dividend)
    term = AffineBinaryOpExpr(kind, dividend, AffineExpr.constant(divisor[2]))
    return {}, {term: 1}, 0


def format_expr(expr: AffineExpr, names: Sequence[str]) -> str:
    """An expression as text, e.g. `h * 2 + r - 1`; needs canonical form."""
    if isinstance(expr, AffineBinaryOpExpr) and expr.kind is AffineBinaryOpKind.Add:
        left = format_expr(expr.lhs, names)
        right = format_expr(expr.rhs, names)
        return f"{left} - {right[1:]}" if right.startswith("-") else f"{left} + {right}"
    return _format_factor(expr, names)


def _format_factor(expr: AffineExpr, names: Sequence[str]) -> str:
    if isinstance(expr, AffineDimExpr):
        return names[expr.position]
    if isinstance(expr, AffineConstantExpr):
        return str(expr.value)
    assert isinstance(expr, AffineBinaryOpExpr)
    if expr.kind is AffineBinaryOpKind.Mul:
        assert isinstance(expr.rhs, AffineConstantExpr)
        inner = _format_operand(expr.lhs, names)
        return f"-{inner}" if expr.rhs.value == -1 else f"{expr.rhs.value} * {inner}"
    word = _KIND_WORDS[expr.kind]
    return f"{_format_operand(expr.lhs, names)} {word} {_format_operand(expr.rhs, names)}"


def _format_operand(expr: AffineExpr, names: Sequence[str]) -> str:
    text = format_expr(expr, names)
    return text if isinstance(expr, AffineDimExpr | AffineConstantExpr) else f"({text})"


def parse_expr(parser: AttrParser, names: Sequence[str]) -> AffineExpr:
    """Parses what `format_expr` prints, and any affine expression of these iterator names."""
    result = _parse_term(parser, names)
    while True:
        if parser.parse_optional_punctuation("+") is not None:
            result = result + _parse_term(parser, names)
        elif parser.parse_optional_punctuation("-") is not None:
            result = result + _parse_term(parser, names) * -1
        elif (number := parser.parse_optional_integer(allow_boolean=False)) is not None:
            # The lexer reads the `-1` of `h -1` as one number.
            result = result + number
        else:
            break
    try:
        return canonical(result)
    except ValueError as error:
        parser.raise_error(str(error))


def _parse_term(parser: AttrParser, names: Sequence[str]) -> AffineExpr:
    result = _parse_factor(parser, names)
    while True:
        if parser.parse_optional_punctuation("*") is not None:
            result = AffineBinaryOpExpr(
                AffineBinaryOpKind.Mul, result, _parse_factor(parser, names)
            )
            continue
        word = parser.parse_optional_keyword_in({"floordiv", "ceildiv", "mod"})
        if word is None:
            return result
        kind = next(kind for kind, name in _KIND_WORDS.items() if name == word)
        result = AffineBinaryOpExpr(kind, result, _parse_factor(parser, names))


def _parse_factor(parser: AttrParser, names: Sequence[str]) -> AffineExpr:
    if parser.parse_optional_punctuation("(") is not None:
        inner = parse_expr(parser, names)
        parser.parse_punctuation(")")
        return inner
    if parser.parse_optional_punctuation("-") is not None:
        return _parse_factor(parser, names) * -1
    number = parser.parse_optional_integer(allow_boolean=False)
    if number is not None:
        return AffineExpr.constant(number)
    name = parser.parse_identifier()
    if name not in names:
        parser.raise_error(f"expected an iterator ({', '.join(names)}), found '{name}'")
    return AffineExpr.dimension(names.index(name))
