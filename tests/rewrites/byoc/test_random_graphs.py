"""Random graphs through the whole hand-off: same values, legal interfaces, nothing done twice."""

import pytest
from byoc_graphs import (
    HAND_OFF,
    assert_same,
    composites,
    fused,
    main_of,
    parsed,
    program,
    region_functions,
    regions,
    run,
    takes,
    text_of,
    toy,
    values,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.func import ReturnOp

from byocir.dialects.byoc import CallOp, CompositeOp, RegionOp, inline
from byocir.dialects.dominance import verify_dominance
from byocir.dialects.locations import names
from byocir.dialects.text import parse_module
from byocir.patterns import Composite, block, either, op, parallel, path, repeat, wildcard
from byocir.patterns.policy import RegionPolicy
from byocir.patterns.targets import find
from byocir.rewrites import mark_ops
from byocir.rewrites.byoc.verify_regions import verify_regions
from byocir.runtime.report_of_module import report_of

KINDS = {"relu": 1, "add": 2, "sub": 2, "mul": 2, "softmax": 1}


@st.composite
def programs(draw):
    """Up to 14 ops on three inputs and one constant; any values may be results, inputs as well."""
    lines, known = ["k = constant 0.5"], ["x", "y", "z", "k"]
    for i in range(draw(st.integers(1, 14))):
        kind = draw(st.sampled_from(sorted(KINDS)))
        recent = st.sampled_from(known[-4:]) | st.sampled_from(known)
        lines.append(f"v{i} = {kind} " + " ".join(draw(recent) for _ in range(KINDS[kind])))
        known.append(f"v{i}")
    results = draw(st.lists(st.sampled_from(known), min_size=1, max_size=3))
    return lines, [*results, known[-1]]


def exposing(target: str):
    """A target whose composites have a further result: a sum and its relu, both used anywhere."""
    total = op("graph.add", wildcard(), wildcard(), exposed=True)
    return toy(
        target,
        Composite(f"{target}.both", (op("graph.relu", total),)),
        Composite(f"{target}.square", (op("graph.mul", total, wildcard()),)),
        Composite(f"{target}.sub", (op("graph.sub", wildcard(), wildcard()),)),
    )


def side_by_side(target: str):
    """A target that takes two sums of one value at once, and chains of relus and products."""
    x = wildcard()
    pair = parallel(op("graph.add", x, wildcard()), op("graph.sub", x, wildcard()))
    steps = repeat(wildcard(), lambda v: op("graph.relu", v), least=1, most=3)
    cone = op("graph.add", path(wildcard(), "graph.mul"), wildcard())
    return toy(
        target,
        Composite(f"{target}.pair", (pair,)),
        Composite(f"{target}.steps", (steps,)),
        Composite(f"{target}.cone", (cone,)),
    )


TARGETS = {
    "single ops": [lambda: takes("a", "relu", "add", "sub", "mul")],
    "fused": [lambda: fused("a")],
    "two": [lambda: takes("a", "relu", "mul"), lambda: takes("b", "add", "sub")],
    "neighbours": [lambda: takes("a", "relu", "add", policy=RegionPolicy("connected"))],
    "one by one": [lambda: takes("a", "relu", "add", policy=RegionPolicy("none"))],
    "three or more": [lambda: takes("a", "relu", "add", policy=RegionPolicy(min_composites=3))],
    "side by side": [lambda: side_by_side("a")],
    "exposing": [lambda: exposing("a")],
    "exposing and fused": [lambda: exposing("a"), lambda: fused("b")],
}


@pytest.mark.parametrize("targets", TARGETS.values(), ids=TARGETS)
@settings(max_examples=settings.default.max_examples // 6)
@given(programs())
def test_the_hand_off_keeps_values_and_its_promises(targets, graph):
    """All properties of one run, as most of the time goes into running."""
    module = parsed(program(*graph), *(target() for target in targets))
    expected, before = values(module), kinds_of(module)
    for name in HAND_OFF.split(","):
        run(module, name)
        verify_regions(module)
        assert_same(values(module), expected)
        if name == "merge-regions":
            interfaces_list_each_value_once(module)
            regions_of_one_target_do_not_touch_without_need(module)
            inlining_everything_gives_the_program_back(module.clone(), before, expected)
    once = text_of(module)
    assert_same(values(parse_module(once)), expected)
    calls_stand_for_what_was_taken(module)
    assert text_of(run(module)) == once  # a second run changes nothing


def of_blocks(target: str, policy: RegionPolicy):
    """A target of the tensor level: sums with a product of them, and differences."""
    x, y, z = wildcard()["*i"], wildcard()["*i"], wildcard()["*i"]
    total = block("*i", x, y, lambda acc, x, y: x + y)
    product = block("*i", either(total, wildcard())["*i"], z, lambda acc, x, y: x * y)
    difference = block("*i", x, y, lambda acc, x, y: x - y)
    patterns = {"product": product, "sum": total, "difference": difference}
    composites = [Composite(f"{target}.{name}", (p,)) for name, p in patterns.items()]
    return toy(target, *composites, policy=policy)


BOTH_LEVELS = (
    f"place-nodes,{HAND_OFF},convert-graph-to-tir{{bodies=true}},"
    f"place-nodes,{HAND_OFF.replace('composites', 'composites{level=tensor}')}"
)


@pytest.mark.parametrize("merge", ["any", "connected"])
@settings(max_examples=settings.default.max_examples // 4)
@given(graph=programs(), data=st.data())
def test_groups_are_never_mixed(merge, graph, data):
    """Marks are made at the graph level; what is not taken there counts at the tensor level."""
    policy = RegionPolicy(merge)
    module = parsed(program(*graph), fused("a"), of_blocks("b", policy))
    expected, place_of = values(module), {}
    for group in ("one", "two", ""):
        ops = [o for o in main_of(module).ops if names(o.location)]
        free = [o for o in ops if names(o.location)[0] not in place_of]
        marked = [o for o in free if data.draw(st.booleans())]
        target = data.draw(st.sampled_from("ab"))
        mark_ops(marked, target, group)
        place_of |= {names(o.location)[0]: (target, group) for o in marked}
    assert_same(values(module), expected)
    run(module, BOTH_LEVELS)
    assert_same(values(module), expected)
    verify_regions(module)
    for region in report_of(module).regions:
        own = region.target, region.group
        assert {place_of.get(name, (region.target, "")) for name in region.nodes} == {own}


def kinds_of(module):
    """The names of all ops but constants, which may be copied, and records."""
    others = "graph.constant", "byoc.trail"
    return sorted(o.name for o in module.walk() if o.name not in others)


def inlining_everything_gives_the_program_back(module, before, expected):
    for kind in (RegionOp, CompositeOp):
        for found in [o for o in module.walk() if isinstance(o, kind)]:
            inline(found)
    assert kinds_of(module) == before
    verify_dominance(module)
    assert_same(values(module), expected)


def interfaces_list_each_value_once(module):
    """Inputs and outputs of regions and composites; nothing dead unless all of it is."""
    for found in module.walk():
        if isinstance(found, RegionOp | CompositeOp):
            yielded = found.body.block.last_op.operands
            assert len(set(found.inputs)) == len(found.inputs)
            assert len(set(yielded)) == len(yielded)
            used = [result for result in found.outputs if result.uses]
            assert used == list(found.outputs) or not used
            assert all(arg.uses for arg in found.body.block.args)


def regions_of_one_target_do_not_touch_without_need(module):
    """No further merge along an edge is legal: there is a path between the two from outside."""
    for later in regions(module):
        for value in later.inputs:
            earlier = value.owner
            if isinstance(earlier, RegionOp) and earlier.target == later.target:
                assert leads_to(earlier, later) or find(later.target).region_policy.merge == "none"


def leads_to(start, goal) -> bool:
    """Whether a path leads from one op to another through a third."""
    pending = [u.operation for r in start.results for u in r.uses if u.operation is not goal]
    seen = set()
    while pending:
        found = pending.pop()
        if found is goal:
            return True
        if found not in seen and not isinstance(found, ReturnOp):
            seen.add(found)
            pending += [u.operation for r in found.results for u in r.uses]
    return False


def calls_stand_for_what_was_taken(module):
    functions = region_functions(module)
    calls = [o for o in module.walk() if isinstance(o, CallOp)]
    called = dict.fromkeys(c.callee.root_reference.data for c in calls)
    assert list(called) == list(functions)
    for call in calls:
        function = functions[call.callee.root_reference.data]
        record = call.handed_off
        assert [t.pattern.data for t in record.composites] == composites(function)
        assert list(record.inputs) == list(function.function_type.inputs)
        assert list(record.outputs) == list(function.function_type.outputs)
