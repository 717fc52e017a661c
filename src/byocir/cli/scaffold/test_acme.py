"""Tests of acme: programs made for its patterns, and ones that they just miss, run on it and
compute what the evaluator does. `pytest --conform-seconds 60` tries more of them."""

from acme import Acme


def test_it_is_right(conforms):
    conforms(Acme())


def test_it_takes_what_it_says(conforms):
    assert conforms(Acme(), rounds=1).never == []
