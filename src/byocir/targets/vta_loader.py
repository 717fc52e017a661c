"""Runs VTA's programs, on the simulator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from byocir.targets.loader import Loader, Runner


@dataclass(frozen=True)
class VtaLoader(Loader):
    """Runs programs for VTA."""

    name = "vta"

    def load(self, blobs: Mapping[str, bytes]) -> Runner:
        # Imported here, as `byocir targets` does not need it.
        from byocir.targets.vta_runs import runner_of

        return runner_of(blobs, check=False)

    def load_checked(self, blobs: Mapping[str, bytes]) -> Runner:
        """Makes a runner that raises VTAError S2xx for a program with hazards."""
        from byocir.targets.vta_runs import runner_of

        return runner_of(blobs, check=True)
