"""Runs onnx's own reference implementation, with types."""

from __future__ import annotations

import warnings
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from threading import RLock
from typing import Any, cast

import numpy as np
import onnx

from byocir.vendor.engine import NotComputed, as_value


class Reference:
    """Runs a model in onnx's reference evaluator. Raises NotComputed if that has no implementation
    of an operator.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        from onnx.reference import (
            ReferenceEvaluator,  # it lists all schemas, and few models need it
        )

        try:
            self._evaluator = ReferenceEvaluator(model)
        except Exception as error:  # operators raise whatever they like
            raise NotComputed(_sentence(error)) from error
        self.inputs = [value.name for value in model.graph.input]

    def run(self, feeds: Mapping[str, Any]) -> list[Any]:
        """Computes the outputs in order for the inputs by name: arrays, lists of values for
        sequences, None for an absent optional. Raises NotComputed.
        """
        try:
            with quiet_on_nothing(feeds):
                outputs = self._evaluator.run(None, dict(feeds))
        except MemoryError:
            raise
        except Exception as error:
            raise NotComputed(_sentence(error)) from error
        return [as_value(output) for output in cast(list[Any], outputs)]


@contextmanager
def quiet_on_nothing(feeds: Mapping[str, Any]) -> Generator[None]:
    """Hides numpy's warnings of means and spreads of no elements, which give a NaN. `np.errstate`
    does not reach them, as they are no floating-point errors. Filters are global to the process:
    they are changed only where there are such arrays, by one thread at a time.
    """
    if not any(isinstance(value, np.ndarray) and value.size == 0 for value in feeds.values()):
        yield
        return
    with _filters, warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


_filters = RLock()


def _sentence(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
