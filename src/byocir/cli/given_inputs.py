"""Reads the file of inputs that a user gives to a model, once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from byocir.cli.user_files import read_feeds, read_inputs
from byocir.evaluate.module import MAIN, Interpreter, bind
from byocir.runtime.module_members import module_types
from byocir.runtime.package import Package


class GivenInputs:
    """Reads the inputs of a file, or makes seeded ones without one: the file is refused as soon as
    the model is imported if it does not fit, and its arrays are kept for the run.
    """

    def __init__(self, path: Path | None, seed: int = 0) -> None:
        self._path, self._seed = path, seed
        self._read: dict[str, np.ndarray] | None = None

    def check(self, module: ModuleOp) -> None:
        """Raises ByocirError B101, B111 or B310 for a file that does not fit the model."""
        if self._path is not None:
            self._read = self._read or read_inputs(self._path, module_types(module)[0])
            bind(Interpreter(module).function(MAIN), self._read)

    def feeds(self, package: Package) -> dict[str, np.ndarray]:
        """Gives the inputs by name; raises as `check` does."""
        return self._read or read_feeds(self._path, package, self._seed)
