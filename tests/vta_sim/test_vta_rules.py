"""LOAD and ALU against readings of their rules that share nothing with the engines."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from byocir.vta_sim import AluOp, Machine, Memory, assemble, encode, encode_uops, simulate
from byocir.vta_sim.simulation import ENGINES

LOADABLE = [Memory.UOP, Memory.WGT, Memory.INP, Memory.ACC, Memory.ACC_8BIT]
TYPES = {Memory.UOP: np.uint32, Memory.ACC: np.int32}


def scratchpad(machine: Machine, memory: Memory) -> np.ndarray:
    """The elements as rows of lanes, in the order of DRAM."""
    if memory == Memory.WGT:  # kept transposed
        return machine.wgt.swapaxes(1, 2).reshape(len(machine.wgt), -1)
    pad = {Memory.UOP: machine.uop, Memory.INP: machine.inp}.get(memory, machine.acc)
    return pad.reshape(len(pad), -1)


@pytest.mark.parametrize("memory", LOADABLE)
def test_every_pad_combination_gives_dense_rows(memory: Memory) -> None:
    """Rows of a window that is narrower than the stride, with zeros on all sides."""
    rng = np.random.default_rng(int(memory))
    machine = Machine(rng.integers(0, 256, 1 << 14, dtype=np.uint8))
    size = machine.config.element_bytes(memory)
    dram = machine.dram.view(TYPES.get(memory, np.int8)).reshape(
        1 << 14 >> size.bit_length() - 1, -1
    )
    sram, base, rows, columns, stride = 5, 3, 2, 3, 7
    window = np.stack([dram[base + y * stride :][:columns] for y in range(rows)])
    for pads in product((0, 1, 3), repeat=4):
        before = scratchpad(machine, memory).copy()
        y0, y1, x0, x1 = pads
        insn = encode(
            "load", memory_type=memory, sram_base=sram, dram_base=base, y_size=rows, x_size=columns,
            x_stride=stride, y_pad_0=y0, y_pad_1=y1, x_pad_0=x0, x_pad_1=x1,
        )  # fmt: skip
        machine.run_in_order(insn[None])
        expected = np.pad(window, ((y0, y1), (x0, x1), (0, 0))).reshape(-1, window.shape[2])
        after = scratchpad(machine, memory)
        end = sram + len(expected)
        assert np.array_equal(after[sram:end], expected)
        assert np.array_equal(after[:sram], before[:sram])
        assert np.array_equal(after[end:], before[end:])


@pytest.mark.parametrize("memory", LOADABLE)
def test_no_columns_is_no_load_whatever_else_is_set(memory: Memory) -> None:
    machine = Machine(np.full(4096, 7, np.uint8))
    insn = encode(
        "load", memory_type=memory, sram_base=0xFFFF, dram_base=0xFFFFFFFF, y_size=0xFFFF,
        y_pad_0=15, y_pad_1=15, x_pad_0=15, x_pad_1=15,
    )  # fmt: skip
    machine.run_in_order(insn[None])
    assert not scratchpad(machine, memory).any()


def wrapped(value: int) -> int:
    """The low 32 bits, two's complement."""
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)


def alu(operation: AluOp, x: int, y: int) -> int:
    """One lane, in Python's integers of any size."""
    results = {
        AluOp.MIN: min(x, y),
        AluOp.MAX: max(x, y),
        AluOp.ADD: x + y,
        AluOp.MUL: x * y,
    }
    if operation == AluOp.SHR:
        return wrapped(x >> y if y >= 0 else x << -y)
    return wrapped(results[operation])


BYTES = "".join(
    f"store.out dram={16 + k} y=1 x=1 stride=1 {{pop_prev,push_prev}}\n"
    f"alu.shr.imm uop=1,2 out=1 in=1 imm=8 {{pop_next{',push_next' if k < 3 else ''}}}\n"
    for k in range(4)
)


def run_alu(line: str, x: list[int], y: list[int], engine: str) -> list[int]:
    """ACC[0] after an instruction on ACC[0] = x and ACC[1] = y; stores give one byte at a time."""
    dram = np.zeros(512, np.uint8)
    dram[:8] = encode_uops([0, 0], [1, 0]).view(np.uint8)
    dram[64:192] = np.array([x, y], np.int32).view(np.uint8).reshape(-1)
    setup = "load.uop y=1 x=2\nload.acc dram=1 y=1 x=2 stride=2\n"
    insns = assemble(f"{setup}{line} {{push_next}}\n{BYTES}finish")
    after = simulate(insns, dram, engine=engine, check=True).dram
    lanes = np.ascontiguousarray(after[256:320].reshape(4, 16).T)
    return lanes.view("<i4")[:, 0].tolist()


EDGES = (0, 1, -1, -(1 << 31), (1 << 31) - 1)
few = settings(max_examples=settings.default.max_examples // 5)


@st.composite
def lanes(draw: st.DrawFn) -> list[int]:
    """Any words in 16 lanes, every other one at an edge."""
    rng = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    words = rng.integers(-(1 << 31), 1 << 31, 16)
    return np.where(rng.integers(0, 2, 16), rng.choice(EDGES, 16), words).tolist()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("operation", list(AluOp))
@few
@given(x=lanes(), y=lanes())
def test_alu_register_form(operation: AluOp, engine: str, x: list[int], y: list[int]) -> None:
    if operation == AluOp.SHR:
        y = [value % 63 - 31 for value in y]
    line = f"alu.{operation.name.lower()} uop=0,1 out=1 in=1 imm=99"
    assert run_alu(line, x, y, engine) == [alu(operation, *pair) for pair in zip(x, y, strict=True)]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("operation", list(AluOp))
@few
@given(x=lanes(), imm=st.integers(-(1 << 15), (1 << 15) - 1))
@example(x=list(range(-8, 8)), imm=-(1 << 15))
@example(x=list(range(-8, 8)), imm=-1)
def test_alu_immediate_form(operation: AluOp, engine: str, x: list[int], imm: int) -> None:
    if operation == AluOp.SHR:
        imm = imm % 63 - 31
    line = f"alu.{operation.name.lower()}.imm uop=0,1 out=1 in=1 imm={imm}"
    assert run_alu(line, x, [5] * 16, engine) == [alu(operation, value, imm) for value in x]
