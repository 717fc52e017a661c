"""Composites: rules, legality, what an attempt tells."""

import numpy as np
import pytest
from pattern_programs import F, attempt, by_name, elementwise, module_of

from byocir.dialects.array import Array, ArrayAttr
from byocir.dialects.graph import AddOp, ConstantOp
from byocir.errors import ByocirError
from byocir.patterns import Composite, composite, constant, op, optional, supports, wildcard


def relu_of_sum() -> Composite:
    @composite("toy.relu_of_sum")
    def made():
        x, y = wildcard("x"), wildcard("y")
        return op("graph.relu", op("graph.add", x, y) @ "sum")

    return made


def at(made: Composite, body: str, root: str):
    return made.attempt(by_name(module_of(body))[root])


SUM = elementwise("a = add x y", "b = relu a")


def test_composite_of_a_function():
    made = relu_of_sum()
    assert (made.name, made.level, made.size, made.glue) == ("toy.relu_of_sum", "graph", 2, False)
    assert made.root_names == {"graph.relu"}
    found = at(made, SUM, "b")
    assert found.fits
    assert [matched.name for matched in found.matched] == ["graph.relu", "graph.add"]


def test_composite_of_alternatives_tries_them_in_order():
    @composite("toy.either")
    def made():
        return op("graph.clip", wildcard("c")), op("graph.relu", wildcard("r"))

    assert set(at(made, elementwise("a = relu x"), "a").match) == {"r"}
    assert made.root_names == {"graph.clip", "graph.relu"}


def test_all_rules_are_evaluated_and_told():
    made = relu_of_sum()

    @made.rule
    def fails(m):
        """The sum is
        small."""
        return False, m["sum"].type.shape

    @made.rule
    def holds(m):
        """It has a name"""
        return np.bool_(True), None

    @made.rule
    def fails_too(m):
        """Never holds."""
        return 0, "nothing"

    found = at(made, SUM, "b")
    assert not found.fits
    assert found.match is not None
    assert found.reason == "2 of 3 rules fail"
    assert [(r.sentence, r.holds, r.seen) for r in found.rules] == [
        ("The sum is small", False, "(4,)"),
        ("It has a name", True, "None"),
        ("Never holds", False, "nothing"),
    ]


def test_a_rule_needs_a_docstring():
    with pytest.raises(ByocirError, match=r"rule silent of toy.relu_of_sum has no docstring") as e:

        @relu_of_sum().rule
        def silent(m):
            return True, None

    assert e.value.code == "B201"


def test_a_rule_that_fails_is_told_as_such():
    made = relu_of_sum()

    @made.rule
    def broken(m):
        """The bias is small."""
        return m["bias"].type.rank == 1, None

    with pytest.raises(ByocirError, match=r"rule broken failed with KeyError: 'bias'") as raised:
        at(made, SUM, "b")
    assert raised.value.code == "B202"
    assert raised.value.where == f"{__file__}:{broken.__code__.co_firstlineno + 3}"
    assert raised.value.message.startswith("pattern toy.")


def test_weights_that_were_not_given_stay_the_users_error():
    """A rule that reads values of a constant whose bytes are absent."""

    @composite("toy.add")
    def made():
        return op("graph.add", wildcard("x"), constant("c"))

    @made.rule
    def positive(m):
        """The constant is positive."""
        return bool((m["c"].array.values() > 0).all()), None

    present = Array.of(np.ones(4, np.float32))
    absent = Array(present.digest, present.dtype, present.shape)
    module = module_of(elementwise("a = add x y"))
    add = by_name(module)["a"]
    add.operands[1] = ConstantOp.make(value=ArrayAttr(absent)).result
    assert isinstance(add, AddOp)
    with pytest.raises(ByocirError, match="were not given") as raised:
        made.attempt(add)
    assert raised.value.code == "B107"


def test_predicate_on_the_values_of_a_constant():
    """Two composites of one pattern: the first whose rule holds, per instance."""

    def body(value: float) -> str:
        array = f"#graph.array<[{', '.join([str(value)] * 4)}] : tensor<4xf32>>"
        return f"%c = graph.constant {array}\n" + elementwise("a = mul x c")

    small, any_ = (Composite(n, (op("graph.mul", wildcard(), constant("c")),)) for n in ("a", "b"))

    @small.rule
    def within_one(m):
        """Weights are within [-1, 1]."""
        seen = float(abs(m["c"].array.values()).max())
        return seen <= 1, seen

    assert at(small, body(0.5), "a").fits
    found = at(small, body(2.0), "a")
    assert (found.fits, found.rules[0].seen) == (False, "2.0")
    assert at(any_, body(2.0), "a").fits


def test_rules_choose_between_alternatives():
    """The longest structural match breaks a rule; a shorter one fits."""
    pattern = op("graph.relu", op("graph.add", wildcard("x"), wildcard("y")) | wildcard("v"))
    made = Composite("toy.rule", (pattern,))

    @made.rule
    def no_sum(m):
        """There is no sum."""
        return "x" not in m, tuple(m)

    found = at(made, SUM, "b")
    assert found.fits
    assert set(found.match) == {"v"}


def test_an_inner_value_used_outside_declines():
    body = elementwise("a = add x y", "b = relu a", "c = sub b a")
    found = at(relu_of_sum(), body, "b")
    assert not found.fits
    assert found.reason == "graph.add (a) is also used by graph.sub (c) outside the match"


def test_a_result_of_the_function_counts_as_a_use():
    body = SUM.replace(f"return %b : {F}", f"return %a, %b : {F}, {F}")
    module = module_of(body, result=f"{F}, {F}")
    found = relu_of_sum().attempt(by_name(module)["b"])
    assert found.reason == "graph.add (a) is also used by func.return outside the match"


def test_the_roots_own_result_may_go_anywhere():
    body = elementwise("a = add x y", "b = relu a", "c = sub b b", "d = mul b c")
    assert at(relu_of_sum(), body, "b").fits


def test_an_exposed_value_may_be_used_outside():
    inner = op("graph.add", wildcard("x"), wildcard("y"), exposed=True)
    body = elementwise("a = add x y", "b = relu a", "c = sub b a")
    assert attempt(op("graph.relu", inner), body, "b").fits


def test_a_value_is_exposed_by_any_node_of_the_pattern_that_stands_for_it():
    x = wildcard("x")
    pattern = op("graph.mul", op("graph.relu", x), op("graph.relu", x, exposed=True))
    body = elementwise("a = relu x", "b = mul a a", "c = sub b a")
    assert attempt(pattern, body, "b").fits


def test_a_path_that_leaves_and_returns_declines():
    """The match's exposed value comes back through an op outside it."""
    inner = op("graph.add", wildcard("x"), wildcard("y"), exposed=True)
    pattern = op("graph.mul", inner, wildcard("z"))
    found = attempt(pattern, elementwise("a = add x y", "h = relu a", "b = mul a h"), "b")
    assert found.reason == "a path leaves the match at graph.add (a) and comes back"
    beside = elementwise("a = add x y", "h = relu a", "g = relu x", "b = mul a g", "c = sub h b")
    assert attempt(pattern, beside, "b").fits


def test_other_reasons_can_block_a_match():
    """What the matcher's caller knows, such as overlaps, is asked of every alternative."""
    pattern = optional(op("graph.add", wildcard(), wildcard()), lambda v: op("graph.relu", v))
    pattern = pattern | op("graph.relu", wildcard("v"))
    made, root = Composite("toy.any", (pattern,)), by_name(module_of(SUM))["b"]
    found = made.attempt(root, lambda state: "taken" if len(state.ops) > 1 else "")
    assert found.fits
    assert set(found.match) == {"v"}
    found = made.attempt(root, lambda state: "taken")
    assert (found.fits, found.reason, len(found.matched)) == (False, "taken", 2)


def test_an_attempt_tells_how_far_it_came():
    """The alternative that matched most ops gives the reason."""
    deep = op("graph.relu", op("graph.add", op("graph.mul", wildcard(), wildcard()), wildcard()))
    shallow = op("graph.relu", op("graph.div", wildcard(), wildcard()))
    found = attempt(shallow | deep, elementwise("a = add x y", "b = relu a"), "b")
    assert (len(found.matched), found.total) == (2, 3)
    assert found.reason == "expected graph.mul, found an input of the function"


def test_supports_is_a_composite_of_one_op_with_one_rule():
    @supports("graph.add", name="toy.add")
    def no_broadcast(m):
        """Operands have the result's shape."""
        seen = tuple(v.type for v in m["op"].op.operands)
        return all(v.get_shape() == m["op"].type.shape for v in seen), len(seen)

    found = at(no_broadcast, elementwise("a = add x y"), "a")
    assert found.fits
    assert (no_broadcast.name, no_broadcast.size, no_broadcast.level) == ("toy.add", 1, "graph")
    assert found.rules[0].sentence == "Operands have the result's shape"
    found = at(no_broadcast, elementwise("a = sub x y"), "a")
    assert found.reason == "expected graph.add, found graph.sub"
    with pytest.raises(ByocirError, match="no docstring"):
        supports("graph.add", name="toy.add")(lambda m: (True, None))


def test_a_rule_tells_what_would_fix_it_where_it_knows():
    made = relu_of_sum()

    @made.rule(fix="pad to 16")
    def wide(m):
        """There are 16 numbers or more."""
        return m["x"].type.shape[0] >= 16, m["x"].type.shape[0]

    @made.rule(fix=lambda m: f"cut {m['x'].type.shape[0] - 2} off")
    def narrow(m):
        """There are 2 numbers or fewer."""
        return m["x"].type.shape[0] <= 2, m["x"].type.shape[0]

    @made.rule(fix="never told")
    def fine(m):
        """There is a sum."""
        return "sum" in m, True

    assert [rule.fix for rule in at(made, SUM, "b").rules] == ["pad to 16", "cut 2 off", ""]


def test_a_match_is_written_in_one_short_line():
    match = at(relu_of_sum(), SUM, "b").match
    assert repr(match) == "<Match of 2 ops, root graph.relu, names sum, x, y>"
