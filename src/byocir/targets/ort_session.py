"""Wraps sessions of ONNX Runtime, with types. It is imported when a session is opened, and imports
no onnx.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from threading import current_thread, main_thread
from typing import TYPE_CHECKING, Any, cast

import ml_dtypes
import numpy as np

from byocir.errors import ByocirError
from byocir.vendor.engine import NotComputed, as_value

if TYPE_CHECKING:
    import onnx

LOOP = b"Loop"
"""The operator that need not end, as the bytes of a model name it."""
BYTES = "tensor(float8"
"""Begins the types of floats that ONNX Runtime gives as unsigned integers."""


FAILING = ["FuseReluClip"]
"""Graph optimisations that refuse models which they should leave as they are: that of Relu and Clip
one of integers or doubles ("Unexpected data type for Clip 'min' input")."""


class NoRuntime(NotComputed):
    """Tells that ONNX Runtime is not installed."""


class NoModel(NotComputed):
    """Tells that bytes are not an ONNX model."""


def not_installed() -> ByocirError:
    """Makes the error B118 that ONNX Runtime is not installed."""
    return ByocirError("B118", "onnxruntime is not installed", help="pip install 'byocir[ort]'")


@contextmanager
def reported(where: str = "", help: str = "") -> Generator[None]:
    """Raises ByocirError B118 where a session finds no ONNX Runtime, B119 where that does not run
    the model.
    """
    try:
        yield
    except NoRuntime as error:
        raise not_installed() from error
    except NotComputed as error:
        found = f"expected a model that ONNX Runtime runs, found: {error}"
        raise ByocirError("B119", found, where=where, help=help) from error


def hide_messages() -> None:
    """Keeps what ONNX Runtime says from standard error, in the whole process: it warns at each run
    of outputs that have other sizes than the model declares, and raises its errors as well. Raises
    ByocirError B118."""
    with reported():
        _onnxruntime().set_default_logger_severity(4)  # fatal


def _onnxruntime() -> Any:
    try:
        return import_module("onnxruntime")
    except ImportError as error:
        raise NoRuntime(f"no ONNX Runtime: {error}") from error


class Session:
    """Runs a model, or a file with its weights beside it, in ONNX Runtime on the processor. Graph
    optimisations are off unless `optimise`: then each operator is computed as ONNX defines it.
    Raises NoRuntime if it is not installed, NoModel for bytes that are no model, NotComputed if it
    does not take the model.
    """

    def __init__(
        self, model: onnx.ModelProto | bytes | Path, *, optimise: bool = False, threads: int = 1
    ) -> None:
        self._ort = ort = _onnxruntime()
        options = ort.SessionOptions()
        levels = ort.GraphOptimizationLevel
        level = levels.ORT_ENABLE_ALL if optimise else levels.ORT_DISABLE_ALL
        options.graph_optimization_level = level
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 4
        try:
            content = _bytes_of(model)
            # A similar name also gives True, which only costs a thread.
            self._has_loops = LOOP in content
            self._session: Any = ort.InferenceSession(
                str(model) if isinstance(model, Path) else content,
                options,
                providers=["CPUExecutionProvider"],
                disabled_optimizers=FAILING,
            )
        except Exception as error:  # ONNX Runtime's errors have no common base class
            kind = NoModel if type(error).__name__ == "InvalidProtobuf" else NotComputed
            raise kind(_first_line(error)) from error
        self.inputs: list[str] = [port.name for port in self._session.get_inputs()]
        outputs = self._session.get_outputs()
        self.outputs: list[str] = [port.name for port in outputs]
        self._types: list[str] = [port.type for port in outputs]

    def run(self, feeds: Mapping[str, Any]) -> list[Any]:
        """Computes the outputs in order for the inputs by name; raises NotComputed. An interrupt
        stops a loop that does not end.
        """
        is_heard = current_thread() is main_thread()  # Python has interrupts in no other
        run = self._run_beside if self._has_loops and is_heard else self._session.run
        try:
            outputs = [as_value(each) for each in run(None, dict(feeds))]
        except Exception as error:
            raise NotComputed(_first_line(error)) from error
        return list(map(_as_type, outputs, self._types))

    def _run_beside(self, names: None, feeds: Mapping[str, Any]) -> Any:
        """Runs the model in another thread, while this one waits for it or an interrupt."""
        options = self._ort.RunOptions()
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(self._session.run, names, feeds, options)
            try:
                return running.result()
            except KeyboardInterrupt:
                options.terminate = True
                raise


def _bytes_of(model: onnx.ModelProto | bytes | Path) -> bytes:
    """Reads a model as bytes, without weights that are beside its file."""
    if isinstance(model, bytes):
        return model
    return model.read_bytes() if isinstance(model, Path) else model.SerializeToString()


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def _as_type(value: Any, type_: str) -> Any:
    """Converts unsigned integers back to floats of 8 bits, for which ONNX Runtime gives those."""
    if not type_.startswith(BYTES):
        return value
    variant = type_.removeprefix(BYTES).rstrip(")")
    return cast(np.ndarray, value).view(getattr(ml_dtypes, f"float8_{variant}"))
