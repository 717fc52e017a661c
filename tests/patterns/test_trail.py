"""The trail: decisions as attributes, nearest misses, what is recorded once."""

from pattern_programs import by_name, elementwise, module_of

from byocir.dialects.byoc import CompositeOp, TrailOp
from byocir.dialects.text import parse_module, print_module
from byocir.patterns import Composite, constant, op, optional, wildcard
from byocir.patterns.trail import append, nearest_misses, record, withdraw

LINES = "a = add x y", "b = relu a"


def fused() -> Composite:
    made = Composite("toy.fused", (op("graph.relu", op("graph.add", wildcard("x"), wildcard())),))

    @made.rule
    def has_four(m):
        """There are 4 numbers."""
        seen = m["x"].type.shape[0]
        return seen == 4, seen

    return made


def decisions(module):
    (trail,) = [o for o in module.body.block.ops if isinstance(o, TrailOp)]
    return [
        (d.pattern.data, d.outcome.data, [n.data for n in d.nodes], d.reason.data)
        for d in trail.decisions
    ]


def test_a_taken_attempt_as_data():
    module = module_of(elementwise(*LINES))
    found = record(fused().attempt(by_name(module)["b"]), "toy")
    assert str(found) == (
        '#byoc.decision<"toy", "graph", "toy.fused", "taken", ["b", "a"], #builtin.int<2>, '
        '#builtin.int<2>, "", [#byoc.rule<"There are 4 numbers", "holds", "4", "">]>'
    )


def test_a_declined_attempt_as_data_survives_text():
    module = module_of(elementwise("b = relu x"))
    found = record(fused().attempt(by_name(module)["b"]), "toy")
    assert (found.outcome.data, found.matched.data, found.total.data) == ("misses part", 1, 2)
    assert found.reason.data == "expected graph.add, found an input of the function"
    append(module, [found])
    again = parse_module(print_module(module))
    assert decisions(again) == decisions(module)


def test_a_record_of_an_older_version_is_a_match_only_where_rules_were_evaluated():
    module = module_of(elementwise(*LINES))
    refused = str(record(fused().attempt(by_name(module)["b"]), "toy", "too small"))
    old = refused.replace('"taken"', '"declined"')
    missed = old.replace('[#byoc.rule<"There are 4 numbers", "holds", "4", "">]', "[]")
    append(module, [record(fused().attempt(by_name(module)["b"]), "toy")])
    for text, is_match in ((old, True), (missed, False)):
        again = parse_module(print_module(module).replace(refused.replace("too small", ""), text))
        (trail,) = [op for op in again.body.block.ops if isinstance(op, TrailOp)]
        assert not trail.decisions.data[0].plain.taken
        assert trail.decisions.data[0].plain.is_match == is_match


def test_what_was_recorded_is_not_recorded_again():
    module = module_of(elementwise(*LINES))
    attempt = record(fused().attempt(by_name(module)["b"]), "toy")
    append(module, [attempt])
    append(module, [attempt])
    assert len(decisions(module)) == 1


def test_the_first_reason_why_a_pattern_declined_a_place_stays():
    first = record(fused().attempt(by_name(module_of(elementwise("b = relu x")))["b"]), "toy")
    other = module_of(elementwise("a = sub x y", "b = relu a"))
    second = record(fused().attempt(by_name(other)["b"]), "toy")
    assert first.reason != second.reason
    append(other, [first])
    append(other, [second])
    assert [d[3] for d in decisions(other)] == [first.reason.data]


def test_a_place_declined_before_may_be_taken_later():
    declined = record(fused().attempt(by_name(module_of(elementwise("b = relu x")))["b"]), "toy")
    module = module_of(elementwise(*LINES))
    append(module, [declined])
    append(module, [record(fused().attempt(by_name(module)["b"]), "toy")])
    assert [d[1] for d in decisions(module)] == ["misses part", "taken"]


def test_withdrawn_decisions_are_declined():
    text = """
    %b = byoc.composite "toy.fused" at "graph" (%p = %x : tensor<4xf32>) -> tensor<4xf32> {
      byoc.yield %p : tensor<4xf32>
    } loc(fused["a", "b"])
    func.return %b : tensor<4xf32>
    """
    taken = record(fused().attempt(by_name(module_of(elementwise(*LINES)))["b"]), "toy")
    module = module_of(text)
    (made,) = [o for o in module.walk() if isinstance(o, CompositeOp)]
    append(module, [taken])
    withdraw(module, {made: "not worth it"})
    assert decisions(module) == [("toy.fused", "refused", ["b", "a"], "not worth it")]
    append(module, [taken])
    withdraw(module, {made: "not worth it"})
    assert len(decisions(module)) == 1


def misses(pattern, lines, at):
    module = module_of(elementwise(*lines))
    composite = Composite("toy.p", (pattern,))
    return [
        (m.reason, len(m.matched), m.total)
        for m in nearest_misses(by_name(module)[at], [composite], {})
    ]


def test_an_inner_op_whose_result_nothing_fitting_uses():
    pattern = op("graph.relu", op("graph.add", wildcard(), wildcard()))
    lines = "a = add x y", "b = sub a x"
    expected = "expected graph.relu to use its result, found graph.sub"
    assert misses(pattern, lines, "a") == [(expected, 1, 2)]
    expected = "expected graph.relu to use its result, found func.return"
    assert misses(pattern, lines[:1], "a") == [(expected, 1, 2)]


def test_a_user_of_the_right_kind_tells_its_own_reason():
    pattern = op("graph.mul", op("graph.relu", wildcard()), constant("c"))
    lines = "a = relu x", "b = mul a y"
    expected = "expected constant c, found an input of the function"
    assert misses(pattern, lines, "a") == [(expected, 1, 2)]


def test_an_op_that_is_no_inner_op_of_a_pattern_has_no_miss():
    pattern = op("graph.relu", op("graph.add", wildcard(), wildcard()))
    assert misses(pattern, ("a = sub x y",), "a") == []
    assert misses(pattern, ("a = relu x",), "a") == []


def test_no_miss_where_the_attempt_at_the_root_tells_the_reason():
    """The whole pattern is there and was declined, by a rule for example: that is not a miss, and
    least of all taken."""
    pattern = op("graph.relu", op("graph.add", wildcard(), wildcard()))
    assert misses(pattern, LINES, "a") == []


def test_the_nearest_of_several_paths():
    inner = op("graph.add", wildcard(), wildcard())
    pattern = op("graph.div", optional(inner, lambda v: op("graph.relu", v)), wildcard())
    lines = *LINES, "c = sub b x"
    expected = "expected graph.div to use its result, found graph.sub"
    assert misses(pattern, lines, "a") == [(expected, 2, 3)]


def test_an_op_above_that_another_composite_took():
    """The sum alone is left: its relu went elsewhere."""
    module = module_of(elementwise(*LINES))
    ops, pattern = by_name(module), op("graph.relu", op("graph.add", wildcard(), wildcard()))
    composite = Composite("toy.p", (pattern,))
    (miss,) = nearest_misses(ops["a"], [composite], {ops["b"]: "toy.relu"})
    assert miss.reason == "expected ops that are free, found graph.relu (b) of toy.relu"
    assert miss.matched == (ops["a"],)


def test_a_user_that_takes_the_value_as_an_input_is_no_way_up():
    """`b` fits the pattern, but with `a` as the plain operand."""
    pattern = op("graph.sub", op("graph.add", wildcard(), wildcard()), wildcard())
    lines = "a = add x y", "c = add y x", "b = sub c a"
    expected = "expected graph.sub to use its result, found graph.sub"
    assert misses(pattern, lines, "a") == [(expected, 1, 2)]
