"""What is replayed: nets and single programs, as files that every commit compiles.

Models are ONNX files; programs are modules at one level, as text with their constants beside it.
They are made once, by the working tree, so that both sides are given the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nets.classic_nets import FULL, NETS, Scale
from nets.int8_nets import quantised_net

from byocir.dialects.text import print_module
from byocir.dialects.weights import dump_weights
from byocir.targets.vta import Vta
from byocir.testing import find_match

EXAMPLES = Path(__file__).parents[2] / "examples"
SMALL = Scale(48, 4, 2)
"""A quarter of the channels: still several tiles a layer."""
CLASSIC = ("ResNet-18", "MobileNetV2", "SSD", "encoder")
LARGE = ("ResNet-18", "MobileNetV2", "ResNet-50")
SETTINGS = ("symmetric", "u8u8")
"""How nets are quantised: without zero points, and with them everywhere."""
HOST, TEAM = "c{cpu=x86-64-v3}", "c{cpu=x86-64-v4,threads=2}"
SEEDS = {
    **{"conv": 0, "dense": 0, "product": 0, "add": 1, "max_pool": 0, "avg_pool": 0},
    **{"requantize": 0, "contraction": 4, "window_max": 0, "window_sum": 3},
    **{"elementwise": 0, "bound": 0},
}
"""The twelve programs: of which of VTA's patterns, and a seed whose program has code."""


@dataclass(frozen=True)
class Job:
    """One compilation. `targets` are names, or files below the root of the commit (`FILE:Class`);
    `files` are what it reads, by name: the first one is the model."""

    name: str
    files: dict[str, bytes]
    targets: tuple[str, ...] = ("vta",)
    host: str = HOST
    options: dict[str, Any] = field(default_factory=dict[str, Any])

    def told(self) -> dict[str, Any]:
        """What the process that compiles is told, as plain data."""
        return {
            "name": self.name,
            "model": next(iter(self.files)),
            "targets": self.targets,
            "host": self.host,
            "options": self.options,
        }


def corpus(*, full: bool) -> Iterator[Job]:
    """All that is compiled; with `full`, nets in full size alone, which takes minutes."""
    if full:
        yield from _large()
        return
    yield from _digits()
    for name in CLASSIC:
        file = f"{name}.onnx"
        yield Job(f"{name}, host", {file: NETS[name](SMALL)}, (), TEAM)
        for setting in SETTINGS:
            model = quantised_net(name, setting, "QDQ", SMALL)
            yield Job(f"{name} {setting}", {f"{name} {setting}.onnx": model})
        yield Job(f"{name} {SETTINGS[-1]}, host", {f"{name} {setting}.onnx": model}, (), TEAM)
    yield from _programs()


def _digits() -> Iterator[Job]:
    shapes = {"shapes": {"image": (1, 1, 8, 8)}}
    for path in sorted((EXAMPLES / "digits").glob("*.onnx")):
        yield Job(path.stem, {path.name: path.read_bytes()}, options=shapes)
    path = EXAMPLES / "digits" / "digits_f32.onnx"
    tiled = "examples/tile_npu.py:Tile"
    yield Job("digits_f32, tile_npu", {path.name: path.read_bytes()}, (tiled,), options=shapes)
    path, gemmini = path.with_name("digits_int8.onnx"), "examples/gemmini_pools.py:Gemmini"
    at = {**shapes, "levels": ("tensor",)}
    yield Job("digits_int8, gemmini", {path.name: path.read_bytes()}, (gemmini,), options=at)


def _large() -> Iterator[Job]:
    for name in LARGE:
        for how, per_channel in (("tensor", False), ("channel", True)):
            model = quantised_net(name, "symmetric", "QDQ", FULL, per_channel=per_channel)
            yield Job(f"{name} per {how}", {f"{name} per {how}.onnx": model})


def _programs() -> Iterator[Job]:
    known = {composite.name: composite for composite in Vta().composites()}
    for pattern, seed in SEEDS.items():
        found = find_match(known[pattern], seed)
        assert found is not None, f"no program for {pattern} from seed {seed}"
        files = {
            f"{pattern}.mlir": print_module(found.module).encode(),
            f"{pattern}.safetensors": dump_weights(found.module),
        }
        yield Job(f"program {pattern}", files)
