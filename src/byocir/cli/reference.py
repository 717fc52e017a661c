"""Runs ONNX Runtime as a reference: graph optimisations off, one thread."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np

from byocir.errors import ByocirError
from byocir.runtime.golden import distance
from byocir.targets.ort_session import NoRuntime, Session
from byocir.vendor.engine import NotComputed

NEAR = 20
"""ONNX Runtime may be this part of the outputs' spread away: quantised models round where it does
not."""


def distances(array: np.ndarray, reference: np.ndarray) -> tuple[np.ndarray, float]:
    """Measures how far each element is from ONNX Runtime's, and how far it may be from it."""
    difference, spread = distance(array, reference)
    return difference, max(spread / NEAR, 1e-3)


def run_onnxruntime(
    model: Path, feeds: Iterable[Mapping[str, np.ndarray]]
) -> Iterator[dict[str, np.ndarray]]:
    """Runs a model with ONNX Runtime, for one feed after the other. Raises ByocirError B118
    when it is not installed, B119 when it cannot run the model."""
    try:
        session = Session(model)
        for feed in feeds:
            yield dict(zip(session.outputs, session.run(feed), strict=True))
    except NoRuntime as error:
        raise ByocirError(
            "B118", "onnxruntime is not installed", help="pip install 'byocir[ort]'"
        ) from error
    except NotComputed as error:
        raise ByocirError(
            "B119",
            f"expected a model that ONNX Runtime runs, found: {error}",
            where=str(model),
            help="without --verify the model runs without ONNX Runtime",
        ) from error
