"""Keeps golden inputs and outputs of a package: what it must compute, wherever it runs.

| code | what is wrong |
| --- | --- |
| B136 | a package without golden inputs and outputs, or a model whose values are no arrays |
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from byocir.errors import ByocirError
from byocir.runtime.package_file import GOLDEN, GOLDEN_ARRAYS, as_written

RELATIVE, ABSOLUTE = 1e-3, 1e-4
"""Bound the distance of floats from what is meant: relative to the value, and to the outputs'
spread."""

LEAST = 1e-7
"""The distance that floats may always have, as in ONNX's own tests: one number alone has no
spread."""


class Golden(NamedTuple):
    """Holds arrays by name that a model takes, and those that it must give for them."""

    inputs: Mapping[str, np.ndarray]
    outputs: Mapping[str, np.ndarray]

    def members(self) -> dict[str, bytes]:
        """Makes the members of a package that hold them. Raises ByocirError B136 for values that
        are no arrays of numbers.
        """
        from byocir.dialects.array import Array
        from byocir.dialects.weights import dump_arrays

        arrays: dict[str, Array] = {}
        digests: dict[str, dict[str, str]] = {}
        for part, values in self._asdict().items():
            digests[part] = {}
            for name, value in values.items():
                dtype: Any = getattr(value, "dtype", None)
                if dtype is None or dtype.kind in "OUS":
                    raise ByocirError("B136", f"expected arrays of numbers, found '{name}'")
                array = Array.of(value)
                digests[part][name] = array.digest
                arrays[array.digest] = array
        text = json.dumps(digests, indent=1) + "\n"
        return {GOLDEN: text.encode(), GOLDEN_ARRAYS: dump_arrays(arrays)}


def golden_of(members: Mapping[str, bytes], where: str) -> Golden:
    """Reads what `Golden.members` wrote. Raises ByocirError B135 for anything else."""
    from byocir.dialects.array import ArrayStore
    from byocir.dialects.weights import read_weights

    store: Any = ArrayStore()
    with as_written(where):
        read_weights(members[GOLDEN_ARRAYS], store, where)
        parts: Any = json.loads(members[GOLDEN])
        return Golden(
            *({n: store.get(d).values() for n, d in parts[part].items()} for part in Golden._fields)
        )


def exact(array: np.ndarray, meant: np.ndarray, whose: str) -> tuple[bool, str]:
    """Tells if an output is what it should be, floats within bounds, and says so in words."""
    if array.shape != meant.shape or array.dtype != meant.dtype:
        return False, f"{whose}: {meant.dtype} of {meant.shape}, found {array.dtype} {array.shape}"
    if np.array_equal(array, meant, equal_nan=array.dtype.kind == "f"):
        return True, f"equal to {whose}, bit for bit"
    difference, spread = distance(array, meant)
    holds = array.dtype.kind == "f" and bool((difference <= bounds(meant, spread)).all())
    return holds, f"{whose}: largest difference {difference.max(initial=0.0):.6g}"


def bounds(meant: np.ndarray, spread: float, least: float = LEAST) -> np.ndarray:
    """Says how far each float may be from what is meant: some for its size, some for the spread of
    all, and `least`.
    """
    size = np.nan_to_num(np.abs(meant.astype(np.float64)), nan=0.0, posinf=0.0)
    return RELATIVE * size + ABSOLUTE * spread + least


def distance(array: np.ndarray, reference: np.ndarray) -> tuple[np.ndarray, float]:
    """Measures how far each element is from its reference (0 where both are NaN or the same
    infinity), and how widely the finite ones spread.
    """
    ours, theirs = array.astype(np.float64), reference.astype(np.float64)
    same = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
    with np.errstate(invalid="ignore"):
        difference = np.where(same, 0.0, np.abs(ours - theirs))
    difference = np.where(np.isnan(difference), np.inf, difference)
    finite = theirs[np.isfinite(theirs)]
    return difference, float(np.ptp(finite)) if finite.size else 0.0
