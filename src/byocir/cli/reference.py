"""ONNX Runtime as a reference: graph optimisations off, one thread."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from byocir.errors import ByocirError


def run_onnxruntime(
    model: Path, feeds: Iterable[Mapping[str, np.ndarray]]
) -> Iterator[dict[str, np.ndarray]]:
    """What ONNX Runtime makes of a model, for one feed after the other. Raises ByocirError B118
    when it is not installed, B119 when it cannot run the model."""
    try:
        ort: Any = import_module("onnxruntime")
    except ImportError as error:
        raise ByocirError(
            "B118", "onnxruntime is not installed", help="pip install 'byocir[ort]'"
        ) from error
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    with _told(model):
        session = ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    names: list[str] = [output.name for output in session.get_outputs()]
    for feed in feeds:
        with _told(model):
            outputs = session.run(names, dict(feed))
        yield dict(zip(names, outputs, strict=True))


@contextmanager
def _told(model: Path) -> Generator[None]:
    """What ONNX Runtime raises has no class of its own."""
    try:
        yield
    except Exception as error:
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise ByocirError(
            "B119",
            f"expected a model that ONNX Runtime runs, found: {reason[0]}",
            where=str(model),
            help="without --verify the model runs without ONNX Runtime",
        ) from error
