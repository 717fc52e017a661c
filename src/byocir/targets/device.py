"""Defines what a target gives to an exported project: programs and a device to run them on, or
C.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from byocir.toolchain import Libraries

ARRAYS = "const void *const *inputs, void *const *outputs"
"""The parameters of each function: arrays in row-major order; outputs are there to be filled."""


@dataclass(frozen=True)
class DeviceRegion:
    """Describes a region compiled to the accelerator's program. The device's memory of
    `memory_bytes` begins with `image`; inputs and outputs are (address, bytes) in it. `config`
    describes the accelerator for which `code` was made, as numbers of 32 bits.
    """

    code: bytes
    image: bytes
    memory_bytes: int
    inputs: Sequence[tuple[int, int]]
    outputs: Sequence[tuple[int, int]]
    config: Sequence[int]


@dataclass(frozen=True)
class Device:
    """Holds regions by symbol, and C99 files by name, one of which defines the five functions of
    `device.h`. The files are the same for all models.
    """

    regions: Mapping[str, DeviceRegion]
    files: Mapping[str, bytes]


@dataclass(frozen=True)
class CFunctions:
    """Holds regions as functions in C99, for targets without a device, such as those that call a
    vendor's library.

    `functions` are the names by symbol of functions that `source` defines, each of them
    `int NAME(const void *const *inputs, void *const *outputs)`: it fills the outputs, arrays in
    row-major order as all are, and gives 0, or another number on failure. `files` are what
    `source` includes and calls, C99 by name, the same for all models.

    With `data`, one for each symbol, a region has a state: `source` defines
    `int NAME_open(void **state, const void *data)`, called once before NAME, which then is
    `int NAME(void *state, const void *const *inputs, void *const *outputs)`, and
    `void NAME_close(void *state)`, called once for a state that is not NULL. The data stays where
    it is until then.

    `libraries` is what the program is linked with.

    A project renames `functions`. Other names that files define for each other should begin with
    the target's name, or be static, as in any C library.
    """

    functions: Mapping[str, str]
    source: bytes
    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    data: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    libraries: Libraries | None = None


def c_name(symbol: str) -> str:
    """Converts a symbol to a name in C."""
    return re.sub(r"\W", "_", symbol, flags=re.ASCII)
