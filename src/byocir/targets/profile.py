"""Defines how a target tells the time of its programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Profile:
    """Times one program of a target: cycles in total, and where they go."""

    symbol: str
    cycles: int
    by_node: Sequence[tuple[str, str, int]]
    """(Model's node or nodes, unit of the device, busy cycles)."""
    units: Mapping[str, Mapping[str, int]] = field(default_factory=dict[str, Mapping[str, int]])
    """Unit to all of its cycles by cause; each unit's add up to the total."""
    bounds: Mapping[str, int] = field(default_factory=dict[str, int])
    """Cycles that the program takes at least, by what limits it."""
    details: Mapping[str, int] = field(default_factory=dict[str, int])
    """Further numbers, by name."""
    seconds: float | None = None
    """The seconds of those cycles on the device, where its clock is known: `byocir measure` takes
    this in place of the time that running the program took."""

    def to_dict(self) -> dict[str, Any]:
        """Converts the profile to plain data for the report."""
        rows = [{"node": n, "unit": u, "cycles": c} for n, u, c in self.by_node]
        units = {unit: dict(causes) for unit, causes in self.units.items()}
        totals = {"cycles": self.cycles, "units": units, "bounds": dict(self.bounds)}
        return {**totals, "by_node": rows, **self.details}
