"""Runs a saved model's C without the compiler, by plans that the user's cache keeps.

To run C one must know its text, how it is built, which weights it takes and in what order, and
which calls of regions it makes. All of that follows from the module. It is written down in the
user's cache folder when a package is run the first time, under a digest of the module's text and of
byocir's own sources. Packages hold no plans: what is built here comes from this byocir and never
out of somebody's file.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from base64 import b64decode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast

import ml_dtypes
import numpy as np
from safetensors import (
    SafetensorError,
    deserialize,
)

from byocir.evaluate.region_results import unexpected_results
from byocir.files import replaced
from byocir.memory import expect_memory
from byocir.runtime.c_function import WORKING_MEMORY, CFunction, CProgram, array_at
from byocir.runtime.interface import Interface
from byocir.runtime.records import read_as
from byocir.toolchain.build import cache_folder
from byocir.toolchain.calling import CEntry, aligned

_FORMAT = 1


@dataclass(frozen=True)
class ArrayType:
    """Holds the shape and the element type of an array, as numpy calls it: [1, 64], "float32"."""

    shape: list[int]
    dtype: str

    @property
    def numpy(self) -> np.dtype:
        return np.dtype(getattr(ml_dtypes, self.dtype, None) or self.dtype)

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.numpy.itemsize

    @staticmethod
    def of(shape: Sequence[int], dtype: np.dtype) -> ArrayType:
        """Gives the type of arrays of a shape and numpy dtype."""
        return ArrayType([*map(int, shape)], dtype.name)

    def takes(self, value: object) -> bool:
        """Tells if a value is an array of this type."""
        if not isinstance(value, np.ndarray):
            return False
        array = cast("np.ndarray[Any, Any]", value)
        return array.dtype == self.numpy and [*array.shape] == self.shape


@dataclass(frozen=True)
class RegionCall:
    """Describes a call of a region's code from C."""

    symbol: str
    inputs: list[ArrayType]
    outputs: list[ArrayType]


@dataclass(frozen=True)
class Constant:
    """Describes an array that the program takes: its digest among the package's weights or, if it
    is not among them, its bytes in base 64.
    """

    type: ArrayType
    digest: str
    data: str = ""


@dataclass(frozen=True)
class Plan:
    """Describes a program in C whose inputs and outputs have static shapes, and which calls nothing
    but regions. `interface` is that of the module; `constants` are in the order of the program's
    table."""

    interface: Interface
    name: str
    files: dict[str, str]
    cpu: str
    threads: int
    arena: int
    inputs: dict[str, ArrayType]
    outputs: dict[str, ArrayType]
    constants: list[Constant]
    calls: list[RegionCall]

    @property
    def nbytes(self) -> int:
        """Counts the bytes of all that the program works in, takes and gives."""
        ports = (*self.inputs.values(), *self.outputs.values())
        return self.arena + sum(t.nbytes for t in (*ports, *(c.type for c in self.constants)))

    @property
    def program(self) -> CProgram:
        """Gives the part that is built and called."""
        return CProgram(self.name, self.files, self.cpu, self.threads, self.arena)


Regions = Mapping[str, Any]
"""The functions that run regions, by symbol."""


class PlannedProgram:
    """Runs a plan. Not for several threads at once."""

    def __init__(self, plan: Plan, weights: bytes, regions: Regions) -> None:
        """Takes a plan and the package's weights, in the safetensors format. Raises ValueError for
        weights that are not the plan's.
        """
        expect_memory(plan.nbytes, WORKING_MEMORY)
        self._plan, self._regions = plan, regions
        constants = _constants(plan, weights)
        self._function = CFunction(plan.program, constants, self._region, self._entries)

    @property
    def lacking(self) -> list[str]:
        """Lists what the compiler did not know when it built the code."""
        return self._function.lacking

    def takes(self, feeds: object) -> bool:
        """Tells if feeds are exactly the inputs, as arrays of their exact types; others are for the
        evaluator, which knows what else may be fed, and words what may not.
        """
        if not isinstance(feeds, Mapping):
            return False
        given, inputs = cast("Mapping[Any, Any]", feeds), self._plan.inputs
        return given.keys() == inputs.keys() and all(
            type_.takes(given[name]) for name, type_ in inputs.items()
        )

    def run(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Computes outputs by name for inputs that it takes."""
        inputs = [np.ascontiguousarray(feeds[name]) for name in self._plan.inputs]
        outputs = {n: np.empty(t.shape, t.numpy) for n, t in self._plan.outputs.items()}
        self._function(inputs, [*outputs.values()])
        return outputs

    def _entries(self) -> list[CEntry | None]:
        return [self._regions[call.symbol].c_entry() for call in self._plan.calls]

    def _region(self, index: int, inputs: Any, outputs: Any) -> None:
        call = self._plan.calls[index]
        given = [array_at(inputs[i], t.shape, t.numpy) for i, t in enumerate(call.inputs)]
        made: Any = self._regions[call.symbol](given)
        made = [*made] if isinstance(made, (list, tuple)) else [made]
        fits = [type_.takes(value) for type_, value in zip(call.outputs, made, strict=False)]
        if len(made) != len(call.outputs) or not all(fits):
            wanted = [(type_.shape, type_.numpy) for type_ in call.outputs]
            raise unexpected_results(call.symbol, wanted, made)
        for i, (type_, value) in enumerate(zip(call.outputs, made, strict=True)):
            array_at(outputs[i], type_.shape, type_.numpy)[...] = value


def _constants(plan: Plan, weights: bytes) -> list[np.ndarray]:
    """Gives the program's constants at aligned addresses."""
    try:
        read = cast("list[tuple[str, dict[str, Any]]]", deserialize(weights))
    except SafetensorError as error:
        raise ValueError(f"expected weights in the safetensors format, found: {error}") from error
    entries = {key.split(" ")[0]: entry["data"] for key, entry in read}
    return [_constant(each, entries.get(each.digest, b"")) for each in plan.constants]


def _constant(constant: Constant, stored: Any) -> np.ndarray:
    type_ = constant.type
    flat = np.frombuffer(b64decode(constant.data) if constant.data else stored, np.uint8)
    if flat.size != type_.nbytes:
        raise ValueError(f"expected weights of {type_.nbytes} bytes, found {flat.size}")
    return aligned(flat.view(type_.numpy).reshape(type_.shape))


def kept_plan(module: bytes) -> Plan | None:
    """Reads the plan for a module's text, if this version of byocir kept one and its file is
    intact.
    """
    try:
        digest, _, text = _place(module).read_bytes().partition(b"\n")
        is_whole = hashlib.sha256(text).hexdigest().encode() == digest
        return read_as(Plan, json.loads(text), "plan") if is_whole else None
    except (OSError, ValueError):
        return None


def keep_plan(module: bytes, plan: Plan) -> None:
    """Writes the plan for a module's text, behind its digest, to the cache; does nothing where
    there is no room, or no permission.
    """
    place, text = _place(module), json.dumps(asdict(plan)).encode()
    with suppress(OSError):
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with replaced(place) as file:
            file.write(hashlib.sha256(text).hexdigest().encode() + b"\n" + text)


def _place(module: bytes) -> Path:
    digest = hashlib.sha256(f"{_FORMAT} {_own_sources()} ".encode() + module)
    return cache_folder() / f"plan-{digest.hexdigest()[:32]}.json"


@cache
def _own_sources() -> str:
    """Identifies byocir's own files by a digest of their names, sizes and times: other files may
    write another plan.
    """
    root = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for folder, folders, files in os.walk(root):
        folders.sort()
        for name in sorted(files):
            if name.endswith((".py", ".c", ".h")):
                status = os.stat(os.path.join(folder, name))
                digest.update(f"{folder} {name} {status.st_size} {status.st_mtime_ns}".encode())
    return digest.hexdigest()
