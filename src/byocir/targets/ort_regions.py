"""ONNX Runtime on regions. It is imported when one is run: `byocir targets` needs no onnx."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from google.protobuf.message import DecodeError

from byocir.errors import ByocirError
from byocir.frontend.onnx.reference import NotComputed
from byocir.targets.onnx import Opened, damaged
from byocir.targets.ort_session import Session


def opened(symbol: str, model: bytes, *, optimise: bool, threads: int) -> Opened:
    """Opens the model of a region in ONNX Runtime. Raises ByocirError B370 to B372."""
    try:
        session = Session(onnx.load_model_from_string(model), optimise=optimise, threads=threads)
    except DecodeError as error:
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
