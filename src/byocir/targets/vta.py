"""The built-in accelerator: VTA, with a simulator as its device."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby, zip_longest
from typing import Any, Literal

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from byocir.dialects.vta import ProgramOp
from byocir.dialects.vta.config import config_of
from byocir.errors import ByocirError
from byocir.targets.base import Point, Profile, Runner, Target
from byocir.targets.vta_patterns import PATTERNS
from byocir.vta_sim import Program, VTAConfig, VTAError, disassemble
from byocir.vta_sim.isa import as_stream
from byocir.vta_sim.timing import units_of

LOWERING = (
    "vta-legalise,vta-pack,clean-up,vta-bufferize,vta-tile,vta-stage,"
    "vta-tensorise,vta-insert-tokens,vta-encode"
)
ROUNDINGS = ("half_up", "half_even")

BLOCKS = (1, 2, 4, 8, 16, 32, 64)
"""Sides of the GEMM unit whose instructions can be encoded when the buffers grow with the block."""

MAX_DRAM = 2**32
"""Bytes that the accelerator can address."""


@dataclass(frozen=True)
class Vta(Target):
    """VTA: load, gemm, alu and store units around int8 and int32 scratchpads.

    `rounding` is how requantisation treats ties: "half_up" takes one addition and a shift,
    "half_even" seven more ALU instructions. `block` is the side of the GEMM unit.
    """

    name = "vta"
    patterns = PATTERNS
    codegen_level = "tensor"

    rounding: str = "half_up"
    block: int = 16

    def __post_init__(self) -> None:
        if self.rounding not in ROUNDINGS:
            raise ValueError(f"expected rounding half_up or half_even, found {self.rounding!r}")
        if self.block not in BLOCKS:
            raise ValueError(f"expected block among {BLOCKS}, found {self.block}")

    @property
    def fixed_point(self) -> Literal["half_up", "half_even"]:
        return "half_even" if self.rounding == "half_even" else "half_up"

    def passes(self, point: Point) -> Sequence[str]:
        return (LOWERING,) if point == "after-lowering" else ()

    def emit(self, module: ModuleOp, symbols: Sequence[str]) -> Mapping[str, bytes]:
        blobs: dict[str, bytes] = {}
        for op in module.body.block.ops:
            if isinstance(op, ProgramOp) and op.sym_name.data in symbols:
                blobs.update(_blobs(op))
        return blobs

    def load(self, blobs: Mapping[str, bytes]) -> Runner:
        return _runner(blobs, check=False)

    def load_checked(self, blobs: Mapping[str, bytes]) -> Runner:
        """Raises VTAError S2xx for a program with hazards."""
        return _runner(blobs, check=True)

    def profile(self, blobs: Mapping[str, bytes]) -> Sequence[Profile]:
        symbols = [name.removesuffix(".json") for name in blobs if name.endswith(".json")]
        return [_Loaded.read(symbol, blobs).profile() for symbol in sorted(symbols)]


@dataclass(frozen=True)
class Code:
    """The instructions of one program (uint8 [N, 16]), what they are encoded for, and the nodes
    that each came from (N strings)."""

    insns: np.ndarray
    config: VTAConfig
    locations: list[str]

    @staticmethod
    def read(symbol: str, blobs: Mapping[str, bytes]) -> Code:
        """Raises ByocirError B330 when a file of the program is missing or holds something else."""
        with _as_written(symbol):
            interface = json.loads(_blob(symbol, "json", blobs))
            insns = as_stream(np.frombuffer(_blob(symbol, "insns", blobs), np.uint8))
            counts = [count for count, _ in interface["spans"]]
            if min(counts, default=0) < 0 or sum(counts) != len(insns):
                raise ValueError(f"names for {sum(counts)} of {len(insns)} instructions")
            names = [", ".join(nodes) for _, nodes in interface["spans"]]
            locations = [name for n, name in zip(counts, names, strict=True) for _ in range(n)]
            return Code(insns, VTAConfig.from_dict(interface["config"]), locations)


@contextmanager
def _as_written(symbol: str) -> Generator[None, None, None]:
    """Whatever is wrong with the files of a program is one user error."""
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError, VTAError) as error:
        raise ByocirError(
            "B330",
            f"expected program {symbol} as byocir writes it, found: {error}",
            help="the package was changed or damaged: compile the model again",
        ) from error


def streams(blobs: Mapping[str, bytes]) -> dict[str, Code]:
    """The instructions of each program, by symbol."""
    symbols = sorted(name.removesuffix(".json") for name in blobs if name.endswith(".json"))
    return {symbol: Code.read(symbol, blobs) for symbol in symbols}


def assembly(blobs: Mapping[str, bytes]) -> dict[str, str]:
    """Each program's instructions as text, with the nodes they came from, by symbol."""
    return {
        symbol: "\n".join(disassemble(code.insns, code.config, code.locations)) + "\n"
        for symbol, code in streams(blobs).items()
    }


def _blob(symbol: str, extension: str, blobs: Mapping[str, bytes]) -> bytes:
    name = f"{symbol}.{extension}"
    if name not in blobs:
        raise ByocirError("B330", f"expected {name} in the package, found none")
    return blobs[name]


def _runner(blobs: Mapping[str, bytes], *, check: bool) -> Runner:
    programs: dict[str, _Loaded] = {}

    def run(symbol: str, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        if symbol not in programs:
            programs[symbol] = _Loaded.read(symbol, blobs)
        return programs[symbol].run(inputs, check=check)

    return run


def _blobs(program: ProgramOp) -> dict[str, bytes]:
    """A program as files: instructions, the start of DRAM, and how to use them."""
    symbol = program.sym_name.data
    interface: dict[str, Any] = {
        "config": config_of(program).to_dict(),
        "dram": program.dram.value.data,
        "inputs": [_port(port) for port in program.inputs],
        "outputs": [_port(port) for port in program.outputs],
        "spans": [[span.count.data, list(span.names)] for span in program.spans],
        "tiles": _tiles(program),
    }
    return {
        f"{symbol}.insns": program.insns.data.values().tobytes(),
        f"{symbol}.dram": program.image.data.values().tobytes(),
        f"{symbol}.json": json.dumps(interface, indent=1, sort_keys=True).encode(),
    }


def _tiles(program: ProgramOp) -> list[str]:
    """Runs of instructions made in the same loop iterations: their count and the loops' indices."""
    if program.tiles is None:
        return []
    rows: list[list[int]] = program.tiles.data.values().tolist()
    runs = [(list(run), tile) for tile, run in groupby(rows)]
    return [" ".join(map(str, [len(run), *(i for i in tile if i >= 0)])) for run, tile in runs]


def _locations(interface: Mapping[str, Any]) -> list[str]:
    """Where each instruction came from: the nodes, and the tile if it was made in a loop."""
    nodes = [", ".join(names) for count, names in interface["spans"] for _ in range(count)]
    runs = [run.split(" ", 1) for run in interface.get("tiles", [])]
    tiles = [f", tile {run[1]}" if run[1:] else "" for run in runs for _ in range(int(run[0]))]
    return [f"{names}{tile}" for names, tile in zip_longest(nodes, tiles, fillvalue="")]


def _port(port: Any) -> dict[str, Any]:
    return {"address": port.address.data, "shape": list(port.shape), "dtype": port.dtype.name}


@dataclass(frozen=True)
class _Port:
    address: int
    shape: tuple[int, ...]
    dtype: np.dtype

    @staticmethod
    def read(data: Mapping[str, Any], dram: int) -> _Port:
        """Raises ValueError for a port that does not lie in a DRAM of so many bytes."""
        port = _Port(data["address"], tuple(data["shape"]), np.dtype(data["dtype"]))
        sound = port.dtype.kind in "iu" and all(size >= 0 for size in port.shape)
        if not sound or not 0 <= port.bytes.start <= port.bytes.stop <= dram:
            raise ValueError(f"port {dict(data)} in {dram} bytes of DRAM")
        return port

    @property
    def bytes(self) -> slice:
        size = int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize
        return slice(self.address, self.address + size)


@dataclass(frozen=True)
class _Loaded:
    """A program ready to run: decoded once, run many times."""

    symbol: str
    program: Program
    dram: np.ndarray
    inputs: list[_Port]
    outputs: list[_Port]
    spans: list[tuple[int, tuple[str, ...]]]

    @staticmethod
    def read(symbol: str, blobs: Mapping[str, bytes]) -> _Loaded:
        """Raises ByocirError B330 when a file of the program is missing or holds something else."""
        with _as_written(symbol):
            return _Loaded._read(symbol, blobs)

    @staticmethod
    def _read(symbol: str, blobs: Mapping[str, bytes]) -> _Loaded:
        interface = json.loads(_blob(symbol, "json", blobs))
        insns = as_stream(np.frombuffer(_blob(symbol, "insns", blobs), np.uint8))
        image = np.frombuffer(_blob(symbol, "dram", blobs), np.uint8)
        size = interface["dram"]
        if not image.size <= size <= MAX_DRAM:
            raise ValueError(f"{size} bytes of DRAM")
        dram = np.zeros(size, np.uint8)
        dram[: image.size] = image
        return _Loaded(
            symbol,
            Program(
                insns,
                VTAConfig.from_dict(interface["config"]),
                locations=_locations(interface),
            ),
            dram,
            [_Port.read(port, size) for port in interface["inputs"]],
            [_Port.read(port, size) for port in interface["outputs"]],
            [(count, tuple(nodes)) for count, nodes in interface["spans"]],
        )

    def run(self, inputs: Sequence[np.ndarray], *, check: bool = False) -> list[np.ndarray]:
        dram = self.dram.copy()
        for port, array in zip(self.inputs, inputs, strict=True):
            dram[port.bytes] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        after = self.program.run(dram, check=check).dram
        return [after[p.bytes].view(p.dtype).reshape(p.shape) for p in self.outputs]

    def profile(self) -> Profile:
        """Busy cycles of each unit, by the nodes its instructions came from, and its waits."""
        timeline = self.program.timeline
        spent = timeline.worked
        units = units_of(self.program.decoded)
        busy: Counter[tuple[str, str]] = Counter()
        first = 0
        for count, nodes in self.spans:
            rows = slice(first, first + count)
            for unit, chosen in units.items():
                busy[", ".join(nodes), unit] += int(spent[rows][chosen[rows]].sum())
            first += count
        config = self.program.config
        macs = config.batch * config.block_in * config.block_out
        return Profile(
            self.symbol,
            timeline.cycles,
            [(node, unit, cycles) for (node, unit), cycles in busy.items() if cycles],
            {unit: times.to_dict() for unit, times in timeline.units.items()},
            timeline.bounds,
            {
                "padded_macs": self.program.counters.gemm_counter * macs,
                "instructions": len(spent),
                "energy_pj": round(self.program.energy.total),
            },
        )
