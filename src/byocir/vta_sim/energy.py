"""Estimates the energy of a stream: its operations and bytes, each times a published figure.

Figures: M. Horowitz, "Computing's energy problem (and what we can do about it)", ISSCC 2014,
doi:10.1109/ISSCC.2014.6757323, rough costs at 45 nm and 0.9 V: integer add 0.03 pJ (8 bit) and
0.1 pJ (32 bit), integer multiply 0.2 pJ (8 bit) and 3.1 pJ (32 bit); a 64-bit access of an 8 KiB
cache 10 pJ, of 32 KiB 20 pJ, of 1 MiB 100 pJ; of DRAM 1.3 to 2.6 nJ. They show which part of a
program costs most. They are not a prediction for any chip: control, clocks and leakage are left
out, and an FPGA takes many times more.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields

import numpy as np

from byocir.vta_sim.config import Memory
from byocir.vta_sim.errors import VTAError
from byocir.vta_sim.isa import INSN_BYTES, AluOp, Decoded, Opcode
from byocir.vta_sim.timing.instruction_costs import element_bytes, loop_steps, padding

UOP_BYTES = 4


@dataclass(frozen=True)
class EnergyModel:
    """Lists the picojoules that each operation and each byte cost. Raises VTAError V009 for a value
    that is negative or no number.
    """

    mac: float = 0.2 + 0.1
    """8-bit multiply and 32-bit add."""
    alu_lane: float = 0.1
    """One 32-bit lane of MIN, MAX, ADD or SHR: as an add."""
    alu_multiply_lane: float = 3.1
    """One 32-bit lane of MUL."""
    scratchpad_byte: float = 20 / 8
    """Read or written; a 32 KiB cache, the size of INP. WGT and ACC are larger, and cost more."""
    dram_byte: float = 1300 / 8
    """Read or written; the lower end of the published range."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value: object = getattr(self, field.name)
            if not isinstance(value, (int, float)) or not 0 <= value < float("inf"):
                raise VTAError("V009", f"{field.name} to be a number >= 0", repr(value))


@dataclass(frozen=True)
class Energy:
    """Records the energy of a run, in picojoules. It is an estimate: see the module's head."""

    mac: float
    alu: float
    scratchpad: float
    dram: float

    @property
    def total(self) -> float:
        """Gives the sum of the four parts."""
        return self.mac + self.alu + self.scratchpad + self.dram

    def to_dict(self) -> dict[str, float]:
        """Gives the four parts by name."""
        return asdict(self)


@dataclass(frozen=True)
class Traffic:
    """Counts the work of a run: multiply-accumulates, ALU lanes, and bytes that are read or
    written.
    """

    macs: int
    alu_lanes: int
    alu_multiply_lanes: int
    scratchpad_bytes: int
    dram_bytes: int


def traffic(decoded: Decoded) -> Traffic:
    """Counts the events that cost energy; instructions are fetched from DRAM, too."""
    opcode, columns, config = decoded.opcode, decoded.columns, decoded.config
    steps = loop_steps(decoded)
    alu = opcode == Opcode.ALU
    multiplies = alu & (columns["alu_opcode"] == AluOp.MUL)
    gemm = (opcode == Opcode.GEMM) & (columns["reset_reg"] == 0)
    lanes = config.batch * config.block_out
    moved = columns["x_size"] * columns["y_size"] * element_bytes(decoded)
    return Traffic(
        macs=int(steps[gemm].sum()) * lanes * config.block_in,
        alu_lanes=int(steps[alu & ~multiplies].sum()) * lanes,
        alu_multiply_lanes=int(steps[multiplies].sum()) * lanes,
        scratchpad_bytes=_scratchpad_bytes(decoded),
        dram_bytes=int(moved.sum()) + INSN_BYTES * len(decoded),
    )


def _scratchpad_bytes(decoded: Decoded) -> int:
    """Gives the bytes that all instructions read from and write to scratchpads.

    A step reads its micro-op. GEMM reads INP, WGT and ACC and writes ACC, or only writes ACC to
    reset it. ALU reads and writes ACC, and reads a second operand in register form. A load writes
    its elements and its padding, ACC_8BIT as wide as ACC; a store reads the narrow elements.
    """
    opcode, columns, config = decoded.opcode, decoded.columns, decoded.config
    inp, wgt, acc = (config.element_bytes(m) for m in (Memory.INP, Memory.WGT, Memory.ACC))
    gemm = np.where(columns["reset_reg"] == 0, inp + wgt + 2 * acc, acc)
    alu = np.where(columns["use_imm"] == 0, 3 * acc, 2 * acc)
    step = UOP_BYTES + np.where(opcode == Opcode.GEMM, gemm, alu)
    widened = columns["memory_type"] == Memory.ACC_8BIT
    size = np.where(widened & (opcode == Opcode.LOAD), acc, element_bytes(decoded))
    elements = columns["x_size"] * columns["y_size"] + padding(decoded)
    return int((loop_steps(decoded) * step).sum() + (elements * size).sum())


def energy_of(decoded: Decoded, model: EnergyModel | None = None) -> Energy:
    """Estimates the energy of one run, which depends on the instructions only."""
    return energy_for(traffic(decoded), model or EnergyModel())


def energy_for(work: Traffic, model: EnergyModel) -> Energy:
    """Estimates the energy of so much work."""
    return Energy(
        mac=work.macs * model.mac,
        alu=work.alu_lanes * model.alu_lane + work.alu_multiply_lanes * model.alu_multiply_lane,
        scratchpad=work.scratchpad_bytes * model.scratchpad_byte,
        dram=work.dram_bytes * model.dram_byte,
    )
