"""What an exported project needs of an accelerator: its programs, and a device to run them on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class DeviceRegion:
    """A region as the accelerator's program. The device's memory of `memory_bytes` begins with
    `image`; inputs and outputs are (address, bytes) in it. `config` says what `code` was made for,
    as numbers of 32 bits."""

    code: bytes
    image: bytes
    memory_bytes: int
    inputs: Sequence[tuple[int, int]]
    outputs: Sequence[tuple[int, int]]
    config: Sequence[int]


@dataclass(frozen=True)
class Device:
    """Regions by symbol, and C99 files by name, one of which defines the five functions of
    `device.h`."""

    regions: Mapping[str, DeviceRegion]
    files: Mapping[str, bytes]
