"""Rewrites by the pattern language."""

from __future__ import annotations

import numpy as np
import pytest

from byocir.dialects.graph import AddOp, ReluOp
from byocir.dialects.locations import names
from byocir.dialects.text import parse_module
from byocir.errors import ByocirError
from byocir.evaluate.module import evaluate
from byocir.patterns import constant as any_constant
from byocir.patterns import op, wildcard, within
from byocir.rewrites.driver import rewrite_module
from byocir.rewrites.matching import rewrites

F = "tensor<2xf32>"


def module_of(*lines: str, result: str):
    body = "\n".join(lines)
    text = f"func.func @main(%x: {F}, %y: {F}) -> ({F}) {{\n{body}\nfunc.return %{result} : {F}\n}}"
    return parse_module(text)


def relu(name: str, value: str) -> str:
    return f'%{name} = graph.relu %{value} : ({F}) -> {F} loc("{name}")'


def add(name: str, a: str, b: str) -> str:
    return f'%{name} = graph.add %{a}, %{b} : ({F}, {F}) -> {F} loc("{name}")'


@rewrites(op("graph.relu", op("graph.relu", wildcard("x")) @ "inner"))
def drop_second(m, new):
    return [m["inner"].value]


def kinds(module):
    return [o.name for o in module.walk() if o.name.startswith("graph.")]


def test_a_match_is_replaced_and_keeps_its_locations():
    module = module_of(relu("a", "x"), relu("b", "a"), relu("c", "b"), result="c")
    feeds = {"arg0": np.float32([-1, 2]), "arg1": np.float32([0, 0])}
    expected = evaluate(module, feeds)
    assert rewrite_module(module, [drop_second])
    assert kinds(module) == ["graph.relu"]
    (left,) = (o for o in module.walk() if isinstance(o, ReluOp))
    assert set(names(left.location)) == {"a", "b", "c"}
    found = evaluate(module, feeds)
    assert {k: v.tobytes() for k, v in found.items()} == {
        k: v.tobytes() for k, v in expected.items()
    }


def test_an_inner_op_that_others_use_stays():
    module = module_of(relu("a", "x"), relu("b", "a"), add("c", "a", "b"), result="c")
    assert rewrite_module(module, [drop_second])
    assert kinds(module) == ["graph.relu", "graph.add"]


def test_a_rewrite_may_leave_a_match_alone():
    @rewrites(op("graph.relu", wildcard("x")))
    def never(m, new):
        new.add(ReluOp.make(m["x"].value))  # dropped again
        return None

    module = module_of(relu("a", "x"), result="a")
    assert not rewrite_module(module, [never])
    assert kinds(module) == ["graph.relu"]


def test_either_order_and_tests_of_values():
    zero = any_constant("zero", where=within(0, 0))

    @rewrites(op("graph.add", wildcard("x"), zero))
    def drop_zero(m, new):
        return [m["x"].value]

    constants = [
        f"%z = graph.constant #graph.array<[0.0, 0.0] : {F}>",
        f"%k = graph.constant #graph.array<[0.0, 1.0] : {F}>",
    ]
    module = module_of(*constants, add("a", "z", "x"), add("b", "a", "k"), result="b")
    assert rewrite_module(module, [drop_zero])
    assert [o.name for o in module.walk() if isinstance(o, AddOp)] == ["graph.add"]


def test_a_rewrite_that_never_ends_is_named():
    """What replaces the match contains it again."""

    @rewrites(op("graph.relu", wildcard("x")))
    def one_more(m, new):
        return [new.add(ReluOp.make(m["x"].value)).result]

    with pytest.raises(ByocirError, match="found pattern one_more still applying") as raised:
        rewrite_module(module_of(relu("a", "x"), result="a"), [one_more])
    assert raised.value.code == "B290"


def test_only_roots_of_a_graph_can_be_rewritten():
    with pytest.raises(KeyError):
        rewrites(op("tir.fill"))(lambda m, new: None)
