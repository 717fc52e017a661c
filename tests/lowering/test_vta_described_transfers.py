"""Joined transfers fill scratchpads and main memory as those that they are made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import SSAValue
from xdsl.utils.test_value import create_ssa_value

from byocir.dialects.types import i8, i32
from byocir.dialects.vta import InstructionOp, LoadMemory, LoadOp, StoreOp, TransferOp
from byocir.lowering.tir_to_vta.described_transfers import joined
from byocir.vta_sim import DEFAULT_CONFIG, Machine, Memory, encode

VECTORS = 64
BYTES = create_ssa_value(MemRefType(i8, (VECTORS, 16)))
TABLE = create_ssa_value(MemRefType(i32, (VECTORS,)))
FIRST = {LoadMemory.UOP: TABLE}


def load(memory: LoadMemory, sram: int, offset: int, size: tuple[int, int], apart: int) -> LoadOp:
    source: SSAValue = FIRST.get(memory, BYTES)
    return LoadOp.of(memory, sram, source, offset, size, stride=apart)


loads = st.builds(
    load, st.sampled_from([LoadMemory.INP, LoadMemory.ACC8, LoadMemory.UOP]), st.integers(0, 12),
    st.integers(0, 20), st.tuples(st.integers(1, 3), st.integers(1, 3)), st.integers(1, 5),
)  # fmt: skip
stores = st.builds(
    lambda sram, offset, size: StoreOp.of(sram, BYTES, offset, size, stride=size[1]),
    st.integers(200, 212), st.integers(400, 420), st.tuples(st.integers(1, 3), st.integers(1, 3)),
)  # fmt: skip


@st.composite
def programs(draw: st.DrawFn) -> list[TransferOp]:
    """Transfers, most of which go on where one before them ended. Stores are of rows that nothing
    loads, to vectors that nothing reads: no tokens order them with loads."""
    ops: list[TransferOp] = []
    for op in draw(st.lists(st.one_of(loads, loads, stores), min_size=1, max_size=12)):
        alike = [each for each in ops if each.memory_id is op.memory_id]
        if alike and draw(st.integers(0, 3)):
            one = draw(st.sampled_from(alike))
            at = one.operation_fields()
            step = draw(st.sampled_from([at["x_size"], at["y_size"] * at["x_stride"]]))
            op = onwards(one, at["sram_base"] + one.sram_size, at["dram_base"] + step)
        if op.memory_id is not Memory.UOP and not draw(st.integers(0, 5)):
            flags = {0: ("pop_next", "push_next"), 2: ("pop_prev", "push_prev")}
            op.set_token(draw(st.sampled_from(flags.get(op.queue, ("pop_prev", "push_next")))))
        ops.append(op)
    return ops


def onwards(op: TransferOp, sram: int, offset: int) -> TransferOp:
    """The same transfer, of what follows."""
    made = op.clone()
    assert isinstance(made, LoadOp | StoreOp)
    base = LoadOp.of(LoadMemory.INP, sram, BYTES, offset, (1, 1))
    made.properties |= {name: base.properties[name] for name in ("sram", "offset")}
    for token in op.tokens:
        del made.properties[token]
    return made


def state(ops: Sequence[InstructionOp]) -> list[np.ndarray]:
    """What scratchpads and main memory hold behind a program."""
    dram = (np.arange(1 << 14) % 251).astype(np.uint8)
    machine = Machine(dram, DEFAULT_CONFIG)
    for memory in (machine.inp, machine.acc, machine.uop):
        memory[...] = np.arange(memory.size).reshape(memory.shape) % 127
    machine.run_in_order(np.stack([encode(op.OPCODE, **op.fields()) for op in ops]))
    return [machine.dram, machine.inp, machine.acc, machine.uop]


@given(programs())
def test_memories_hold_the_same_and_no_token_is_lost(ops: list[TransferOp]) -> None:
    expected, tokens = state(ops), Counter(each for op in ops for each in op.tokens)
    found = joined(ops, DEFAULT_CONFIG)
    for one, other in zip(expected, state(found), strict=True):
        np.testing.assert_array_equal(one, other)
    assert Counter(each for op in found for each in op.tokens) == tokens


def test_runs_of_several_blocks_of_channels_are_one_load_each() -> None:
    """Rows of an image of two blocks of channels, one after the other, as calls load them."""
    ops = [
        load(LoadMemory.INP, block * 12 + 3 * row, 6 * row + block, (3, 1), 2)
        for row in range(4)
        for block in range(2)
    ]
    found = joined(ops, DEFAULT_CONFIG)
    assert [op.box for op in found if isinstance(op, TransferOp)] == [(12, 1), (12, 1)]


def test_what_memory_serves_at_once_is_bounded() -> None:
    ops = [load(LoadMemory.INP, i, i, (1, 1), 1) for i in range(VECTORS + 1)]
    assert [op.fields()["x_size"] for op in joined(ops, DEFAULT_CONFIG)] == [VECTORS, 1]
