"""Assembly text: round trips on every field, and messages."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest
from any_text import LETTERS
from hypothesis import given
from hypothesis import strategies as st
from vta_configs import vta_configs

from byocir.vta_sim import Opcode, VTAConfig, VTAError, assemble, decode, disassemble, encode
from byocir.vta_sim.asm import format_instruction
from byocir.vta_sim.isa import slots


@given(data=st.data(), kind=st.sampled_from(list(Opcode)), config=vta_configs())
def test_text_round_trip(data: st.DataObject, kind: Opcode, config: VTAConfig) -> None:
    fields: dict[str, int] = {}
    for slot in slots(kind, config):
        value = st.just(0) | st.integers(slot.low, slot.high)
        fields[slot.field.name] = data.draw(value)
    insn = encode(kind, config=config, **fields)[None]
    (line,) = disassemble(insn, config)
    assert not line.startswith(".insn")
    assert format_instruction(decode(insn, config).instruction(0)) == line
    assert np.array_equal(assemble(line, config), insn)


def test_layout_comments_and_number_bases() -> None:
    text = """
    # a comment
    load.acc sram=16 dram=0x10 y=1 x=0x2 stride=2   # trailing
    store.uop {pop_prev,push_prev}
    alu.reset.max uop = 1 , 2 { push_next}
    load.uop {}	# no tokens\r
    load.mem6
    alu.op7.imm imm=-32768
    finish
    """
    assert disassemble(assemble(text)) == [
        "load.acc sram=0x10 dram=0x10 y=1 x=2 stride=2",
        "store.uop {pop_prev,push_prev}",
        "alu.reset.max uop=1,2 {push_next}",
        "load.uop",
        "load.mem6",
        "alu.op7.imm imm=-32768",
        "finish",
    ]
    assert assemble("# nothing").shape == (0, 16)


def test_bytes_without_fields_are_kept_raw() -> None:
    odd = assemble(".insn 0x8000000000000003 0x1\n.insn 0x7 0xffffffffffffffff")
    lines = disassemble(odd)
    assert (
        lines[0]
        == ".insn 0x8000000000000003 0x0000000000000001  # finish, reserved bits set: 63, 64"
    )
    assert lines[1] == ".insn 0x0000000000000007 0xffffffffffffffff  # opcode 7 is none"
    assert np.array_equal(assemble("\n".join(lines)), odd)


def test_locations_become_comments() -> None:
    insns = assemble("load.uop\nload.uop\nalu.min\nfinish")
    locations = ["a, b", "a, b", "x\nfinish # \u2028", ""]
    lines = disassemble(insns, locations=locations)
    assert lines == [
        "# a, b", "load.uop", "load.uop",
        "# x\\nfinish # \\u2028", "alu.min",
        "# (no location)", "finish",
    ]  # fmt: skip
    assert np.array_equal(assemble("\n".join(lines)), insns)
    with pytest.raises(VTAError, match=r"V005.*a location for each of 4 instructions, found 1"):
        disassemble(insns, locations=["a"])


@given(st.lists(st.text(LETTERS), min_size=1, max_size=4))
def test_no_location_ends_its_comment(locations: list[str]) -> None:
    insns = np.tile(encode("finish", push_next=1), (len(locations), 1))
    text = "\n".join(disassemble(insns, locations=locations))
    assert np.array_equal(assemble(text), insns)


@pytest.mark.parametrize(
    ("line", "column", "code", "text"),
    [
        ("jump", 1, "V108", "(load, store, gemm, finish, alu) or .insn, found 'jump'"),
        ("  jump", 3, "V108", "found 'jump'"),
        (".inp", 1, "V108", "an instruction"),
        ("= 3", 1, "V108", "an instruction"),
        ("load x=1", 5, "V108", "a suffix for memory_type (uop, wgt, inp, acc, out, acc_8bit)"),
        ("load.dram", 6, "V108", "a suffix of load (uop, wgt,"),
        ("load.", 6, "V108", "acc, out, acc_8bit, mem6, mem7), found ''"),
        ("load.inp.wgt", 10, "V108", "a suffix for memory_type once, found it again"),
        ("gemm.reset.reset", 12, "V108", "a suffix for reset_reg once"),
        ("finish.now", 8, "V108", "a suffix of finish (nothing)"),
        ("load.inp z=1", 10, "V108", "load (sram, dram, y, x, stride, pad) or {, found 'z'"),
        ("load.inp =1", 10, "V108", "an operand of load"),
        ("load.inp x", 11, "V108", "= after x, found the end of the line"),
        ("load.inp x 1", 12, "V108", "= after x, found '1'"),
        ("load.inp x=", 12, "V108", "an integer (decimal or 0x...), found the end"),
        ("load.inp pad=1", 15, "V108", "4 values for pad, found the end of the line"),
        ("load.inp pad=1,2,3,4,5", 21, "V108", "4 values for pad, found more"),
        ("load.inp x=1,2", 13, "V108", "1 value for x, found more"),
        ("load.inp x=1 y=2 x=2", 18, "V108", "x once, found it again"),
        ("load.inp x=one", 12, "V108", "an integer (decimal or 0x...), found 'one'"),
        ("load.inp x=1_0", 12, "V108", "an integer (decimal or 0x...), found '1_0'"),
        ("load.inp x=\u0663", 12, "V108", "an integer (decimal or 0x...), found '\\u0663'"),
        ("load.inp x=" + "9" * 5000, 12, "V108", "found '999999999999999999999999999999999999999…"),
        ("load.inp y=1 x=65536", 16, "V107", "load field x_size in 0..65535, found 65536"),
        ("load.inp pad=0,16,0,0", 16, "V107", "load field y_pad_1 in 0..15, found 16"),
        ("load.inp x=-1", 12, "V107", "load field x_size in 0..65535, found -1"),
        ("load.inp {pop}", 11, "V108", "(pop_prev, pop_next, push_prev, push_next) or }"),
        ("load.inp {pop_next pop_prev}", 20, "V108", "} or , and another token, found 'pop_prev'"),
        ("load.inp {pop_next,pop_next}", 20, "V108", "pop_next once"),
        ("load.inp {pop_next,}", 20, "V108", "a token (pop_prev, "),
        ("load.inp {pop_next", 19, "V108", "} or , and another token, found the end"),
        ("load.inp {", 11, "V108", "found the end of the line"),
        ("load.inp {pop_next} x=1", 21, "V108", "the end of the line after }, found 'x'"),
        (".insn 0x3", 10, "V108", "an integer (decimal or 0x...), found the end"),
        (".insn 0x3 -1", 11, "V108", "word 1 in 0..2^64-1, found -1"),
        (".insn 0x3 1 2", 13, "V108", "line after the two words of .insn, found '2'"),
    ],
)
def test_messages(line: str, column: int, code: str, text: str) -> None:
    with pytest.raises(VTAError) as caught:
        assemble("finish\n" + line + "  # why", source="prog.s")
    assert caught.value.code == code
    assert text in str(caught.value)
    assert caught.value.where.startswith(f"prog.s:2:{column}: {line.strip()[:100]}")


WORDS = (
    "load .inp alu .add .imm gemm finish .insn = , { } x y pad uop imm 0 1 0x -3 65536 pop_prev "
    "push_next #"
)
FRAGMENTS = st.sampled_from([*WORDS.split(), " ", "\n"])


@given(st.one_of(st.text(LETTERS), st.lists(FRAGMENTS).map("".join)))
def test_random_text_gives_instructions_or_one_error(text: str) -> None:
    with suppress(VTAError):
        insns = assemble(text)
        assert np.array_equal(assemble("\n".join(disassemble(insns))), insns)
