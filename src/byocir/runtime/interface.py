"""Describes a module in a package's manifest, so that the module itself need not be read.

| code | what is wrong |
| --- | --- |
| B120 | an input or output whose type is none |
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from byocir.errors import ByocirError
from byocir.runtime.records import read_as

if TYPE_CHECKING:
    import numpy as np

    from byocir.dialects.byoc import TargetAttr

_TENSOR = re.compile(r"tensor<(?:\*x|((?:(?:\d+|\?)x)*))([a-zA-Z]\w*|complex<f\d+>|![\w.]+)>")
_NUMBER = re.compile(r"(u?i|f|bf|complex<f)(\d+)(\w*)>?")
_KINDS = {"i": "int", "ui": "uint", "f": "float", "bf": "bfloat", "complex<f": "complex"}


@dataclass(frozen=True)
class ValueType:
    """Holds the type of an input or output, with the text that MLIR writes for it:
    `tensor<1x?xf32>`."""

    text: str

    def __post_init__(self) -> None:
        if self.text.startswith("tensor<") and not _TENSOR.fullmatch(self.text):
            raise ByocirError("B120", f"expected the type of an array, found {self.text}")

    def __str__(self) -> str:
        return self.text

    @property
    def shape(self) -> tuple[int | None, ...] | None:
        """Gives the sizes of an array, None for each that only a run tells; None of values that are
        no arrays, and of arrays of any rank."""
        found = _TENSOR.fullmatch(self.text)
        if found is None or found[1] is None:
            return None
        sizes = found[1].split("x")[:-1]
        return tuple(None if size == "?" else int(size) for size in sizes)

    @property
    def dtype(self) -> np.dtype | None:
        """Gives the numpy dtype of an array of numbers; None of other values."""
        import ml_dtypes
        import numpy as np

        tensor = _TENSOR.fullmatch(self.text)
        number = _NUMBER.fullmatch(tensor[2]) if tensor else None
        if number is None:
            return None
        kind, width, variant = number.groups()
        width = int(width) * (2 if kind == "complex<f" else 1)
        name = "bool" if number[0] == "i1" else f"{_KINDS[kind]}{width}"
        name += f"_{variant.lower()}" if variant else ""
        return np.dtype(getattr(ml_dtypes, name, None) or name)


def types_of(texts: Mapping[str, str]) -> dict[str, ValueType]:
    """Reads types by name. Raises ByocirError B120 for a text that is no type."""
    return {name: ValueType(text) for name, text in texts.items()}


@dataclass(frozen=True)
class SavedTarget:
    """Holds the name of a target, with its options."""

    name: str
    options: dict[str, Any]


@dataclass(frozen=True)
class Interface:
    """Lists the names and types of a model's inputs and outputs, in order, types as MLIR writes
    them, and the targets that it was compiled for, in order of preference."""

    inputs: dict[str, str]
    outputs: dict[str, str]
    targets: list[SavedTarget]

    @staticmethod
    def read(manifest: Mapping[str, Any]) -> Interface:
        """Reads the interface that `to_dict` wrote. Raises ValueError for anything else."""
        return read_as(Interface, manifest, "manifest")

    def target_attributes(self) -> list[TargetAttr]:
        """Gives the targets as a module names them. Raises ValueError for options that no module
        can carry.
        """
        from byocir.patterns.targets import saved_target

        return [saved_target(target.name, target.options) for target in self.targets]

    def to_dict(self) -> dict[str, Any]:
        """Gives plain data for the manifest."""
        return asdict(self)
