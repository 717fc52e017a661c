"""What a run counts; it depends on the instructions only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from byocir.vta_sim.config import Memory
from byocir.vta_sim.isa import Decoded, Opcode
from byocir.vta_sim.timing import loop_steps


@dataclass(frozen=True)
class Counters:
    """What upstream's functional simulator counts (sim_driver.cc ``Profiler``), and instructions.

    Bytes are x_size * y_size elements without padding, ACC_8BIT at the size of ACC elements;
    ``gemm_counter`` and ``alu_counter`` are micro-op executions, GEMM resets not counted;
    ``instructions`` is the count per opcode name.
    """

    inp_load_nbytes: int
    wgt_load_nbytes: int
    acc_load_nbytes: int
    uop_load_nbytes: int
    out_store_nbytes: int
    gemm_counter: int
    alu_counter: int
    instructions: dict[str, int]


def count(decoded: Decoded) -> Counters:
    """The counters of a stream."""
    opcode, columns, config = decoded.opcode, decoded.columns, decoded.config
    memory, elements = columns["memory_type"], columns["x_size"] * columns["y_size"]
    loads, steps = opcode == Opcode.LOAD, loop_steps(decoded)

    def loaded(*memories: Memory) -> int:
        size = config.element_bytes(memories[0])
        return int(elements[loads & np.isin(memory, memories)].sum()) * size

    stored = int(elements[opcode == Opcode.STORE].sum())
    return Counters(
        inp_load_nbytes=loaded(Memory.INP),
        wgt_load_nbytes=loaded(Memory.WGT),
        acc_load_nbytes=loaded(Memory.ACC, Memory.ACC_8BIT),
        uop_load_nbytes=loaded(Memory.UOP),
        out_store_nbytes=stored * config.element_bytes(Memory.OUT),
        gemm_counter=int(steps[(opcode == Opcode.GEMM) & (columns["reset_reg"] == 0)].sum()),
        alu_counter=int(steps[opcode == Opcode.ALU].sum()),
        instructions={kind.name: int((opcode == kind).sum()) for kind in Opcode},
    )
