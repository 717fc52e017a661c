"""Describes places of inputs and outputs in DRAM."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Port:
    """Describes the place of an input or output in DRAM: byte ``address``, shape and dtype."""

    address: int
    shape: tuple[int, ...]
    dtype: np.dtype

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def bytes(self) -> slice:
        """Gives the range of bytes of the image that holds the port."""
        return slice(self.address, self.address + self.nbytes)

    def fits(self, array: np.ndarray) -> bool:
        return (array.shape, array.dtype) == (self.shape, self.dtype)
