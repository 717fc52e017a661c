"""Reads VTA programs from the files of a package: SYMBOL.insns, SYMBOL.dram and SYMBOL.json.

The instructions, the start of DRAM with weights and micro-ops, and how to use them: configuration,
size of DRAM, places of inputs and outputs, and what each instruction was made for.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np

from byocir.errors import ByocirError
from byocir.vta_sim import Executable, Port, Program, VTAConfig, VTAError, disassemble
from byocir.vta_sim.isa import as_stream

MAX_DRAM = 2**32
"""Bytes that the accelerator can address."""


@dataclass(frozen=True)
class Code:
    """Holds the instructions of one program: `insns` uint8 [N, 16], the configuration they are
    encoded for, `spans` of instructions in a row that were made for the same nodes, and the nodes
    and tile of each instruction, `locations` (N strings).
    """

    insns: np.ndarray
    config: VTAConfig
    spans: list[tuple[int, str]]
    locations: list[str]


def read_code(symbol: str, blobs: Mapping[str, bytes]) -> Code:
    """Reads the instructions of a program. Raises ByocirError B330 when a file of the program is
    missing or holds something else.
    """
    with _as_written(symbol):
        interface = json.loads(_blob(symbol, "json", blobs))
        insns = as_stream(np.frombuffer(_blob(symbol, "insns", blobs), np.uint8))
        spans = [(count, ", ".join(nodes)) for count, nodes in interface["spans"]]
        counts = [count for count, _ in spans]
        if min(counts, default=0) < 0 or sum(counts) != len(insns):
            raise ValueError(f"names for {sum(counts)} of {len(insns)} instructions")
        locations = _locations(spans, interface.get("tiles", []))
        if len(locations) != len(insns):
            raise ValueError(f"tiles for {len(locations)} of {len(insns)} instructions")
        return Code(insns, VTAConfig.from_dict(interface["config"]), spans, locations)


def _locations(spans: list[tuple[int, str]], tiles: list[str]) -> list[str]:
    """Words the origin of each instruction: the nodes, and the tile if it was made in a loop."""
    nodes = [names for count, names in spans for _ in range(count)]
    runs = [run.split(" ", 1) for run in tiles]
    made_in = [f", tile {run[1]}" if run[1:] else "" for run in runs for _ in range(int(run[0]))]
    return [f"{names}{tile}" for names, tile in zip_longest(nodes, made_in, fillvalue="")]


def read_executable(symbol: str, blobs: Mapping[str, bytes]) -> Executable:
    """Reads a program, decoded and checked once, to be run many times. Raises ByocirError B330."""
    code = read_code(symbol, blobs)
    with _as_written(symbol):
        interface = json.loads(_blob(symbol, "json", blobs))
        image = np.frombuffer(_blob(symbol, "dram", blobs), np.uint8)
        size = interface["dram"]
        if not image.size <= size <= MAX_DRAM:
            raise ValueError(f"{size} bytes of DRAM")
        return Executable(
            Program(code.insns, code.config, locations=code.locations),
            image,
            size,
            [_read_port(port, size) for port in interface["inputs"]],
            [_read_port(port, size) for port in interface["outputs"]],
        )


def _read_port(data: Mapping[str, Any], dram: int) -> Port:
    """Reads a port. Raises ValueError for one that does not lie in a DRAM of so many bytes."""
    port = Port(data["address"], tuple(data["shape"]), np.dtype(data["dtype"]))
    sound = port.dtype.kind in "iu" and all(size >= 0 for size in port.shape)
    if not sound or not 0 <= port.bytes.start <= port.bytes.stop <= dram:
        raise ValueError(f"port {dict(data)} in {dram} bytes of DRAM")
    return port


def symbols_of(blobs: Mapping[str, bytes]) -> list[str]:
    """Lists the programs among some files."""
    return sorted(name.removesuffix(".json") for name in blobs if name.endswith(".json"))


def streams(blobs: Mapping[str, bytes]) -> dict[str, Code]:
    """Reads the instructions of each program, by symbol. Raises ByocirError B330."""
    return {symbol: read_code(symbol, blobs) for symbol in symbols_of(blobs)}


def assembly(blobs: Mapping[str, bytes]) -> dict[str, str]:
    """Writes each program's instructions as text, with the nodes they came from, by symbol."""
    return {
        symbol: "\n".join(disassemble(code.insns, code.config, code.locations)) + "\n"
        for symbol, code in streams(blobs).items()
    }


def _blob(symbol: str, extension: str, blobs: Mapping[str, bytes]) -> bytes:
    name = f"{symbol}.{extension}"
    if name not in blobs:
        raise ByocirError("B330", f"expected {name} in the package, found none")
    return blobs[name]


@contextmanager
def _as_written(symbol: str) -> Generator[None]:
    """Raises ByocirError B330 for any error that wrong files of a program cause inside."""
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError, VTAError) as error:
        raise ByocirError(
            "B330",
            f"expected program {symbol} as byocir writes it, found: {error}",
            help="the package was changed or damaged: compile the model again",
        ) from error
