"""What targets want of their regions, which regions share a function, what is verified."""

from __future__ import annotations

import pytest
from byoc_graphs import (
    F,
    assert_same,
    composites,
    kinds,
    main_of,
    parsed,
    program,
    region_functions,
    run,
    takes,
    toy,
    trail,
    values,
)

from byocir.dialects.byoc import CallOp
from byocir.dialects.dominance import InvalidOp
from byocir.dialects.locations import names
from byocir.errors import ByocirError
from byocir.patterns import Composite, GatheredRegion, block, constant, op, wildcard
from byocir.patterns.policy import RegionPolicy
from byocir.rewrites.byoc.verify_regions import verify_regions

LINES = ["a = relu x", "b = add a y", "h = softmax z", "c = relu h"]
"""Two neighbours of a target, and one that is apart behind an op of the host."""


def with_policy(policy: RegionPolicy, lines=LINES, results=("b", "c")):
    return run(parsed(program(lines, results), takes("a", "relu", "add", policy=policy)))


@pytest.mark.parametrize(
    ("merge", "calls"),
    [("any", ["a_0"]), ("connected", ["a_0", "a_1"]), ("none", ["a_0", "a_1", "a_0"])],
)
def test_how_composites_are_gathered(merge, calls):
    """Alone, the two relus compute the same and share a function."""
    module = with_policy(RegionPolicy(merge))
    found = [o.callee.root_reference.data for o in module.walk() if isinstance(o, CallOp)]
    assert sorted(found) == sorted(calls)


def test_regions_of_too_few_composites_go_back():
    module = with_policy(RegionPolicy("connected", min_composites=2))
    assert sorted(kinds(main_of(module))) == ["@a_0", "relu", "softmax"]
    reason = "expected 2 composites in a region, found 1"
    assert ("a.relu", "refused", ("c",), reason) in trail(module)
    assert len(with_policy(RegionPolicy(min_composites=4)).body.block.ops) > 0


def test_regions_of_too_few_macs_go_back():
    """Elementwise ops have none."""
    module = with_policy(RegionPolicy(min_macs=1_000))
    assert not region_functions(module)
    assert {reason for *_, reason in trail(module) if "MACs" in reason} == {
        "expected 1,000 MACs in a region, found 0"
    }


@pytest.mark.parametrize(("least", "taken"), [(128, True), (129, False)])
def test_macs_of_products_count_at_both_levels(least: int, taken: bool):
    """A 4x4 by 4x8 product has 128."""
    pattern = Composite("npu.matmul", (op("graph.matmul", wildcard(), wildcard()),))
    a, b = wildcard(), wildcard()
    product = block("m n | k", a["m k"], b["k n"], lambda acc, x, y: acc + x * y)
    target = toy(
        "npu", pattern, Composite("npu.product", (product,)), policy=RegionPolicy(min_macs=least)
    )
    body = "%r = graph.matmul %x, %y : (tensor<4x4xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>"
    head = "func.func public @main(%x: tensor<4x4xf32>, %y: tensor<4x8xf32>) -> (tensor<4x8xf32>)"
    text = f"{head} {{\n{body}\nfunc.return %r : tensor<4x8xf32>\n}}\n"
    assert bool(region_functions(run(parsed(text, target)))) == taken
    lowered = "convert-graph-to-tir,match-composites{level=tensor},assign-targets,merge-regions"
    module = run(parsed(text, target), f"{lowered},outline-regions")
    assert bool(region_functions(module)) == taken


def test_glue_does_not_count():
    view = Composite("a.view", (op("graph.relu", wildcard()),), glue=True)
    work = Composite("a.add", (op("graph.add", wildcard(), wildcard()),))
    policy = RegionPolicy(min_composites=2)
    module = parsed(program(LINES[:2], ["b"]), toy("a", work, view, policy=policy))
    assert kinds(main_of(run(module))) == ["relu", "add"]


def test_a_policy_that_is_none():
    with pytest.raises(ValueError, match="expected merge any, connected or none, found 'all'"):
        RegionPolicy("all")


def test_equal_regions_share_a_function_with_all_locations():
    lines = ["a = relu x", "h = softmax a", "b = relu h", "g = softmax b", "c = relu g"]
    module = run(parsed(program(lines, ["c"]), takes("a", "relu")))
    assert kinds(main_of(module)) == ["@a_0", "softmax", "@a_0", "softmax", "@a_0"]
    (function,) = region_functions(module).values()
    assert {names(o.location) for o in function.walk() if o.name == "graph.relu"} == {
        ("a", "b", "c")
    }
    calls = [o for o in module.walk() if isinstance(o, CallOp)]
    taken = [[n.data for t in c.handed_off.composites for n in t.nodes] for c in calls]
    assert taken == [["a"], ["b"], ["c"]]


@pytest.mark.parametrize(
    ("first", "second", "shared"),
    [
        ("mul x c", "mul h c", True),
        ("mul x c", "mul h d", False),
        ("mul x c", "sub h c", False),
        ("sub x y", "sub h h", False),
    ],
    ids=["same", "another constant", "another op", "other operands"],
)
def test_regions_that_differ_have_functions_of_their_own(first, second, shared):
    lines = ["c = constant 0.5", "d = constant 2.0", f"a = {first}", "h = softmax a"]
    patterns = [
        Composite(f"npu.{kind}{i}", (op(f"graph.{kind}", wildcard(), other),))
        for kind in ("mul", "sub")
        for i, other in enumerate((constant(), wildcard()))
    ]
    module = run(parsed(program([*lines, f"b = {second}"], ["b"]), toy("npu", *patterns)))
    assert (len(region_functions(module)) == 1) == shared


def test_a_cut_is_recorded_with_its_cause():
    lines = ["a = relu x", "h = softmax a", "g = softmax h", "b = add a g"]
    module = run(parsed(program(lines, ["b"]), takes("a", "relu", "add")))
    first, second = (o.handed_off for o in module.walk() if isinstance(o, CallOp))
    assert not first.cuts.data
    (cut,) = second.cuts
    assert cut.by.data == "graph.softmax (h)"
    parts = (cut.leaves, cut.first, cut.last, cut.enters)
    assert [[n.data for n in part] for part in parts] == [["a"], ["h"], ["g"], ["b"]]


def test_another_target_can_be_the_cause():
    lines = ["a = relu x", "m = mul a y", "b = add a m"]
    module = run(parsed(program(lines, ["b"]), takes("a", "relu", "add"), takes("b", "mul")))
    cuts = [c.by.data for o in module.walk() if isinstance(o, CallOp) for c in o.handed_off.cuts]
    assert cuts == ["a region of b"]


def test_a_region_that_reads_a_later_value_is_no_legal_one():
    module = run(parsed(program(LINES, ["b", "c"]), takes("a", "relu", "add")))
    verify_regions(module)
    (call,) = (o for o in module.walk() if isinstance(o, CallOp))
    call.operands[0] = call.outputs[0]
    with pytest.raises(InvalidOp, match="to be defined before it, found a result"):
        verify_regions(module)


def test_a_function_that_nothing_calls_is_no_legal_one():
    module = run(parsed(program(["a = relu x"], ["a"]), takes("a", "relu")))
    (call,) = (o for o in module.walk() if isinstance(o, CallOp))
    call.outputs[0].replace_all_uses_with(call.inputs[0])
    call.detach()
    with pytest.raises(InvalidOp, match="expected a call of @a_0, found none"):
        verify_regions(module)


def test_composites_of_a_function_are_those_of_its_region():
    module = with_policy(RegionPolicy())
    (function,) = region_functions(module).values()
    assert sorted(composites(function)) == ["a.add", "a.relu", "a.relu"]


# -- rules of whole regions


def one_input(region: GatheredRegion):
    """A region has one input."""
    return len(region.inputs) == 1, len(region.inputs)


APART = ["a = relu x", "b = relu a", "c = relu y", "d = sub b c"]
"""Two chains that one call could run, and the host's op behind."""


def with_rules(lines, results, *rules):
    policy = RegionPolicy(rules=rules)
    return run(parsed(program(lines, results), takes("a", "relu", "add", policy=policy)))


def test_what_breaks_a_rule_together_is_tried_apart():
    assert kinds(main_of(with_rules(APART, ["d"]))) == ["@a_0", "sub"]
    assert sorted(kinds(main_of(with_rules(APART, ["d"], one_input)))) == ["@a_0", "@a_1", "sub"]


def test_what_breaks_a_rule_alone_goes_back_and_says_why():
    lines = ["a = relu x", "b = add a y", "h = softmax b", "c = relu h"]
    module = with_rules(lines, ["c"], one_input)
    assert kinds(main_of(module)) == ["relu", "add", "softmax", "@a_0"]
    told = {(nodes, reason) for _, outcome, nodes, reason in trail(module) if outcome == "refused"}
    reason = "A region has one input, found 2"
    assert {(("a",), reason), (("b",), reason)} <= told


def test_a_rule_sees_what_crosses_and_all_rules_are_told():
    seen: list[GatheredRegion] = []

    def looks(region: GatheredRegion):
        """It looks good."""
        seen.append(region)
        return False, region.composites

    lines = ["k = constant 2.0", "a = relu x", "b = add a k", "h = softmax a", "c = sub b h"]
    module = with_rules(lines, ["c"], one_input, looks)
    assert kinds(main_of(module)) == ["relu", "add", "softmax", "sub"]
    (region,) = set(seen)
    assert region.composites == ("a.relu", "a.add")
    assert [len(types) for types in (region.inputs, region.outputs)] == [1, 2]
    assert {str(each) for each in region.inputs + region.outputs} == {F}
    assert ("a.add", "refused", ("b",), f"It looks good, found {region.composites}") in trail(
        module
    )


def test_rules_that_cannot_be():
    def silent(region: GatheredRegion):
        return True, None

    def wrong(region: GatheredRegion):
        """It is wrong."""
        return region.none

    def odd(region: GatheredRegion):
        """It is odd."""
        return True

    for rule, code in ((silent, "B201"), (wrong, "B202"), (odd, "B202")):
        with pytest.raises(ByocirError, match=f"{code}.*rule {rule.__name__} of regions of a"):
            with_rules(APART, ["d"], rule)


def test_a_rule_keeps_results_whatever_it_splits():
    module = parsed(
        program(APART, ["d"]), takes("a", "relu", policy=RegionPolicy(rules=(one_input,)))
    )
    expected = values(module)
    assert_same(values(run(module)), expected)
