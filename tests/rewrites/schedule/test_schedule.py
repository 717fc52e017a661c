"""What schedules grant and refuse, case by case."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scheduled import ADD, DOUBLE, block, chain, function, matmul, refuses, run

import byocir
from byocir.dialects.text import parse_module
from byocir.dialects.tir import BlockOp, ForOp, LoopKind
from byocir.errors import ByocirError
from byocir.rewrites.schedule import Schedule
from byocir.rewrites.schedule.dependence import conflict
from byocir.rewrites.schedule.script import run_script, steps_of


def test_schedules_are_public() -> None:
    assert byocir.Schedule is Schedule


def test_blocks_are_found_by_their_nodes() -> None:
    s = chain()
    assert [s.block("double"), s.block("window")] == s.blocks()
    assert s.blocks("double") == [s.block("double")]
    error = refuses(s, "B250", lambda: s.block("windows"))
    assert error.help == "did you mean 'window'?"
    s.pack(s.block("double"), 0, {0: 9})
    error = refuses(s, "B250", lambda: s.block("double"))
    assert "found 2" in error.message


def test_handles_stay() -> None:
    s = matmul()
    expected, gemm = run(s), s.block("gemm")
    m, n = s.tile(gemm, m=4, n=2)
    outer, inner = s.split(m, 1)
    s.reorder(n, outer, inner)
    s.stage(gemm, 0, "near", at=n)
    assert outer is m
    assert s.loops(gemm) == [n, m, inner]
    assert s.block("gemm") is gemm
    np.testing.assert_array_equal(run(s), expected)


def test_what_is_gone_is_refused() -> None:
    s = matmul()
    m, n = s.tile(s.block("gemm"), m=4, n=2)
    s.fuse(m, n)
    assert "gone" in refuses(s, "B251", lambda: s.split(n, 2)).message
    gemm = s.block("gemm")
    for wrong in (lambda: s.tile(m, m=2), lambda: s.split(gemm, 2), lambda: s.unroll(gemm)):
        refuses(s, "B251", wrong)
    other = matmul()
    (foreign,) = other.tile(other.block("gemm"), m=1)
    refuses(s, "B251", lambda: s.stage(gemm, 0, "near", at=foreign))


def test_blocks_on_tensors_are_refused() -> None:
    module = parse_module(
        """func.func @main(%x: tensor<4xi32>) -> tensor<4xi32> {
          %e = tir.empty : tensor<4xi32>
          %y = tir.block [i: 4] ins(%x[i] : tensor<4xi32>) outs(%e[i] : tensor<4xi32>) {
          ^bb0(%a: i32, %o: i32):
            tir.yield %a : i32
          } loc("copy")
          func.return %y : tensor<4xi32>
        }"""
    )
    s = Schedule(next(iter(module.ops)))
    error = refuses(s, "B251", lambda: s.tile(s.block("copy"), i=2))
    assert error.help == "schedules begin after bufferisation"


@pytest.mark.parametrize("remainder", ["guard", "overlap"])
def test_remainders(remainder) -> None:
    s = chain()
    expected = run(s)
    refuses(s, "B252", lambda: s.tile(s.block("double"), i=5))
    s.tile(s.block("double"), i=5, remainder=remainder)
    np.testing.assert_array_equal(run(s), expected)
    guarded = s.block("double").where is not None
    assert guarded == (remainder == "guard")
    refuses(s, "B252", lambda: s.tile(s.block("window"), i=5, remainder="overlap"))
    refuses(s, "B252", lambda: s.tile(s.block("window"), i=4, remainder="rest"))


def test_a_tile_of_a_tile_is_guarded_where_it_ends() -> None:
    """The end depends on a loop: a point brings it into the guard."""
    s = matmul()
    expected, gemm = run(s), s.block("gemm")
    s.tile(gemm, m=4)
    s.tile(gemm, m=3, remainder="guard")
    assert "m0" in gemm.names
    np.testing.assert_array_equal(run(s), expected)


def test_the_iterations_of_overlapping_tiles_depend_on_each_other() -> None:
    s = chain()
    even, over = s.tile(s.block("double"), i=6), None
    assert conflict(even[0]) is None
    s = chain()
    (over,) = s.tile(s.block("double"), i=5, remainder="overlap")
    refuses(s, "B255", lambda: s.parallel(over))


def strided(index: str) -> ForOp:
    """A loop over j inside one over i, around a block that writes y at this index of both."""
    s = function(
        "%a: memref<64xi32>, %y: memref<64xi32>",
        block(
            "move",
            "i: 4, j: 8",
            "%a[i + j] : memref<64xi32>",
            f"%y[{index}] : memref<64xi32>",
            DOUBLE,
        ),
    )
    return s.tile(s.block("move"), i=1, j=1)


@pytest.mark.parametrize(
    ("index", "free"),
    [
        ("i * 8 + j", (True, True)),
        ("i + j * 4", (True, True)),
        ("i * 4 + j", (False, False)),
        ("i * 16", (True, False)),
        ("i * 9 + j + 5", (True, True)),
        ("j - i + 3", (False, False)),
    ],
)
def test_an_index_tells_the_iteration_where_steps_are_longer_than_what_is_finer(index, free):
    i, j = strided(index)
    assert (conflict(i, [j]) is None, conflict(j, [i]) is None) == free


def test_sums_of_floats_keep_their_order() -> None:
    """Outer reductions stay outside; sums of integers may be tiled in any order."""

    def total(element: str, add: str) -> Schedule:
        text = block("sum", "| r: 8, s: 4", "%a[r, s] : memref<8x4xi32>", "%y[] : memref<i32>", add)
        arguments = "%a: memref<8x4xi32>, %y: memref<i32>"
        return function(arguments.replace("i32", element), text.replace("i32", element))

    s = total("f32", "%r = arith.addf %o, %x : f32")
    sums = s.block("sum")
    refuses(s, "B253", lambda: s.tile(sums, s=1))
    refuses(s, "B253", lambda: s.tile(sums, r=2, s=2))
    inner, outer = s.tile(sums, r=1, s=2)[::-1]
    error = refuses(s, "B253", lambda: s.reorder(inner, outer))
    assert "its iterations share a buffer that tir.block of sum writes" in error.message
    s = total("i32", ADD)
    s.tile(s.block("sum"), s=1)


@pytest.mark.parametrize(
    ("element", "step", "free"),
    [
        ("i32", ADD, True),
        ("i32", "%r = arith.muli %x, %o : i32", True),
        ("i32", "%r = arith.maxsi %x, %o : i32", True),
        ("i32", "%r = arith.subi %o, %x : i32", False),
        ("f32", "%r = arith.maximumf %o, %x : f32", True),
        ("f32", "%r = arith.addf %o, %x : f32", False),
        ("f32", "%r = arith.addf %o, %x fastmath<reassoc> : f32", True),
    ],
)
def test_loops_of_reductions_that_commute_change_places(
    element: str, step: str, free: bool
) -> None:
    text = block("all", "| r: 8, s: 4", "%a[r, s] : memref<8x4xi32>", "%y[] : memref<i32>", step)
    arguments = "%a: memref<8x4xi32>, %y: memref<i32>"
    s = function(arguments.replace("i32", element), text.replace("i32", element))
    expected = run(s)
    outer, inner = s.tile(s.block("all"), r=1, s=1)
    if not free:
        refuses(s, "B253", lambda: s.reorder(inner, outer))
        return
    s.reorder(inner, outer)
    assert s.loops(s.block("all")) == [inner, outer]
    np.testing.assert_array_equal(run(s), expected)


def test_a_sum_that_is_read_on_the_way_keeps_its_order() -> None:
    s = function(
        "%a: memref<4x4xi32>, %t: memref<i32>, %y: memref<4x4xi32>",
        "tir.for %i = 0 to 4 serial {",
        "tir.for %j = 0 to 4 serial {",
        block(
            "sum", "i: 1, j: 1", "", "%t[] : memref<i32>", "%r = arith.addi %o, %o : i32"
        ).replace("[i: 1, j: 1]", "[i: 1, j: 1] at(%i, %j)"),
        block(
            "seen", "i: 1, j: 1", "%t[] : memref<i32>", "%y[i, j] : memref<4x4xi32>", DOUBLE
        ).replace("[i: 1, j: 1]", "[i: 1, j: 1] at(%i, %j)"),
        "}}",
    )
    i, j = s.loops(s.block("seen"))
    refuses(s, "B253", lambda: s.reorder(j, i))


def test_loops_with_something_beside_them_are_no_nest() -> None:
    s = chain()
    (i,) = s.tile(s.block("window"), i=4)
    s.compute_at(s.block("double"), i)
    (r,) = s.tile(s.block("window"), r=1)
    for ask in (lambda: s.reorder(r, i), lambda: s.fuse(i, r), lambda: s.fuse(r, i)):
        refuses(s, "B254", ask)
    refuses(s, "B254", lambda: s.vectorise(i))
    refuses(s, "B254", lambda: s.reorder(i, i))


@pytest.mark.parametrize(
    ("script", "found"),
    [
        ("m, n = tile(gemm, m=4)", "2 names ((m, n)) for 1 things"),
        ("for i in x: pass", "'for i in x:\\n    pass'"),
        ("tile(gemm, m=2.5)", "'2.5'"),
        ("split(gemm)", "'split(gemm)' without factor, a number"),
        ("split()", "'split()' without loop, a loop and factor, a number"),
        ("stage(gemm, 0)", "'stage(gemm, 0)' without scope, a name"),
        ("unroll(gemm, 2)", "'unroll(gemm, 2)', which takes loop"),
        ("split(gemm, 2)", "'gemm' where a loop belongs"),
        ("stage(gemm, 0, 3)", "'3' where a name belongs"),
        ("pack(gemm, 0, [1])", "'[1]' where a table of sizes belongs"),
        ("tile(gemm, m=x)", "'x' where a number belongs"),
        ("split(loops(gemm), 2)", "'loops(gemm)' where a loop belongs"),
        ("loops(gemm, m=4)", "unexpected keyword argument"),
        ("tile(gemm, **x)", "'tile(gemm, **x)'"),
        ("loops(gemm)[2]", "'loops(gemm)[2]' of 0 things"),
        ("tile(gemm, m=4)[0] = 3", "'tile(gemm, m=4)[0]'"),
    ],
)
def test_scripts_that_cannot_be_read(script: str, found: str) -> None:
    error = refuses(matmul(), "B260", lambda: run_script(matmul(), script))
    assert found in error.message


def test_words_of_python_are_to_be_quoted() -> None:
    error = refuses(matmul(), "B260", lambda: run_script(matmul(), "stage(gemm, 0, npu.in)"))
    assert "stands in quotes: stage(gemm, 0, 'npu.in')" in error.help
    schedule = matmul()
    run_script(schedule, "stage(gemm, 0, 'npu.in')")


def test_a_block_that_a_script_misspells_is_told_by_what_it_calls_blocks() -> None:
    schedule = matmul()
    blocks = {"product": schedule.block("gemm")}
    ((_, run),) = steps_of(schedule, "tile(produkt, m=4)", blocks)
    with pytest.raises(ByocirError, match="B250") as caught:
        run()
    assert "'product'" in caught.value.help


def test_an_unknown_loop_lists_the_loops_there_are() -> None:
    script = "m, n = tile(gemm, m=4, n=2); split(q, 2)"
    with pytest.raises(ByocirError, match="'q' where a loop belongs") as caught:
        run_script(matmul(), script)
    assert caught.value.help == "the loops are m, n"
    with pytest.raises(ByocirError, match="'q' where a loop belongs") as caught:
        run_script(matmul(), "reorder(q)")
    assert caught.value.help.startswith("there are no names for loops yet")


def test_scripts_can_name_loops_by_their_place() -> None:
    s = matmul()
    run_script(s, "tile(gemm, m=4, n=2); parallel(loops(gemm)[1])")
    kinds = [loop.kind.data for loop in s.loops(s.block("gemm"))]
    assert kinds == [LoopKind.SERIAL, LoopKind.PARALLEL]


def test_a_block_that_is_an_instruction_stays_one() -> None:
    from byocir.patterns import block as pattern
    from byocir.patterns import composite, wildcard

    @composite("npu.double")
    def double():
        return pattern("i", wildcard("x")["i"], lambda acc, x: x + x)

    s = chain()
    expected = run(s)
    (made,) = s.tensorise(s.block("double"), double)
    assert made.location == s.block("double").location
    np.testing.assert_array_equal(run(s), expected)
    refuses(s, "B251", lambda: s.tile(s.block("double"), i=2))
    assert isinstance(s.block("double"), BlockOp)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (
            lambda s, b: s.stage(b, 0, "npu.in", strided="yes"),
            "expected True or False as argument 'strided', found 'yes'",
        ),
        (
            lambda s, b: s.stage(b, "x", "npu.in"),
            "expected a number as argument 'operand', found 'x'",
        ),
        (lambda s, b: s.stage(b, 0, 3), "expected a name as argument 'scope', found 3"),
        (lambda s, b: s.tile(b, m="4"), "expected a number as argument 'm', found '4'"),
        (lambda s, b: s.pack(b, 0, [4]), "expected a table of sizes as argument 'tiles', found"),
        (lambda s, b: s.tensorise(b, "mma"), "expected a pattern as argument 'pattern', found"),
        (
            lambda s, b: s.split(s.tile(b, m=2)[0], "two"),
            "expected a number as argument 'factor', found 'two'",
        ),
    ],
)
def test_arguments_of_another_kind_are_told_by_name(
    call: Callable[[Schedule, BlockOp], object], told: str
) -> None:
    s = matmul()
    with pytest.raises(ByocirError) as caught:
        call(s, s.block("gemm"))
    assert caught.value.code == "B142"
    assert caught.value.message.startswith(told)
