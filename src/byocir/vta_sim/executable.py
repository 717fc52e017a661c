"""Holds a program with its DRAM image and the places of its inputs and outputs in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from byocir.vta_sim.port import Port
from byocir.vta_sim.simulation import Program, SimResult


@dataclass(frozen=True)
class Executable:
    """Holds a program ready to run any number of times.

    ``image`` uint8 [at most size] is the start of a DRAM of ``size`` bytes, zeros behind it.
    """

    program: Program
    image: NDArray[np.uint8]
    size: int
    inputs: Sequence[Port]
    outputs: Sequence[Port]

    def run(
        self, inputs: Sequence[np.ndarray], *, check: bool = False, timing: bool = False
    ) -> tuple[list[np.ndarray], SimResult]:
        """Computes the outputs for inputs that fit the ports, and gives what the simulator
        measured. Raises VTAError V2xx, and S2xx with ``check``.
        """
        dram = np.zeros(self.size, np.uint8)
        dram[: self.image.size] = self.image
        for port, array in zip(self.inputs, inputs, strict=True):
            dram[port.bytes] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        result = self.program.run(dram, check=check, timing=timing)
        outputs = [result.dram[p.bytes].view(p.dtype).reshape(p.shape) for p in self.outputs]
        return outputs, result
