"""Places micro-ops: one table in DRAM for the whole program, and the UOP memory as its cache."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from byocir.vta_sim import Memory, VTAConfig


class MicroOpMemory:
    """Keeps the micro-op kernels of a program, and which of them the UOP memory holds at this
    point.

    A kernel is the list of micro-ops of one instruction, as uint32 words. Equal kernels are stored
    once. The UOP memory is filled round and round; what is overwritten is loaded again when it is
    needed.
    """

    def __init__(self, config: VTAConfig) -> None:
        self._owners = np.full(config.depth(Memory.UOP), -1, np.int64)
        self._next = 0
        self._numbers: dict[bytes, int] = {}
        self._kernels: list[NDArray[np.uint32]] = []
        self._offsets: list[int] = []
        self._resident: dict[int, int] = {}
        self._size = 0

    def offset(self, number: int) -> int:
        """Gives the place in the DRAM table where a kernel starts."""
        return self._offsets[number]

    def hold(self, kernel: NDArray[np.uint32]) -> tuple[int, int | None]:
        """Gives the address of a kernel in the UOP memory, and its number if it has to be loaded
        there first."""
        number = self._number(kernel)
        address = self._resident.get(number)
        return (self._place(number), number) if address is None else (address, None)

    def _number(self, kernel: NDArray[np.uint32]) -> int:
        """Numbers a kernel; a new one is stored."""
        found = self._numbers.setdefault(kernel.tobytes(), len(self._kernels))
        if found == len(self._kernels):
            self._kernels.append(kernel)
            self._offsets.append(self._size)
            self._size += len(kernel)
        return found

    def _place(self, number: int) -> int:
        """Makes room for a kernel that has to be loaded; gives its address."""
        size = len(self._kernels[number])
        start = self._next if self._next + size <= len(self._owners) else 0
        evicted: list[int] = np.unique(self._owners[start : start + size]).tolist()
        for other in evicted:
            self._resident.pop(other, None)
            self._owners[self._owners == other] = -1
        self._owners[start : start + size] = number
        self._resident[number] = start
        self._next = start + size
        return start

    def table(self) -> NDArray[np.int32]:
        """Gives all kernels, one behind the other."""
        return np.concatenate([np.zeros(0, np.uint32), *self._kernels]).view(np.int32)
