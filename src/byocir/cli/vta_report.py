"""Prints the counts of a run, for people and for programs."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from byocir.vta_sim import SimResult, VTAConfig

SCHEMA_VERSION = 1


def as_json(result: SimResult, config: VTAConfig) -> str:
    """Gives the counters and, for a timed run, the cycles in all and by unit, and the energy."""
    report: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "config": config.to_dict(),
        "counters": asdict(result.counters),
    }
    if result.timeline is not None:
        times = result.timeline
        report |= {"model": times.model.name, "cycles": times.cycles, "busy": dict(times.busy)}
        report["units"] = {unit: time.to_dict() for unit, time in times.units.items()}
        report["bounds"] = dict(times.bounds)
    if result.energy is not None:
        report["energy_pj"] = result.energy.to_dict()
    return json.dumps(report, indent=1, sort_keys=True) + "\n"


def as_text(result: SimResult) -> str:
    """Writes the same as a table."""
    counters = asdict(result.counters)
    kinds: dict[str, int] = counters.pop("instructions")
    lines = [f"{'instructions':<24}{sum(kinds.values()):>14,}"]
    lines += [f"  {kind:<22}{count:>14,}" for kind, count in kinds.items() if count]
    lines += [f"{name:<24}{value:>14,}" for name, value in counters.items()]
    if result.timeline is not None:
        lines.append(f"{'cycles, ' + result.timeline.model.name:<24}{result.cycles:>14,}")
        busy = result.timeline.busy
        lines += [f"  {f'{unit} busy':<22}{cycles:>14,}" for unit, cycles in busy.items() if cycles]
    return "\n".join(lines)
