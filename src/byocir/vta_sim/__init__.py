"""Simulates the VTA accelerator: instruction set, assembler, engine and cycle model.

The stable interface is what this module exports. It needs numpy only::

    result = simulate(insns, dram, timing=True)   # uint8 [N, 16], uint8 [B]
    result.dram, result.cycles, result.counters

Nothing is imported before it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from byocir.lazy import exports

if TYPE_CHECKING:
    from byocir.vta_sim.asm import disassemble
    from byocir.vta_sim.config import DEFAULT_CONFIG, Memory, VTAConfig
    from byocir.vta_sim.energy import Energy, EnergyModel, energy_of
    from byocir.vta_sim.engine_numpy import Machine
    from byocir.vta_sim.errors import VTAError
    from byocir.vta_sim.executable import Executable
    from byocir.vta_sim.isa import (
        AluOp,
        Decoded,
        Instruction,
        Opcode,
        decode,
        decode_uops,
        encode,
        encode_columns,
        encode_uops,
    )
    from byocir.vta_sim.parse import assemble
    from byocir.vta_sim.port import Port
    from byocir.vta_sim.sanitizer import sanitize
    from byocir.vta_sim.sanitizer_kinds import HAZARDS
    from byocir.vta_sim.sanitizer_report import Hazard
    from byocir.vta_sim.simulation import Counters, Program, SimResult, run_in_order, simulate
    from byocir.vta_sim.timing import Timeline, TimingModel, UnitTime, estimate
    from byocir.vta_sim.trace import trace_events, write_trace

__all__ = [
    "DEFAULT_CONFIG",
    "HAZARDS",
    "AluOp",
    "Counters",
    "Decoded",
    "Energy",
    "EnergyModel",
    "Executable",
    "Hazard",
    "Instruction",
    "Machine",
    "Memory",
    "Opcode",
    "Port",
    "Program",
    "SimResult",
    "Timeline",
    "TimingModel",
    "UnitTime",
    "VTAConfig",
    "VTAError",
    "assemble",
    "decode",
    "decode_uops",
    "disassemble",
    "encode",
    "encode_columns",
    "encode_uops",
    "energy_of",
    "estimate",
    "run_in_order",
    "sanitize",
    "simulate",
    "trace_events",
    "write_trace",
]


__getattr__, __dir__ = exports(
    __name__,
    asm="disassemble",
    config="DEFAULT_CONFIG Memory VTAConfig",
    energy="Energy EnergyModel energy_of",
    engine_numpy="Machine",
    errors="VTAError",
    executable="Executable",
    isa="AluOp Decoded Instruction Opcode decode decode_uops encode encode_columns encode_uops",
    parse="assemble",
    port="Port",
    sanitizer="sanitize",
    sanitizer_kinds="HAZARDS",
    sanitizer_report="Hazard",
    simulation="Counters Program SimResult run_in_order simulate",
    timing="Timeline TimingModel UnitTime estimate",
    trace="trace_events write_trace",
)
