"""Both engines behind one face, for tests that look into the scratchpads."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from byocir.errors import ByocirError
from byocir.vta_sim import DEFAULT_CONFIG, Machine, Memory, VTAConfig
from byocir.vta_sim.engine_native import NativeMachine, core

NewMachine = Callable[..., Machine]


class NativeAsMachine(Machine):
    """The arrays of `Machine`, moved to the core before a stream runs and back after it."""

    def __init__(
        self, dram: np.ndarray, config: VTAConfig = DEFAULT_CONFIG, *, check: bool = False
    ) -> None:
        super().__init__(dram, config)
        self._native = NativeMachine(dram, config, check=check)
        self._checks = check

    def run_in_order(self, insns: np.ndarray) -> None:
        if not self._checks:  # a checking device would take it for written
            self._native.write(Memory.UOP, 0, self.uop)
            self._native.write(Memory.INP, 0, self.inp)
            self._native.write(Memory.WGT, 0, self.wgt.swapaxes(1, 2))
            self._native.write(Memory.ACC, 0, self.acc)
        self._native.dram = np.array(self.dram)
        try:
            self._native.run_in_order(insns)
        finally:
            self.dram = self._native.dram
            for memory in (Memory.UOP, Memory.INP, Memory.WGT, Memory.ACC):
                self.write(memory, slice(None), self._native.read(memory))


def needs_native() -> None:
    """Skip the test where there is no C compiler."""
    try:
        core()
    except ByocirError as error:
        if error.code != "B401":
            raise
        pytest.skip("no C compiler")


def machine_type(engine: str) -> type[Machine]:
    """The machine of an engine, "numpy" or "native"."""
    if engine == "numpy":
        return Machine
    needs_native()
    return NativeAsMachine
