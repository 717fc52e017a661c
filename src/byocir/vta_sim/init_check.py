"""Tracks the scratchpad elements that have been written: ``check=True`` refuses to read the
others."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from byocir.vta_sim.asm import describe
from byocir.vta_sim.config import Memory, VTAConfig
from byocir.vta_sim.errors import VTAError
from byocir.vta_sim.isa import Instruction


class InitCheck:
    """One flag per element of UOP, INP, WGT and ACC; ACC_8BIT and OUT stand for ACC."""

    def __init__(self, config: VTAConfig) -> None:
        pads = (Memory.UOP, Memory.INP, Memory.WGT, Memory.ACC)
        self._flags = {memory: np.zeros(config.depth(memory), np.bool_) for memory in pads}

    def mark(self, memory: Memory, index: NDArray[np.int64] | slice) -> None:
        """Note a write of the elements at ``index``."""
        self._flags[Memory.ACC if memory == Memory.ACC_8BIT else memory][index] = True

    def require(self, insn: Instruction, memory: Memory, index: NDArray[np.int64] | slice) -> None:
        """Raise VTAError V205 if an element at ``index`` (1-D) was never written."""
        flags = self._flags[memory]
        seen = flags[index]
        if seen.all():
            return
        element = int(np.arange(len(flags))[index][~seen][0])
        expected = f"{memory.name} elements written before they are read"
        raise VTAError("V205", expected, f"element {element} unwritten", describe(insn))
