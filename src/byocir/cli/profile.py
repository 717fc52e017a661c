"""Writes tables of the time that a target's programs spend, by cause and by layer."""

from __future__ import annotations

from collections import Counter

from byocir.runtime.report import layer_of
from byocir.targets.base import Profile


def cycles_table(profile: Profile) -> str:
    """Tabulates the cycles of one program in total, and each unit's busy cycles by layer. Units run
    side by side, so rows add up to more than the total.
    """
    units = list(dict.fromkeys(unit for _, unit, _ in profile.by_node))
    rows: dict[str, Counter[str]] = {}
    for nodes, unit, cycles in profile.by_node:
        rows.setdefault(layer_of(nodes), Counter())[unit] += cycles
    lines = [f"{profile.symbol}: {profile.cycles:,} simulated cycles per run; busy cycles by unit:"]
    lines.append(f"  {'layer':<36}" + "".join(f"{unit:>10}" for unit in units))
    for layer, busy in rows.items():
        lines.append(f"  {layer[:36]:<36}" + "".join(f"{busy[unit]:>10,}" for unit in units))
    totals: Counter[str] = Counter()
    for busy in rows.values():
        totals.update(busy)
    lines.append(f"  {'all':<36}" + "".join(f"{totals[unit]:>10,}" for unit in units))
    return "\n".join([*lines, *_causes(profile), *_bounds(profile)])


def _causes(profile: Profile) -> list[str]:
    """Tabulates each unit's cycles by cause; its rows add up to the total."""
    if not profile.units:
        return []
    causes = list(next(iter(profile.units.values())))
    lines = [f"  {'all cycles of each unit':<36}" + "".join(f"{cause:>10}" for cause in causes)]
    for unit, cycles in profile.units.items():
        lines.append(f"  {unit:<36}" + "".join(f"{cycles[cause]:>10,}" for cause in causes))
    return lines


def _bounds(profile: Profile) -> list[str]:
    """Compares, in one line, the program's cycles with the least that it could take."""
    if not profile.bounds or not profile.cycles:
        return []
    by_size = sorted(profile.bounds.items(), key=lambda item: -item[1])
    share = 100 * by_size[0][1] / profile.cycles
    listed = ", ".join(f"{name} {cycles:,}" for name, cycles in by_size)
    return [f"  least cycles: {listed}; the largest is {share:.1f} % of the total"]
