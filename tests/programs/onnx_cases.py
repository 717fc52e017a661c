"""onnx's own cases of single nodes, made in a quarter of the time that onnx takes.

onnx makes them when their modules are imported. Most of that time goes into three pools of 90,000
windows, which its reference visits one by one, and into texts for its pages.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from math import prod
from typing import Any
from unittest.mock import patch

import numpy as np
from onnx.backend.test.case import base
from onnx.backend.test.loader import load_model_tests
from onnx.reference.ops import op_pool_common

MANY = 10_000
"""So many windows are taken at once."""

_pool = op_pool_common.pool

_VALUE: Mapping[str, Callable[[np.ndarray, float], np.ndarray]] = {
    "AVG": lambda windows, p: windows.mean(-1),
    "MAX": lambda windows, p: windows.max(-1),
    "LPPOOL": lambda windows, p: (np.abs(windows) ** p).sum(-1) ** (1 / p),
}


@cache
def node_cases() -> list[Any]:
    """All cases, with their models, inputs and expected outputs."""
    without_texts = patch.object(base, "process_snippet", lambda *of: ("", ""))
    at_once = patch.object(op_pool_common, "pool", pool)
    with warnings.catch_warnings(), without_texts, at_once:
        warnings.simplefilter("ignore")  # onnx overflows on purpose when it makes casts
        return load_model_tests(kind="node")


def pool(
    x: np.ndarray,
    shape: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    made: Sequence[int],
    kind: str,
    *pads: Any,
    p: int = 1,
    **more: Any,
) -> np.ndarray:
    """What onnx's reference gives, for many windows side by side without a loop over them."""
    if pads or more or max(strides) > 1 or prod(made) < MANY:
        return _pool(x, shape, kernel, strides, made, kind, *pads, p=p, **more)
    axes = tuple(range(2, x.ndim))
    windows = np.lib.stride_tricks.sliding_window_view(x, tuple(kernel), axes)
    return _VALUE[kind](windows.reshape(*windows.shape[: x.ndim], -1), p).astype(x.dtype)
