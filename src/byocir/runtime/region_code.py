"""Defines how the host's program calls the code of a region."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from byocir.errors import ByocirError
from byocir.runtime.report import Region
from byocir.targets.loader import Runner
from byocir.toolchain.calling import CEntry
from byocir.vendor.blame import place_in_class


@dataclass(frozen=True)
class RegionCode:
    """Holds the code of a region, as a function from its inputs to its outputs."""

    runner: Runner
    region: Region

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        """Runs the code; errors name the nodes that it computes."""
        with self._located():
            return self.runner(self.region.symbol, inputs)

    def c_entry(self) -> CEntry | None:
        """Gives the C function of this code, ready to be called, if it is one and runs in this
        process; errors name the nodes that it computes.
        """
        find = getattr(self.runner, "c_entry", None)
        if find is None:
            return None
        with self._located():
            entry: object = find(self.region.symbol)
        if isinstance(entry, CEntry | None):
            return entry
        raise ByocirError(
            "B228",
            f"expected c_entry of target '{self.region.target}' to give a CEntry or None, found "
            f"{type(entry).__name__}",
            where=place_in_class(type(self.runner), "c_entry"),
        )

    @contextmanager
    def _located(self) -> Generator[None]:
        try:
            yield
        except ByocirError as error:
            nodes = ", ".join(self.region.nodes)
            # The error already has a place, such as a line of the target's own code.
            if error.where:
                error.within(f"region {self.region.symbol} of {nodes}")
            error.at(nodes)
            raise
