"""Results by index, repeated steps, paths, several roots, tests of values."""

from __future__ import annotations

import numpy as np
import pytest
from pattern_programs import attempt, by_name, elementwise, module_of
from xdsl.dialects import test
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Region

from byocir.dialects.types import f32, tensor
from byocir.patterns import (
    Composite,
    constant,
    op,
    parallel,
    path,
    per_channel,
    per_tensor,
    rank,
    repeat,
    result,
    satisfies,
    shape,
    wildcard,
    within,
)
from byocir.patterns.document import pattern_lines


def split_and_use(index: int, used: int | None = None):
    """An op with two results, an op on one of them, and maybe one on another."""
    type_ = tensor(f32, (4,))
    block = Block(arg_types=[type_])
    split = test.TestOp([block.args[0]], [type_, type_])
    last = test.TestOp([split.results[index]], [type_], attributes={})
    block.add_ops([split, last])
    if used is not None:
        block.add_op(test.TestOp([split.results[used]], [type_]))
    return ModuleOp(Region(block)), last


@pytest.mark.parametrize(("wanted", "fits"), [(0, False), (1, True), (None, True)])
def test_a_result_by_its_index_or_any(wanted, fits):
    inner = op("test.op", wildcard("x")) @ "split"
    made = Composite("toy.part", (op("test.op", result(inner, wanted) @ "part"),))
    module, last = split_and_use(1)
    found = made.attempt(last)
    assert found.fits == fits
    if fits:
        assert found.match["part"].value.index == 1
        assert found.match["split"].op.results[1] is found.match["part"].value
    else:
        assert found.reason == "expected result 0, found result 1"
    module.drop_all_references()


def test_another_result_that_is_used_outside_declines():
    made = Composite("toy.part", (op("test.op", result(op("test.op", wildcard()), 1)),))
    module, last = split_and_use(1, used=0)
    assert "is also used by test.op outside the match" in made.attempt(last).reason
    module.drop_all_references()


def test_steps_repeat_as_often_as_fits():
    pattern = repeat(wildcard("x"), lambda v: op("graph.relu", v), least=1, most=3)
    lines = ["a = relu x", "b = relu a", "c = relu b", "d = relu c"]
    assert [
        len(attempt(pattern, elementwise(*lines[: i + 1]), n).matched) for i, n in enumerate("abcd")
    ] == [1, 2, 3, 3]
    assert not attempt(pattern, elementwise("a = add x y"), "a").fits
    with pytest.raises(ValueError, match="expected 0 <= least <= most"):
        repeat(wildcard(), lambda v: v, least=3, most=2)


def test_a_path_passes_certain_ops_only():
    """A diamond of relus and sums from one product."""
    start = op("graph.mul", wildcard("x"), wildcard("y")) @ "start"
    pattern = op("graph.clip", path(start, "graph.relu", "graph.add"))
    lines = ["m = mul x y", "a = relu m", "b = add a m", "c = clip b"]
    found = attempt(pattern, elementwise(*lines), "c")
    assert found.fits
    assert len(found.matched) == 4
    assert found.match["start"].op.name == "graph.mul"
    direct = attempt(pattern, elementwise("m = mul x y", "c = clip m"), "c")
    assert len(direct.matched) == 2


def test_a_path_that_passes_another_op_or_has_two_starts_declines():
    start = op("graph.mul", wildcard(), wildcard())
    pattern = op("graph.clip", path(start, "graph.relu", "graph.add"))
    lines = ["m = mul x y", "a = sub m m", "b = add a m", "c = clip b"]
    reason = "expected all paths to come from one value, found 2 values that lead there"
    assert attempt(pattern, elementwise(*lines), "c").reason == reason
    lines = ["m = mul x y", "b = add m y", "c = clip b"]
    assert attempt(pattern, elementwise(*lines), "c").reason == reason


def test_a_value_of_a_path_that_is_used_outside_declines():
    pattern = op("graph.clip", path(wildcard(), "graph.relu"))
    lines = ["a = relu x", "b = relu a", "c = clip b", "d = add a c"]
    assert (
        "graph.relu (a) is also used by graph.add (d)"
        in attempt(pattern, elementwise(*lines), "c").reason
    )


def three_products():
    x = wildcard("x")
    return parallel(*(op("graph.mul", x, wildcard(name)) @ f"to_{name}" for name in "qkv"))


def test_several_roots_over_one_input():
    lines = ["q = mul x y", "k = mul x q", "v = mul x k", "s = add q k", "t = add s v"]
    body = elementwise(
        "a = relu y", "q = mul x y", "k = mul x a", "v = mul x y", "s = add q k", "t = add s v"
    )
    found = attempt(three_products(), body, "v")
    assert found.fits
    assert {o.results[0].name_hint for o in found.matched} == {"q", "k", "v"}
    # Products that need each other cannot be one node.
    found = attempt(three_products(), elementwise(*lines), "v")
    assert not found.fits


def test_a_root_that_is_missing_is_told():
    found = attempt(three_products(), elementwise("q = mul x y", "r = relu q"), "q")
    assert found.reason == "expected graph.mul beside it on the same input, found none"
    assert (len(found.matched), found.total) == (1, 3)


WEIGHTS = "%c = graph.constant #graph.array<[0.5, 1.0, 2.0, 4.0] : tensor<4xf32>>\n"


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        (rank(1), ""),
        (rank(2), "of 2 dimensions, found 1"),
        (shape(4), ""),
        (shape(None), ""),
        (shape(None, 4), "of shape (any, 4), found (4,)"),
        (per_tensor(), "of one number, found (4,)"),
        (per_channel(), ""),
        (within(0, 4), ""),
        (within(-1, 1), "of numbers within [-1, 1], found 0.5 to 4.0"),
        (satisfies("powers of two", lambda a: (np.log2(a) % 1 == 0).all()), ""),
        (satisfies("integers", lambda a: (a % 1 == 0).all()), "of integers, found 0.5 to 4.0"),
        ((rank(1), within(1, 4)), "of numbers within [1, 4], found 0.5 to 4.0"),
    ],
)
def test_tests_of_a_constant(where, reason):
    pattern = op("graph.mul", wildcard(), constant("c", where=where))
    found = attempt(pattern, WEIGHTS + elementwise("a = mul x c"), "a")
    assert found.fits == (not reason)
    assert found.reason == (reason and f"expected constant c {reason}")


def test_tests_of_an_input():
    pattern = op("graph.relu", wildcard("x", where=shape(8)))
    assert (
        attempt(pattern, elementwise("a = relu x"), "a").reason
        == "expected x of shape (8), found (4,)"
    )
    module = module_of(elementwise("a = relu x"))
    numbers = op("graph.relu", wildcard(where=within(0, 1)))
    found = Composite("toy.p", (numbers,)).attempt(by_name(module)["a"])
    assert found.reason == "expected an input of numbers within [0, 1], found no constant"


def test_structures_are_documented():
    x = wildcard("x", where=rank(4))
    split = op("graph.split", x)
    roots = parallel(result(split, 1), path(result(split), "graph.relu"))
    assert pattern_lines(roots) == [
        "%0 = graph.split(x (4 dimensions))",
        "%1 = result 1 of %0",
        "%2 = any result of %0",
        "%3 = %2 through graph.relu",
        "%4 = all of %1, %3",
    ]
