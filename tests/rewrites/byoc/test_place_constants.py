"""Where constants go that regions use: bound, passed as arguments, or as their pattern says."""

from __future__ import annotations

import pytest
from byoc_graphs import (
    HAND_OFF,
    assert_same,
    kinds,
    main_of,
    parsed,
    program,
    region_functions,
    run,
    toy,
    values,
)
from hypothesis import given
from hypothesis import strategies as st

from byocir.dialects.byoc import CallOp, CompositeOp
from byocir.dialects.graph import ConstantOp
from byocir.errors import ByocirError
from byocir.patterns import Composite, constant, op, wildcard, within
from byocir.patterns.policy import RegionPolicy
from byocir.patterns.target_classes import register
from byocir.targets.base import Target

PASSES = HAND_OFF.replace("outline", "place-constants,outline")


def taker(policy: str, *, merge: str = "any") -> type[Target]:
    """Takes sums of anything, and products by what it calls a constant."""
    total = Composite("a.add", (op("graph.add", wildcard(), wildcard()),))
    scaled = Composite("a.mul", (op("graph.mul", wildcard(), constant()),))
    kind = toy("a", total, scaled, policy=RegionPolicy(merge))
    kind.constants = policy
    register("a", kind)
    return kind


LINES = ["c = constant 2.0", "d = constant 3.0", "a = add x c", "b = mul a d", "e = mul b c"]


def constants_in(module) -> list[float]:
    (function,) = region_functions(module).values()
    return [float(o.value.data.values()[0]) for o in function.walk() if isinstance(o, ConstantOp)]


@pytest.mark.parametrize(
    ("policy", "inside", "arguments"),
    [("match", [3.0, 2.0], 2), ("bind", [2.0, 3.0, 2.0], 1), ("argument", [], 3)],
)
def test_where_constants_go(policy, inside, arguments):
    module = parsed(program(LINES, ["e"]), taker(policy))
    before = values(module)
    run(module, PASSES)
    assert constants_in(module) == inside
    (call,) = (o for o in module.walk() if isinstance(o, CallOp))
    assert len(call.inputs) == arguments
    for each in module.walk():
        if isinstance(each, CompositeOp | CallOp):
            assert len(set(each.inputs)) == len(each.inputs)
    assert_same(values(module), before)


def test_regions_that_differ_in_their_weights_share_a_function_that_takes_them():
    lines = ["c = constant 2.0", "d = constant 3.0", "a = mul x c", "s = softmax a", "b = mul s d"]
    shared = run(parsed(program(lines, ["b"]), taker("argument", merge="none")), PASSES)
    assert list(region_functions(shared)) == ["a_0"]
    assert kinds(main_of(shared)) == ["@a_0", "softmax", "@a_0"]
    apart = run(parsed(program(lines, ["b"]), taker("bind", merge="none")), PASSES)
    assert len(region_functions(apart)) == 2


def test_patterns_find_constants_again_that_are_passed_in():
    """On either side, and whatever the pattern wants of numbers that are no longer there."""
    scaled = Composite(
        "a.mul", (op("graph.mul", wildcard("x"), constant("w", where=within(1, 4))),)
    )
    kind = toy("a", scaled, policy=RegionPolicy("none"))
    kind.constants = "argument"
    register("a", kind)
    module = run(parsed(program(["c = constant 2.0", "a = mul c x"], ["a"]), kind), PASSES)
    (composite,) = (o for o in module.walk() if isinstance(o, CompositeOp))
    match = scaled.matched_in(composite)
    assert match is not None
    x, c = composite.body.block.args
    assert (match["x"].value, match["w"].value) == (x, c)
    with pytest.raises(ByocirError, match="B107"):
        _ = match["w"].numbers


@st.composite
def programs(draw: st.DrawFn) -> tuple[list[str], list[str]]:
    lines = ["c0 = constant 2.0", "c1 = constant -1.5", "c2 = constant 2.0"]
    names = ["x", "y", "z", "c0", "c1", "c2"]
    for i in range(draw(st.integers(1, 8))):
        kind = draw(st.sampled_from(["add", "mul", "softmax"]))
        operands = [draw(st.sampled_from(names)) for _ in range(1 if kind == "softmax" else 2)]
        lines.append(f"v{i} = {kind} {' '.join(operands)}")
        names.append(f"v{i}")
    made = names[6:]
    return lines, draw(st.lists(st.sampled_from(made), min_size=1, max_size=3, unique=True))


@given(programs(), st.sampled_from(["match", "bind", "argument"]))
def test_constants_never_change_what_is_computed(graph, policy):
    module = parsed(program(*graph), taker(policy))
    before = values(module)
    run(module, PASSES)
    assert_same(values(module), before)
    for function in region_functions(module).values():
        if policy == "argument":
            assert not any(isinstance(o, ConstantOp) for o in function.walk())
    for call in (o for o in module.walk() if isinstance(o, CallOp)):
        if policy == "bind":
            assert not any(isinstance(v.owner, ConstantOp) for v in call.inputs)
