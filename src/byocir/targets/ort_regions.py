"""ONNX Runtime on regions: writes them as ONNX models, and runs these.

It is imported when code is generated or run: `byocir targets` needs no onnx.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from byocir.errors import ByocirError
from byocir.frontend.onnx.exporter import export_onnx
from byocir.frontend.onnx.reference import NotComputed
from byocir.targets.base import Runner
from byocir.targets.ort_session import Session


def models_of(module: ModuleOp, symbols: Sequence[str]) -> Mapping[str, bytes]:
    """Writes region functions as ONNX models, by the names of files."""
    functions = {op.sym_name.data: op for op in module.ops if isinstance(op, FuncOp)}
    return {f"{symbol}.onnx": _model(functions[symbol]) for symbol in symbols}


def _model(function: FuncOp) -> bytes:
    return export_onnx(function).SerializeToString(deterministic=True)


def runner_of(blobs: Mapping[str, bytes], *, optimise: bool, threads: int) -> Runner:
    """Runs such models. Raises ByocirError B370 to B372."""
    sessions: dict[str, Session] = {}

    def run(symbol: str, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        session = sessions.get(symbol)
        if session is None:
            model = _read(symbol, blobs)
            session = sessions[symbol] = _open(symbol, model, optimise=optimise, threads=threads)
        try:
            return session.run(dict(zip(session.inputs, inputs, strict=True)))
        except NotComputed as error:
            raise ByocirError("B372", f"expected region {symbol} to run, found: {error}") from error

    return run


def _read(symbol: str, blobs: Mapping[str, bytes]) -> onnx.ModelProto:
    content = blobs.get(f"{symbol}.onnx")
    try:
        if content is None:
            raise DecodeError("none")
        return onnx.load_model_from_string(content)
    except DecodeError as error:
        raise ByocirError(
            "B371",
            f"expected a model of region {symbol}, found: {error}",
            help="the package was changed or damaged: compile the model again",
        ) from error


def _open(symbol: str, model: onnx.ModelProto, *, optimise: bool, threads: int) -> Session:
    try:
        return Session(model, optimise=optimise, threads=threads)
    except NotComputed as error:
        raise ByocirError(
            "B370",
            f"expected ONNX Runtime to take region {symbol}, found: {error}",
            help="pip install 'byocir[ort]', or place what it does not take on the host",
        ) from error
