"""Placement by hand: names, expressions and markers win over patterns and are validated."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from byoc_graphs import (
    HAND_OFF,
    F,
    assert_same,
    fused,
    kinds,
    main_of,
    parsed,
    program,
    region_functions,
    run,
    takes,
    text_of,
    trail,
    values,
)
from onnx import helper
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.passes import ModulePass

import byocir
from byocir.dialects.byoc import Node, SourceOp
from byocir.dialects.graph import ReluOp
from byocir.dialects.locations import names
from byocir.dialects.text import parse_module
from byocir.errors import ByocirError
from byocir.patterns import block, composite, either, op, wildcard
from byocir.rewrites import mark_ops
from byocir.rewrites.byoc.place_by_hand import placement_of, set_placement
from byocir.runtime.report_of_module import report_of
from byocir.runtime.report_text import explain, region_lines
from byocir.targets.base import Point, Target

LINES = ["a = relu x", "b = add a y", "c = relu b"]
PLACED = f"place-nodes,{HAND_OFF},check-placement"


def placed(placement, lines=LINES, results=("c",)):
    targets = takes("p", "relu", "add"), takes("q", "relu", "add")
    module = parsed(program(lines, results), *targets)
    set_placement(module, placement)
    expected = values(module)
    run(module, PLACED)
    assert_same(values(module), expected)
    return module


@pytest.mark.parametrize(
    ("placement", "expected"),
    [
        ({}, ["@p_0"]),
        ({"b": "host"}, ["@p_0", "add", "@p_0"]),
        ({"b": "q"}, ["@p_0", "@q_0", "@p_0"]),
        ({"[ac]": "q"}, ["@q_0", "@p_0", "@q_0"]),
        ({"a": "p", ".*": "q"}, ["@p_0", "@q_0"]),
        ({".*": "q", "a": "p"}, ["@p_0", "@q_0"]),
        ({"[abc]": "q", "[a]": "p"}, ["@q_0"]),
        ({".*": "host"}, ["relu", "add", "relu"]),
    ],
    ids=["none", "host", "target", "expression", "name first", "name last", "order", "all"],
)
def test_where_nodes_go(placement, expected):
    module = placed(placement)
    assert kinds(main_of(module)) == expected
    assert "byoc.place " not in text_of(module)


def test_the_record_says_that_a_user_placed_it():
    assert ("p.add", "refused", ("b",), "graph.add (b) is placed on host") in trail(
        placed({"b": "host"})
    )


def test_a_name_with_signs_is_a_name():
    text = program(["a = relu x"], ["a"]).replace('loc("a")', 'loc("/stem/conv[0]")')
    module = parsed(text, takes("p", "relu"))
    set_placement(module, {"/stem/conv[0]": "host"})
    assert kinds(main_of(run(module, PLACED))) == ["relu"]


@pytest.mark.parametrize("placement", [["host"], {"a": 3}, {3: "host"}, "host", {"a": None}])
def test_what_is_no_placement(placement):
    with pytest.raises(ByocirError, match=r"B245.*expected a placement of names of nodes"):
        placed(placement)


def test_a_placement_survives_text():
    module = parsed(program(LINES, ["c"]), takes("p", "relu"))
    set_placement(module, {"a": "host"})
    again = parse_module(text_of(module))
    assert [(e.nodes.data, e.place.data) for e in placement_of(again)] == [("a", "host")]
    assert kinds(main_of(run(again, PLACED))) == ["relu", "add", "@p_0"]


@pytest.mark.parametrize(
    ("placement", "code", "message"),
    [
        ({"a": "r"}, "B241", "the module names no target 'r'"),
        ({"(": "p"}, "B242", r"expected a name or a regular expression, found '\('"),
        ({"aa": "p"}, "B243", "expected a node that the placement 'aa' names, found none"),
    ],
)
def test_placements_that_cannot_be(placement, code, message):
    with pytest.raises(ByocirError, match=message) as raised:
        placed(placement)
    assert raised.value.code == code
    assert raised.value.help


def test_a_target_that_cannot_take_what_is_placed_on_it():
    with pytest.raises(ByocirError) as raised:
        placed({"s": "p"}, ["s = softmax x"], ["s"])
    assert raised.value.code == "B244"
    assert raised.value.message == (
        "expected p to take graph.softmax (s), as placed, found no pattern with such an op"
    )


def marked(*lines: str, result: str = "%e"):
    body = "\n".join(lines)
    head, last = f"func.func public @main(%x: {F}, %y: {F}) -> ({F})", f"func.return {result} : {F}"
    return parsed(
        f"{head} {{\n{body}\n{last}\n}}\n", takes("p", "relu", "add"), takes("q", "relu", "add")
    )


BEGIN = f'%b = byoc.begin "q" %x : {F}'
RELU = f'%r = graph.relu %b : ({F}) -> {F} loc("r")'
END = f'%e = byoc.end "q" %r : {F}'


def test_markers_place_what_they_enclose():
    after = f'%s = graph.relu %e : ({F}) -> {F} loc("s")'
    module = marked(BEGIN, RELU, END, after, result="%s")
    expected = values(module, "xy")
    run(module, PLACED)
    assert kinds(main_of(module)) == ["@q_0", "@p_0"]
    assert "byoc.begin" not in text_of(module)
    assert_same(values(module, "xy"), expected)
    assert [(e.nodes.data, e.place.data) for e in placement_of(module)] == [("r", "q")]


@composite("first.relu")
def relu():
    """A relu."""
    return op("graph.relu", wildcard("x"))


@dataclass(frozen=True)
class MarkPass(ModulePass):
    """A partitioner: the first relu is for the second target."""

    name = "mark"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        mark_ops([next(each for each in op.walk() if isinstance(each, ReluOp))], "second")


@dataclass(frozen=True)
class GroupPass(ModulePass):
    """A partitioner: all relus are one group."""

    name = "group"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        mark_ops([each for each in op.walk() if isinstance(each, ReluOp)], "marking", "mine")


@composite("marking.any")
def elementwise():
    """Anything of one or two arrays, element by element."""
    x, y = wildcard("x"), wildcard("y")
    return either(
        block("*i", x["*i"], lambda acc, x: x.max(0.0)),
        block("*i", x["*i"], y["*i"], lambda acc, x, y: x + y),
    )


@dataclass(frozen=True)
class Marking(Target):
    name = "marking"
    patterns = (elementwise,)

    def passes(self, point: Point) -> tuple[ModulePass, ...]:
        return (GroupPass(),) if point == "before-match" else ()


@dataclass(frozen=True)
class First(Target):
    name = "first"
    patterns = (relu,)


@dataclass(frozen=True)
class Second(Target):
    name = "second"
    patterns = (relu.renamed("second.relu"),)

    def passes(self, point: Point) -> tuple[ModulePass, ...]:
        return (MarkPass(),) if point == "before-match" else ()


def test_markers_of_a_targets_own_partitioner_win_over_preference():
    module = parse_module(program(["a = relu x", "b = add a y", "c = relu b"], ("c",)))
    expected = values(module)
    report = byocir.partition(module, [First(), Second()])
    found = [(region.target, list(region.nodes)) for region in report.regions]
    assert found == [("second", ["a"]), ("first", ["c"])]
    assert_same(values(module), expected)


def two_groups(*lines, target):
    """A program whose ops "a" and "b" are in groups of one target, handed off, and its report."""
    module = parsed(program(lines, [lines[-1][0]]), target)
    module.body.block.add_op(SourceOp.of(Node(line[0], "Some", 0) for line in lines))
    expected = values(module)
    for group, each in (("one", "a"), ("two", "b")):
        (found,) = [o for o in main_of(module).ops if each in names(o.location)]
        mark_ops([found], target.name, group)
    run(module, PLACED)
    assert_same(values(module), expected)
    return module, report_of(module)


def test_marked_groups_stay_regions_of_their_own():
    module, report = two_groups("a = relu x", "b = relu a", "c = relu b", target=takes("p", "relu"))
    found = [(r.symbol, r.group, r.nodes) for r in report.regions]
    assert found == [("p_0", "one", ["a"]), ("p_1", "two", ["b"]), ("p_2", "", ["c"])]
    assert "a  Some  p_0 (graph level, p.relu, group one)" in explain(report)
    assert [lines[0] for lines in region_lines(report)][:2] == ["group  one", "group  two"]
    functions = region_functions(module)
    assert [f.attributes.get("byoc.group") for f in functions.values()] == [
        StringAttr("one"),
        StringAttr("two"),
        None,
    ]
    assert "group" not in text_of(module).split("byoc.trail")[1]


def test_a_cut_names_the_group_that_lies_between():
    lines = "s = relu x", "a = relu s", "b = relu a", "c = add b s"
    _, report = two_groups(*lines, target=takes("p", "relu", "add"))
    (cut,) = report.regions[-1].cuts
    assert (cut.by, cut.first, cut.last) == ("a region of p, group one", ["a"], ["b"])


def test_no_composite_spans_two_groups():
    module, report = two_groups("a = add x y", "b = relu a", target=fused("p"))
    assert [(r.group, r.nodes) for r in report.regions] == [("one", ["a"]), ("two", ["b"])]
    reason = "ops are in several groups: graph.relu (b) in two, graph.add (a) in one"
    assert ("p.sum", "refused", ("b", "a"), reason) in trail(module)


def test_a_group_survives_text_and_a_dialect_of_markers():
    mark = [line.replace('"q"', '"q" group "stem"') for line in (BEGIN, RELU, END)]
    module = parse_module(text_of(marked(*mark)))
    (region,) = report_of(run(module, PLACED)).regions
    assert region.group == "stem"
    (entry,) = placement_of(parse_module(text_of(module)))
    assert (entry.nodes.data, entry.place.data, entry.group.data) == ("r", "q", "stem")


def test_a_partitioner_marks_operators_for_the_tensor_level_alone():
    """Markers stood between operators when these were lowered."""
    module = parse_module(program(["a = relu x", "b = add a y", "c = relu b"], ("c",)))
    expected = values(module)
    report = byocir.partition(module, [Marking()], levels=["tensor"])
    found = [(region.level, region.group, region.nodes) for region in report.regions]
    assert found == [("tensor", "mine", ["a"]), ("tensor", "", ["b"]), ("tensor", "mine", ["c"])]
    assert_same(values(module), expected)


def test_constants_between_markers_need_no_begin():
    constant = f"%k = graph.constant #graph.array<[1.0, 1.0, 1.0, 1.0] : {F}>"
    add = f'%r = graph.add %b, %k : ({F}, {F}) -> {F} loc("r")'
    assert kinds(main_of(run(marked(BEGIN, constant, add, END), PLACED))) == ["@q_0"]


@pytest.mark.parametrize(
    ("lines", "result", "message"),
    [
        (
            [f'%r = graph.relu %x : ({F}) -> {F} loc("r")', END],
            "%e",
            r"expected byoc.begin before graph.relu \(r\), found an input of the function",
        ),
        (
            [BEGIN, RELU, END, f"%s = graph.add %e, %r : ({F}, {F}) -> {F}"],
            "%s",
            "expected byoc.end before graph.add, found none",
        ),
        ([BEGIN, RELU, END.replace('"q"', '"p"')], "%e", "expected one target, found q and p"),
        (
            [BEGIN, RELU, END.replace('"q"', '"q" group "one"')],
            "%e",
            "expected one group, found none and one",
        ),
        ([BEGIN, RELU], "%r", "expected byoc.end before graph.relu"),
        ([BEGIN, RELU, END, f'%f = byoc.end "q" %e : {F}'], "%f", "expected byoc.begin after"),
    ],
    ids=["way in", "way out", "two targets", "two groups", "no end", "nested"],
)
def test_markers_that_do_not_enclose(lines, result, message):
    with pytest.raises(ByocirError, match=message) as raised:
        run(marked(*lines, result=result), PLACED)
    assert raised.value.code == "B240"


def test_markers_for_a_target_that_is_not_there():
    lines = [line.replace('"q"', '"r"') for line in (BEGIN, RELU, END)]
    with pytest.raises(ByocirError, match="the module names no target 'r'"):
        run(marked(*lines), PLACED)


@pytest.mark.parametrize(("kind", "taken"), [("Max", 2), ("Sum", 2), ("Mean", 3)])
@pytest.mark.parametrize("place", ["host", "json"])
def test_all_that_becomes_of_a_node_goes_where_it_is_placed(kind, taken, place):
    """Operators of three inputs are two ops or more."""
    ports = [helper.make_tensor_value_info(name, 1, [2, 3]) for name in "abco"]
    node = helper.make_node(kind, ["a", "b", "c"], ["o"], "of_three")
    graph = helper.make_graph([node], "g", ports[:3], ports[3:])
    opsets = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    report = byocir.compile(model, targets=["json"], placement={"of_three": place}).report
    found = [each.nodes for region in report.regions for each in region.composites]
    assert found == ([["of_three"]] * taken if place == "json" else [])
