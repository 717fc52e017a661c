"""Measures how far results are from those of references."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from onnx_fuzz.cases import Value
from onnx_fuzz.reference import is_float, largest


def compare(found: Any, value: Value) -> str:
    """Tells how a result differs from what is expected; nothing if it does not."""
    if value.is_sequence:
        return _compare_sequences(found, value)
    if not isinstance(found, np.ndarray):
        return f"type: expected an array, found {type(found).__name__}"
    array = cast(np.ndarray, found)
    wanted, got = (f"{each.dtype}{list(each.shape)}" for each in (value.data, array))
    if wanted != got:
        return f"type: expected {wanted}, found {got}"
    wrong = _wrong(array, value)
    if not wrong.any():
        return ""
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    slack = "" if value.slack is None else f" (within {float(value.slack[at]):.3g})"
    return (
        f"value: {int(wrong.sum())} of {wrong.size} differ, first at {list(at)}: "
        f"expected {value.data[at]}{slack}, found {array[at]}"
    )


def _compare_sequences(found: Any, value: Value) -> str:
    parts = cast(list[Any], found) if isinstance(found, list) else []
    if len(parts) != len(value.data) or not isinstance(found, list):
        return f"length: expected a sequence of {len(value.data)}, found one of {len(parts)}"
    told = (compare(a, Value(b, value.dtype)) for a, b in zip(parts, value.data, strict=True))
    return next((each for each in told if each), "")


def _wrong(found: np.ndarray, value: Value) -> np.ndarray:
    """Marks the elements that differ by more than they may."""
    expected = value.data
    if not is_float(value.dtype) and value.dtype.kind != "c":
        if value.slack is None:
            return np.asarray(found != expected)
        return np.abs(found.astype(np.int64) - expected.astype(np.int64)) > value.slack
    wide = np.complex128 if value.dtype.kind == "c" else np.float64
    a, b = found.astype(wide), expected.astype(wide)
    with np.errstate(all="ignore"):
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        if value.slack is None:
            return ~same
        near = np.abs(a - b) <= value.slack
        most = largest(value.dtype) if wide is np.float64 else np.inf
        # One rounds to the largest number and the other beyond it.
        beyond = (np.abs(b) + value.slack >= most) & (np.abs(a) >= most - value.slack)
    return ~(same | near | beyond | np.isinf(value.slack))
