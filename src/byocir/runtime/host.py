"""Runs the host's ONNX operators in this process: by ONNX Runtime where it is installed and takes
them, else by onnx's reference evaluator.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import onnx

from byocir.dialects.graph.foreign import REFERENCE_FIRST
from byocir.evaluate.interpreter import ModelRunner
from byocir.frontend.onnx.reference import Reference
from byocir.targets.ort_session import Session
from byocir.vendor.engine import NotComputed

ONNXRUNTIME, REFERENCE = "onnxruntime", "reference"


class Host:
    """Prepares models of operators, and remembers what ran each node."""

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
    """Runs a model of several operators in ONNX Runtime."""

    def __init__(self, model: onnx.ModelProto, host: Host) -> None:
        self.inputs = [value.name for value in model.graph.input]
        self._host, self._nodes = host, [node.name for node in model.graph.node]
        if _reference_first(model):
            raise NotComputed("an operator that ONNX Runtime is not asked for")
        self._session = Session(model)

    def run(self, feeds: Mapping[str, Any]) -> list[Any]:
        outputs = self._session.run(feeds)
        self._host.ran_on.update(dict.fromkeys(self._nodes, ONNXRUNTIME))
        return outputs


class _Either:
    """Runs a model in ONNX Runtime, or in onnx's reference where that fails."""

    def __init__(self, model: onnx.ModelProto, host: Host) -> None:
        self.inputs = [value.name for value in model.graph.input]
        self._model, self._host = model, host
        self._nodes = [node.name for node in model.graph.node]
        self._session = None if _reference_first(model) else _session(model)
        self._reference: Reference | None = None

    def run(self, feeds: Mapping[str, Any]) -> list[Any]:
        ran_on, problem = ONNXRUNTIME, ""
        outputs: list[Any] | None = None
        if self._session is not None:
            try:
                outputs = self._session.run(feeds)
            except NotComputed as error:  # its Python API does not take the types of these values
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


def _reference_first(model: onnx.ModelProto) -> bool:
    """Tells whether a model must not be given to ONNX Runtime."""
    scalars = {
        value.name
        for value in model.graph.input
        if value.type.tensor_type.HasField("shape") and not value.type.tensor_type.shape.dim
    }
    return any(_differs(node, scalars) for node in model.graph.node)


def _differs(node: onnx.NodeProto, scalars: Collection[str]) -> bool:
    """Tells if ONNX Runtime computes a node otherwise than the standard says. Its NonZero gives an
    index for a scalar, which has none; its Resize with scales aligns the corners with those of the
    output, where they are at size * scale, which need not be a whole number.
    """
    if node.op_type == "NonZero":
        return node.input[0] in scalars
    if node.op_type != "Resize" or (len(node.input) > 3 and node.input[3]):
        return node.op_type in REFERENCE_FIRST
    modes = [a.s for a in node.attribute if a.name == "coordinate_transformation_mode"]
    return modes == [b"align_corners"]


def _session(model: onnx.ModelProto) -> Session | None:
    try:
        return Session(model)
    except NotComputed:
        return None
