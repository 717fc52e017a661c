"""raise-scf-to-tir on small loops: which blocks they become, and why others stay."""

import numpy as np
import pytest
from pass_checks import run_on, same
from raised import on_memory, only_blocks, reasons

from byocir.dialects.text import parse_module
from byocir.dialects.tir import BlockOp, EmptyOp
from byocir.evaluate.module import evaluate_function

RAISE = "raise-scf-to-tir"


def matrix(*lines, ports="%x: memref<6xf32>, %y: memref<6xf32>"):
    numbers = [f"%c{i} = arith.constant {i} : index" for i in range(7)]
    zero = "%zero = arith.constant 0.0 : f32"
    return "\n".join(
        [f"func.func public @main({ports}) {{", *numbers, zero, *lines, "func.return }"]
    )


def loop(name, *body, size=6):
    return "\n".join([f"scf.for %{name} = %c0 to %c{size} step %c1 {{", *body, "}"])


def load(result, name, index="i"):
    return f"%{result} = memref.load %{name}[%{index}] : memref<6xf32>"


def store(value, name, index="i"):
    return f"memref.store %{value}, %{name}[%{index}] : memref<6xf32>"


STAYS = {
    "iterations of i that do not wait": [  # what the next iteration reads
        loop("i", load("a", "y"), store("a", "x"), "%j = arith.addi %i, %c0 : index")
        .replace("to %c6", "to %c5")
        .replace(
            "%j = arith.addi %i, %c0 : index",
            "%j = arith.addi %i, %c1 : index\n" + store("a", "y", "j"),
        )
    ],
    "iterations that only write x": [
        loop("i", "%j = arith.addi %i, %c1 : index", load("a", "x"), store("a", "x", "j"), size=5)
    ],
    "each element of x from one iteration": [
        loop(
            "i",
            loop(
                "j",
                "%k = arith.addi %i, %j : index",
                load("a", "x", "k"),
                load("b", "y"),
                "%s = arith.addf %a, %b : f32",
                store("s", "x", "k"),
                size=3,
            ),
            size=3,
        )
    ],
    "elements of x that stay until they are used": [
        loop("i", load("a", "x"), store("zero", "x"), store("a", "y"))
    ],
    "an affine index": [
        loop("i", "%j = arith.muli %i, %i : index", load("a", "x", "j"), store("a", "y"), size=2)
    ],
    "values of numbers, found one of an index": [
        loop(
            "i",
            "%j = arith.index_cast %i : index to i32",
            "%a = arith.sitofp %j : i32 to f32",
            store("a", "y"),
        )
    ],
    "loads, stores and arithmetic, found func.call": [
        loop("i", "func.call @main(%x, %y) : (memref<6xf32>, memref<6xf32>) -> ()")
    ],
}


@pytest.mark.parametrize("reason", STAYS)
def test_what_stays_says_why(reason):
    module = parse_module(matrix(*STAYS[reason]))
    text = str(module)
    run_on(module, RAISE)
    assert any(reason in found for found in reasons(module)), reasons(module)
    assert "scf.for" in str(module)
    assert "scf.for" in text


def raised(*lines, **options):
    """The blocks that a program becomes."""
    module = parse_module(matrix(*lines, **options))
    x = np.random.default_rng(0).normal(size=6).astype(np.float32)
    expected = on_memory(module, [x, np.zeros(6, np.float32)])
    run_on(module, RAISE)
    assert not reasons(module)
    assert only_blocks(module)
    same(evaluate_function(module, "main", [x]), [expected])
    return [op for op in module.walk() if isinstance(op, BlockOp)]


def test_a_chain_in_one_loop_is_a_chain_of_blocks():
    relu = "%r = arith.maximumf %a, %zero : f32"
    twice = "%t = arith.addf %b, %b : f32"
    first, second = raised(
        loop("i", load("a", "x"), relu, store("r", "y"), load("b", "y"), twice, store("t", "y"))
    )
    assert list(second.ins) == list(first.results)
    assert isinstance(second.outs[0].owner, EmptyOp)


def test_memory_of_one_iteration_is_memory_of_all():
    add = "%s = arith.addf %o, %a : f32"
    blocks = raised(
        loop(
            "i",
            "%t = memref.alloca() : memref<1xf32>",
            "memref.store %zero, %t[%c0] : memref<1xf32>",
            loop(
                "j",
                load("a", "x", "j"),
                "%o = memref.load %t[%c0] : memref<1xf32>",
                add,
                "memref.store %s, %t[%c0] : memref<1xf32>",
            ),
            "%v = memref.load %t[%c0] : memref<1xf32>",
            "%w = arith.negf %v : f32",
            store("w", "y"),
        )
    )
    assert [len(op.reductions) for op in blocks] == [1, 0]
    assert blocks[0].extents == (6, 6)


def test_two_numbers_that_depend_on_each_other_are_one_block():
    steps = ["%d = arith.addf %s, %t : f32", "%e = arith.mulf %s, %a : f32"]
    head = (
        "%r:2 = scf.for %j = %c0 to %c6 step %c1 iter_args(%s = %zero, %t = %one) -> (f32, f32) {"
    )
    blocks = raised(
        "%one = arith.constant 1.0 : f32",
        loop(
            "i",
            head,
            load("a", "x", "j"),
            *steps,
            "scf.yield %d, %e : f32, f32 }",
            "%q = arith.subf %r#0, %r#1 : f32",
            store("q", "y"),
        ),
    )
    assert [len(op.results) for op in blocks] == [2, 1]


TILES = """func.func public @main(%x: memref<8xi32>, %y: memref<8xi32>) {
  %c4 = arith.constant 4 : index
  tir.for %t = 0 to 2 parallel {
    %at = arith.muli %t, %c4 : index
    tir.block [i: 4] at(%at) ins(%x[i] : memref<8xi32>) outs(%y[i] : memref<8xi32>) {
    ^bb0(%s: i32, %d: i32):
      %r = arith.addi %s, %s : i32
      tir.yield %r : i32
    }
  }
  func.return
}"""


def test_tiles_of_blocks_are_one_block_again():
    module = parse_module(TILES)
    run_on(module, RAISE)
    (block_,) = [op for op in module.walk() if isinstance(op, BlockOp)]
    assert (block_.extents, block_.in_value_form) == ((8,), True)
    x = np.arange(8, dtype=np.int32)
    same(evaluate_function(module, "main", [x]), [2 * x])


PARALLEL = """
func.func @main(%x: memref<4x6xi32>, %y: memref<4x6xi32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c6 = arith.constant 6 : index
  "scf.parallel"(%c0, %c0, %c4, %c6, %c1, %c1) <{operandSegmentSizes = array<i32: 2, 2, 2, 0>}> ({
  ^bb0(%i: index, %j: index):
    %0 = memref.load %x[%i, %j] : memref<4x6xi32>
    %1 = arith.addi %0, %0 : i32
    memref.store %1, %y[%i, %j] : memref<4x6xi32>
    scf.reduce
  }) : (index, index, index, index, index, index) -> ()
  func.return
}"""


def test_parallel_loops_are_raised_as_plain_ones():
    x = np.arange(24, dtype=np.int32).reshape(4, 6)
    (expected,) = evaluate_function(parse_module(PARALLEL), "main", [x])
    np.testing.assert_array_equal(expected, 2 * x)
    module = parse_module(PARALLEL)
    run_on(module, RAISE)
    (block,) = (op for op in module.walk() if isinstance(op, BlockOp))
    assert block.extents == (4, 6)
    (found,) = evaluate_function(module, "main", [x])
    np.testing.assert_array_equal(found, expected)
