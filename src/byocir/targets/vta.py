"""The built-in accelerator: VTA, with a simulator as its device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Literal

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from byocir.arguments import shown
from byocir.dialects.vta import VTA, ProgramOp
from byocir.errors import ByocirError
from byocir.patterns import Composite
from byocir.targets.base import Point, Profile, Runner, Target
from byocir.targets.device import Device, DeviceRegion
from byocir.targets.vta_cost import cost_of
from byocir.targets.vta_files import files_of, read_code, read_executable, symbols_of
from byocir.targets.vta_patterns import PATTERNS, patterns_of
from byocir.vta_sim import Executable, Memory, TimingModel
from byocir.vta_sim.timing import units_of

LOWERING = (
    "vta-arrange,vta-legalise,vta-pack,clean-up,vta-bufferize,vta-border,vta-tile,"
    "vta-stage,vta-tensorise,vta-insert-tokens,vta-encode"
)
ROUNDINGS = ("half_up", "half_even")

BLOCKS = (1, 2, 4, 8, 16, 32, 64)
"""Sides of the GEMM unit whose instructions can be encoded when the buffers grow with the block."""


@dataclass(frozen=True)
class Vta(Target):
    """VTA: load, gemm, alu and store units around int8 and int32 scratchpads.

    `rounding` is how requantisation treats ties: "half_up" takes one addition and a shift,
    "half_even" seven more ALU instructions. `block` is the side of the GEMM unit.
    """

    name = "vta"
    patterns = PATTERNS
    codegen_level = "tensor"
    machine = VTA
    signed_bytes = True

    rounding: str = "half_up"
    block: int = 16

    def __post_init__(self) -> None:
        given = (("rounding", self.rounding, ROUNDINGS), ("block", self.block, BLOCKS))
        for option, value, known in given:
            if type(value) is not type(known[0]) or value not in known:
                raise ByocirError(
                    "B213",
                    f"target 'vta': expected {option} {' or '.join(map(str, known))}, "
                    f"found {shown(value)}",
                )

    def composites(self) -> tuple[Composite, ...]:
        return patterns_of(self.block)

    @property
    def fixed_point(self) -> Literal["half_up", "half_even"]:
        return "half_even" if self.rounding == "half_even" else "half_up"

    def cost(self, composite: str, ops: Sequence[Operation]) -> Mapping[str, float]:
        return cost_of(ops, self.block, self.rounding)

    def passes(self, point: Point) -> Sequence[str]:
        if point == "after-match":
            return ("vta-separate",)
        return (LOWERING,) if point == "after-lowering" else ()

    def emit(self, module: ModuleOp, symbols: Sequence[str]) -> Mapping[str, bytes]:
        blobs: dict[str, bytes] = {}
        for op in module.body.block.ops:
            if isinstance(op, ProgramOp) and op.sym_name.data in symbols:
                blobs.update(files_of(op))
        return blobs

    def load(self, blobs: Mapping[str, bytes]) -> Runner:
        return _runner(blobs, check=False)

    def load_checked(self, blobs: Mapping[str, bytes]) -> Runner:
        """Raises VTAError S2xx for a program with hazards."""
        return _runner(blobs, check=True)

    def device(self, blobs: Mapping[str, bytes]) -> Device:
        """The simulator's C core. `config` is its log2 of batch, block and scratchpad depths."""
        regions = {symbol: _device_region(symbol, blobs) for symbol in symbols_of(blobs)}
        folders = (resources.files("byocir.vta_sim"), resources.files("byocir.targets"))
        files = {
            file.name: file.read_bytes()
            for folder in folders
            for file in (folder / "native").iterdir()
            if file.name.endswith((".c", ".h"))
        }
        return Device(regions, files)

    def profile(self, blobs: Mapping[str, bytes]) -> Sequence[Profile]:
        return [_profile(symbol, blobs) for symbol in symbols_of(blobs)]


def _runner(blobs: Mapping[str, bytes], *, check: bool) -> Runner:
    programs: dict[str, Executable] = {}

    def run(symbol: str, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        if symbol not in programs:
            programs[symbol] = read_executable(symbol, blobs)
        outputs, _ = programs[symbol].run(inputs, check=check)
        return outputs

    return run


def _device_region(symbol: str, blobs: Mapping[str, bytes]) -> DeviceRegion:
    executable = read_executable(symbol, blobs)
    config = executable.program.config
    depths = (config.log_depth(m) for m in (Memory.UOP, Memory.INP, Memory.WGT, Memory.ACC))
    return DeviceRegion(
        read_code(symbol, blobs).insns.tobytes(),
        executable.image.tobytes(),
        executable.size,
        [(port.address, port.nbytes) for port in executable.inputs],
        [(port.address, port.nbytes) for port in executable.outputs],
        [config.log_batch, config.log_block, *depths],
    )


def _profile(symbol: str, blobs: Mapping[str, bytes]) -> Profile:
    """Busy cycles of each unit, by the nodes its instructions came from, and its waits."""
    program = read_executable(symbol, blobs).program
    timeline, config = program.timeline, program.config
    units = units_of(program.decoded)
    busy: Counter[tuple[str, str]] = Counter()
    first = 0
    for count, nodes in read_code(symbol, blobs).spans:
        rows = slice(first, first + count)
        for unit, chosen in units.items():
            busy[nodes, unit] += int(timeline.worked[rows][chosen[rows]].sum())
        first += count
    macs = config.batch * config.block_in * config.block_out
    return Profile(
        symbol,
        timeline.cycles,
        [(nodes, unit, cycles) for (nodes, unit), cycles in busy.items() if cycles],
        {unit: times.to_dict() for unit, times in timeline.units.items()},
        timeline.bounds,
        {
            "padded_macs": program.counters.gemm_counter * macs,
            "instructions": len(program.decoded.opcode),
            "energy_pj": round(program.energy.total),
        },
        timeline.cycles / (TimingModel.de10().clock_mhz * 1e6),
    )
