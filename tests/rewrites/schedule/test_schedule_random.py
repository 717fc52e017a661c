"""Whatever a schedule is granted, the program computes the same, bit for bit; what it is refused
changes nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from schedule_requests import REQUESTS, granted, tile
from xdsl.dialects import arith
from xdsl.dialects.builtin import UNKNOWN_LOC, IntegerAttr, ModuleOp

from byocir.dialects.context import load_context
from byocir.dialects.tir import AllocOp, BlockOp, FillOp, ForOp, LoopKind
from byocir.dialects.tir.scalar import number_attr
from byocir.dialects.types import element_type_of
from byocir.dialects.verify import verify_module
from byocir.rewrites.pipeline import run_passes
from byocir.testing.buffers import Program, buffer_programs


def disturbed(module: ModuleOp) -> ModuleOp:
    """The program with numbers in fresh buffers, and with the iterations of loops whose order does
    not matter in reverse: a correct program cannot see either."""
    turned = module.clone()
    for op in list(turned.walk()):
        if isinstance(op, AllocOp):
            number = number_attr(77, element_type_of(op.result.type))
            op.parent.insert_op_after(FillOp.of(number, op.result), op)
        if isinstance(op, ForOp) and op.kind.data not in (LoopKind.SERIAL, LoopKind.UNROLL):
            uses, body = list(op.index.uses), op.body.block
            last = arith.ConstantOp(IntegerAttr.from_index_int_value(op.extent.value.data - 1))
            index = arith.SubiOp(last, op.index)
            body.insert_ops_before([last, index], body.first_op)
            for use in uses:
                use.operation.operands[use.index] = index.result
    return turned


def check(program: Program, expected: np.ndarray) -> None:
    verify_module(program.module)
    for op in program.module.walk():
        if isinstance(op, BlockOp | ForOp):
            assert op.location != UNKNOWN_LOC
    np.testing.assert_array_equal(program.run(), expected)
    np.testing.assert_array_equal(program.run(disturbed(program.module)), expected)


@pytest.mark.parametrize("ask", REQUESTS, ids=lambda ask: ask.__name__)
@settings(max_examples=settings.default.max_examples // 4)
@given(program=buffer_programs(), data=st.data())
def test_each_primitive_keeps_results(ask, program: Program, data) -> None:
    expected = program.run()
    if ask is not tile and data.draw(st.booleans()):
        granted(program, tile, data.draw)
    event(f"granted: {granted(program, ask, data.draw)}")
    check(program, expected)


@settings(max_examples=2 * settings.default.max_examples)
@given(buffer_programs(), st.lists(st.sampled_from(REQUESTS), min_size=1, max_size=6), st.data())
def test_compositions_keep_results(program: Program, asked, data) -> None:
    expected = program.run()
    for ask in asked:
        granted(program, ask, data.draw)
    check(program, expected)


@settings(max_examples=settings.default.max_examples // 4)
@given(buffer_programs(), st.lists(st.sampled_from(REQUESTS), min_size=1, max_size=6), st.data())
def test_scheduled_programs_become_loops(program: Program, asked, data) -> None:
    """Points, guards, copies and instructions mean the same as plain loops."""
    expected = program.run()
    for ask in asked:
        granted(program, ask, data.draw)
    run_passes(program.module, load_context(), "convert-tir-to-scf")
    np.testing.assert_array_equal(program.run(), expected)
