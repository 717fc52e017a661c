"""What schedules grant and refuse, case by case."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

import byocir
from byocir.dialects.text import parse_module, print_module
from byocir.dialects.tir import AllocOp, BlockOp, CopyOp, FillOp, ForOp, LoopKind, scope_of
from byocir.dialects.types import shape_of
from byocir.dialects.verify import verify_module
from byocir.errors import ByocirError
from byocir.evaluate.interpreter import Interpreter
from byocir.rewrites.schedule import Schedule
from byocir.rewrites.schedule.dependence import conflict
from byocir.rewrites.schedule.script import run_script


def block(name: str, space: str, ins: str, outs: str, *body: str) -> str:
    """A block on i32 buffers; its body knows %x, %y, … for ins and %o for the result."""
    count = ins.count("memref")
    args = ", ".join(f"%{a}: i32" for a in [*"xyz"[:count], "o"])
    ins = f"ins({ins})" if ins else ""
    lines = "\n".join(body)
    return (
        f"tir.block [{space}] {ins} outs({outs}) {{\n^bb0({args}):\n{lines}\n"
        f'tir.yield %r : i32\n}} loc("{name}")'
    )


ADD = "%r = arith.addi %x, %o : i32"
DOUBLE = "%r = arith.addi %x, %x : i32"


def function(arguments: str, *lines: str) -> Schedule:
    body = "\n".join(lines)
    module = parse_module(f"func.func @main({arguments}) {{\n{body}\nfunc.return\n}}")
    verify_module(module)
    (found,) = (op for op in module.ops if isinstance(op, FuncOp))
    return Schedule(found)


def run(s: Schedule) -> np.ndarray:
    module = s.root.parent_op()
    assert isinstance(module, ModuleOp)
    verify_module(module)
    rng = np.random.default_rng(0)
    arrays = [
        rng.integers(-99, 99, shape_of(arg.type)).astype(np.int32) for arg in s.root.body.block.args
    ]
    Interpreter(module).call(s.root, arrays)
    return arrays[-1]


def refuses(s: Schedule, code: str, ask) -> ByocirError:
    """A request that is refused changes nothing."""
    before = print_module(s.root.parent_op())
    with pytest.raises(ByocirError) as caught:
        ask()
    assert caught.value.code == code
    assert print_module(s.root.parent_op()) == before
    return caught.value


def chain() -> Schedule:
    """y[i] = max over three neighbours of 2 x."""
    return function(
        "%a: memref<18xi32>, %y: memref<16xi32>",
        "%t = tir.alloc : memref<18xi32>",
        block("double", "i: 18", "%a[i] : memref<18xi32>", "%t[i] : memref<18xi32>", DOUBLE),
        block(
            "window",
            "i: 16 | r: 3",
            "%t[i + r] : memref<18xi32>",
            "%y[i] : memref<16xi32>",
            "%r = arith.maxsi %x, %o : i32",
        ),
    )


def matmul() -> Schedule:
    return function(
        "%a: memref<8x12xi32>, %b: memref<12x6xi32>, %c: memref<8x6xi32>",
        block(
            "gemm",
            "m: 8, n: 6 | k: 12",
            "%a[m, k] : memref<8x12xi32>, %b[k, n] : memref<12x6xi32>",
            "%c[m, n] : memref<8x6xi32>",
            "%p = arith.muli %x, %y : i32",
            "%r = arith.addi %o, %p : i32",
        ),
    )


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


def test_what_is_staged_and_overwritten_first_does_not_come_in() -> None:
    s = chain()
    expected = run(s)
    (i,) = s.tile(s.block("window"), i=4)
    s.compute_at(s.block("double"), i)
    s.stage(s.block("window"), 0, "near", at=i)
    np.testing.assert_array_equal(run(s), expected)
    assert not [op for op in s.root.walk() if isinstance(op, CopyOp)]
    (alloc,) = (op for op in s.root.walk() if isinstance(op, AllocOp))
    assert (scope_of(alloc.result.type), shape_of(alloc.result.type)) == ("near", (6,))
    s.vthread(i)  # each iteration has a buffer of its own
    assert i.kind.data is LoopKind.VTHREAD


def test_a_pad_is_staged_with_its_box() -> None:
    s = function(
        "%a: memref<8xi32>, %y: memref<8xi32>",
        block(
            "window",
            "i: 8 | r: 3",
            "%a[i + r - 1] pad 7 : i32 : memref<8xi32>",
            "%y[i] : memref<8xi32>",
            ADD,
        ),
    )
    expected, window = run(s), s.block("window")
    (i,) = s.tile(window, i=4)
    s.stage(window, 0, "near", at=i)
    np.testing.assert_array_equal(run(s), expected)
    (copy,) = (op for op in s.root.walk() if isinstance(op, CopyOp))
    assert (copy.box, copy.pad.value.data) == ((6,), 7)
    assert window.pad_values == [None]


def test_a_pad_stays_where_an_index_divides() -> None:
    """What a packed operand reads outside is not in the box, which is the whole dimension."""
    s = function(
        "%a: memref<2xi32>, %y: memref<3xi32>",
        block(
            "sum",
            "i: 3 | r: 1",
            "%a[i + r] pad 7 : i32 : memref<2xi32>",
            "%y[i] : memref<3xi32>",
            ADD,
        ),
    )
    expected, total = run(s), s.block("sum")
    s.pack(total, 0, {0: 2})
    (i,) = s.tile(total, i=1)
    s.stage(total, 0, "near", at=i)
    np.testing.assert_array_equal(run(s), expected)


def test_a_fill_moves_along_and_is_a_fill_again() -> None:
    s = function(
        "%a: memref<8x4xi32>, %y: memref<8xi32>",
        "%t = tir.alloc : memref<8xi32>",
        'tir.fill 3 : i32 into %t : memref<8xi32> loc("sum")',
        block("sum", "i: 8 | k: 4", "%a[i, k] : memref<8x4xi32>", "%t[i] : memref<8xi32>", ADD),
        block("copy", "i: 8", "%t[i] : memref<8xi32>", "%y[i] : memref<8xi32>", DOUBLE),
    )
    expected = run(s)
    (i,) = s.tile(s.block("copy"), i=2)
    total = s.block("sum")
    s.compute_at(total, i)
    assert len(s.blocks("sum")) == 2
    s.stage(total, 1, "acc", at=i)
    (fill,) = (op for op in s.root.walk() if isinstance(op, FillOp))
    assert fill.destination is total.outs[0]
    assert not total.bases or scope_of(total.outs[0].type) == "acc"
    np.testing.assert_array_equal(run(s), expected)


def test_a_buffer_of_a_loop_is_staged_inside_it() -> None:
    s = matmul()
    expected, gemm = run(s), s.block("gemm")
    m, n = s.tile(gemm, m=4, n=2)
    s.stage(gemm, 2, "near", at=n)
    for at in (None, m):
        error = refuses(s, "B257", lambda at=at: s.stage(gemm, 2, "far", at=at))
        assert error.help == "name an inner loop: at=…"
    s.stage(gemm, 2, "far", at=n)
    np.testing.assert_array_equal(run(s), expected)


def test_a_block_that_fills_may_be_staged_itself() -> None:
    s = function(
        "%y: memref<8xi32>",
        block("seven", "i: 8", "", "%y[i] : memref<8xi32>", "%r = arith.constant 7 : i32"),
    )
    expected, seven = run(s), s.block("seven")
    (i,) = s.tile(seven, i=4)
    s.stage(seven, 0, "near", at=i)
    assert [op.name for op in i.body.block.ops][-2:] == ["tir.fill", "tir.copy"]
    refuses(s, "B251", lambda: s.tile(seven, i=2))
    np.testing.assert_array_equal(run(s), expected)


ALLOC = "%t = tir.alloc : memref<8xi32>"
MAKE = block("make", "i: 8", "%a[i] : memref<8xi32>", "%t[i] : memref<8xi32>", DOUBLE)
USE = block("use", "i: 8", "%t[i] : memref<8xi32>", "%y[i] : memref<8xi32>", DOUBLE)
ARGUMENTS = "%a: memref<8xi32>, %y: memref<8xi32>"


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ([ALLOC, MAKE, "tir.fill 0 : i32 into %a : memref<8xi32>", USE], "tir.fill, which writes"),
        ([ALLOC, MAKE, USE, MAKE.replace('"make"', '"more"')], "tir.block of more too"),
        ([ALLOC, MAKE.replace("arith.addi %x, %x", "arith.addi %x, %o"), USE], "of make first"),
        ([ALLOC, MAKE.replace("i: 8", "i: 7"), USE], "found tir.block of make"),
        ([ALLOC, MAKE, USE.replace("%t[i]", "%a[i]")], "a loop that does not"),
        (
            [ALLOC, MAKE, USE.replace("outs(%y[i]", "outs(%t[i]")],
            "tir.block of use, which writes it",
        ),
        ([ALLOC, USE.replace('"use"', '"first"'), MAKE, USE], "found tir.block of first"),
    ],
    ids=["input", "reader", "old", "part", "none", "writer", "before"],
)
def test_compute_at_keeps_dependences(lines: list[str], found: str) -> None:
    s = function(ARGUMENTS, *lines)
    (i,) = s.tile(s.block("use"), i=2)
    error = refuses(s, "B256", lambda: s.compute_at(s.block("make"), i))
    assert found in error.message


def test_compute_at_wants_a_later_loop_in_order() -> None:
    s = function(ARGUMENTS, ALLOC, MAKE, USE)
    (i,) = s.tile(s.block("use"), i=2)
    (j,) = s.tile(s.block("make"), i=2)
    refuses(s, "B256", lambda: s.compute_at(s.block("make"), i))  # it is in a loop itself
    s = function(ARGUMENTS, ALLOC, MAKE, USE)
    (i,) = s.tile(s.block("use"), i=2)
    (j,) = s.tile(s.block("make"), i=2)
    refuses(s, "B256", lambda: s.compute_at(s.block("use"), j))
    s = function(ARGUMENTS, ALLOC, MAKE, USE)
    (i,) = s.tile(s.block("use"), i=2)
    s.parallel(i)
    refuses(s, "B256", lambda: s.compute_at(s.block("make"), i))


def test_a_part_is_not_written_back_where_iterations_run_at_once() -> None:
    """Each would write back what it read of the elements between its own."""
    s = function(
        "%a: memref<8xi32>, %y: memref<16xi32>",
        block("spread", "i: 8", "%a[i] : memref<8xi32>", "%y[i * 2] : memref<16xi32>", DOUBLE),
    )
    spread = s.block("spread")
    (i,) = s.tile(spread, i=4)
    s.parallel(i)
    refuses(s, "B257", lambda: s.stage(spread, 1, "near", at=i))


def test_pack_splits_the_iterators_of_a_block() -> None:
    s = matmul()
    expected, gemm = run(s), s.block("gemm")
    packed = s.pack(gemm, 1, {1: 4, 0: 3})
    assert shape_of(packed.type) == (4, 2, 4, 3)
    assert gemm.names == ["m", "n", "ni", "k", "ki"]
    np.testing.assert_array_equal(run(s), expected)
    refuses(s, "B252", lambda: s.pack(gemm, 0, {0: 9}))
    refuses(s, "B251", lambda: s.pack(gemm, 0, {2: 1}))
    refuses(s, "B251", lambda: s.pack(gemm, 3, {0: 1}))


def test_what_a_block_reads_and_writes_is_not_packed() -> None:
    s = function(
        "%a: memref<8xi32>",
        block("twice", "i: 8", "%a[i] : memref<8xi32>", "%a[i] : memref<8xi32>", DOUBLE),
    )
    refuses(s, "B258", lambda: s.pack(s.block("twice"), 0, {0: 4}))


@pytest.mark.parametrize(
    ("script", "found"),
    [
        ("m, n = tile(gemm, m=4)", "2 names ((m, n)) for 1 things"),
        ("for i in x: pass", "'for i in x:\n    pass'"),
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
