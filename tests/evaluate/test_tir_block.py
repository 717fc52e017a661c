"""The vectorised evaluation of blocks equals the point-by-point one, bit for bit."""

import numpy as np
import pytest
from block_oracle import cases, make_block, naive
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Block, Region
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.utils.test_value import create_ssa_value

from byocir.dialects.text import parse_module, print_module
from byocir.dialects.tir import BlockOp, IteratorAttr, IteratorKind, YieldOp, buffer
from byocir.dialects.tir.scalar import emit_body
from byocir.dialects.types import f32, i1, i8, i32, ui8
from byocir.errors import ByocirError
from byocir.evaluate import tir_block
from byocir.evaluate.tir import update_block
from byocir.evaluate.tir_block import BlockPlan, pieces

D = [AffineExpr.dimension(i) for i in range(4)]
PARALLEL, REDUCTION = IteratorKind.PARALLEL, IteratorKind.REDUCTION


def evaluate_block(op, ins, outs, bases=()):
    """The new contents of a block's `outs`; the arrays given are not changed."""
    updated = [np.array(array) for array in outs]
    update_block(op, ins, updated, bases)
    return updated


def error_of(function, *arguments):
    try:
        function(*arguments)
    except (ByocirError, AssertionError, IndexError) as error:
        return error
    return None


@settings(max_examples=2 * settings.default.max_examples)
@given(cases())
def test_blocks_equal_their_definition(case):
    arguments = case.op, case.ins, case.outs, case.bases
    if error_of(naive, *arguments):  # the guard lets a read or write outside through
        assert error_of(evaluate_block, *arguments).code == "B303"
        return
    for found, expected in zip(evaluate_block(*arguments), naive(*arguments), strict=True):
        np.testing.assert_array_equal(found, expected)


@given(cases(), st.integers(0, 9))
def test_neither_small_pieces_nor_matrix_products_change_anything(case, limit):
    arguments = case.op, case.ins, case.outs, case.bases
    if error_of(evaluate_block, *arguments):
        return
    expected = evaluate_block(*arguments)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("INTEGER_LIMIT", "FLOAT_LIMIT", "MATRIX_LIMIT"):
            patch.setattr(tir_block, name, limit)
        patch.setattr(tir_block, "MATRIX_LEAST", 0)
        found = evaluate_block(*arguments)
    np.testing.assert_array_equal(found[0], expected[0])


@given(cases())
def test_blocks_survive_printing_and_parsing(case):
    module = case.module()
    if error_of(module.verify):
        return
    text = print_module(module)
    again = parse_module(text)
    assert print_module(again) == text
    assert again.is_structurally_equivalent(module)


@given(
    st.lists(st.integers(1, 5), max_size=4).map(tuple),
    st.integers(0, 30),
)
def test_pieces_cover_a_space_in_row_major_order(extents, limit):
    points = []
    for piece in pieces(extents, limit):
        inside = list(np.ndindex(*(s.stop - s.start for s in piece)))
        assert len(inside) <= max(limit, 1)
        points += [tuple(s.start + i for s, i in zip(piece, p, strict=True)) for p in inside]
    assert points == list(np.ndindex(*extents))


def contraction(x, w):
    """`out[i, j] += sum_k x[i, k] * w[k, j]` on bytes."""
    shape = (x.shape[0], w.shape[1])
    iterators = [
        IteratorAttr.of(name, kind, extent)
        for name, kind, extent in zip(
            "ijk", [PARALLEL, PARALLEL, REDUCTION], [*shape, x.shape[1]], strict=True
        )
    ]
    maps = [AffineMap(3, 0, exprs) for exprs in [(D[0], D[2]), (D[2], D[1]), (D[0], D[1])]]
    out = np.zeros(shape, np.int32)
    body = lambda x, w, acc: acc + x.to(i32) * w.to(i32)  # noqa: E731
    return evaluate_block(make_block(iterators, [x, w], [out], maps, body), [x, w], [out])[0]


@pytest.mark.parametrize("length", [3, 259, 5000])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_matrix_products_of_extreme_bytes_are_exact(length, dtype):
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    x = np.full((2, length), least, dtype)
    x[1] = most
    x[1, 0] = most - 1
    w = np.full((length, 3), most, dtype)
    w[:, 1] = least
    expected = x.astype(np.int64) @ w.astype(np.int64)
    np.testing.assert_array_equal(contraction(x, w), expected)


def test_products_that_need_more_than_53_bits_wrap_exactly():
    x = np.full((1, 9), 2**31 - 1, np.int32)
    w = np.full((9, 1), 2**31 - 3, np.int32)
    total = sum(int(a) * int(b) for a, b in zip(x[0], w[:, 0], strict=True))
    assert int(contraction(x, w)[0, 0]) % 2**32 == total % 2**32


def in_place(iterators, ins, outs, maps, body, arrays):
    """Runs a block on memrefs; operands that are the same number share a buffer."""
    values = [create_ssa_value(buffer(i32, array.shape)) for array in arrays]
    operands = [values[i] for i in (*ins, *outs)]
    region = emit_body([i32] * len(operands), body)
    op = BlockOp(iterators, operands[: len(ins)], operands[len(ins) :], maps, region)
    op.verify()
    BlockPlan(op).run([arrays[i] for i in ins], [arrays[i] for i in outs], ())


def test_buffers_are_updated_in_place():
    x = np.arange(6, dtype=np.int32)
    iterators = [IteratorAttr.of("i", PARALLEL, 6)]
    maps = [AffineMap(1, 0, (D[0],))] * 2
    in_place(iterators, [0], [0], maps, lambda e, old: e * 2 + old, [x])
    np.testing.assert_array_equal(x, np.arange(6) * 3)


def test_a_reduction_reads_what_it_wrote():
    """`x[i] += x[k]` for k = 0, 1, 2, and i = 0: each step sees the one before."""
    x = np.array([1, 10, 100], np.int32)
    iterators = [IteratorAttr.of("i", PARALLEL, 1), IteratorAttr.of("k", REDUCTION, 3)]
    maps = [AffineMap(2, 0, (D[1],)), AffineMap(2, 0, (D[0],))]
    in_place(iterators, [0], [0], maps, lambda e, acc: acc + e, [x])
    np.testing.assert_array_equal(x, [112, 10, 100])


def test_two_outs_swap():
    """All reads of a point come before its writes."""
    x, y = np.arange(4, dtype=np.int32), np.arange(4, 8, dtype=np.int32)
    values = [create_ssa_value(buffer(i32, (4,))) for _ in range(2)]
    block = Block(arg_types=[i32, i32])
    block.add_op(YieldOp.create(operands=[block.args[1], block.args[0]]))
    maps = [AffineMap(1, 0, (D[0],))] * 2
    op = BlockOp([IteratorAttr.of("i", PARALLEL, 4)], [], values, maps, Region(block))
    op.verify()
    BlockPlan(op).run([], [x, y], ())
    np.testing.assert_array_equal([x, y], [np.arange(4, 8), np.arange(4)])


def test_a_constant_cannot_be_written():
    x = np.zeros(4, np.int32)
    x.flags.writeable = False
    iterators = [IteratorAttr.of("i", PARALLEL, 4)]
    with pytest.raises(ByocirError, match=r"B304.*\n?.*found a constant"):
        in_place(iterators, [], [0], [AffineMap(1, 0, (D[0],))], lambda old: old, [x])


def test_tensors_are_not_changed():
    x = np.arange(4, dtype=np.int32)
    iterators = [IteratorAttr.of("i", PARALLEL, 4)]
    op = make_block(iterators, [], [x], [AffineMap(1, 0, (D[0],))], lambda old: old + 1)
    np.testing.assert_array_equal(evaluate_block(op, [], [x])[0], [1, 2, 3, 4])
    np.testing.assert_array_equal(x, [0, 1, 2, 3])


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [("slt", [False, True, False]), ("ult", [False, False, True]), ("eq", [True, False, False])],
)
def test_comparison_and_selection(predicate, expected):
    x, y = np.array([1, -1, 1], np.int8), np.array([1, 1, -1], np.int8)
    values = [create_ssa_value(buffer(i8, (3,))) for _ in range(3)]
    block = Block(arg_types=[i8, i8, i8])
    holds = arith.CmpiOp(block.args[0], block.args[1], predicate)
    chosen = arith.SelectOp(holds, block.args[0], block.args[1])
    block.add_ops([holds, chosen, YieldOp.create(operands=[chosen.result])])
    maps = [AffineMap(1, 0, (D[0],))] * 3
    op = BlockOp([IteratorAttr.of("i", PARALLEL, 3)], values[:2], values[2:], maps, Region(block))
    out = np.zeros(3, np.int8)
    BlockPlan(op).run([x, y], [out], ())
    np.testing.assert_array_equal(out, np.where(expected, x, y))


@pytest.mark.parametrize(
    ("source", "target", "values", "expected"),
    [
        (ui8, i32, [0, 255], [0, 255]),
        (i8, i32, [-1, 127], [-1, 127]),
        (i32, i8, [300, -129], [44, 127]),
        (i32, ui8, [300, -1], [44, 255]),
        (f32, ui8, [255.0, 3.9], [255, 3]),
        (ui8, f32, [200, 0], [200, 0]),
        (i1, i32, [True, False], [1, 0]),
        (f32, i8, [-1.9, 1.9], [-1, 1]),
    ],
)
def test_conversions(source: IntegerType, target, values, expected):
    from byocir.dialects.types import dtype_of

    x, out = np.array(values, dtype_of(source)), np.zeros(2, dtype_of(target))
    operands = [create_ssa_value(buffer(t, (2,))) for t in (source, target)]
    region = emit_body([source, target], lambda e, old: e.to(target))
    maps = [AffineMap(1, 0, (D[0],))] * 2
    op = BlockOp([IteratorAttr.of("i", PARALLEL, 2)], operands[:1], operands[1:], maps, region)
    op.verify()
    BlockPlan(op).run([x], [out], ())
    np.testing.assert_array_equal(out, np.array(expected, out.dtype))
