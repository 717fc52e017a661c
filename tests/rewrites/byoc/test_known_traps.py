"""Graphs that other compilers got wrong, each through the whole hand-off."""

from __future__ import annotations

import pytest
from byoc_graphs import (
    F,
    assert_same,
    composites,
    handed_off,
    kinds,
    main_of,
    parsed,
    program,
    region_functions,
    run,
    takes,
    text_of,
    toy,
    trail,
    values,
)

from byocir.dialects.byoc import CallOp
from byocir.dialects.dominance import verify_dominance
from byocir.dialects.text import parse_module
from byocir.patterns import Composite, block, constant, op, supports, wildcard
from byocir.rewrites.byoc.set_targets import set_targets


def relu_of_sum(target: str, **changes):
    total = op("graph.add", wildcard(), wildcard(), **changes)
    return toy(target, Composite(f"{target}.relu_of_sum", (op("graph.relu", total),)))


def calls(module) -> list[CallOp]:
    return [o for o in module.walk() if isinstance(o, CallOp)]


def checked(lines, results, *targets, inputs="xyz"):
    """The module after the hand-off, which computes what it did before."""
    module = parsed(program(lines, results, inputs=inputs), *targets)
    expected = values(module, inputs)
    run(module)
    verify_dominance(module)
    assert_same(values(module, inputs), expected)
    return module


def test_a_second_target_keeps_what_the_first_one_took():
    """Matching for one target, then for two: what was taken stays taken."""
    lines, results = ["a = relu x", "b = add a y"], ["b"]
    module = parsed(program(lines, results), takes("a", "relu"))
    run(module, "match-composites,assign-targets")
    set_targets(module, [_attr(takes("a", "relu")), _attr(takes("b", "relu", "add"))])
    run(module)
    assert [c.handed_off.target.data for c in calls(module)] == ["a", "b"]


def _attr(target):
    from byocir.patterns.targets import attr_of

    return attr_of(target())


def test_each_target_has_its_own_table():
    first, second = takes("a", "relu"), takes("b", "add")
    lines = ["a = relu x", "b = mul a y", "c = add b y"]
    assert kinds(main_of(checked(lines, ["c"], first, second))) == ["@a_0", "mul", "@b_0"]
    assert kinds(main_of(checked(lines, ["c"], second))) == ["relu", "mul", "@b_0"]


def test_several_functions_have_symbols_of_their_own():
    text = program(["a = relu x"], ["a"]) + program(["b = add x y"], ["b"], name="other")
    module = run(parsed(text, takes("a", "relu", "add")))
    assert kinds(main_of(module)) == ["@a_0"]
    assert kinds(main_of(module, "other")) == ["@a_1"]


def test_a_symbol_that_is_taken_is_not_given_again():
    text = program(["b = sub x x"], ["b"], name="a_0") + program(["a = relu x"], ["a"])
    module = run(parsed(text, takes("a", "relu")))
    assert kinds(main_of(module)) == ["@a_1"]


def test_two_predicates_on_one_sequence_choose_per_instance():
    """The first composite whose rule holds takes the op, whatever another instance got."""
    small, any_ = (
        Composite(f"npu.{name}", (op("graph.mul", wildcard(), constant("c")),))
        for name in ("analog", "digital")
    )

    @small.rule
    def within_one(m):
        """Weights are within [-1, 1]."""
        seen = float(abs(m["c"].array.values()).max())
        return seen <= 1, seen

    lines = ["c = constant 0.5", "d = constant 2.0", "p = mul x c", "q = mul p d"]
    module = checked(lines, ["q"], toy("npu", small, any_))
    (function,) = region_functions(module).values()
    assert composites(function) == ["npu.analog", "npu.digital"]


def test_what_is_inside_a_composite_is_not_matched_again():
    """Neither by another target's pattern nor by a second run."""
    module = checked(["a = add x y", "b = relu a"], ["b"], relu_of_sum("a"), takes("b", "add"))
    once = text_of(module)
    assert kinds(main_of(module)) == ["@a_0"]
    assert text_of(run(module)) == once


def test_an_op_that_two_matches_share_belongs_to_neither():
    lines = ["c = add x y", "p = relu c", "q = relu c"]
    module = checked(lines, ["p", "q"], relu_of_sum("a"))
    assert kinds(main_of(module)) == ["add", "relu", "relu"]
    assert {reason for *_, reason in trail(module)} == {
        "graph.add (c) is also used by graph.relu (q) outside the match",
        "graph.add (c) is also used by graph.relu (p) outside the match",
    }


def test_a_further_result_is_used_outside_and_computed_once():
    lines = ["c = add x y", "p = relu c", "q = mul c p"]
    module = checked(lines, ["q"], relu_of_sum("a", exposed=True))
    assert kinds(main_of(module)) == ["@a_0", "mul"]
    assert len(region_functions(module)["a_0"].function_type.outputs) == 2


def test_a_value_used_twice_crosses_once():
    module = checked(["a = relu x", "b = mul a a", "c = sub x b"], ["c"], takes("a", "relu", "mul"))
    (call,) = calls(module)
    assert (len(call.inputs), len(call.outputs)) == (1, 1)


def test_a_region_of_two_results_both_returned_and_used():
    lines = ["a = relu x", "b = mul a y", "h = softmax a"]
    module = checked(lines, ["b", "a", "h", "a"], takes("a", "relu", "mul"))
    (call,) = calls(module)
    assert len(call.outputs) == 2


def test_a_graph_input_returned_beside_a_region_stays_itself():
    module = checked(["a = relu x"], ["x", "a", "x"], takes("a", "relu"))
    assert kinds(main_of(module)) == ["@a_0"]
    block = main_of(module)
    assert block.last_op.operands[0] is block.args[0]


def test_a_region_without_inputs():
    """All it needs are constants, which are inside."""
    both = Composite("npu.add", (op("graph.add", constant(), constant()),))
    lines = ["c = constant 0.5", "d = constant 2.0", "a = add c d", "b = relu a"]
    module = checked(lines, ["b"], toy("npu", both))
    assert len(calls(module)[0].inputs) == 0


def test_a_constant_that_host_and_target_share_is_copied():
    """What the target does to its copy must not reach the host's."""
    both = Composite("npu.mul", (op("graph.mul", wildcard(), constant()),))
    lines = ["c = constant 0.5", "a = mul x c", "b = sub a c"]
    module = checked(lines, ["b"], toy("npu", both))
    constants = [o for o in module.walk() if o.name == "graph.constant"]
    assert len(constants) == 2
    assert len({o.get_toplevel_object() for o in constants}) == 1


def test_a_call_stands_between_its_inputs_and_its_first_user():
    """The host's op is between two ops of one region in the text, and uses the first."""
    lines = ["a = relu x", "h = softmax a", "b = add a y", "c = sub b y"]
    module = checked(lines, ["c", "h"], takes("a", "relu", "add", "sub"))
    assert kinds(main_of(module)) == ["@a_0", "softmax"]


def test_a_detour_through_the_host_cuts():
    lines = ["a = relu x", "h = softmax a", "b = add a h"]
    module = checked(lines, ["b"], takes("a", "relu", "add"))
    assert kinds(main_of(module)) == ["@a_0", "softmax", "@a_1"]


def test_regions_that_would_wait_for_each_other():
    """Interleaved: p feeds the host feeds q, r feeds the host feeds s, and p to s, r to q."""
    lines = [
        "p = relu x",
        "r = relu y",
        "h = softmax p",
        "g = softmax r",
        "q = add h r",
        "s = add g p",
        "t = sub q s",
    ]
    module = checked(lines, ["t"], takes("a", "relu", "add", "sub"))
    assert kinds(main_of(module)).count("softmax") == 2
    assert len(calls(module)) == 2


def test_glue_given_back_cuts_nothing_and_leaves_a_legal_program():
    """Views around a host op go back; the region they were part of stays legal."""
    view = Composite("npu.view", (op("graph.relu", wildcard()),), glue=True)
    work = Composite("npu.add", (op("graph.add", wildcard(), wildcard()),))
    lines = ["q = relu x", "h = softmax q", "v = relu h", "a = add x y", "w = relu a"]
    module = checked(lines, ["v", "w"], toy("npu", work, view))
    assert sorted(kinds(main_of(module))) == ["@npu_0", "relu", "relu", "softmax"]
    (function,) = region_functions(module).values()
    assert composites(function) == ["npu.add", "npu.view"]
    assert ("npu.view", "refused", ("q",), "nothing beside it that is worth a call") in trail(
        module
    )


def test_all_operands_are_seen_by_a_checker():
    """A type that is not supported at the second operand only."""

    @supports("graph.add")
    def same_types(m):
        """All operands are of the result's type."""
        found = [v.type for v in m["op"].op.operands]
        return all(t == m["op"].value.type for t in found), len(found)

    text = (
        f"func.func public @main(%x: {F}, %y: tensor<1xf32>) -> ({F}) {{\n"
        f'%a = graph.add %x, %y : ({F}, tensor<1xf32>) -> {F} loc("a")\n'
        f"func.return %a : {F}\n}}\n"
    )
    module = run(parsed(text, toy("npu", same_types)))
    assert kinds(main_of(module)) == ["add"]
    assert [entry[0] for entry in trail(module)] == ["npu.same_types"]


@pytest.mark.parametrize("shape", ["0x4", ""], ids=["no elements", "rank 0"])
def test_empty_and_scalar_tensors_cross_like_others(shape: str):
    type_ = f"tensor<{shape}x4xf32>" if shape else "tensor<f32>"
    text = (
        f"func.func public @main(%x: {type_}) -> ({type_}) {{\n"
        f'%a = graph.relu %x : ({type_}) -> {type_} loc("a")\nfunc.return %a : {type_}\n}}\n'
    )
    module = run(parsed(text, takes("a", "relu")))
    (call,) = calls(module)
    assert str(call.outputs[0].type) == type_


def test_a_region_that_gives_an_input_back_in_another_shape():
    """Its last op is a view of what came in."""
    view = op("graph.reshape", wildcard())
    target = toy("npu", Composite("npu.view", (view,)), Composite("npu.relu", (_relu(),)))
    text = (
        f"func.func public @main(%x: {F}) -> (tensor<2x2xf32>, {F}) {{\n"
        f'%a = graph.reshape %x {{shape = array<i64: 2, 2>}} : ({F}) -> tensor<2x2xf32> loc("a")\n'
        f'%b = graph.relu %x : ({F}) -> {F} loc("b")\n'
        f"func.return %a, %b : tensor<2x2xf32>, {F}\n}}\n"
    )
    module = parsed(text, target)
    expected = values(module, "x")
    assert_same(values(run(module), "x"), expected)


def _relu():
    return op("graph.relu", wildcard())


def test_records_hold_no_arrays():
    """However large a constant is, records name types and nodes only."""
    lines = ["c = constant 0.125", "a = mul x c"]
    module = handed_off(lines, ["a"], toy("npu", Composite("npu.mul", (_scaled(),))))
    (record,) = [line for line in text_of(module).splitlines() if "byoc.trail" in line]
    assert "0.125" not in record


def _scaled():
    return op("graph.mul", wildcard(), constant())


def test_an_op_that_the_text_knows_and_no_target_does_stays_on_the_host():
    module = checked(["a = relu x", "h = softmax a"], ["h"], takes("a", "relu"))
    assert kinds(main_of(module)) == ["@a_0", "softmax"]


def test_what_was_handed_off_reads_back_and_goes_on():
    module = handed_off(["a = relu x", "h = softmax a"], ["h"], takes("a", "relu"))
    again = parse_module(text_of(module))
    assert text_of(run(again)) == text_of(module)


def test_writers_of_one_buffer_keep_their_order():
    """No value leads from one to the other: what the first wrote is read between them."""

    def doubled(source: str, destination: str) -> str:
        return (
            f"tir.block [i: 4] ins(%{source}[i] : {BUFFER}) outs(%{destination}[i] : {BUFFER}) {{\n"
            "^bb0(%a: f32, %b: f32):\n%c = arith.addf %a, %a : f32\ntir.yield %c : f32\n}\n"
        )

    inputs = ", ".join(f"%{name}: {BUFFER}" for name in "xyopq")
    text = (
        f"func.func public @main({inputs}) {{\n"
        + doubled("x", "o")
        + doubled("o", "p").replace("addf", "mulf")
        + doubled("y", "o")
        + doubled("o", "q").replace("addf", "mulf")
        + "func.return\n}\n"
    )
    x = wildcard("x")
    sums = Composite("npu.sum", (block("*i", x["*i"], lambda acc, v: v + v),))
    module = parsed(text, toy("npu", sums))
    expected = values(module, "xy")
    run(module, "match-composites{level=tensor},assign-targets,merge-regions,outline-regions")
    assert kinds(main_of(module)) == ["@npu_0", "tir.block"] * 2
    assert_same(values(module, "xy"), expected)


BUFFER = "memref<4xf32>"
