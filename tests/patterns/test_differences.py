"""How a block that just misses a pattern is told: what was expected, what was found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
from block_programs import Read, Spec, at, attempt

from byocir.dialects.byoc import TrailOp
from byocir.dialects.context import load_context
from byocir.dialects.types import f32, i8, i32
from byocir.patterns import Composite, Pattern, block, number, wildcard
from byocir.patterns.target_classes import register
from byocir.patterns.targets import attr_of
from byocir.rewrites.byoc.set_targets import set_targets
from byocir.rewrites.pipeline import run_passes
from byocir.targets.base import Target

X = wildcard("x")


def elementwise(body: Any, element: Any = f32) -> Spec:
    return Spec({"i": 4}, {}, [Read(at("i"), element)], at("i"), body, element, init=None)


def relu() -> Pattern:
    return block("*i", X["*i"], lambda acc, x: x.max(0.0))


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (lambda acc, x: x.min(0.0), "x.min(0.0)"),
        (lambda acc, x: acc + x * x - 2.0, "(acc + (x * x)) - 2.0"),
        (lambda acc, x: (x / 3.0).exp().sqrt(), "(x / 3.0).exp().sqrt()"),
        (lambda acc, x: x.compare("gt", 1.0).select(x, 0.0), 'x.compare("gt", 1.0).select(x, 0.0)'),
    ],
)
def test_another_body(body: Any, found: str):
    reason = attempt(elementwise(body), relu()).reason
    assert reason.startswith(f"expected body x.max(0.0), found {found}")


def test_conversions_shifts_and_open_numbers():
    pattern = block("*i", X["*i"], lambda acc, v: (v.to(i32) >> number("shift")).to(i8))
    reason = attempt(elementwise(lambda acc, x: x.to(i32).to(i8), i8), pattern).reason
    expected, found = reason.removeprefix("expected body ").split(", found ")
    assert expected == "(v.to(i32) >> shift).to(i8)"
    assert found == "v.to(i32).to(i8)"


def test_a_body_of_any_number_of_inputs():
    pattern = block("*i", X["*i"], lambda acc, *xs: xs[0].min(0.0))
    reason = attempt(elementwise(lambda acc, x: x.max(0.0)), pattern).reason
    assert reason == "expected body xs0.min(0.0), found xs0.max(0.0)"


def test_inputs_have_the_names_that_a_body_like_it_would_give_them():
    """Patterns take inputs in any order."""
    reads = [Read(at("i"), f32) for _ in range(3)]
    factors_first = Spec({"i": 4}, {}, reads, at("i"), lambda acc, f, x, b: (x + b) / f, f32)
    pattern = block("*i", X["*i"], X["*i"], X["*i"], lambda acc, x, b, f: (x + b) * f)
    reason = attempt(factors_first, pattern).reason
    assert reason == "expected body (x + b) * f, found (x + b) / f"


def test_a_long_body_is_cut():
    def long(acc: Any, x: Any) -> Any:
        for _ in range(30):
            x = x + x
        return x

    found = attempt(elementwise(lambda acc, x: long(acc, x).max(1.0)), relu()).reason
    assert found.endswith("…")
    assert len(found) < 180


def test_long_bodies_are_cut_where_they_differ():
    def clamped(most: float) -> Any:
        def body(acc: Any, x: Any) -> Any:
            for _ in range(20):
                x = x * 2.0 + 1.0
            return x.min(most).max(0.0)

        return body

    pattern = block("*i", X["*i"], clamped(6.0))
    found = attempt(elementwise(clamped(7.0)), pattern).reason
    assert found.startswith("expected body …")
    assert found.endswith(" + 1.0).min(7.0).max(0.0)")
    assert ".min(6.0).max(0.0), found …" in found
    assert len(found) < 180


def test_a_long_body_that_goes_on_is_cut_where_the_other_one_ends():
    def steps(x: Any, count: int) -> Any:
        for _ in range(count):
            x = x.exp()
        return x

    pattern = block("*i", X["*i"], lambda acc, x: steps(x, 30))
    longer = elementwise(lambda acc, x: steps(steps(x, 30).max(0.0), 30))
    assert ".exp().max(0.0).exp()" in attempt(longer, pattern).reason


def test_a_number_that_a_body_leaves_open_is_no_difference():
    """Nor is a whole number in place of a float of its value."""

    def scaled(factor: Any, least: float) -> Any:
        def body(acc: Any, x: Any) -> Any:
            x = x * factor
            for _ in range(20):
                x = x * 2.0 + 1.0
            return x.max(least).min(127.0)

        return body

    pattern = block("*i", X["*i"], scaled(number("factor"), -127))
    found = attempt(elementwise(scaled(-0.5, -128.0)), pattern).reason
    assert ".max(-127).min(127.0), found …" in found
    assert found.endswith(".max(-128.0).min(127.0)")


def trail_of(spec: Spec, *patterns: Pattern) -> list[tuple[str, int, str]]:
    """What a target of single-block patterns leaves on record: pattern, ops matched, reason."""
    composites_ = tuple(Composite(f"npu.p{i}", (p,)) for i, p in enumerate(patterns))

    @dataclass(frozen=True)
    class Npu(Target):
        name: ClassVar[str] = "npu"
        patterns: ClassVar[tuple[Composite, ...]] = composites_

    register("npu", Npu)
    module, _ = spec.module()
    set_targets(module, [attr_of(Npu())])
    run_passes(module, load_context(), "match-composites{level=tensor}")
    decisions = [d for o in module.walk() if isinstance(o, TrailOp) for d in o.decisions]
    return [(d.pattern.data, d.matched.data, d.reason.data) for d in decisions]


def test_a_near_miss_of_a_single_block_leaves_a_record():
    found = trail_of(elementwise(lambda acc, x: x.min(0.0)), relu())
    assert found == [("npu.p0", 0, "expected body x.max(0.0), found x.min(0.0)")]


def test_of_several_the_closest_is_on_record():
    transposed = Spec(
        {"i": 3, "j": 4},
        {},
        [Read(at("j", "i"), f32)],
        at("i", "j"),
        lambda acc, x: x.max(0.0),
        f32,
        init=None,
    )
    found = trail_of(
        transposed,
        block("*i", X["*i"], lambda acc, x: x.min(0.0)),
        relu(),
        block("*i", X["*i"], wildcard()["*i"], lambda acc, x, y: x + y),
    )
    assert found == [
        ("npu.p1", 0, "expected indices [*i] for [*i], found [j, i] for [i, j]"),
    ]
