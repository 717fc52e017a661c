"""Regions beside and inside an If: what its branches take from outside keeps its place."""

from __future__ import annotations

import numpy as np
import pytest
from byoc_graphs import F, assert_same, kinds, main_of, parsed, region_functions, run, takes

from byocir.dialects.byoc import CallOp
from byocir.dialects.graph import ForeignOp
from byocir.evaluate.module import evaluate
from byocir.rewrites.byoc.verify_regions import verify_regions


def choice(before: str, then: str, other: str, behind: str, result: str) -> str:
    """`%z` is the result of an If between some ops on `%x` and `%y`."""
    return f"""func.func public @main(%x: {F}, %y: {F}, %c: tensor<i1>) -> ({F}) {{
      {before}
      %z = graph.foreign "If" 21 (%c) {{}} : (tensor<i1>) -> {F}
        "then_branch" {{ {then} }} "else_branch" {{ {other} }} loc("if")
      {behind}
      func.return %{result} : {F}
    }}"""


def relu(result: str, operand: str) -> str:
    return f"%{result} = graph.relu %{operand} : ({F}) -> {F}\n"


def add(result: str, a: str, b: str) -> str:
    return f"%{result} = graph.add %{a}, %{b} : ({F}, {F}) -> {F}\n"


def give(value: str) -> str:
    return f"graph.yield %{value} : {F}"


def checked(text: str, *targets, passes: str | None = None):
    """The module after the hand-off; it computes what it did before, whatever the condition."""
    module = parsed(text, *targets)
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=4).astype(np.float32) for _ in range(2))
    feeds = [{"arg0": x, "arg1": y, "arg2": np.array(taken)} for taken in (True, False)]
    expected = [evaluate(module, each) for each in feeds]
    run(module, *([] if passes is None else [passes]))
    verify_regions(module)
    for each, wanted in zip(feeds, expected, strict=True):
        assert_same(evaluate(module, each), wanted)
    return module


def branches(module) -> list[list[str]]:
    """The ops of each branch but its yield."""
    (op,) = (op for op in module.walk() if isinstance(op, ForeignOp))
    return [kinds(region.block)[:-1] for region in op.graphs]


NPU = takes("npu", "relu", "add")
OUTER = relu("a", "x")


@pytest.mark.parametrize(
    ("then", "behind", "calls"),
    [
        # A branch takes %a: what comes behind the If needs it, so it cannot join what %a is in.
        (give("a"), add("b", "a", "z"), ["@npu_0", "foreign", "@npu_1"]),
        # No branch does: the If waits for nothing, and what follows it for it alone.
        (give("y"), add("b", "a", "z"), ["foreign", "@npu_0"]),
        # Nothing that follows needs the If: one call, in front of it.
        (give("a"), relu("b", "a"), ["@npu_0", "foreign"]),
    ],
)
def test_what_branches_take_is_an_edge(then: str, behind: str, calls: list[str]):
    text = choice(OUTER, then, give("x"), behind + add("r", "b", "y"), "r")
    module = checked(text, NPU)
    assert kinds(main_of(module)) == calls


def test_the_work_of_a_branch_runs_in_that_branch_only():
    """The same relu is outside and in both branches: these share a function."""
    inside = relu("t", "y") + give("t")
    other = relu("e", "y") + give("e")
    module = checked(choice(relu("a", "y"), inside, other, add("b", "a", "z"), "b"), NPU)
    assert branches(module) == [["@npu_0"], ["@npu_0"]]
    (outside,) = (k for k in kinds(main_of(module)) if k not in ("foreign", "@npu_0"))
    assert outside == "@npu_1"


def test_an_op_of_a_branch_that_equals_one_outside_stays_in_the_branch():
    passes = "clean-up,match-composites,assign-targets,merge-regions,outline-regions,clean-up"
    inside = relu("t", "x") + give("t")
    text = choice(OUTER, inside, give("y"), add("b", "a", "z"), "b")
    module = checked(text, NPU, passes=passes)
    assert branches(module) == [["@npu_0"], []]


def test_constants_from_outside_are_copied_into_the_regions_of_branches():
    constant = f"%k = graph.constant #graph.array<[1.0, 2.0, 3.0, 4.0] : {F}>\n"
    inside = add("t", "x", "k") + give("t")
    text = choice(constant, inside, give("k"), add("b", "k", "z"), "b")
    passes = "match-composites,assign-targets,merge-regions,place-constants,outline-regions"
    module = checked(text, NPU, passes=passes)
    (op,) = (op for op in module.walk() if isinstance(op, ForeignOp))
    assert any(isinstance(inner, CallOp) for inner in op.walk())


def test_a_function_that_is_called_twice_is_handed_over_once():
    text = f"""func.func private @f(%v: {F}) -> {F} {{
      {relu("r", "v")} func.return %r : {F}
    }}
    func.func public @main(%x: {F}) -> {F} {{
      %a = func.call @f(%x) : ({F}) -> {F}
      %b = func.call @f(%a) : ({F}) -> {F}
      func.return %b : {F}
    }}"""
    module = run(parsed(text, NPU))
    assert list(region_functions(module)) == ["npu_0"]
    assert kinds(main_of(module, "f")) == ["@npu_0"]
    x = np.array([-1, 2, -3, 4], np.float32)
    assert_same(evaluate(module, {"arg0": x}), {"res0": np.maximum(x, 0)})
