"""Reads programs in JSON as the objects that a runtime walks over.

| code | what is wrong |
| --- | --- |
| B361 | the program, or its file of constants, is not as byocir writes it |
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from byocir.dialects.array import Array, ArrayStore
from byocir.dialects.types import Shape, dtype_of, named_elements
from byocir.dialects.weights import read_weights
from byocir.errors import ByocirError
from byocir.targets.json.attributes import python_value
from byocir.targets.json.codegen import CONSTANTS, FORMAT, PROGRAM, VERSION

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Value:
    """Describes a tensor of a function: `type` is its element type as MLIR names it; `array` holds
    its numbers if it is a constant."""

    shape: Shape
    type: str
    array: np.ndarray | None = None

    @property
    def dtype(self) -> np.dtype:
        return dtype_of(named_elements()[self.type])


@dataclass(frozen=True, eq=False)
class Step:
    """Describes one op (`name` is "graph.conv", …) or one composite ("npu.conv_relu"), whose ops
    are `steps`.

    `inputs` are all that a kernel gets: of a composite first what comes from outside, then its
    `constants` in the order of the ops.
    """

    name: str
    nodes: tuple[str, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    input_types: tuple[Value, ...]
    output_types: tuple[Value, ...]
    typed: Json
    """An op's attributes as typed JSON."""
    steps: tuple[Step, ...]
    constants: Mapping[str, Array]

    @cached_property
    def attributes(self) -> Mapping[str, Any]:
        """Gives the op's attributes as plain values: numbers, texts, tuples, arrays."""
        return {name: python_value(data, self.constants) for name, data in self.typed.items()}


@dataclass(frozen=True)
class Function:
    """Describes a region function: steps over numbered values."""

    symbol: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    values: tuple[Value, ...]
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Program:
    """Holds all functions that a target got, by symbol."""

    functions: Mapping[str, Function]

    @staticmethod
    def read(blobs: Mapping[str, bytes]) -> Program:
        """Reads the program of a target's blobs. Raises ByocirError B361 or, for the constants,
        B108 and B122.
        """
        for name in (PROGRAM, CONSTANTS):
            if name not in blobs:
                raise ByocirError("B361", f"expected {name} in the package, found none")
        store = ArrayStore()
        read_weights(blobs[CONSTANTS], store, CONSTANTS)
        with _as_written():
            data = json.loads(blobs[PROGRAM])
            found = (data["format"], data["version"])
            if found != (FORMAT, VERSION):
                raise ValueError(f"{found[0]} of version {found[1]}, not {FORMAT} {VERSION}")
            constants = {digest: store.get(digest) for digest in data["constants"]}
            present = {digest: array for digest, array in constants.items() if array is not None}
            if len(present) != len(constants):
                raise ValueError(f"{len(constants) - len(present)} constants without numbers")
            if not isinstance(data["functions"], list):
                raise TypeError("no list of functions")
            functions = [_Reader(each, present).function() for each in data["functions"]]
            return Program({function.symbol: function for function in functions})


@contextmanager
def _as_written() -> Generator[None, None, None]:
    """Raises ByocirError B361 for any error that a wrong program causes inside."""
    try:
        yield
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
        raise ByocirError(
            "B361",
            f"expected {PROGRAM} as byocir writes it, found {type(error).__name__}: {error}",
            help="the package was changed or damaged: compile the model again",
        ) from error


class _Reader:
    """Reads one function; a step may use only values that were made before it."""

    def __init__(self, data: Json, constants: Mapping[str, Array]) -> None:
        self.data = data
        self.constants = constants
        self.values = tuple(map(self._value, data["values"]))
        self._known = {i for i, value in enumerate(self.values) if value.array is not None}

    def function(self) -> Function:
        inputs = self._indices(self.data["inputs"])
        self._known.update(inputs)
        steps = self._steps(self.data["steps"])
        outputs = self._used(self.data["outputs"], "the function's end")
        return Function(self.data["symbol"], inputs, outputs, self.values, steps)

    def _value(self, data: Json) -> Value:
        shape, type_ = tuple(map(int, data["shape"])), data["type"]
        if type_ not in named_elements() or min(shape, default=0) < 0:
            raise ValueError(f"a value of shape {list(shape)} and type {type_}")
        if "constant" not in data:
            return Value(shape, type_)
        array = self.constants[data["constant"]].values()
        value = Value(shape, type_, array)
        if (array.shape, array.dtype) != (shape, value.dtype):
            raise ValueError(f"constant {data['constant']} of shape {list(array.shape)}")
        return value

    def _steps(self, steps: Iterable[Json]) -> tuple[Step, ...]:
        return tuple(map(self._step, steps))

    def _step(self, data: Json) -> Step:
        name: str = data["composite"] if "composite" in data else data["op"]
        inputs = self._used([*data["inputs"], *data.get("constants", [])], name)
        steps = self._steps(data.get("steps", []))
        outputs = self._indices(data["outputs"])
        if not steps:
            self._known.update(outputs)
        return Step(
            name,
            tuple(data["nodes"]),
            inputs,
            self._used(outputs, name),
            tuple(self.values[i] for i in inputs),
            tuple(self.values[i] for i in outputs),
            data.get("attributes", {}),
            steps,
            self.constants,
        )

    def _indices(self, numbers: Sequence[int]) -> tuple[int, ...]:
        for number in numbers:
            if not 0 <= number < len(self.values):
                raise ValueError(f"value {number} of {len(self.values)}")
        return tuple(numbers)

    def _used(self, numbers: Sequence[int], where: str) -> tuple[int, ...]:
        """Checks that values are known where they are used, and gives their indices."""
        for number in self._indices(numbers):
            if number not in self._known:
                raise ValueError(f"value {number} used by {where} before it is there")
        return tuple(numbers)
