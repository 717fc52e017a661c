"""Assembly text: round trips on every field, and messages."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from byocir.vta_sim import DEFAULT_CONFIG, Opcode, VTAError, assemble, disassemble, encode
from byocir.vta_sim.isa import slots


@given(data=st.data(), kind=st.sampled_from(list(Opcode)))
def test_text_round_trip(data: st.DataObject, kind: Opcode) -> None:
    fields: dict[str, int] = {}
    for slot in slots(kind, DEFAULT_CONFIG):
        low = -(1 << (slot.width - 1)) if slot.field.signed else 0
        high = low + (1 << slot.width) - 1
        fields[slot.field.name] = data.draw(st.one_of(st.just(0), st.integers(low, high)))
    insn = encode(kind, **fields)[None]
    (line,) = disassemble(insn)
    assert not line.startswith(".insn")
    assert np.array_equal(assemble(line), insn)


def test_layout_comments_and_number_bases() -> None:
    text = """
    # a comment
    load.acc sram=16 dram=0x10 y=1 x=0x2 stride=2   # trailing
    store.uop {pop_prev,push_prev}
    alu.reset.max uop=1,2 { push_next }
    load.mem6
    alu.op7.imm imm=-32768
    finish
    """
    assert disassemble(assemble(text)) == [
        "load.acc sram=0x10 dram=0x10 y=1 x=2 stride=2",
        "store.uop {pop_prev,push_prev}",
        "alu.reset.max uop=1,2 {push_next}",
        "load.mem6",
        "alu.op7.imm imm=-32768",
        "finish",
    ]
    assert assemble("# nothing").shape == (0, 16)


def test_bytes_without_fields_are_kept_raw() -> None:
    odd = assemble(".insn 0x8000000000000003 0x1\n.insn 0x7 0xffffffffffffffff")
    lines = disassemble(odd)
    assert lines[0] == ".insn 0x8000000000000003 0x0000000000000001  # finish"
    assert lines[1] == ".insn 0x0000000000000007 0xffffffffffffffff"
    assert np.array_equal(assemble("\n".join(lines)), odd)


@pytest.mark.parametrize(
    ("line", "code", "text"),
    [
        ("jump", "V108", "an instruction (load, store, gemm, finish, alu), found 'jump'"),
        ("load x=1", "V108", "a suffix for memory_type (uop, wgt, inp, acc, out, acc_8bit)"),
        ("load.dram", "V108", "a suffix of load"),
        ("load.inp.wgt", "V108", "one suffix for memory_type"),
        ("finish.now", "V108", "a suffix of finish (nothing)"),
        ("load.inp z=1", "V108", "an operand of load (sram, dram, y, x, stride, pad), found 'z'"),
        ("load.inp pad=1", "V108", "4 values for pad, found 1"),
        ("load.inp x=1 x=2", "V108", "x once, found it again"),
        ("load.inp x=one", "V108", "an integer (decimal or 0x...), found 'one'"),
        ("load.inp x=65536", "V107", "field x_size in 0..65535, found 65536"),
        ("load.inp {pop}", "V108", "a token (pop_prev, pop_next, push_prev, push_next)"),
        ("load.inp {pop_next", "V108", "to close the line with }"),
        ("load.inp {pop_next} x=1", "V108", "to close the line with }"),
        (".insn 0x3", "V108", ".insn and two 64-bit words"),
        (".insn 0x3 -1", "V108", ".insn and two 64-bit words"),
    ],
)
def test_messages(line: str, code: str, text: str) -> None:
    with pytest.raises(VTAError) as caught:
        assemble("finish\n" + line)
    assert caught.value.code == code
    assert text in str(caught.value)
    assert caught.value.where == f"line 2: {line}"
