"""Simulates the VTA accelerator: instruction set, assembler, engine and cycle model.

The stable interface is what this module exports. It needs numpy only::

    result = simulate(insns, dram, timing=True)   # uint8 [N, 16], uint8 [B]
    result.dram, result.cycles, result.counters

Nothing is imported before it is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

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

_HOMES = {
    "AluOp": "isa",
    "Counters": "simulation",
    "DEFAULT_CONFIG": "config",
    "Decoded": "isa",
    "Energy": "energy",
    "EnergyModel": "energy",
    "Executable": "executable",
    "HAZARDS": "sanitizer_kinds",
    "Hazard": "sanitizer_report",
    "Instruction": "isa",
    "Machine": "engine_numpy",
    "Memory": "config",
    "Opcode": "isa",
    "Port": "port",
    "Program": "simulation",
    "SimResult": "simulation",
    "Timeline": "timing",
    "TimingModel": "timing",
    "UnitTime": "timing",
    "VTAConfig": "config",
    "VTAError": "errors",
    "assemble": "parse",
    "decode": "isa",
    "decode_uops": "isa",
    "disassemble": "asm",
    "encode": "isa",
    "encode_columns": "isa",
    "encode_uops": "isa",
    "energy_of": "energy",
    "estimate": "timing",
    "run_in_order": "simulation",
    "sanitize": "sanitizer",
    "simulate": "simulation",
    "trace_events": "trace",
    "write_trace": "trace",
}
"""The module in which each name is defined."""

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


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'byocir.vta_sim' has no attribute '{name}'")
    return getattr(import_module(f"byocir.vta_sim.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
