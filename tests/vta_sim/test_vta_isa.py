"""Encodings: worked examples, round trips, ranges, and decoding of arbitrary bytes."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike
from vta_configs import vta_configs

from byocir.vta_sim import (
    DEFAULT_CONFIG,
    AluOp,
    Machine,
    Memory,
    Opcode,
    VTAConfig,
    VTAError,
    assemble,
    decode,
    decode_uops,
    disassemble,
    encode,
    encode_columns,
    encode_uops,
    simulate,
)
from byocir.vta_sim.isa import COLUMNS, reserved, reserved_bits, slots, uop_slots

# Bit patterns obtained by compiling the C bit-fields of tvm-vta's hw_spec.h.
VECTORS = [
    (
        "load.inp sram=0x10 dram=0x1234 y=4 x=6 stride=14 pad=1,0,1,2 {pop_next,push_next}",
        0x00000048D0004150,
        0x2101000E00060004,
        Opcode.LOAD,
        {
            "memory_type": Memory.INP, "sram_base": 0x10, "dram_base": 0x1234, "y_size": 4,
            "x_size": 6, "x_stride": 14, "y_pad_0": 1, "x_pad_0": 1, "x_pad_1": 2,
            "pop_next": 1, "push_next": 1,
        },
    ),
    (
        "store.out dram=0x100 y=2 x=3 stride=8 {pop_prev,push_prev}",
        0x0000000400000229,
        0x0000000800030002,
        Opcode.STORE,
        {
            "memory_type": Memory.OUT, "dram_base": 0x100, "y_size": 2, "x_size": 3,
            "x_stride": 8, "pop_prev": 1, "push_prev": 1,
        },
    ),
    (
        "gemm uop=3,7 out=14 in=2 dst=14,196 src=16,0 wgt=0,9 {pop_prev,push_prev}",
        0x0004007000E0032A,
        0x024000000406200E,
        Opcode.GEMM,
        {
            "uop_bgn": 3, "uop_end": 7, "iter_out": 14, "iter_in": 2, "dst_factor_out": 14,
            "dst_factor_in": 196, "src_factor_out": 16, "wgt_factor_in": 9,
            "pop_prev": 1, "push_prev": 1,
        },
    ),
    (
        "alu.shr.imm uop=7,8 out=4 in=196 dst=196,1 src=196,1 imm=-3 {push_next}",
        0x0188002001000744,
        0xFFFDB002310008C4,
        Opcode.ALU,
        {
            "alu_opcode": AluOp.SHR, "use_imm": 1, "imm": -3, "uop_bgn": 7, "uop_end": 8,
            "iter_out": 4, "iter_in": 196, "dst_factor_out": 196, "dst_factor_in": 1,
            "src_factor_out": 196, "src_factor_in": 1, "push_next": 1,
        },
    ),
    ("finish {pop_next}", 0x13, 0, Opcode.FINISH, {"pop_next": 1}),
]  # fmt: skip


@pytest.mark.parametrize(("text", "low", "high", "kind", "fields"), VECTORS)
def test_worked_encodings(
    text: str, low: int, high: int, kind: Opcode, fields: dict[str, int]
) -> None:
    insn = encode(kind, **fields)
    assert insn.view("<u8").tolist() == [low, high]
    assert np.array_equal(assemble(text), insn[None])
    assert disassemble(insn[None]) == [text]
    decoded = decode(insn[None]).instruction(0)
    assert decoded.opcode == kind
    assert {name: value for name, value in decoded.fields.items() if value} == fields


def field_values(kind: Opcode, config: VTAConfig) -> st.SearchStrategy[dict[str, int]]:
    """A value for each field, its bounds and 0 often."""
    ranges = {slot.field.name: st.integers(slot.low, slot.high) for slot in slots(kind, config)}
    return st.fixed_dictionaries({name: st.just(0) | value for name, value in ranges.items()})


def test_micro_op_encoding() -> None:
    assert encode_uops(5, 7, 3).tolist() == 0x00C03805
    dst, src, wgt = decode_uops(encode_uops([5, 2047], [7, 2047], [3, 1023]))
    assert (dst.tolist(), src.tolist(), wgt.tolist()) == ([5, 2047], [7, 2047], [3, 1023])


def test_words_of_other_configs_shift() -> None:
    """hw_spec.h for ACC depth 2^9, INP 2^10, WGT 2^8, UOP 2^12: offsets counted by hand."""
    config = VTAConfig(
        log_uop_buff_size=14, log_inp_buff_size=14, log_wgt_buff_size=16, log_acc_buff_size=15
    )
    gemm = encode("gemm", config=config, uop_end=1, iter_out=1, iter_in=1, dst_factor_in=1,
                  src_factor_out=1, src_factor_in=1, wgt_factor_out=1, wgt_factor_in=1)  # fmt: skip
    low = 2 | 1 << 20 | 1 << 33 | 1 << 47
    high = 1 << 9 | 1 << 18 | 1 << 28 | 1 << 38 | 1 << 46
    assert gemm.view("<u8").tolist() == [low, high]
    alu = encode("alu", config=config, src_factor_in=1, alu_opcode=1, use_imm=1, imm=1)
    assert alu.view("<u8").tolist() == [4, 1 << 27 | 1 << 36 | 1 << 39 | 1 << 40]
    assert encode_uops(1, 1, 1, config).tolist() == 1 | 1 << 9 | 1 << 19


@given(data=st.data(), config=vta_configs(), kind=st.sampled_from(list(Opcode)))
def test_fields_round_trip(data: st.DataObject, config: VTAConfig, kind: Opcode) -> None:
    fields = data.draw(field_values(kind, config))
    insn = encode(kind, config=config, **fields)
    decoded = decode(insn[None], config)
    assert decoded.instruction(0).fields == fields
    assert not reserved(decoded).any()
    assert decoded.instructions() == [decoded.instruction(0)]


@given(data=st.data(), config=vta_configs())
def test_micro_ops_round_trip(data: st.DataObject, config: VTAConfig) -> None:
    widths = [slot.width for slot in uop_slots(config)]
    row = st.tuples(*(st.integers(0, (1 << width) - 1) for width in widths))
    rows = np.array(data.draw(st.lists(row, min_size=1, max_size=8)))
    again = decode_uops(encode_uops(*rows.T, config), config)
    assert np.array_equal(np.stack(again, axis=1), rows)


@given(data=st.data(), config=vta_configs())
def test_columns_encode_what_instructions_do(data: st.DataObject, config: VTAConfig) -> None:
    kinds = data.draw(st.lists(st.sampled_from(list(Opcode)), max_size=6))
    fields = [data.draw(field_values(kind, config)) for kind in kinds]
    rows = [encode(k, config=config, **f) for k, f in zip(kinds, fields, strict=True)]
    columns = {name: [f.get(name, 0) for f in fields] for name in COLUMNS}
    encoded = encode_columns(kinds, columns, config)
    assert np.array_equal(encoded, np.array(rows, np.uint8).reshape(-1, 16))
    decoded = decode(encoded, config)
    assert decoded.opcode.tolist() == kinds
    assert np.array_equal(encode_columns(decoded.opcode, decoded.columns, config), encoded)


@pytest.mark.parametrize(
    ("opcode", "columns", "code", "text"),
    [
        ([3, 5], {}, "V102", "an opcode in 0..4, found 5\n  at    instruction 1"),
        ([[3]], {}, "V107", "opcodes of shape [N], found [1, 1]"),
        ([0.5], {}, "V107", "integers for opcode, found dtype float64"),
        ([3, 3], {"pop_prev": [1, 2]}, "V107", "field pop_prev in 0..1, found 2\n  at    instr"),
        ([0], {"sram": [1]}, "V107", "a field of the instruction set (pop_prev, "),
        ([0, 3], {"x_size": 1}, "V107", "no x_size in FINISH, found 1\n  at    instruction 1"),
        ([0, 0], {"x_size": [1, 2, 3]}, "V107", "x_size of shape [2] or one number, found shape"),
        ([4], {"imm": [1 << 15]}, "V107", "ALU field imm in -32768..32767, found 32768"),
        ([4], {"imm": np.array([2**64 - 1], np.uint64)}, "V107", "integers below 2^63 for imm"),
        ([4], {"imm": [1 << 70]}, "V107", "integers for imm, found dtype object"),
        ([4], {"imm": [True]}, "V107", "found dtype bool"),
        ([4], {"imm": ["1"]}, "V107", "found dtype <U1"),
        ([4], {"imm": [[1], [1, 2]]}, "V107", "an array of integers for imm, found a ragged"),
    ],
)
def test_columns_that_do_not_fit(
    opcode: list[int], columns: dict[str, ArrayLike], code: str, text: str
) -> None:
    with pytest.raises(VTAError) as caught:
        encode_columns(opcode, columns)
    assert caught.value.code == code
    assert text in str(caught.value)


@pytest.mark.parametrize("kind", list(Opcode))
def test_every_field_refuses_what_does_not_fit(kind: Opcode) -> None:
    for slot in slots(kind, DEFAULT_CONFIG):
        low = -(1 << (slot.width - 1)) if slot.field.signed else 0
        for value in (low - 1, low + (1 << slot.width)):
            with pytest.raises(VTAError, match=rf"V107.*{slot.field.name} in {low}\.\.") as caught:
                encode(kind, **{slot.field.name: value})
            assert caught.value.found == str(value)


def test_unknown_kinds_fields_and_large_micro_ops() -> None:
    with pytest.raises(VTAError, match="one of the instructions load, store"):
        encode("jump")
    with pytest.raises(VTAError, match=r"a field of FINISH .* found x_size"):
        encode("finish", x_size=1)
    with pytest.raises(VTAError, match=r"an integer for x_size, found 1\.5"):
        encode("load", x_size=1.5)  # type: ignore[arg-type]
    with pytest.raises(VTAError, match="integers for micro-op field src, found dtype float64"):
        encode_uops([1], [0.5], 0)
    with pytest.raises(VTAError, match=r"one shape, found \[2\], \[3\], \[\]"):
        encode_uops([1, 2], [1, 2, 3], 0)
    for dst, src, wgt in ((2048, 0, 0), (0, -1, 0), (0, 0, 1024)):
        with pytest.raises(VTAError, match="V107"):
            encode_uops([0, dst], src, wgt)


@pytest.mark.parametrize(
    ("insns", "code", "text"),
    [
        (b"0123456789abcdef", "V001", "found bytes"),
        (np.zeros((1, 16), np.int8), "V001", "found int8"),
        (np.zeros((1, 8), np.uint8), "V001", "found [1, 8]"),
        (np.zeros((1, 1, 16), np.uint8), "V001", "found [1, 1, 16]"),
        (np.zeros(17, np.uint8), "V101", "found 17 bytes"),
        (np.full((2, 16), 5, np.uint8), "V102", "instruction 0: .insn 0x0505050505050505"),
    ],
)
def test_malformed_streams(insns: np.ndarray, code: str, text: str) -> None:
    with pytest.raises(VTAError) as caught:
        decode(insns)
    assert caught.value.code == code
    assert text in str(caught.value)


def test_flat_and_strided_streams_are_taken() -> None:
    insn = encode("finish", pop_next=1)
    assert len(decode(np.tile(insn, 3))) == 3
    assert len(decode(np.tile(insn, (6, 1))[::2])) == 3
    assert len(decode(np.zeros((0, 16), np.uint8))) == 0


streams = st.integers(1, 6).flatmap(lambda n: st.binary(min_size=16 * n, max_size=16 * n))


def known_opcodes(raw: bytes) -> np.ndarray:
    insns = np.frombuffer(raw, np.uint8).reshape(-1, 16).copy()
    insns[:, 0] = insns[:, 0] & 0xF8 | insns[:, 0] % 5
    return insns


@given(raw=streams)
def test_random_bytes_only_raise_vta_errors(raw: bytes) -> None:
    insns = np.frombuffer(raw, np.uint8).reshape(-1, 16)
    with suppress(VTAError):
        simulate(insns, np.zeros(4096, np.uint8), timing=True)


@settings(max_examples=2 * settings.default.max_examples)
@given(raw=streams)
def test_random_instructions_only_raise_vta_errors(raw: bytes) -> None:
    """Valid opcodes and few iterations, so that most streams reach the engine."""
    decoded = decode(known_opcodes(raw))
    machine = Machine(np.zeros(1 << 20, np.uint8), check=False)
    for insn in decoded.instructions():
        if "iter_out" in insn.fields:
            small = {"iter_out": insn.fields["iter_out"] & 3, "iter_in": insn.fields["iter_in"] & 3}
            encoded = encode(insn.opcode, **(insn.fields | small))
        else:
            encoded = decoded.insns[insn.index]
        with suppress(VTAError):
            machine.run_in_order(encoded[None])


@given(raw=streams, config=vta_configs())
def test_any_bytes_survive_the_text_form(raw: bytes, config: VTAConfig) -> None:
    insns = np.frombuffer(raw, np.uint8).reshape(-1, 16)
    assert np.array_equal(assemble("\n".join(disassemble(insns, config)), config), insns)


@given(raw=streams, config=vta_configs())
def test_decoded_fields_encode_to_the_same_bits(raw: bytes, config: VTAConfig) -> None:
    """All bits but the reserved ones, which are named."""
    insns = known_opcodes(raw)
    decoded = decode(insns, config)
    for insn, extra in zip(decoded.instructions(), reserved(decoded).tolist(), strict=True):
        again = encode(insn.opcode, config=config, **insn.fields)
        differ = np.unpackbits(again ^ insns[insn.index], bitorder="little")
        assert np.flatnonzero(differ).tolist() == reserved_bits(insns[insn.index], config)
        assert differ.any() == extra
