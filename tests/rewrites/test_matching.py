"""Rewrites by the pattern language."""

from __future__ import annotations

import numpy as np
import pytest

from byocir.dialects.graph import AddOp, ReluOp
from byocir.dialects.locations import names
from byocir.dialects.text import parse_module
from byocir.dialects.tir import BlockOp
from byocir.errors import ByocirError
from byocir.evaluate.module import evaluate
from byocir.patterns import block, number, op, wildcard, within
from byocir.patterns import constant as any_constant
from byocir.rewrites import rewrite_module, rewrites

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


def test_a_rewrite_asks_for_what_it_wants_by_name():
    """Bound values, attributes, numbers of constants, and what the pattern may leave out."""
    clip = op("graph.clip", any_constant("c")) @ "clip"

    @rewrites(clip | (op("graph.add", wildcard("x"), any_constant("c")) @ "sum"))
    def fold(c, new, m, x=None, clip=None):
        seen.append((x is not None, clip and clip.attrs["max"], c.numbers.tolist(), len(m.ops)))
        made = np.minimum(c.numbers, 1) if clip else c.numbers
        return new.constant(made) if clip else new.add(AddOp.make(x.value, x.value))

    seen = []
    constant = f"%k = graph.constant #graph.array<[0.5, 2.0] : {F}>"
    clipped = f"%c = graph.clip %k {{max = #graph.array<[1.0] : tensor<f32>>}} : ({F}) -> {F}"
    module = module_of(constant, clipped, add("a", "x", "c"), result="a")
    assert rewrite_module(module, [fold])
    assert seen == [(False, 1.0, [0.5, 2.0], 1), (True, None, [0.5, 1.0], 1)]
    (sum_,) = (o for o in module.walk() if isinstance(o, AddOp))
    assert sum_.lhs is sum_.rhs


def test_rules_decide_and_say_why():
    @rewrites(op("graph.add", wildcard("x"), wildcard("y")))
    def double(x, new):
        return new.again(new.add(ReluOp.make(x.value)), x)

    @double.where
    def both_are_one(x, y):
        """Both terms are one value."""
        return x.value is y.value, "two values"

    module = module_of(add("a", "x", "y"), result="a")
    assert not rewrite_module(module, [double])
    (sum_,) = (o for o in module.walk() if isinstance(o, AddOp))
    attempt = double.attempt(sum_)
    assert [(r.sentence, r.holds, r.seen) for r in attempt.rules] == [
        ("Both terms are one value", False, "two values")
    ]


def test_one_use_leaves_alone_what_others_use():
    once = rewrites(op("graph.relu", op("graph.relu", wildcard("x")) @ "inner"), one_use=True)
    module = module_of(relu("a", "x"), relu("b", "a"), add("c", "a", "b"), result="c")
    assert not rewrite_module(module, [once(lambda inner: inner)])
    module = module_of(relu("a", "x"), relu("b", "a"), result="b")
    assert rewrite_module(module, [once(lambda inner: inner)])


def gives_too_few(x):
    return []


def gives_another_type(x, new):
    return new.constant(np.float32([1, 2, 3]))


def gives_no_value(x):
    return 1


def fails(x):
    return 1 / 0


def makes_an_input_again(x, new):
    return new.again(x, x)


def asks_for_another(y):
    return y


@pytest.mark.parametrize(
    ("replace", "code", "said"),
    [
        (gives_too_few, "B292", r"rewrite gives_too_few gave nothing in place of tensor<2xf32>"),
        (gives_another_type, "B292", "gave tensor<3xf32> in place of tensor<2xf32>"),
        (gives_no_value, "B292", "gave 1 in place of tensor<2xf32>"),
        (fails, "B292", "failed with ZeroDivisionError: division by zero"),
        (makes_an_input_again, "B292", "expected an op to make again, found a value without one"),
        (asks_for_another, "B293", "expected asks_for_another to ask for names .* found 'y'"),
    ],
)
def test_mistakes_of_a_rewrite_are_told_with_their_place(replace, code, said):
    module = module_of(relu("a", "x"), result="a")
    with pytest.raises(ByocirError, match=said) as raised:
        rewrite_module(module, [rewrites(op("graph.relu", wildcard("x")))(replace)])
    assert raised.value.code == code
    assert raised.value.where.startswith(__file__)


def test_only_ops_can_be_rewritten():
    with pytest.raises(ByocirError, match="to begin at an op or a block") as raised:
        rewrites(wildcard("x"))(lambda x: None)
    assert raised.value.code == "B200"


# The tensor level.

BLOCKS = """
func.func @main(%x: tensor<3x4xi32>) -> tensor<4x3xi32> {
  %e = tir.empty : tensor<3x4xi32>
  %y = tir.block [i: 3, j: 4] ins(%x[i, j] : tensor<3x4xi32>) outs(%e[i, j] : tensor<3x4xi32>) {
  ^bb0(%a: i32, %o: i32):
    %c = arith.constant 6 : i32
    %s = arith.muli %a, %c : i32
    tir.yield %s : i32
  } loc("twice")
  %t = tir.empty : tensor<4x3xi32>
  %z = tir.block [j: 4, i: 3] ins(%y[i, j] : tensor<3x4xi32>) outs(%t[j, i] : tensor<4x3xi32>) {
  ^bb0(%a: i32, %o: i32):
    %c = arith.constant 7 : i32
    %s = arith.addi %a, %c : i32
    tir.yield %s : i32
  } loc("more")
  func.return %z : tensor<4x3xi32>
}
"""


def scaled(value):
    return block("*i", value["*i"], lambda acc, v: v * number("factor")) @ "scaled"


def test_blocks_are_rewritten_by_the_same_decorator():
    @rewrites(block("*i", scaled(wildcard("x"))["*i"], lambda acc, v: v + number("more")) @ "sum")
    def swap(x, factor, more, scaled, new):
        assert scaled.extents == {"i": 12}
        seen.append((factor, more))
        return None

    seen = []
    rewrite_module(parse_module(BLOCKS), [swap])
    assert seen == []  # the second reads its input transposed

    @rewrites(scaled(wildcard("x")))
    def by_a_constant(x, factor, new):
        return new.constant(np.full(x.type.shape, factor, np.int32))

    module = parse_module(BLOCKS)
    assert rewrite_module(module, [by_a_constant])
    module.verify()
    assert [o.name for o in module.walk() if o.name.startswith("tir.") and o.results] == [
        "tir.constant",
        "tir.empty",
        "tir.block",
    ]
    (left,) = (o for o in module.walk() if isinstance(o, BlockOp))
    assert names(left.location) == ("more",)
    (found,) = evaluate(module, {"arg0": np.zeros((3, 4), np.int32)}).values()
    assert (found == 13).all()


def test_what_rules_saw_is_put_into_words_for_readers_alone():
    @rewrites(op("graph.relu", op("graph.relu", wildcard("x")) @ "inner"))
    def keep(inner):
        return inner

    words: list[str] = []

    class Seen:
        def __str__(self) -> str:
            words.append("seen")
            return "seen"

    @keep.where
    def never():
        """It holds never."""
        return False, Seen()

    module = module_of(relu("a", "x"), relu("b", "a"), result="b")
    assert not rewrite_module(module, [keep])
    assert not words
    last = [o for o in module.walk() if isinstance(o, ReluOp)][-1]
    assert [rule.seen for rule in keep.attempt(last).rules] == ["seen"]


def test_a_rewrite_of_no_module_is_the_users():
    made: dict[str, object] = {}
    exec("def gone(x):\n    return x", {"__name__": None}, made)
    module = module_of(relu("a", "x"), result="a")
    assert rewrite_module(module, [rewrites(op("graph.relu", wildcard("x")))(made["gone"])])
