"""Runs VTA's programs on its simulator, exports them for projects, and counts their cycles.

It is imported only when there is a program, as `byocir targets` needs no simulator.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from importlib import resources

import numpy as np

from byocir.targets.device import Device, DeviceRegion
from byocir.targets.loader import Runner
from byocir.targets.profile import Profile
from byocir.targets.vta_files import read_code, read_executable, symbols_of
from byocir.vta_sim import Executable, TimingModel
from byocir.vta_sim.timing import units_of


def runner_of(blobs: Mapping[str, bytes], *, check: bool) -> Runner:
    """Makes the runner of programs; with `check` it raises VTAError S2xx for one with hazards."""
    programs: dict[str, Executable] = {}

    def run(symbol: str, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        if symbol not in programs:
            programs[symbol] = read_executable(symbol, blobs)
        outputs, _ = programs[symbol].run(inputs, check=check)
        return outputs

    return run


def device_of(blobs: Mapping[str, bytes]) -> Device:
    """Gives the simulator's C core and the programs for it, each with the numbers of its
    configuration.
    """
    regions = {symbol: _device_region(symbol, blobs) for symbol in symbols_of(blobs)}
    folders = (resources.files("byocir.vta_sim"), resources.files("byocir.targets"))
    files = {
        file.name: file.read_bytes()
        for folder in folders
        for file in (folder / "native").iterdir()
        if file.name.endswith((".c", ".h"))
    }
    return Device(regions, files)


def profiles_of(blobs: Mapping[str, bytes]) -> list[Profile]:
    """Counts the cycles of each program."""
    return [_profile(symbol, blobs) for symbol in symbols_of(blobs)]


def _device_region(symbol: str, blobs: Mapping[str, bytes]) -> DeviceRegion:
    executable = read_executable(symbol, blobs)
    return DeviceRegion(
        read_code(symbol, blobs).insns.tobytes(),
        executable.image.tobytes(),
        executable.size,
        [(port.address, port.nbytes) for port in executable.inputs],
        [(port.address, port.nbytes) for port in executable.outputs],
        executable.program.config.device_numbers,
    )


def _profile(symbol: str, blobs: Mapping[str, bytes]) -> Profile:
    """Counts the busy cycles of each unit, by the nodes its instructions came from, and the cycles
    it waits.
    """
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
