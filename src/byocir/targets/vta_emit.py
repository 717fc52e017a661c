"""Writes VTA programs as the files of a package, which `vta_files` reads."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from byocir.dialects.vta import VTA, ProgramOp
from byocir.dialects.vta_config import config_of
from byocir.lowering.tir_to_vta.described import Step, program_of_steps
from byocir.patterns.targets import machine_name, targets_of
from byocir.vta_sim import Port


def files_of_steps(function: FuncOp, steps: Sequence[Step]) -> dict[str, bytes]:
    """Writes the program of a machine that describes VTA as files: its `assemble` hook. Where the
    host would have to pack arrays for it, there are none."""
    laid_out = all(step.is_laid_out for step in steps)
    return files_of(program_of_steps(function, steps)) if laid_out else {}


def files_of(program: ProgramOp) -> dict[str, bytes]:
    """Writes a program as files."""
    symbol = program.sym_name.data
    interface: dict[str, Any] = {
        "config": config_of(program).to_dict(),
        "dram": program.dram.value.data,
        "inputs": [_port(port.place) for port in program.inputs],
        "outputs": [_port(port.place) for port in program.outputs],
        "spans": [[span.count.data, list(span.names)] for span in program.spans],
        "tiles": _tiles(program),
    }
    return {
        f"{symbol}.insns": program.insns.data.values().tobytes(),
        f"{symbol}.dram": program.image.data.values().tobytes(),
        f"{symbol}.json": json.dumps(interface, indent=1, sort_keys=True).encode(),
    }


def _port(port: Port) -> dict[str, Any]:
    return {"address": port.address, "shape": list(port.shape), "dtype": port.dtype.name}


def _tiles(program: ProgramOp) -> list[str]:
    """Lists runs of instructions made in the same loop iterations: their count and the loops'
    indices.
    """
    if program.tiles is None:
        return []
    rows: list[list[int]] = program.tiles.data.values().tolist()
    runs = [(list(run), tile) for tile, run in groupby(rows)]
    return [" ".join(map(str, [len(run), *(i for i in tile if i >= 0)])) for run, tile in runs]


def programs_of(module: ModuleOp, blobs: Mapping[str, Mapping[str, bytes]]) -> Mapping[str, bytes]:
    """Finds the files of all programs for VTA among those of a package, whatever its targets are
    called; a machine that describes VTA has them beside others.
    """
    built_in = {t.target_name.data for t in targets_of(module) if machine_name(t) == VTA}
    found: dict[str, bytes] = {}
    for target, files in blobs.items():
        symbols = {name.rpartition(".")[0] for name in files if name.endswith(".insns")}
        own = {f"{symbol}.{kind}" for symbol in symbols for kind in ("insns", "dram", "json")}
        found |= {n: blob for n, blob in files.items() if target in built_in or n in own}
    return found
