"""Brings index expressions to canonical form, bounds them, and writes them with iterator names.

Index maps are xDSL's `AffineMap`s with one dimension per iterator of a block. Here they are kept in
one canonical form (linear terms in order of their iterators, then floordiv/mod terms, then the
constant), so that equal maps compare equal however they were built, and printing then parsing
gives the same map.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
)
from xdsl.parser import AttrParser

from byocir.dialects.intervals import Interval
from byocir.dialects.tir.linear import Linear

_KIND_WORDS = {
    AffineBinaryOpKind.FloorDiv: "floordiv",
    AffineBinaryOpKind.CeilDiv: "ceildiv",
    AffineBinaryOpKind.Mod: "mod",
}


IndexForm = Linear[int | AffineExpr]
"""A linear form of iterators and of expressions that divide one such form by a number."""


def form_of(expr: AffineExpr) -> IndexForm:
    """Gives the linear form of an expression: its iterators in order, then, in the order of their
    text, the floordiv, ceildiv and mod of canonical expressions by positive numbers that are in it.

    Raises ValueError for a product of iterators or what divides by none of these numbers.
    """
    iterators: dict[int, int] = {}
    divisions: dict[AffineExpr, int] = {}
    constant = _collect(expr, 1, iterators, divisions)
    terms: list[tuple[int | AffineExpr, int]] = [(i, iterators[i]) for i in sorted(iterators)]
    terms += [(term, divisions[term]) for term in sorted(divisions, key=str)]
    return Linear(tuple(term for term in terms if term[1]), constant)


@lru_cache(maxsize=1 << 14)
def linear(expr: AffineExpr) -> Linear[int] | None:
    """Gives the linear form of an expression, or None when it divides or takes a remainder."""
    form = form_of(expr)
    terms = tuple((i, c) for i, c in form.terms if isinstance(i, int))
    return Linear(terms, form.constant) if len(terms) == len(form.terms) else None


def expression(form: Linear[int] | IndexForm) -> AffineExpr:
    """Gives the canonical expression of a linear form."""
    parts: list[AffineExpr] = []
    for atom, coefficient in form.terms:
        part = AffineExpr.dimension(atom) if isinstance(atom, int) else atom
        if coefficient != 1:
            factor = AffineExpr.constant(coefficient)
            part = AffineBinaryOpExpr(AffineBinaryOpKind.Mul, part, factor)
        parts.append(part)
    if form.constant or not parts:
        parts.append(AffineExpr.constant(form.constant))
    result = parts[0]
    for part in parts[1:]:
        result = AffineBinaryOpExpr(AffineBinaryOpKind.Add, result, part)
    return result


def canonical(expr: AffineExpr) -> AffineExpr:
    """Gives the one form in which equal expressions are equal objects."""
    if type(expr) is AffineDimExpr or type(expr) is AffineConstantExpr:
        return expr
    return expression(form_of(expr))


def canonical_map(map_: AffineMap) -> AffineMap:
    """Gives the map with every result in canonical form."""
    return AffineMap(map_.num_dims, 0, tuple(canonical(expr) for expr in map_.results))


def modulo(index: AffineExpr, size: int) -> AffineExpr:
    """Gives `index mod size`, which is at least 0."""
    return AffineBinaryOpExpr(AffineBinaryOpKind.Mod, index, AffineExpr.constant(size))


def divided(index: AffineExpr, size: int) -> AffineExpr:
    """Gives `index / size`, rounded down."""
    return AffineBinaryOpExpr(AffineBinaryOpKind.FloorDiv, index, AffineExpr.constant(size))


def parted(
    index: AffineExpr, size: int, known: Sequence[Interval]
) -> tuple[AffineExpr, AffineExpr]:
    """Gives the quotient and the remainder of an index by a size when iterator i is in `known[i]`,
    without dividing where that is not needed: `m * 4 + n + 5` by 4, with n up to 2 → `m + 1`,
    `n + 1`.
    """
    form = IndexForm((), form_of(index).constant)
    for atom, coefficient in form_of(index).terms:
        inner = IndexForm(((atom, 1),))
        if not isinstance(atom, int) and is_quotient(atom):
            inner = form_of(parted(*division_of(atom), known)[0])
        form += inner * coefficient
    whole, rest = form.split(lambda atom: form.coefficient(atom) % size == 0)
    first = bounds(expression(rest), known).low // size
    rest += -first * size
    if Interval(0, size - 1).contains(bounds(expression(rest), known)):
        terms = tuple((atom, coefficient // size) for atom, coefficient in whole.terms)
        return expression(IndexForm(terms, first)), expression(rest)
    return divided(expression(form), size), modulo(expression(form), size)


def bounds(expr: AffineExpr, known: Sequence[Interval]) -> Interval:
    """Gives an interval that contains all values of an expression when iterator i is in `known[i]`;
    it is tight for linear expressions."""
    if isinstance(expr, AffineDimExpr):
        return known[expr.position]

    def of(atom: int | AffineExpr) -> Interval:
        return known[atom] if isinstance(atom, int) else _division_bounds(atom, known)

    return form_of(expr).interval(of)


def beyond(
    index: Sequence[AffineExpr], shape: Sequence[int], known: Sequence[Interval]
) -> list[tuple[int, int]]:
    """Counts the elements by which an index goes beyond the begin and the end of each dimension
    when iterator i is in `known[i]`: `[h + r - 1]` into an array of 8, with h up to 7 and r up to 2
    → (1, 1).
    """
    found = (bounds(expr, known) for expr in index)
    return [
        (max(-low, 0), max(high - size + 1, 0))
        for (low, high), size in zip(found, shape, strict=True)
    ]


def _division_bounds(expr: AffineExpr, known: Sequence[Interval]) -> Interval:
    dividend, divisor = division_of(expr)
    found = bounds(dividend, known)
    assert isinstance(expr, AffineBinaryOpExpr)
    if expr.kind is AffineBinaryOpKind.FloorDiv:
        return found.quotient(divisor)
    if expr.kind is AffineBinaryOpKind.CeilDiv:
        return found.scaled(-1).quotient(divisor).scaled(-1)
    return found.remainder(divisor)


def iterator_of(expr: AffineExpr) -> int | None:
    """Gives the iterator that an index is; None for one that computes something."""
    return expr.position if isinstance(expr, AffineDimExpr) else None


def iterators_in(exprs: Iterable[AffineExpr]) -> set[int]:
    """Collects the iterators in some indices."""
    return {i for expr in exprs for i in expr.used_dims()}


def is_quotient(expr: AffineExpr) -> bool:
    """Tells if a canonical expression is another divided by a number and rounded down."""
    return isinstance(expr, AffineBinaryOpExpr) and expr.kind is AffineBinaryOpKind.FloorDiv


def division_of(expr: AffineExpr) -> tuple[AffineExpr, int]:
    """Gives the dividend and the divisor of an atom that is a quotient or a remainder."""
    assert isinstance(expr, AffineBinaryOpExpr)
    assert isinstance(expr.rhs, AffineConstantExpr)
    return expr.lhs, expr.rhs.value


def whole_axes(map_: AffineMap, shape: Sequence[int], extents: Sequence[int]) -> list[int] | None:
    """Gives for each dimension, but those of size 1, the iterator that alone indexes it and runs
    over all of it; None where a dimension has no such iterator of its own. `[i: 4, j: 8] → [j, 0,
    i]` into an array of [8, 1, 4] → j, i.
    """
    used: list[int] = []
    for expr, size in zip(map_.results, shape, strict=True):
        if isinstance(expr, AffineDimExpr) and extents[expr.position] == size:
            used.append(expr.position)
        elif size != 1:
            return None
    return used if len(set(used)) == len(used) else None


def iterators_of(atom: int | AffineExpr) -> set[int]:
    """Gives the iterators on which an atom of a form depends."""
    return {atom} if isinstance(atom, int) else atom.used_dims()


def divided_iterators(form: IndexForm) -> set[int]:
    """Gives the iterators that stand inside the quotients and remainders of a form."""
    return {i for atom in form.atoms if not isinstance(atom, int) for i in atom.used_dims()}


def _collect(
    expr: AffineExpr, factor: int, iterators: dict[int, int], divisions: dict[AffineExpr, int]
) -> int:
    """Adds `factor * expr` to the coefficients, by iterator and by quotient or remainder; gives the
    constant part.
    """
    # Asking for the type itself: isinstance of an abstract class runs Python code.
    if type(expr) is AffineConstantExpr:
        return factor * expr.value
    if type(expr) is AffineDimExpr:
        iterators[expr.position] = iterators.get(expr.position, 0) + factor
        return 0
    if type(expr) is not AffineBinaryOpExpr:
        raise ValueError(f"expected an expression of iterators, found {expr}")
    if expr.kind is AffineBinaryOpKind.Add:
        left = _collect(expr.lhs, factor, iterators, divisions)
        return left + _collect(expr.rhs, factor, iterators, divisions)
    if expr.kind is AffineBinaryOpKind.Mul:
        scaled, number = _product(expr.lhs, expr.rhs)
        return _collect(scaled, factor * number, iterators, divisions)
    divided = _division(expr.kind, expr.lhs, expr.rhs)
    if type(divided) is AffineBinaryOpExpr and divided.kind is expr.kind:
        divisions[divided] = divisions.get(divided, 0) + factor
        return 0
    return _collect(divided, factor, iterators, divisions)


def _product(lhs: AffineExpr, rhs: AffineExpr) -> tuple[AffineExpr, int]:
    """Splits a product into the factor that is an expression and the one that is a number."""
    for scaled, factor in ((lhs, rhs), (rhs, lhs)):
        if type(factor) is AffineConstantExpr:
            return scaled, factor.value
    for scaled, factor in ((lhs, rhs), (rhs, lhs)):
        form = form_of(factor)
        if not form.terms:
            return scaled, form.constant
    raise ValueError("expected an affine expression, found a product of iterators")


def _division(kind: AffineBinaryOpKind, lhs: AffineExpr, rhs: AffineExpr) -> AffineExpr:
    """Makes a quotient or remainder whose dividend is in canonical form; where dividing changes
    nothing or gives a number, gives that.
    """
    divisor = form_of(rhs)
    if divisor.terms or divisor.constant <= 0:
        raise ValueError("expected division by a positive constant")
    dividend = canonical(lhs)
    term = AffineBinaryOpExpr(kind, dividend, AffineExpr.constant(divisor.constant))
    if isinstance(dividend, AffineConstantExpr):
        return AffineExpr.constant(term.eval([], []))
    if divisor.constant == 1:
        return AffineExpr.constant(0) if kind is AffineBinaryOpKind.Mod else dividend
    return term


def format_expr(expr: AffineExpr, names: Sequence[str]) -> str:
    """Writes an expression as text, e.g. `h * 2 + r - 1`; it must be in canonical form."""
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
    """Parses the text of an affine expression of these iterator names, as `format_expr` prints it
    or otherwise.
    """
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
