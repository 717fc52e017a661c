"""Joined transfers fill scratchpads and main memory as those that they are made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import UNKNOWN_LOC, MemRefType
from xdsl.utils.test_value import create_ssa_value

from byocir.dialects.types import i8, i32
from byocir.dialects.vta.assemble import Word
from byocir.lowering.tir_to_vta.described_transfers import TOKENS, joined
from byocir.vta_sim import DEFAULT_CONFIG, Machine, Memory, Opcode, encode

VECTORS = 64
BYTES = create_ssa_value(MemRefType(i8, (VECTORS, 16)))
TABLE = create_ssa_value(MemRefType(i32, (VECTORS,)))


def load(memory: Memory, sram: int, offset: int, size: tuple[int, int], apart: int) -> Word:
    array, stride = TABLE if memory is Memory.UOP else BYTES, apart if size[0] > 1 else size[1]
    fields = {
        "memory_type": int(memory), "sram_base": sram, "dram_base": offset,
        "y_size": size[0], "x_size": size[1], "x_stride": stride,
    }  # fmt: skip
    return Word(Opcode.LOAD, fields, UNKNOWN_LOC, array)


def store(sram: int, offset: int, size: tuple[int, int]) -> Word:
    word = load(Memory.OUT, sram, offset, size, size[1])
    word.opcode = Opcode.STORE
    return word


loads = st.builds(
    load, st.sampled_from([Memory.INP, Memory.ACC_8BIT, Memory.UOP]), st.integers(0, 12),
    st.integers(0, 20), st.tuples(st.integers(1, 3), st.integers(1, 3)), st.integers(1, 5),
)  # fmt: skip
stores = st.builds(
    store, st.integers(200, 212), st.integers(400, 420),
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
)  # fmt: skip


@st.composite
def programs(draw: st.DrawFn) -> list[Word]:
    """Transfers, most of which go on where one before them ended. Stores are of rows that nothing
    loads, to vectors that nothing reads: no tokens order them with loads."""
    words: list[Word] = []
    for word in draw(st.lists(st.one_of(loads, loads, stores), min_size=1, max_size=12)):
        alike = [each for each in words if each.memory is word.memory]
        if alike and draw(st.integers(0, 3)):
            one = draw(st.sampled_from(alike))
            at = one.fields
            step = draw(st.sampled_from([at["x_size"], at["y_size"] * at["x_stride"]]))
            follows = at["sram_base"] + at["y_size"] * at["x_size"], at["dram_base"] + step
            word = onwards(one, dict(zip(("sram_base", "dram_base"), follows, strict=True)))
        if word.memory is not Memory.UOP and not draw(st.integers(0, 5)):
            flags = {0: ("pop_next", "push_next"), 2: ("pop_prev", "push_prev")}
            flag = draw(st.sampled_from(flags.get(word.queue, ("pop_prev", "push_next"))))
            word.fields[flag] = 1
        words.append(word)
    return words


def onwards(word: Word, follows: Mapping[str, int]) -> Word:
    """The same transfer, of what follows."""
    fields = {name: n for name, n in word.fields.items() if name not in TOKENS}
    return Word(word.opcode, {**fields, **follows}, word.location, word.array)


def state(words: Sequence[Word]) -> list[np.ndarray]:
    """What scratchpads and main memory hold behind a program."""
    dram = (np.arange(1 << 14) % 251).astype(np.uint8)
    machine = Machine(dram, DEFAULT_CONFIG)
    for memory in (machine.inp, machine.acc, machine.uop):
        memory[...] = np.arange(memory.size).reshape(memory.shape) % 127
    machine.run_in_order(
        np.stack([encode(word.opcode, config=DEFAULT_CONFIG, **word.fields) for word in words])
    )
    return [machine.dram, machine.inp, machine.acc, machine.uop]


def tokens_of(words: Sequence[Word]) -> Counter[str]:
    return Counter(name for word in words for name in word.fields if name in TOKENS)


@given(programs())
def test_memories_hold_the_same_and_no_token_is_lost(words: list[Word]) -> None:
    expected, tokens = state(words), tokens_of(words)
    found = joined(words, DEFAULT_CONFIG)
    for one, other in zip(expected, state(found), strict=True):
        np.testing.assert_array_equal(one, other)
    assert tokens_of(found) == tokens


def test_runs_of_several_blocks_of_channels_are_one_load_each() -> None:
    """Rows of an image of two blocks of channels, one after the other, as calls load them."""
    words = [
        load(Memory.INP, block * 12 + 3 * row, 6 * row + block, (3, 1), 2)
        for row in range(4)
        for block in range(2)
    ]
    found = joined(words, DEFAULT_CONFIG)
    assert [(w.fields["y_size"], w.fields["x_size"]) for w in found] == [(12, 1), (12, 1)]


def test_what_memory_serves_at_once_is_bounded() -> None:
    words = [load(Memory.INP, i, i, (1, 1), 1) for i in range(VECTORS + 1)]
    assert [word.fields["x_size"] for word in joined(words, DEFAULT_CONFIG)] == [VECTORS, 1]
