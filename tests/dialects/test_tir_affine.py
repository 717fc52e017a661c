"""Index expressions: one form for equal ones, tight bounds, text that reads back."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st
from xdsl.ir.affine import AffineBinaryOpExpr, AffineBinaryOpKind, AffineExpr
from xdsl.parser import Parser

from byocir.dialects.context import load_context
from byocir.dialects.intervals import Interval
from byocir.dialects.tir.affine import bounds, canonical, format_expr, linear, parse_expr, parted

NAMES = ["h", "w", "r"]
KINDS = [AffineBinaryOpKind.FloorDiv, AffineBinaryOpKind.CeilDiv, AffineBinaryOpKind.Mod]

NUMBERS = st.integers(-6, 6)
POINTS = st.tuples(*[st.integers(-9, 9)] * 3)


def _scaled(expr, number):
    return AffineBinaryOpExpr(AffineBinaryOpKind.Mul, expr, AffineExpr.constant(number))


def _extend(inner):
    divisors = st.integers(1, 5).map(AffineExpr.constant)
    return (
        st.builds(AffineBinaryOpExpr, st.just(AffineBinaryOpKind.Add), inner, inner)
        | st.builds(_scaled, inner, NUMBERS)
        | st.builds(AffineBinaryOpExpr, st.sampled_from(KINDS), inner, divisors)
    )


EXPRESSIONS = st.recursive(
    st.integers(0, 2).map(AffineExpr.dimension) | NUMBERS.map(AffineExpr.constant),
    _extend,
    max_leaves=6,
)


def parse(text):
    parser = Parser(load_context(), text)
    return parse_expr(parser, NAMES)


@given(EXPRESSIONS, POINTS)
def test_the_canonical_form_has_the_same_value(expr, point):
    assert canonical(expr).eval(point, []) == expr.eval(point, [])


@given(EXPRESSIONS)
def test_the_canonical_form_is_a_fixed_point(expr):
    assert canonical(canonical(expr)) == canonical(expr)


@given(EXPRESSIONS, EXPRESSIONS)
def test_sums_have_one_form(left, right):
    assert canonical(left + right) == canonical(right + left)


@given(EXPRESSIONS)
def test_text_reads_back(expr):
    expr = canonical(expr)
    assert parse(format_expr(expr, NAMES)) == expr


@given(EXPRESSIONS, POINTS, st.tuples(*[st.integers(0, 4)] * 3))
def test_bounds_contain_all_values(expr, lows, spans):
    highs = [low + span for low, span in zip(lows, spans, strict=True)]
    low, high = bounds(expr, list(map(Interval, lows, highs)))
    for point in [lows, highs, (lows[0], highs[1], lows[2]), (highs[0], lows[1], lows[2])]:
        assert low <= expr.eval(point, []) <= high


@given(st.tuples(NUMBERS, NUMBERS, NUMBERS), NUMBERS)
def test_linear_forms_give_coefficients_and_tight_bounds(coefficients, constant):
    expr = AffineExpr.constant(constant)
    for i, coefficient in enumerate(coefficients):
        expr = expr + AffineExpr.dimension(i) * coefficient
    form = linear(expr)
    assert form is not None
    assert tuple(form.coefficient(i) for i in range(3)) == coefficients
    low, high = form.interval(lambda _: Interval(0, 2))
    corners = [[2 * (c > 0) for c in coefficients], [2 * (c < 0) for c in coefficients]]
    assert [high, low] == [expr.eval(corner, []) for corner in corners]


@given(EXPRESSIONS, POINTS, st.tuples(*[st.integers(0, 4)] * 3), st.integers(1, 8))
def test_parts_are_the_quotient_and_the_remainder(expr, lows, spans, size):
    known = [Interval(low, low + span) for low, span in zip(lows, spans, strict=True)]
    quotient, rest = parted(canonical(expr), size, known)
    for point in product(*(range(low, high + 1) for low, high in known)):
        found = quotient.eval(list(point), []), rest.eval(list(point), [])
        assert found == divmod(expr.eval(list(point), []), size)


def test_parts_that_the_iterators_tell_are_not_divided():
    known = [Interval(0, 7), Interval(0, 1), Interval(0, 15)]
    quotient, rest = parted(parse("((h * 2 + w) * 16 + r) floordiv 32 * 16 + r"), 16, known)
    assert (quotient, rest) == (parse("h"), parse("r"))


def test_divisions_are_not_linear():
    assert linear(parse("h floordiv 2")) is None
    assert linear(parse("h floordiv 1")) == linear(parse("h"))


def test_text_as_people_write_it():
    texts = {
        "h*2+r -1": "2 * h + r - 1",
        "r + 2 * h - 1 + 0 * w": "2 * h + r - 1",
        "-(h - w) * 3": "-3 * h + 3 * w",
        "(h + 4) floordiv 2 mod 3 - h": "-h + ((h + 4) floordiv 2) mod 3",
        "7 mod 4": "3",
        "h - h": "0",
    }
    for text, expected in texts.items():
        assert format_expr(parse(text), NAMES) == expected, text
