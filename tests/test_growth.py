"""Compiling takes time in proportion to the graph: no step calls much more than twice as many
functions for twice as many nodes. `benchmarks/partition.py` measures the seconds.

Counted are calls of functions in Python and in C, and turns of generators: the same numbers on each
run and each machine."""

import gc
import re
import sys
from collections import Counter
from collections.abc import Callable
from itertools import count, cycle
from typing import TypeVar

import numpy as np
import pytest
from nets.growing_graphs import Npu, growing
from onnx import helper
from xdsl.ir import Operation
from xdsl.ir.core import OpOperands
from xdsl.parser import Parser

import byocir
from byocir.compiler import generate, hand_over
from byocir.dialects import uses, verify
from byocir.dialects.array import Array
from byocir.dialects.byoc import CompositeOp, Node, YieldOp
from byocir.dialects.context import load_context
from byocir.dialects.decisions import Cut, Decision, RuleResult, Taken
from byocir.dialects.graph import ConcatOp, ConstantOp
from byocir.dialects.locations import fuse as fuse_locations
from byocir.dialects.locations import names
from byocir.dialects.text import parse_module, print_module
from byocir.dialects.tir import BlockOp
from byocir.frontend.onnx.quantised_ops import quantised_ops
from byocir.lowering.graph_to_tir.lower_op import Definitions
from byocir.lowering.tir_to_c import source
from byocir.patterns.blocks import BlockPattern
from byocir.request import Request
from byocir.rewrites import clean_up, pipeline
from byocir.rewrites.host import fuse_blocks
from byocir.rewrites.pipeline import PassRunner, run_passes
from byocir.runtime import records, report_text
from byocir.runtime.native import host_code
from byocir.runtime.page import page
from byocir.runtime.report import Region, Report
from byocir.runtime.report_of_module import report_of
from byocir.runtime.report_text import explain

T = TypeVar("T")
NODES = 32
BEYOND = 2.2
"""How many times as many calls are too many for twice as many nodes."""


class Calls(Counter[str]):
    """Numbers of calls by the step that made them."""

    def counted(self, step: str, work: Callable[[], T]) -> T:
        """What the work gives; its calls are added to those of the step."""
        turns = count()
        sys.setprofile(lambda frame, event, argument: next(turns))
        try:
            return work()
        finally:
            sys.setprofile(None)
            self[step] += next(turns)


def calls_of_compiling(shape: str, nodes: int, targets: list[Npu], path, monkeypatch) -> Calls:
    """The calls of importing, each pass, the report, generating code, and loading it again."""
    calls = Calls()
    run = pipeline.run_pass
    with monkeypatch.context() as patch:
        patch.setattr(
            pipeline,
            "run_pass",
            lambda pass_, *rest: calls.counted(pass_.name, lambda: run(pass_, *rest)),
        )
        module = calls.counted("import", lambda: byocir.import_onnx(growing(shape, nodes)))
        runner = PassRunner(keeps_start=False)
        report = hand_over(module, Request(targets), runner)
        calls.counted("report", lambda: report_of(module).to_json())
        generate(module, report, host="c", runner=runner).save(path)
        loaded = calls.counted("load", lambda: byocir.load(path, targets=targets))
        calls.counted("module", lambda: loaded.module)
    return calls


@pytest.mark.parametrize(
    ("shape", "targets"),
    [
        ("alternating", [Npu()]),
        ("alternating", []),
        ("elementwise", []),
        ("wide concat", []),
    ],
)
def test_steps_are_linear(shape, targets, tmp_path, monkeypatch):
    monkeypatch.setattr(
        fuse_blocks, "MOST_OPS", 16
    )  # as for a graph that is longer than its bodies
    path = tmp_path / "model.bpkg"
    once, twice = (
        calls_of_compiling(shape, n, targets, path, monkeypatch) for n in (NODES, 2 * NODES)
    )
    growth = {step: twice[step] / calls for step, calls in once.items()}
    assert {step: ratio for step, ratio in growth.items() if ratio > BEYOND} == {}


def test_lowering_an_op_of_many_operands_is_linear():
    calls = Calls()
    for nodes in (200, 400):
        module = byocir.import_onnx(growing("wide concat", nodes))
        concat = next(op for op in module.walk() if isinstance(op, ConcatOp))
        calls.counted(str(nodes), lambda concat=concat: Definitions().lower(concat))
    assert calls["400"] < BEYOND * calls["200"]


def test_importing_runs_no_collections():
    """Each would look at all that was made so far."""
    model, collections = growing("alternating", 500), Counter[str]()

    def note(phase, about):
        collections[phase] += 1

    usual = gc.get_threshold()
    gc.callbacks.append(note)
    gc.set_threshold(700, 10, 10)  # Python's own
    try:
        byocir.import_onnx(model)
    finally:
        gc.set_threshold(*usual)
        gc.callbacks.remove(note)
    assert collections["start"] <= 2  # before the pause and after it


@pytest.mark.parametrize("shape", ["alternating", "wide split"])
def test_constructors_of_xdsl_make_no_op_for_each_node(shape, monkeypatch):
    """They take twice the time of `new_op`."""
    made: list[Operation] = []
    make = Operation.__init__
    monkeypatch.setattr(
        Operation, "__init__", lambda op, **rest: (made.append(op), make(op, **rest))[1]
    )
    numbers: list[int] = []
    for nodes in (8, 8, 16):  # what is made once in a process is made the first time
        module = byocir.import_onnx(growing(shape, nodes))
        made.clear()
        hand_over(module, Request([Npu()]), PassRunner(keeps_start=False))
        numbers.append(len(made))
    assert numbers[1] == numbers[2]


def test_composites_that_are_alike_are_verified_once(monkeypatch):
    seen: list[CompositeOp] = []
    verify = CompositeOp.verify_
    monkeypatch.setattr(CompositeOp, "verify_", lambda op: (seen.append(op), verify(op))[1])
    module = byocir.import_onnx(growing("chain", NODES))
    hand_over(module, Request([Npu()]), PassRunner(keeps_start=False))
    assert len(seen) == 2  # a sum and a relu


def test_of_blocks_that_are_alike_but_for_their_indices_those_alone_are_verified(monkeypatch):
    whole: list[BlockOp] = []
    verify = BlockOp.verify_
    monkeypatch.setattr(BlockOp, "verify_", lambda op: (whole.append(op), verify(op))[1])
    hand_over(byocir.import_onnx(growing("wide split", NODES)), Request(["vta"]))
    assert len(whole) < 8  # 32 slices, each from another place


def test_bodies_that_are_alike_are_verified_once(monkeypatch):
    verified: list[object] = []
    verify_body = verify.Verifier._verify_body
    counted = lambda self, op: (verified.append(op), verify_body(self, op))[1]  # noqa: E731
    monkeypatch.setattr(verify.Verifier, "_verify_body", counted)
    hand_over(byocir.import_onnx(growing("wide split", NODES)), Request(["vta"]))
    assert 0 < len(verified) < NODES / 2


@pytest.mark.parametrize("shape", ["elementwise", "wide split"])
def test_blocks_of_the_same_outline_are_held_against_a_pattern_once(shape, monkeypatch):
    held: list[object] = []
    match = BlockPattern._match_block
    monkeypatch.setattr(
        BlockPattern, "_match_block", lambda self, *rest: (held.append(self), match(self, *rest))[1]
    )
    numbers = []
    for nodes in (8, 16):
        held.clear()
        hand_over(byocir.import_onnx(growing(shape, nodes)), Request(["vta"]))
        numbers.append(len(held))
    assert numbers[0] == numbers[1] > 0


def test_contents_of_ops_that_none_can_equal_are_not_asked_for(monkeypatch):
    asked: list[str] = []
    content = clean_up._content
    monkeypatch.setattr(clean_up, "_content", lambda op: (asked.append(op.name), content(op))[1])
    module = byocir.import_onnx(growing("alternating", NODES))
    run_passes(module, load_context(), "clean-up")
    assert asked == []


def test_bodies_of_less_than_two_ops_are_not_searched_for_equal_ones(monkeypatch):
    searched: list[object] = []
    known = clean_up._Known
    monkeypatch.setattr(clean_up, "_Known", lambda: (searched.append(1), known())[1])
    numbers: list[int] = []
    for nodes in (8, 16):
        searched.clear()
        hand_over(byocir.import_onnx(growing("wide split", nodes)), Request(["vta"]))
        numbers.append(len(searched))
    assert numbers[0] == numbers[1] > 0


@pytest.mark.parametrize("shape", ["many outputs", "wide concat", "wide split"])
def test_replacing_an_operand_of_a_wide_op_copies_no_others(shape, monkeypatch):
    copied: list[int] = []
    set_one = OpOperands.__setitem__
    monkeypatch.setattr(
        OpOperands,
        "__setitem__",
        lambda operands, *rest: (copied.append(len(operands)), set_one(operands, *rest))[1],
    )
    module = byocir.import_onnx(growing(shape, 2 * NODES))
    generate(module, hand_over(module, Request([Npu()])), host="c")
    assert max(copied, default=0) < uses.WIDE


def test_reading_a_region_copies_no_names_around_it(monkeypatch):
    copied: list[int] = []
    read = Parser.parse_optional_region

    def counted(parser: Parser, arguments=None):
        names = parser.ssa_values
        copied.append(len(names) if names.copy() is not names else 0)
        return read(parser, arguments)

    monkeypatch.setattr(Parser, "parse_optional_region", counted)
    module = byocir.import_onnx(growing("elementwise", NODES))
    hand_over(module, Request([]))
    parse_module(print_module(module))
    assert len(copied) > NODES
    assert max(copied) == 0


def test_reading_a_report_looks_for_places_once(monkeypatch):
    looked: list[int] = []
    place = Report.placement.fget
    monkeypatch.setattr(
        Report, "placement", property(lambda report: (looked.append(1), place(report))[1])
    )
    module = byocir.import_onnx(growing("alternating", NODES))
    hand_over(module, Request([Npu()]))
    data = report_of(module).to_dict()
    looked.clear()
    Report.from_dict(data)
    assert len(looked) == 1


def test_explaining_looks_for_places_once_and_words_what_it_shows_alone(monkeypatch):
    looked: list[str] = []
    place, words = Report.placement.fget, report_text._declined
    monkeypatch.setattr(
        Report, "placement", property(lambda report: (looked.append("place"), place(report))[1])
    )
    monkeypatch.setattr(
        report_text, "_declined", lambda miss: (looked.append("miss"), words(miss))[1]
    )
    nodes = [Node(f"node_{i}", "Relu", 1) for i in range(8)]
    odd = RuleResult("The size is even.", False, "3", "")
    misses = [
        Decision("npu", "graph", "npu.relu", False, [node.name], 1, 1, "", [odd]) for node in nodes
    ]
    report = Report(nodes, ["npu"], [], [node.name for node in nodes], [], misses)
    assert explain(report).count("for reason 1, below") == len(nodes)
    assert looked == ["place"]


def test_a_report_names_the_nodes_of_a_decision_once():
    """Here thousands of nodes stand behind one op, of which one decision tells."""
    lengths: list[int] = []
    for nodes in (120, 240):
        module = byocir.import_onnx(growing("idle ops", nodes))
        report = hand_over(module, Request([Npu()]))
        assert len(report.reasons["node_0"][0].nodes) > nodes / 3
        assert all(report.reasons[f"node_{3 * i + 1}"] for i in range(nodes // 3 - 1))
        lengths.append(len(report.to_json()))
    assert lengths[1] < BEYOND * lengths[0]


def report_of_regions(count: int, composites: int) -> Report:
    """Regions with composites of one node each, each region cut off from the one before by an op
    that all nodes of that one share."""
    regions: list[Region] = []
    for i in range(count):
        nodes = [f"node_{i}_{j}" for j in range(composites)]
        before = regions[-1].nodes if regions else []
        cuts = [Cut("graph.softmax (host)", before, [], [], nodes[:1])] if i else []
        parts = [Taken("npu.relu", "graph", [node]) for node in nodes]
        regions.append(Region("npu_0", "npu", "graph", parts, nodes, [], [], 0, cuts))
    nodes = [Node(name, "Relu", 1) for region in regions for name in region.nodes]
    return Report(nodes, ["npu"], regions, [], [], [])


@pytest.mark.parametrize("sizes", [[(1, 64), (1, 128)], [(64, 1), (128, 1)], [(2, 64), (2, 128)]])
def test_explaining_looks_for_regions_and_composites_once(sizes):
    calls = Calls()
    for size in sizes:
        report = report_of_regions(*size)
        calls.counted(f"explain {max(size)}", lambda r=report: explain(r))
        calls.counted(f"page {max(size)}", lambda r=report: page(r, "growing"))
    assert calls["explain 128"] < BEYOND * calls["explain 64"]
    assert calls["page 128"] < BEYOND * calls["page 64"]


def test_the_ops_of_nodes_that_quantise_are_found_in_one_pass():
    calls = Calls()
    for size in (64, 128):
        edges = [(f"v{i}", f"v{i + 1}") for i in range(size)]
        kinds = cycle(["QuantizeLinear", "DequantizeLinear"])
        nodes = [helper.make_node(next(kinds), [a, "s"], [b], b) for a, b in edges]
        nodes += [helper.make_node("Relu", [b], [f"r{b}"], f"relu {b}") for _, b in edges]
        graph = helper.make_graph(nodes, "chain", [], [])
        found = calls.counted(str(size), lambda g=graph: quantised_ops(g))
        assert len(found) == size
    assert calls["128"] < BEYOND * calls["64"]


def test_functions_in_c_have_a_number_of_steps():
    nodes = 2 * source.MOST_STEPS
    module = byocir.import_onnx(growing("alternating", nodes))
    package = generate(module, hand_over(module, Request([])), host="c")
    text = host_code(package.module).source
    functions = re.findall(r"^(?:static PART )?int \w+\(.*?^}", text, re.MULTILINE | re.DOTALL)
    calls = [len(re.findall(r"^    k\d+\(", function, re.MULTILINE)) for function in functions]
    assert sum(calls) > nodes
    assert max(calls) == source.MOST_STEPS
    feeds = {name: np.linspace(-1, 1, 4, dtype=np.float32) for name in "xy"}
    expected = byocir.compile(growing("alternating", nodes), targets=[]).run(feeds)
    for name, value in package.run(feeds).items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-5)


def test_a_list_of_operands_reads_as_a_tuple_of_them():
    values = [ConstantOp.of(Array.of(np.array(i))).result for i in range(uses.WIDE)]
    op, same = (YieldOp.create(operands=values) for _ in range(2))
    other = ConstantOp.of(Array.of(np.array(99))).result
    uses.set_operand(op, 3, other)
    assert op.operands != same.operands
    assert [*values[3].uses] == [use for use in values[3].uses if use.operation is same]
    assert [(use.operation, use.index) for use in other.uses] == [(op, 3)]
    uses.replace_uses(other, values[3])
    assert op.operands == same.operands
    assert same.operands == op.operands
    assert type(op.operands[2:5]) is type(same.operands[2:5])
    assert op.operand_types == same.operand_types
    assert op.clone().is_structurally_equivalent(same)


def test_each_location_of_equal_ops_is_fused_once(monkeypatch):
    fused: list[int] = []
    monkeypatch.setattr(
        clean_up, "fuse", lambda *parts: (fused.append(len(parts)), fuse_locations(*parts))[1]
    )
    module = byocir.import_onnx(growing("equal ops", NODES))
    run_passes(module, load_context(), "clean-up")
    assert fused == [NODES - 1]


@pytest.mark.parametrize("shape", ["shape ops", "idle ops"])
def test_rewrites_are_linear_where_they_pass_names_on(shape):
    calls = Calls()
    for nodes in (128, 256):
        module = byocir.import_onnx(growing(shape, nodes))
        calls.counted(f"{nodes}", lambda m=module: run_passes(m, load_context(), "clean-up"))
    assert calls["256"] < BEYOND * calls["128"]


def test_a_long_chain_is_fused_into_bodies_of_a_size():
    module = byocir.import_onnx(growing("elementwise", 100))
    package = generate(module, hand_over(module, Request([])), host="c")
    blocks = [op for op in package.module.walk() if op.name == "tir.block"]
    weights = [
        sum(fuse_blocks.LONG_OPS.get(type(op), 1) for op in block.body.walk()) for block in blocks
    ]
    assert len(blocks) == 2
    assert max(weights) <= fuse_blocks.MOST_OPS + 1
    assert [name for block in blocks for name in names(block.location)] == [
        f"node_{i}" for i in range(100)
    ]


def test_types_of_a_report_are_looked_up_once(monkeypatch):
    looked: list[object] = []
    origin = records.get_origin
    monkeypatch.setattr(records, "get_origin", lambda kind: (looked.append(kind), origin(kind))[1])
    module = byocir.import_onnx(growing("alternating", NODES))
    hand_over(module, Request([Npu()]))
    data = report_of(module).to_dict()
    numbers: list[int] = []
    records._reader.cache_clear()
    for _ in range(2):
        Report.from_dict(data)
        numbers.append(len(looked))
    assert numbers[0] == numbers[1] > 0
