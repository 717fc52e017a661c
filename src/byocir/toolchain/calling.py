"""Defines the calling convention of emitted C: how arrays lie, and what the result means."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

ALIGN = 64
"""Bytes that addresses are multiples of, for C code: a cache line, the widest vector register."""

OUTSIDE, UNFIT = -1, -2
"""The results of a program's function where an index leads outside of its array, and where sizes do
not fit each other."""


class CEntry(NamedTuple):
    """A C function that runs a region, by its address: it takes the state at this address before
    inputs and outputs, unless `state` is None."""

    function: int
    state: int | None


def aligned(values: np.ndarray) -> np.ndarray:
    """Gives these values at a multiple of `ALIGN`: a copy, if they lie elsewhere."""
    if values.ctypes.data % ALIGN == 0 and values.flags.c_contiguous:
        return values
    made = aligned_zeros(values.shape, values.dtype)
    made[...] = values
    return made


def aligned_zeros(shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
    """Gives a new array of zeros at a multiple of `ALIGN`."""
    nbytes = math.prod(shape) * dtype.itemsize
    memory = np.zeros(nbytes + ALIGN, np.uint8)
    start = -memory.ctypes.data % ALIGN
    return memory[start : start + nbytes].view(dtype).reshape(shape)
