"""Linear forms and intervals against the numbers that they stand for."""

import operator
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from byocir.dialects.intervals import Interval
from byocir.dialects.tir.linear import Linear, spans

NUMBERS = st.integers(-5, 5)
FORMS = st.builds(Linear.of, st.dictionaries(st.sampled_from("hwr"), NUMBERS), NUMBERS)
POINTS = st.fixed_dictionaries({name: NUMBERS for name in "hwr"})
INTERVALS = st.builds(lambda low, more: Interval(low, low + more), NUMBERS, st.integers(0, 4))


def numbers(interval):
    return range(interval.low, interval.high + 1)


@given(FORMS, FORMS, NUMBERS, POINTS)
def test_sums_products_and_parts_have_their_values(one, other, number, point):
    a, b = one.value(point.__getitem__), other.value(point.__getitem__)
    assert (one + other).value(point.__getitem__) == a + b
    assert (one - other).value(point.__getitem__) == a - b
    assert (one * number + 1).value(point.__getitem__) == a * number + 1
    assert all(c for _, c in (one + other * number).terms)
    chosen, rest = one.split(lambda atom: atom == "h")
    assert {*chosen.terms, *rest.terms} == {*one.terms}
    assert set(chosen.atoms) <= {"h"}
    assert rest == one.without("h")
    assert one.without("h").value({**point, "h": 99}.__getitem__) == rest.value(point.__getitem__)


@given(FORMS, st.fixed_dictionaries({name: FORMS for name in "hwr"}), POINTS)
def test_a_form_in_the_place_of_each_atom_has_its_value(form, by, point):
    inner = {name: by[name].value(point.__getitem__) for name in by}
    made = form.substituted(by.__getitem__)
    assert made.value(point.__getitem__) == form.value(inner.__getitem__)


@given(FORMS, st.lists(st.integers(1, 3), min_size=3, max_size=3))
def test_the_interval_of_a_form_is_that_of_its_values(form, extents):
    known = dict(zip("hwr", spans(extents), strict=True))
    points = product(*map(range, extents))
    values = [form.value(dict(zip("hwr", point, strict=True)).__getitem__) for point in points]
    assert form.interval(known.__getitem__) == Interval(min(values), max(values))


@given(INTERVALS, INTERVALS, NUMBERS, st.integers(1, 4))
def test_intervals_contain_exactly_the_ends_of_operations(one, other, factor, divisor):
    for apply in (operator.add, operator.mul, min, max):
        values = [apply(a, b) for a in numbers(one) for b in numbers(other)]
        assert one.corners(other, apply) == (min(values), max(values))
    scaled = [a * factor for a in numbers(one)]
    assert one.scaled(factor) == (min(scaled), max(scaled))
    quotients = [a // divisor for a in numbers(one)]
    assert one.quotient(divisor) == (min(quotients), max(quotients))
    rest = {a % divisor for a in numbers(one)}
    assert rest <= set(numbers(one.remainder(divisor)))
    assert one.contains(other) == set(numbers(other)).issubset(numbers(one))
