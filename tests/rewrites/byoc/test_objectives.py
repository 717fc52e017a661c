"""Targets that compete on what a match costs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import combinations
from random import Random
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
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation

from byocir.dialects.byoc import PLACE
from byocir.dialects.context import load_context
from byocir.dialects.text import parse_module
from byocir.errors import ByocirError
from byocir.patterns import Composite, op, wildcard
from byocir.patterns.target_classes import register
from byocir.patterns.targets import attr_of
from byocir.rewrites.byoc.choose_host import BYTES_PER_SECOND, CALL_SECONDS
from byocir.rewrites.byoc.min_cut import SINK, sink_side
from byocir.rewrites.byoc.processor import Kernels
from byocir.rewrites.byoc.set_targets import set_objective, set_targets
from byocir.rewrites.host.c_host import CHost, set_c_host
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
    assert ("p.sum", "refused", ("b", "a"), note) in records
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


def beside_host(monkeypatch, lines, outputs, targets, price, objective="latency", place=()):
    """A module that names a host whose ops cost `price` each, and what became of it."""
    text = program(lines, outputs)
    return text_beside_host(monkeypatch, text, targets, price, objective, place)


def text_beside_host(monkeypatch, text, targets, price, objective="latency", place=()):
    told = lambda *_: {"latency": price * len(_[2]), "energy": price * len(_[2])}  # noqa: E731
    monkeypatch.setattr(CHost, "cost", told)
    module = parsed(text, *targets)
    set_c_host(module, CHost("generic"))
    set_targets(module, [attr_of(target()) for target in targets])
    set_objective(module, objective)
    for inner in main_of(module).walk():
        if inner.name in place:
            inner.attributes[PLACE] = StringAttr("q")
    expected = values(module)
    run(module, HAND_OFF)
    assert_same(values(module), expected)
    return module


HARD = 1e-3
"""Seconds beside which crossings are nothing."""


def test_the_host_keeps_what_it_does_for_less(monkeypatch):
    target = single(2 * HARD)
    module = beside_host(monkeypatch, LINES, ["b"], [target], HARD)
    assert kinds(main_of(module)) == ["add", "relu"]
    ((_, verdict, _, reason), *_) = trail(module)
    assert verdict == "refused"
    assert re.fullmatch(
        r"latency 0.001 on host, 0.002 on q, and up to \S+ for what crosses", reason
    )
    module = beside_host(monkeypatch, LINES, ["b"], [target], 3 * HARD)
    assert kinds(main_of(module)) == ["@q_0"]
    reasons = [reason for _, verdict, _, reason in trail(module) if verdict == "taken"]
    assert all(reason.startswith("latency 0.002 on q, 0.003 on host") for reason in reasons)


def cheap_adds(price):
    """Takes both ops; an add costs next to nothing less on the host, a relu much more."""

    class Uneven(takes("q", "add", "relu")):
        name: ClassVar[str] = "q"

        def cost(self, composite: str, ops: Sequence[Operation]) -> Mapping[str, float]:
            return {"latency": price if composite == "q.add" else HARD}

    register("q", Uneven)
    return Uneven


def test_what_crosses_counts(monkeypatch):
    """An op between others of a target stays, though the host would do it for less; one that costs
    more than both crossings goes."""
    lines = ["a = relu x", "b = add a a", "c = relu b"]
    for more, expected in (1, ["@q_0"]), (9, ["@q_0", "add", "@q_0"]):
        target = cheap_adds(2 * HARD + more * CALL_SECONDS)
        module = beside_host(monkeypatch, lines, ["c"], [target], 2 * HARD)
        assert kinds(main_of(module)) == expected


def test_inputs_and_outputs_of_the_function_cross_as_they_lie(monkeypatch):
    """They cost a call each, and no bytes; a value in between costs both."""
    module = beside_host(monkeypatch, ["a = relu x"], ["a"], [single(HARD)], HARD)
    assert trail(module)[0][-1].endswith(f"up to {2 * CALL_SECONDS:g} for what crosses")
    lines = ["a = relu x", "b = relu a"]
    module = beside_host(monkeypatch, lines, ["b"], [single(HARD)], HARD)
    ((*_, reason), *_) = trail(module)
    crossing = float(re.search(r"up to (\S+) for", reason)[1])
    assert crossing > 2 * CALL_SECONDS


def test_what_a_branch_gives_and_a_loop_is_given_are_no_ports_of_the_function(monkeypatch):
    text = """func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>, %z: tensor<4xf32>)
    -> (tensor<4xf32>, tensor<4xf32>) {
  %c = graph.constant #graph.array<[1] : tensor<i1>>
  %n = graph.constant #graph.array<[2] : tensor<i64>>
  %a = graph.foreign "If" 21 (%c) {} : (tensor<i1>) -> tensor<4xf32> "then_branch" {
    %u = graph.relu %x : (tensor<4xf32>) -> tensor<4xf32>
    graph.yield %u : tensor<4xf32>
  } "else_branch" {
    graph.yield %x : tensor<4xf32>
  }
  %b = graph.foreign "Loop" 21 (%n, %c, %x) {} : (tensor<i64>, tensor<i1>, tensor<4xf32>)
      -> tensor<4xf32> "body" {
  ^bb0(%i : tensor<i64>, %d : tensor<i1>, %v : tensor<4xf32>):
    %w = graph.relu %v : (tensor<4xf32>) -> tensor<4xf32>
    graph.yield %d, %w : tensor<i1>, tensor<4xf32>
  }
  func.return %a, %b : tensor<4xf32>, tensor<4xf32>
}"""
    module = text_beside_host(monkeypatch, text, [single(HARD)], HARD)
    call, whole = CALL_SECONDS, CALL_SECONDS + 16 / BYTES_PER_SECOND
    crossings = [float(re.search(r"up to (\S+) for", reason)[1]) for *_, reason in trail(module)]
    assert crossings == [pytest.approx(call + whole, 1e-4), pytest.approx(2 * whole, 1e-4)]


def test_weights_are_read_from_memory():
    module = parse_module(
        """func.func @main(%x: tensor<1x1280xf32>) -> tensor<1x1000xf32> {
  %w = graph.constant #graph.array<"0" : tensor<1280x1000xf32>>
  %y = graph.matmul %x, %w : (tensor<1x1280xf32>, tensor<1280x1000xf32>) -> tensor<1x1000xf32>
  func.return %y : tensor<1x1000xf32>
}""",
        load_context(),
    )
    (product,) = (op for op in module.walk() if op.name == "graph.matmul")
    for fuse in (False, True):
        costs = Kernels(0, 1000, 1e10, fuse=fuse).cost_of([product], 1)
        assert costs["latency"] == pytest.approx(4 * (1280 * 1000 + 1280 + 1000) / 1e10)
        assert costs["bytes"] == 4 * (1280 + 1000)


@pytest.mark.parametrize(("size", "rate"), [(2**16, 2e10), (2**18, 1e10)])
def test_a_cache_is_faster_than_memory(size, rate):
    (function,) = parse_module(
        f"""func.func @main(%x: tensor<{size}xf32>) -> tensor<{size}xf32> {{
  %y = graph.relu %x : (tensor<{size}xf32>) -> tensor<{size}xf32>
  func.return %y : tensor<{size}xf32>
}}""",
        load_context(),
    ).body.block.ops
    relu = function.body.block.first_op
    assert Kernels(0, 1, 1e10, 2e10).cost_of([relu], 1)["latency"] == pytest.approx(8 * size / rate)


def test_several_go_together(monkeypatch):
    """Each alone would not be worth what crosses."""
    lines = ["a = relu x", "b = relu a", "c = relu b"]
    little = HARD + CALL_SECONDS / 10
    module = beside_host(monkeypatch, lines, ["c"], [single(little)], HARD)
    assert kinds(main_of(module)) == ["relu", "relu", "relu"]


@pytest.mark.parametrize(
    ("price", "objective", "place"),
    [(2 * HARD, "latency", ("graph.add", "graph.relu")), (None, "latency", ()), (8, "bytes", ())],
)
def test_the_host_does_not_compete(monkeypatch, price, objective, place):
    """For what a user placed, with who tells no cost, and for bytes, of which nothing crosses."""
    module = beside_host(monkeypatch, LINES, ["b"], [single(price)], HARD, objective, place)
    assert kinds(main_of(module)) == ["@q_0"]


@pytest.mark.parametrize("seed", range(40))
def test_a_cut_is_the_least(seed):
    rng = Random(seed)
    count = rng.randint(3, 8)
    edges = [
        (rng.randrange(count), rng.randrange(count), rng.randint(0, 9))
        for _ in range(rng.randint(1, 20))
    ]

    def cost(side):
        return sum(c for a, b, c in edges if a not in side and b in side)

    rest = range(2, count)
    sides = [{SINK, *each} for n in range(count - 1) for each in combinations(rest, n)]
    found = sink_side(count, edges)
    least = min(map(cost, sides))
    assert cost(found) == least
    assert len(found) == min(len(side) for side in sides if cost(side) == least)


def test_an_objective_that_is_none():
    with pytest.raises(ByocirError, match="expected objective latency, energy, bytes or none"):
        chosen("speed", fused(1))
