"""Sessions of ONNX Runtime, with types. It is imported when one is opened."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from threading import current_thread, main_thread
from typing import Any, cast

import numpy as np
import onnx
from google.protobuf.message import DecodeError

from byocir.frontend.onnx.detached_weights import nodes_in
from byocir.frontend.onnx.reference import NotComputed, as_value
from byocir.frontend.onnx.tensors import any_dtype


class NoRuntime(NotComputed):
    """ONNX Runtime is not installed."""


class Session:
    """A model, or a file with its weights beside it, that ONNX Runtime runs on the processor. Graph
    optimisations are off unless `optimise`: then each operator is computed as ONNX defines it.
    Raises NoRuntime if it is not installed, NotComputed if it does not take the model."""

    def __init__(
        self, model: onnx.ModelProto | Path, *, optimise: bool = False, threads: int = 1
    ) -> None:
        try:
            ort: Any = import_module("onnxruntime")
        except ImportError as error:
            raise NoRuntime(f"no ONNX Runtime: {error}") from error
        try:
            proto = _proto(model)
        except (OSError, DecodeError) as error:
            raise NotComputed(_first_line(error)) from error
        self._ort = ort
        self._has_loops = any(node.op_type == "Loop" for node in nodes_in(proto))
        graph = proto.graph
        self.inputs = [value.name for value in graph.input]
        self.outputs = [value.name for value in graph.output]
        self._dtypes = [any_dtype(o.type.tensor_type.elem_type) for o in graph.output]
        options = ort.SessionOptions()
        levels = ort.GraphOptimizationLevel
        level = levels.ORT_ENABLE_ALL if optimise else levels.ORT_DISABLE_ALL
        options.graph_optimization_level = level
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 4
        try:
            self._session: Any = ort.InferenceSession(
                str(model) if isinstance(model, Path) else model.SerializeToString(),
                options,
                providers=["CPUExecutionProvider"],
            )
        except Exception as error:  # its errors have no common base
            raise NotComputed(_first_line(error)) from error

    def run(self, feeds: Mapping[str, Any]) -> list[Any]:
        """The outputs in order for the inputs by name; raises NotComputed. An interrupt ends a loop
        that has no end."""
        is_heard = current_thread() is main_thread()  # Python has interrupts in no other
        run = self._run_beside if self._has_loops and is_heard else self._session.run
        try:
            outputs = [as_value(each) for each in run(None, dict(feeds))]
        except Exception as error:
            raise NotComputed(_first_line(error)) from error
        return list(map(_as_dtype, outputs, self._dtypes))

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


def _proto(model: onnx.ModelProto | Path) -> onnx.ModelProto:
    """A model, without weights that are beside its file."""
    return onnx.load_model_from_string(model.read_bytes()) if isinstance(model, Path) else model


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def _as_dtype(value: Any, dtype: np.dtype | None) -> Any:
    """Bytes as what they are: ONNX Runtime gives floats of 8 bits as unsigned integers."""
    if dtype is None or not dtype.name.startswith("float8"):
        return value
    return cast(np.ndarray, value).view(dtype)
