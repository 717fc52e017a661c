"""What schedules do with memory: staging, moving what fills a buffer, packing."""

from __future__ import annotations

import numpy as np
import pytest
from scheduled import ADD, DOUBLE, block, chain, function, matmul, refuses, run

from byocir.dialects.tir import AllocOp, CopyOp, FillOp, LoopKind, scope_of
from byocir.dialects.types import shape_of


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


def test_what_is_written_is_not_staged_with_pads_that_are_read_around_it() -> None:
    """Nothing would set them."""
    s = function(
        "%a: memref<1xi32>, %y: memref<2xi32>",
        "%t = tir.alloc : memref<1xi32>",
        block("double", "i: 1", "%a[i] : memref<1xi32>", "%t[i] : memref<1xi32>", DOUBLE),
        block(
            "window",
            "i: 2 | r: 1",
            "%t[i + r] pad 7 : i32 : memref<1xi32>",
            "%y[i] : memref<2xi32>",
            ADD,
        ),
    )
    refuses(s, "B257", lambda: s.stage(s.block("window"), 0, "near"))


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


def test_a_buffer_that_changes_once_another_was_made_of_it_moves_along() -> None:
    u = "%u = tir.alloc : memref<8xi32>"
    copied = block("copied", "i: 8", "%t[i] : memref<8xi32>", "%u[i] : memref<8xi32>", DOUBLE)
    doubled = block("doubled", "i: 8", "", "%t[i] : memref<8xi32>", "%r = arith.addi %o, %o : i32")
    both = "%t[i] : memref<8xi32>, %u[i] : memref<8xi32>"
    added = block("use", "i: 8", both, "%b[i] : memref<8xi32>", "%r = arith.subi %x, %y : i32")
    arguments = ARGUMENTS.replace("%y", "%b")
    for name in ("copied", "doubled"):
        s = function(arguments, ALLOC, u, MAKE, copied, doubled, added)
        expected = run(s)
        (i,) = s.tile(s.block("use"), i=2)
        s.compute_at(s.block(name), i)
        assert all(s.loops(each) == [i] for each in s.blocks())
        np.testing.assert_array_equal(run(s), expected)


def test_sums_that_keep_their_dimension_move_into_a_loop() -> None:
    """They are written at index 0 of a dimension of one element."""
    t = "memref<8x1xi32>"
    total = block("sum", "i: 8 | r: 3", "%a[i, r] : memref<8x3xi32>", f"%t[i, 0] : {t}", ADD)
    doubled = block("use", "i: 8, z: 1", f"%t[i, z] : {t}", f"%y[i, z] : {t}", DOUBLE)
    fill = f"tir.fill 0 : i32 into %t : {t}"
    s = function(f"%a: memref<8x3xi32>, %y: {t}", f"%t = tir.alloc : {t}", fill, total, doubled)
    expected = run(s)
    (i,) = s.tile(s.block("use"), i=2)
    s.compute_at(s.block("sum"), i)
    assert s.loops(s.block("sum")) == [i]
    np.testing.assert_array_equal(run(s), expected)


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
