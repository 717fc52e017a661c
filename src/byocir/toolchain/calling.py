"""Defines the calling convention of emitted C: how arrays lie in memory, and what a result code
means.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

ALIGN = 64
"""Bytes that addresses are multiples of, for C code: a cache line, the widest vector register."""

FLAGS = (
    *("-std=c99", "-O3"),
    # Floats are rounded after every operation, as the evaluator's are; nobody asks for errno or
    # traps, which would keep conversions and square roots from being vectorised.
    *("-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-lm"),
)
"""The flags that all emitted C is built with in process, whatever it is made for; exported projects
are built alike."""

OUTSIDE, UNFIT = -1, -2
"""The results of a program's function where an index leads outside of its array, and where sizes do
not fit each other."""


class CEntry(NamedTuple):
    """Holds the address of a C function that runs a region. It takes the pointer `state` in front
    of inputs and outputs, unless that is None.
    """

    function: int
    state: int | None


def aligned(values: np.ndarray) -> np.ndarray:
    """Gives an array of these values that begins at a multiple of `ALIGN`: a copy, if the given one
    does not.
    """
    if values.ctypes.data % ALIGN == 0 and values.flags.c_contiguous:
        return values
    made = aligned_zeros(values.shape, values.dtype)
    made[...] = values
    return made


def pointers(arrays: Sequence[np.ndarray]) -> Any:
    """Gives the addresses of arrays as C pointers."""
    return (ctypes.c_void_p * max(1, len(arrays)))(*(array.ctypes.data for array in arrays))


def read_only(array: np.ndarray) -> np.ndarray:
    """Gives a view of an array that cannot be written."""
    view = array.view()
    view.flags.writeable = False
    return view


def aligned_zeros(shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
    """Gives a new array of zeros that begins at a multiple of `ALIGN`."""
    nbytes = math.prod(shape) * dtype.itemsize
    memory = np.zeros(nbytes + ALIGN, np.uint8)
    start = -memory.ctypes.data % ALIGN
    return memory[start : start + nbytes].view(dtype).reshape(shape)
