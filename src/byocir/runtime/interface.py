"""The part of a package's manifest that describes its module, so that nobody has to read that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from byocir.runtime.records import read_as


@dataclass(frozen=True)
class SavedTarget:
    """A target by name, with its options."""

    name: str
    options: dict[str, Any]


@dataclass(frozen=True)
class Interface:
    """Names and types of a model's inputs and outputs, in order, types as MLIR writes them, and the
    targets that it was compiled for, in order of preference."""

    inputs: dict[str, str]
    outputs: dict[str, str]
    targets: list[SavedTarget]

    @staticmethod
    def read(manifest: Mapping[str, Any]) -> Interface:
        """The interface that `to_dict` wrote. Raises ValueError for what is none."""
        return read_as(Interface, manifest, "manifest")

    def to_dict(self) -> dict[str, Any]:
        """Plain data for the manifest."""
        return asdict(self)
