"""What runs the host's ONNX operators in process: ONNX Runtime where it is installed and takes
them, else onnx's reference evaluator."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, cast

import numpy as np
import onnx

from byocir.dialects.graph.foreign import RANDOM
from byocir.evaluate.interpreter import ModelRunner
from byocir.frontend.onnx.reference import NotComputed, Reference, as_value
from byocir.frontend.onnx.tensors import any_dtype

ONNXRUNTIME, REFERENCE = "onnxruntime", "reference"

REFERENCE_FIRST = RANDOM | {"Attention", "DFT", "Dropout", "MaxUnpool", "STFT"}
"""Operators that ONNX Runtime is not asked for. It draws random numbers (also Dropout's) from a
generator that is seeded by the clock; those of Attention and MaxUnpool differ from the standard in
1.31 (masks with infinities, `output_shape`), and its DFT and STFT lose half of the digits."""


class Host:
    """An engine that remembers what ran each node."""

    def __init__(self) -> None:
        self.ran_on: dict[str, str] = {}
        """Node name to what ran it last."""

    def __call__(self, model: onnx.ModelProto) -> ModelRunner:
        """Prepares a model of one op; raises NotComputed if nothing takes it."""
        return _Either(model, self)


class _Either:
    """A model that ONNX Runtime runs, or the reference where that fails."""

    def __init__(self, model: onnx.ModelProto, host: Host) -> None:
        self.inputs = [value.name for value in model.graph.input]
        self._model, self._host = model, host
        self._nodes = [node.name for node in model.graph.node]
        self._dtypes = [any_dtype(o.type.tensor_type.elem_type) for o in model.graph.output]
        excluded = any(node.op_type in REFERENCE_FIRST for node in model.graph.node)
        self._session = None if excluded else open_session(model.SerializeToString())
        self._reference: Reference | None = None

    def run(self, feeds: Mapping[str, Any]) -> list[Any]:
        ran_on, problem = ONNXRUNTIME, ""
        outputs: list[Any] | None = None
        if self._session is not None:
            try:
                outputs = run_session(self._session, feeds)
                outputs = list(map(_as_dtype, outputs, self._dtypes))
            except NotComputed as error:  # values of types that its Python API does not take
                problem = str(error)
        if outputs is None:
            ran_on = REFERENCE
            try:
                self._reference = self._reference or Reference(self._model)
                outputs = self._reference.run(feeds)
            except NotComputed as error:
                raise NotComputed(problem or str(error)) from error
        self._host.ran_on.update(dict.fromkeys(self._nodes, ran_on))
        return outputs


def _as_dtype(value: Any, dtype: np.dtype | None) -> Any:
    """Bytes as what they are: ONNX Runtime gives floats of 8 bits as unsigned integers."""
    if dtype is None or not dtype.name.startswith("float8"):
        return value
    return cast(np.ndarray, value).view(dtype)


def open_session(model: bytes, *, optimise: bool = False, threads: int = 1) -> Any:
    """A session of ONNX Runtime for a model; None if it is not installed or does not take it."""
    try:
        ort: Any = import_module("onnxruntime")
    except ImportError:
        return None
    options = ort.SessionOptions()
    levels = ort.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimise else levels.ORT_DISABLE_ALL
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    try:
        return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception:  # its errors have no common base
        return None


def run_session(session: Any, feeds: Mapping[str, Any]) -> list[Any]:
    """The outputs of a session; raises NotComputed if it fails."""
    try:
        return [as_value(each) for each in cast(list[Any], session.run(None, dict(feeds)))]
    except Exception as error:
        lines = str(error).strip().splitlines()
        raise NotComputed(lines[0] if lines else type(error).__name__) from error
