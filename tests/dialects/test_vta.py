"""Instructions as ops: what they encode to, and which configuration they are for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import IntegerAttr, MemRefType, StringAttr, UnitAttr, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute
from xdsl.utils.test_value import create_ssa_value

from byocir.dialects.byoc import TARGET, TargetAttr
from byocir.dialects.types import i8, i32
from byocir.dialects.vta import (
    TOKENS,
    AluKind,
    AluKindAttr,
    AluOp,
    FinishOp,
    GemmOp,
    InstructionOp,
    LoadMemory,
    LoadOp,
    StoreOp,
    config_of,
)
from byocir.dialects.vta.base import FORBIDDEN_TOKENS, integer, integers
from byocir.errors import ByocirError
from byocir.vta_sim import DEFAULT_CONFIG, Memory, assemble, decode, encode

BYTES = create_ssa_value(MemRefType(i8, (1 << 14, 16, 16)))
WORDS = create_ssa_value(MemRefType(i32, (1 << 14, 16)))


def pairs(limit: int) -> st.SearchStrategy[Attribute]:
    number = st.integers(0, limit - 1)
    return st.tuples(number, number).map(integers)


@st.composite
def loads(draw: st.DrawFn) -> LoadOp:
    memory = draw(st.sampled_from(list(LoadMemory)))
    wide = memory in (LoadMemory.ACC, LoadMemory.UOP)
    small = st.integers(0, 15)
    return LoadOp.of(
        memory,
        draw(st.integers(0, 100)),
        WORDS if wide else BYTES,
        draw(st.integers(0, 1 << 10)),
        draw(st.tuples(small, st.integers(1, 15))),
        stride=draw(st.none() | st.integers(0, 100)),
        pads=draw(st.tuples(st.integers(0, 3), small, st.integers(0, 3), st.integers(0, 3))),
    )


@st.composite
def stores(draw: st.DrawFn) -> StoreOp:
    size = draw(st.tuples(st.integers(0, 20), st.integers(1, 20)))
    stride = draw(st.none() | st.integers(0, 100))
    at, offset = draw(st.integers(0, 1000)), draw(st.integers(0, 1 << 10))
    return StoreOp.of(at, BYTES, offset, size, stride=stride)


@st.composite
def nests(draw: st.DrawFn) -> InstructionOp:
    begin = draw(st.integers(0, 8191))
    properties = {
        "uops": integers((begin, draw(st.integers(begin + 1, 8192)))),
        "loops": integers(draw(st.tuples(st.integers(1, 16383), st.integers(1, 16383)))),
        "dst": draw(pairs(2048)),
        "src": draw(pairs(2048)),
    }
    if draw(st.booleans()):
        properties["wgt"] = draw(pairs(1024))
        if draw(st.booleans()):
            properties["reset"] = UnitAttr()
        return GemmOp.create(properties=properties)
    properties["kind"] = AluKindAttr(draw(st.sampled_from(list(AluKind))))
    if draw(st.booleans()):
        properties["imm"] = integer(draw(st.integers(-32768, 32767)))
    return AluOp.create(properties=properties)


NOPS = st.sampled_from(
    [lambda: LoadOp.nop(LoadMemory.INP), lambda: LoadOp.nop(LoadMemory.UOP), StoreOp.nop]
).map(lambda make: make())


@given(
    st.one_of(loads(), stores(), nests(), NOPS, st.builds(FinishOp.of)),
    st.sets(st.sampled_from(TOKENS)),
    st.integers(0, 1 << 12),
)
def test_fields_are_those_of_the_encoded_instruction(
    op: InstructionOp, tokens: set[str], dram_base: int
) -> None:
    for token in tokens.difference(FORBIDDEN_TOKENS[op.queue]):
        op.set_token(token)
    op.verify()
    fields = op.fields(dram_base)
    decoded = decode(encode(op.OPCODE, **fields)).instruction(0)
    assert decoded.opcode == op.OPCODE
    assert {name: value for name, value in decoded.fields.items() if value} == {
        name: value for name, value in fields.items() if value
    }


def test_the_encoding_is_that_of_the_assembler() -> None:
    op = LoadOp.of(LoadMemory.INP, 16, BYTES, 4, (4, 6), stride=14, pads=(1, 0, 1, 2))
    op.set_token("pop_next")
    op.set_token("push_next")
    text = "load.inp sram=0x10 dram=0x1234 y=4 x=6 stride=14 pad=1,0,1,2 {pop_next,push_next}"
    assert encode(op.OPCODE, **op.fields(0x1230)).tolist() == assemble(text)[0].tolist()


def function_for(options: dict[str, Attribute]) -> FuncOp:
    function = FuncOp("vta_0", ([], []))
    function.attributes[TARGET] = TargetAttr.of("vta", options)
    return function


def test_the_configuration_comes_from_the_target() -> None:
    assert config_of(FuncOp("f", ([], []))) == DEFAULT_CONFIG
    assert config_of(function_for({})) == DEFAULT_CONFIG
    function = function_for({"block": IntegerAttr(32, i64)})
    finish = FinishOp.of()
    function.body.block.add_op(finish)
    config = config_of(finish)
    assert config.block_out == 32
    assert all(config.depth(memory) == DEFAULT_CONFIG.depth(memory) for memory in Memory)


@pytest.mark.parametrize(
    ("block", "message"),
    [
        (IntegerAttr(12, i64), "expected option block to be a power of two, found 12"),
        (StringAttr("big"), 'expected option block to be a power of two, found "big"'),
        (IntegerAttr(1 << 20, i64), "expected a block that can be encoded, found 1048576: "),
    ],
)
def test_a_block_that_no_vta_has(block: Attribute, message: str) -> None:
    with pytest.raises(ByocirError, match="B338") as error:
        config_of(function_for({"block": block}))
    assert message in str(error.value)
