"""group-foreign keeps what a module computes, in groups as large as they can be, in linear time."""

import sys
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pass_checks import numbers, run_on, same
from xdsl.context import Context
from xdsl.dialects.func import CallOp, FuncOp

from byocir.dialects.graph import ForeignOp
from byocir.dialects.locations import names
from byocir.dialects.text import parse_module
from byocir.evaluate.module import evaluate_function
from byocir.rewrites.host.group_foreign import GroupForeignPass

T = "tensor<4xf32>"
CONSTANT = "graph.constant #graph.array<[0.5, 2.0, -1.0, 0.25] : tensor<4xf32>>"


def foreign(a, b):
    return f'graph.foreign "Sub" 14 (%{a}, %{b}) {{}} : ({T}, {T}) -> {T}'


def graph(a, b):
    return f"graph.sub %{a}, %{b} : ({T}, {T}) -> {T}"


def reference_first(a, b):
    return f'graph.foreign "Dropout" 13 (%{a}) {{}} : ({T}) -> {T}'


def branches(a, b):
    return f"""graph.foreign "If" 21 (%p) {{}} : (tensor<i1>) -> {T} "then_branch" {{
      %inner = {foreign(a, b)}
      graph.yield %inner : {T}
    }} "else_branch" {{
      graph.yield %{b} : {T}
    }}"""


def loop(a, b):
    return f"""tir.for %i = 0 to 2 serial carry(%c = %{a} : {T}) {{
      %first = {foreign("c", b)} loc("first")
      %second = {foreign("first", a)} loc("second")
      tir.yield %second : {T}
    }}"""


def constant(a, b):
    return CONSTANT


KINDS = foreign, graph, reference_first, branches, loop, constant


def module_of(lines, results):
    """A module whose @main has these lines, each of a kind and two values: `x`, or the number of a
    line."""
    body = "\n".join(f'    %{i} = {kind(a, b)} loc("n{i}")' for i, (kind, a, b) in enumerate(lines))
    values, types = (", ".join(each) for each in ([f"%{r}" for r in results], [T] * len(results)))
    return parse_module(
        f"func.func @main(%x: {T}, %p: tensor<i1>) -> ({types}) {{\n{body}\n"
        f"    func.return {values} : {types}\n}}"
    )


@st.composite
def programs(draw):
    lines = []
    for i in range(draw(st.integers(1, 12))):
        value = st.sampled_from(["x", *range(i)])
        lines.append((draw(st.sampled_from(KINDS)), draw(value), draw(value)))
    return lines, draw(st.lists(st.integers(0, len(lines) - 1), min_size=1, max_size=4))


@pytest.mark.hypothesis
@settings(max_examples=settings.default.max_examples // 4)
@given(programs(), st.booleans())
def test_results_stay_and_what_follows_each_other_is_one_call(program, condition):
    module = module_of(*program)
    arrays = [numbers(0, 4), np.array(condition)]
    before = evaluate_function(module, "main", arrays)
    same(evaluate_function(run_on(module, "group-foreign"), "main", arrays), before)
    main, *groups = module.body.block.ops
    for block in [main.body.block, *(op.body.block for op in main.walk() if op.name == "tir.for")]:
        for one, next_ in pairwise(block.ops):
            assert not (joins(one) and joins(next_))
    for group in groups:
        found = [name for op in group.body.block.ops if joins(op) for name in names(op.location)]
        assert len(found) > 1
        assert found == sorted(found, key=lambda name: (len(name), name))


def joins(op):
    return isinstance(op, ForeignOp) and op.op_type.data != "Dropout"


def chain(count):
    """Foreign ops, each of which takes the result of the one before."""
    return [(foreign, i - 1 if i else "x", "x") for i in range(count)], [count - 1]


def wide(count):
    """Foreign ops that wait for nothing, each with a constant of its own."""
    constants = [(constant, "x", "x") for _ in range(count)]
    last = range(count, 2 * count)
    return [*constants, *((foreign, "x", i) for i in range(count))], list(last)


def alternating(count):
    """Foreign ops that cannot join: each waits for a graph op that waits for the one before."""
    kinds = [(foreign, graph)[i % 2] for i in range(2 * count)]
    return [(k, i - 1 if i else "x", "x") for i, k in enumerate(kinds)], [2 * count - 1]


@pytest.mark.parametrize(("shape", "grouped"), [(chain, True), (wide, True), (alternating, False)])
def test_more_ops_than_python_nests_calls(shape, grouped):
    module = module_of(*shape(1200))
    GroupForeignPass().apply(Context(), module)
    main, *groups = (op for op in module.body.block.ops if isinstance(op, FuncOp))
    assert [sum(map(joins, group.body.block.ops)) for group in groups] == [1200] * grouped
    assert sum(map(joins, main.body.block.ops)) == (0 if grouped else 1200)
    assert sum(isinstance(op, CallOp) for op in main.body.block.ops) == len(groups)
    module.verify()


def calls_of(module):
    """How many functions the pass calls."""
    calls = 0

    def count(frame, event, argument):
        nonlocal calls
        calls += event == "call"

    outside = sys.getprofile()
    sys.setprofile(count)
    try:
        GroupForeignPass().apply(Context(), module)
    finally:
        sys.setprofile(outside)
    return calls


@pytest.mark.parametrize("shape", [chain, wide, alternating])
def test_twice_the_ops_take_twice_the_calls(shape):
    # The first run fills caches of attributes, with which fewer functions are called.
    _, once, twice = (calls_of(module_of(*shape(count))) for count in (100, 50, 100))
    assert twice < 2.2 * once
