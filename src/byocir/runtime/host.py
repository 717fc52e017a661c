"""What runs the host's ONNX operators in process: ONNX Runtime where it is installed and takes
them, else onnx's reference evaluator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import onnx

from byocir.dialects.graph.foreign import REFERENCE_FIRST
from byocir.evaluate.interpreter import ModelRunner
from byocir.frontend.onnx.reference import NotComputed, Reference
from byocir.targets.ort_session import Session

ONNXRUNTIME, REFERENCE = "onnxruntime", "reference"


class Host:
    """An engine that remembers what ran each node."""

    def __init__(self) -> None:
        self.ran_on: dict[str, str] = {}
        """Node name to what ran it last."""

    def __call__(self, model: onnx.ModelProto) -> ModelRunner:
        """Prepares a model of one op; raises NotComputed if nothing takes it."""
        return _Either(model, self)

    def whole(self, model: onnx.ModelProto) -> ModelRunner:
        """Prepares a model of several ops for ONNX Runtime; raises NotComputed if it does not take
        it."""
        return _Whole(model, self)


class _Whole:
    """A model that ONNX Runtime runs."""

    def __init__(self, model: onnx.ModelProto, host: Host) -> None:
        self.inputs = [value.name for value in model.graph.input]
        self._host, self._nodes = host, [node.name for node in model.graph.node]
        if any(map(_reference_first, model.graph.node)):
            raise NotComputed("an operator that ONNX Runtime is not asked for")
        self._session = Session(model)

    def run(self, feeds: Mapping[str, Any]) -> list[Any]:
        outputs = self._session.run(feeds)
        self._host.ran_on.update(dict.fromkeys(self._nodes, ONNXRUNTIME))
        return outputs


class _Either:
    """A model that ONNX Runtime runs, or the reference where that fails."""

    def __init__(self, model: onnx.ModelProto, host: Host) -> None:
        self.inputs = [value.name for value in model.graph.input]
        self._model, self._host = model, host
        self._nodes = [node.name for node in model.graph.node]
        excluded = any(map(_reference_first, model.graph.node))
        self._session = None if excluded else _session(model)
        self._reference: Reference | None = None

    def run(self, feeds: Mapping[str, Any]) -> list[Any]:
        ran_on, problem = ONNXRUNTIME, ""
        outputs: list[Any] | None = None
        if self._session is not None:
            try:
                outputs = self._session.run(feeds)
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


def _reference_first(node: onnx.NodeProto) -> bool:
    """Whether ONNX Runtime is not asked. It takes corners for those of the output, where a Resize
    with scales means corners at size * scale, which need not be a whole number."""
    if node.op_type != "Resize" or (len(node.input) > 3 and node.input[3]):
        return node.op_type in REFERENCE_FIRST
    modes = [a.s for a in node.attribute if a.name == "coordinate_transformation_mode"]
    return modes == [b"align_corners"]


def _session(model: onnx.ModelProto) -> Session | None:
    try:
        return Session(model)
    except NotComputed:
        return None
