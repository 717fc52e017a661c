"""Targets that compete on what a match costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import pytest
from byoc_graphs import (
    HAND_OFF,
    assert_same,
    kinds,
    main_of,
    parsed,
    program,
    run,
    takes,
    toy,
    trail,
    values,
)
from xdsl.ir import Operation

from byocir.errors import ByocirError
from byocir.patterns import Composite, op, wildcard
from byocir.patterns.targets import attr_of, register
from byocir.rewrites.byoc.set_targets import set_objective, set_targets
from byocir.targets.base import Target

LINES = ["a = add x y", "b = relu a"]


def priced(kind: type[Target], price: float | None) -> type[Target]:
    """The target with a cost for each op, or none."""

    class Priced(kind):
        name: ClassVar[str] = kind.name

        def cost(self, composite: str, ops: Sequence[Operation]) -> Mapping[str, float]:
            return {} if price is None else {"latency": price * len(ops), "bytes": 9 - price}

    register(kind.name, Priced)
    return Priced


def fused(price):
    total = op("graph.add", wildcard(), wildcard())
    return priced(toy("p", Composite("p.sum", (op("graph.relu", total),))), price)


def single(price, *names):
    return priced(takes("q", *(names or ("relu", "add"))), price)


def chosen(objective, *targets):
    module = parsed(program(LINES, ["b"]), *targets)
    set_targets(module, [attr_of(target()) for target in targets])
    set_objective(module, objective)
    expected = values(module)
    run(module, HAND_OFF)
    assert_same(values(module), expected)
    return module


@pytest.mark.parametrize(
    ("objective", "prices", "expected"),
    [
        ("latency", (2, 1), "q"),
        ("latency", (1, 2), "p"),
        ("latency", (1, 1), "p"),
        ("bytes", (2, 1), "p"),
        ("energy", (2, 1), "p"),
        ("latency", (None, 1), "p"),
        ("latency", (2, None), "p"),
        ("", (2, 1), "p"),
    ],
)
def test_who_takes_a_match(objective, prices, expected):
    """The cheaper one; the first in order of preference at a tie, or where one tells no cost."""
    module = chosen(objective, fused(prices[0]), single(prices[1]))
    assert kinds(main_of(module)) == [f"@{expected}_0"]


def test_the_decision_is_told_with_its_numbers():
    records = trail(chosen("latency", fused(2), single(1)))
    note = "latency 2 on q, 4 on p"
    assert ("p.sum", "declined", ("b", "a"), note) in records
    assert ("q.relu", "taken", ("b",), note) in records
    assert ("q.add", "taken", ("a",), note) in records


@pytest.mark.parametrize(
    ("prices", "note"),
    [
        ((None, None), "no target tells its latency; the order of targets decided"),
        ((None, 1), "p tells no latency; the order of targets decided"),
        ((2, None), "q tells no latency; the order of targets decided"),
    ],
)
def test_a_decision_without_two_costs_says_that_order_made_it(prices, note):
    module = chosen("latency", fused(prices[0]), single(prices[1]))
    assert ("p.sum", "taken", ("b", "a"), note) in trail(module)


def test_who_tells_no_cost_is_named_beside_those_who_do():
    third = priced(takes("r", "relu", "add"), 1)
    records = trail(chosen("latency", fused(2), single(None), third))
    assert ("r.relu", "taken", ("b",), "latency 2 on r, 4 on p; q tells no latency") in records


def test_who_covers_a_part_only_does_not_underbid():
    module = chosen("latency", fused(2), single(1, "relu"))
    assert kinds(main_of(module)) == ["@p_0"]


def test_an_objective_that_is_none():
    with pytest.raises(ByocirError, match="expected objective latency, energy, bytes or none"):
        chosen("speed", fused(1))
