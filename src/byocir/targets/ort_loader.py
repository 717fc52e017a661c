"""Runs the regions of the `ort` target, in sessions of ONNX Runtime.

| code | what is wrong |
| --- | --- |
| B370 | ONNX Runtime is not installed, or does not take a region |
| B371 | a region's model is missing or damaged |
| B372 | a region cannot be run on these values |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from byocir.errors import ByocirError
from byocir.targets.onnx_loader import OnnxLoader, Opened, damaged
from byocir.vendor.engine import NotComputed


@dataclass(frozen=True)
class OrtLoader(OnnxLoader):
    """Runs regions by ONNX Runtime."""

    name = "ort"

    optimise: bool = False
    threads: int = 1

    def __post_init__(self) -> None:
        if self.threads < 1:
            raise ValueError(f"expected threads of at least 1, found {self.threads}")

    def open(self, symbol: str, built: bytes) -> Opened:
        return _opened(symbol, built, optimise=self.optimise, threads=self.threads)


def _opened(symbol: str, model: bytes, *, optimise: bool, threads: int) -> Opened:
    """Opens the model of a region in ONNX Runtime. Raises ByocirError B370 to B372."""
    from byocir.targets.ort_session import NoModel, Session

    try:
        session = Session(model, optimise=optimise, threads=threads)
    except NoModel as error:
        raise damaged(symbol, error) from error
    except NotComputed as error:
        raise ByocirError(
            "B370",
            f"expected ONNX Runtime to take region {symbol}, found: {error}",
            help="pip install 'byocir[ort]', or place what it does not take on the host",
        ) from error

    def run(inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        try:
            return session.run(dict(zip(session.inputs, inputs, strict=True)))
        except NotComputed as error:
            raise ByocirError("B372", f"expected region {symbol} to run, found: {error}") from error

    return run
