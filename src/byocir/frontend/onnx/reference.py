"""onnx's own reference implementation, with types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator


class Reference:
    """A model to be run by onnx's reference evaluator."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self._evaluator = ReferenceEvaluator(model)
        self.inputs = [value.name for value in model.graph.input]

    def run(self, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """The outputs in order for the inputs by name."""
        outputs = self._evaluator.run(None, dict(feeds))  # pyright: ignore[reportUnknownMemberType]
        return [np.asarray(output) for output in cast(list[np.ndarray], outputs)]
