"""Defines the code of a region as the host's program calls it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from byocir.errors import ByocirError
from byocir.runtime.report import Region
from byocir.targets.loader import Runner
from byocir.toolchain.calling import CEntry


@dataclass(frozen=True)
class RegionCode:
    """The code of a region, as a function from its inputs to its outputs."""

    runner: Runner
    region: Region

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        """Runs the code; errors say of which nodes."""
        try:
            return self.runner(self.region.symbol, inputs)
        except ByocirError as error:
            error.at(", ".join(self.region.nodes))
            raise

    def c_entry(self) -> CEntry | None:
        """Gives the C function that this code is, if it runs in this process and is one. None, too,
        where it cannot be made ready: calling it says why."""
        find = getattr(self.runner, "c_entry", None)
        try:
            entry: object = find(self.region.symbol) if find is not None else None
        except ByocirError:
            return None
        if isinstance(entry, CEntry | None):
            return entry
        raise ByocirError(
            "B228",
            f"expected c_entry of target '{self.region.target}' to give a CEntry or None, found "
            f"{type(entry).__name__}",
        )
