"""Defines what all engines that run ONNX models have in common."""

from __future__ import annotations

from typing import Any, cast

import numpy as np


class NotComputed(Exception):
    """Says that an engine cannot run a model, or not on these inputs."""


def as_value(value: Any) -> Any:
    """Gives a value with its tensors as arrays: numpy's scalars are arrays without dimensions."""
    if value is None or isinstance(value, dict):
        return cast(Any, value)
    if isinstance(value, (list, tuple)):
        return [as_value(each) for each in cast(list[Any], value)]
    array = np.asarray(value)
    return array.astype(object) if array.dtype.kind in "UST" else array
