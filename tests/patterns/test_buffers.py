"""Buffer form: the producer of a memref is the one earlier op that wrote all of it."""

import pytest
from pattern_programs import module_of
from xdsl.ir import Use

from byocir.dialects.tir import AllocOp
from byocir.patterns import Composite, block, op, optional, producer, wildcard
from byocir.patterns.dataflow import escapes, uses

M = "memref<4xi32>"
INPUTS = f"%x: {M}, %y: {M}, %z: {M}"


def fill(value: int, into: str) -> str:
    return f"tir.fill {value} : i32 into %{into} : {M}"


def step(source: str, into: str, name: str, *, body: str = "double", index: str = "[i: 4]") -> str:
    """`into[i] = f(source[i])`, or with body "accumulate" `into[i] += source[i]`."""
    bodies = {
        "double": "%r = arith.addi %s, %s : i32",
        "accumulate": "%r = arith.addi %d, %s : i32",
        "relu": "%c = arith.constant 0 : i32\n%r = arith.maxsi %s, %c : i32",
    }
    return f"""tir.block {index} ins(%{source}[i] : {M}) outs(%{into}[i] : {M}) {{
      ^bb0(%s: i32, %d: i32):
        {bodies[body]}
        tir.yield %r : i32
    }} loc("{name}")"""


def program(*lines: str):
    text = [f"%b = tir.alloc : {M}", *lines, "func.return"]
    module = module_of("\n".join(text), inputs=INPUTS, result="")
    function = next(iter(module.body.block.ops))
    return [o for o in function.body.block.ops if not isinstance(o, AllocOp)]


def produces(*lines: str):
    """The producer of what the last line reads."""
    ops = program(*lines)
    return producer(Use(ops[-2], 0)), ops


def doubled_then_relu():
    inner = block("*i", wildcard("x")["*i"], lambda acc, x: x + x)
    return block("*i", inner["*i"], lambda acc, x: x.max(0))


def attempt(pattern, *lines):
    """What the pattern makes of the last line."""
    return Composite("toy.p", (pattern,)).attempt(program(*lines)[-2])


DOUBLE, RELU = step("x", "b", "first"), step("b", "y", "second", body="relu")


def test_the_last_op_that_wrote_the_whole_buffer():
    found, ops = produces(DOUBLE, step("x", "z", "other"), RELU)
    assert found.op is ops[0]
    found, ops = produces(DOUBLE, step("z", "b", "again"), RELU)
    assert found.op is ops[1]
    found, ops = produces(fill(3, "b"), RELU)
    assert found.op is ops[0]
    copy = f"tir.copy %x to %b sizes [4] : {M} to {M}"
    found, ops = produces(copy, RELU)
    assert found.op is ops[0]


def test_a_reader_between_is_no_writer():
    found, ops = produces(DOUBLE, step("b", "z", "reader"), RELU)
    assert found.op is ops[0]


def test_an_in_place_update_is_the_producer():
    found, ops = produces(DOUBLE, step("z", "b", "update", body="accumulate"), RELU)
    assert found.op is ops[1]


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ([], "a buffer that nothing in this block wrote before"),
        ([step("x", "b", "part", index="[i: 3]")], "a buffer of which tir.block wrote only a part"),
        (
            [f"tir.copy %x to %b sizes [2] : {M} to {M}"],
            "a buffer of which tir.copy wrote only a part",
        ),
        (
            [f"tir.for %k = 0 to 2 serial {{\n{fill(1, 'b')}\n}}"],
            "a buffer that tir.for may have written",
        ),
        ([f"memref.dealloc %b : {M}"], "a buffer that memref.dealloc may have written"),
    ],
    ids=["none", "part of a block", "part of a copy", "loop", "unknown"],
)
def test_where_there_is_no_producer_the_reason_is_told(lines, reason):
    found, _ = produces(DOUBLE, *lines, RELU) if lines else produces(RELU)
    assert (found.op, found.reason) == (None, reason)
    assert attempt(doubled_then_relu(), *lines, RELU).reason == f"expected a block, found {reason}"


def test_an_access_within_a_loop_counts_for_the_loop():
    reading = f"tir.for %k = 0 to 2 serial {{\n{step('b', 'z', 'inner')}\n}}"
    found, ops = produces(DOUBLE, reading, RELU)
    assert found.op is ops[0]
    assert uses(ops[0].operands[1], ops[0]) == [ops[1], ops[2]]


def test_uses_end_where_the_buffer_is_overwritten():
    ops = program(DOUBLE, RELU, fill(0, "b"), step("b", "z", "later"))
    assert uses(ops[0].operands[1], ops[0]) == [ops[1]]
    assert uses(ops[2].destination, ops[2]) == [ops[3]]


def test_what_outlives_the_block():
    ops = program(DOUBLE, step("x", "z", "argument"), step("y", "z", "overwritten"))
    assert not escapes(ops[0].operands[1], ops[0])
    assert not escapes(ops[1].operands[1], ops[1])
    assert escapes(ops[2].operands[1], ops[2])


def test_a_chain_of_blocks_matches():
    found = attempt(doubled_then_relu(), DOUBLE, RELU)
    assert found.fits
    assert [o.location.desc.data for o in found.matched] == ["second", "first"]
    assert found.match["x"].type.shape == (4,)


def test_an_epilogue_in_place():
    """Contraction and relu on one buffer, its fill included; later readers see the relu's value."""
    x = wildcard("x")
    total = block("*i", x["*i"], lambda acc, x: acc + x, init=0)
    pattern = block("*i", total["*i"], lambda acc, x: x.max(0))
    lines = [fill(0, "b"), step("x", "b", "sum", body="accumulate")]
    relu = step("b", "b", "relu", body="relu")
    ops = program(*lines, relu, step("b", "y", "reader"))
    found = Composite("toy.p", (pattern,)).attempt(ops[2])
    assert found.fits
    assert set(found.matched) == set(ops[:3])
    assert attempt(pattern, fill(1, "b"), lines[1], relu).reason == (
        "expected the result to start from 0, found 1"
    )


def test_an_intermediate_buffer_that_is_read_later_declines():
    ops = program(DOUBLE, RELU, step("b", "z", "later"))
    found = Composite("toy.p", (doubled_then_relu(),)).attempt(ops[1])
    assert found.reason == "tir.block (first) is also used by tir.block (later) outside the match"


def test_an_intermediate_argument_declines():
    """The caller may read it."""
    lines = step("x", "z", "first"), step("z", "y", "second", body="relu")
    reason = "tir.block (first) writes a buffer that outlives the match"
    assert attempt(doubled_then_relu(), *lines).reason == reason


@pytest.mark.parametrize(
    ("between", "fits"),
    [
        (step("y", "x", "other"), False),
        (step("x", "z", "other"), True),
        (fill(7, "x"), False),
        (fill(7, "z"), True),
        (f"memref.dealloc %x : {M}", False),
    ],
    ids=["writes the input", "reads the input", "fills the input", "elsewhere", "unknown"],
)
def test_what_stands_between_must_not_disturb(between, fits):
    """The first block would run later, at the place of the second."""
    found = attempt(doubled_then_relu(), DOUBLE, between, RELU)
    assert found.fits == fits
    if not fits:
        assert found.reason.endswith("touches a buffer of the match before it ends")


def test_the_same_buffer_as_input_and_output():
    """An addition in place on an argument."""
    x = wildcard("x")
    pattern = block("*i", x["*i"], lambda acc, x: x + x)
    found = attempt(pattern, step("y", "y", "in place"))
    assert found.fits
    assert found.match["x"].value is found.root.operands[1]


def test_one_buffer_at_two_times_is_two_values():
    """A wildcard stands for one value; the buffer was written in between."""
    x = wildcard("x")
    first = block("*i", x["*i"], lambda acc, x: x + x)
    two = f"""tir.block [i: 4] ins(%b[i] : {M}, %z[i] : {M}) outs(%y[i] : {M}) {{
      ^bb0(%s: i32, %t: i32, %d: i32):
        %r = arith.subi %s, %t : i32
        tir.yield %r : i32
    }} loc("last")"""
    pattern = block("*i", x["*i"], first["*i"], lambda acc, a, b: a - b)
    lines = [step("x", "b", "b"), f"%c = tir.alloc : {M}", step("b", "c", "c")]
    two = two.replace("%z", "%c")
    assert attempt(pattern, *lines, two).fits
    found = attempt(pattern, *lines, step("y", "b", "b again"), two)
    assert found.reason == "expected the same value for x as before"


def test_values_of_buffers_within_a_graph_pattern():
    """An op pattern declines a block, and a block pattern an op, with a reason."""
    found = attempt(op("graph.relu", wildcard()), RELU)
    assert found.reason == "expected graph.relu, found tir.block"
    tail = optional(wildcard("x"), lambda v: op("graph.relu", v))
    assert attempt(block("*i", tail["*i"], lambda acc, x: x.max(0)), RELU).fits
