"""Runs what the toolkit made, for targets whose toolkit reads ONNX.

| code | what is wrong |
| --- | --- |
| B371 | a region's model is missing or damaged |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from byocir.errors import ByocirError
from byocir.targets.loader import Loader, Runner

Opened = Callable[[Sequence[np.ndarray]], Sequence[np.ndarray]]
"""Runs a region: its inputs in order give its outputs in order."""


@dataclass(frozen=True)
class OnnxLoader(Loader):
    """Opens each region of a package, and runs it."""

    suffix: ClassVar[str] = "onnx"
    """The last part of the names of what `build` makes, in packages."""

    def open(self, symbol: str, built: bytes) -> Opened:
        """Opens what `build` made, once in a process, when the region is first run. Gives a
        function of the region's inputs, which it must not write, that gives the outputs.
        """
        raise NotImplementedError(f"{type(self).__name__} does not say how its regions run")

    def load(self, blobs: Mapping[str, bytes]) -> Runner:
        """Makes the runner of all regions of a package. Raises ByocirError B371 for a region whose
        model the package lacks.
        """
        opened: dict[str, Opened] = {}

        def run(symbol: str, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
            region = opened.get(symbol)
            if region is None:
                built = blobs.get(f"{symbol}.{self.suffix}")
                if built is None:
                    raise damaged(symbol, "none")
                region = opened[symbol] = self.open(symbol, built)
            return [*region(inputs)]

        return run


def damaged(symbol: str, found: object) -> ByocirError:
    """Makes the error for a region's model that is missing or is no model."""
    return ByocirError(
        "B371",
        f"expected a model of region {symbol}, found: {found}",
        help="the package was changed or damaged: compile the model again",
    )
