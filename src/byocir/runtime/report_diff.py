"""Compares the reports of two compilations: places of nodes, regions, bytes and cycles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from byocir.runtime.report import HOST, Region, Report, layer_of

MOST = 20
"""Lines of a list that are printed; the data have all."""


@dataclass(frozen=True)
class Change:
    """Records a number in two reports; None where a report has none."""

    name: str
    before: int | None
    after: int | None

    def __str__(self) -> str:
        shown = ["-" if n is None else f"{n:,}" for n in (self.before, self.after)]
        return f"{self.name:<36}{shown[0]:>16}{shown[1]:>16}  {self.difference}".rstrip()

    @property
    def difference(self) -> str:
        """Gives the difference, as a share of the first number where it has one."""
        if self.before is None or self.after is None or self.before == self.after:
            return ""
        found = self.after - self.before
        return f"{found:+,}" + (f" ({100 * found / self.before:+.1f} %)" if self.before else "")


@dataclass(frozen=True)
class ReportDifference:
    """Lists the differences between two reports; `totals` has the counts that agree, too."""

    totals: list[Change]
    moved: list[tuple[str, str, str]]
    """(Node, place before, place after); the place is empty in a report without the node."""
    regions: list[Change]
    """Cycles or bytes of regions of the same nodes, and nodes of regions that only one has."""
    layers: list[Change]
    """Busy cycles of nodes, the largest changes first."""

    def to_dict(self) -> dict[str, Any]:
        """Gives plain data."""
        return asdict(self)

    def __str__(self) -> str:
        moved = [f"{node:<36} {a or '(none)'} → {b or '(none)'}" for node, a, b in self.moved]
        parts = {
            "nodes that moved": moved,
            "regions": [str(change) for change in self.regions],
            "busy cycles by node": [str(change) for change in self.layers],
        }
        lines = [f"{'':<36}{'before':>16}{'after':>16}", *map(str, self.totals)]
        for title, rows in parts.items():
            lines += ["", f"{title}: {len(rows) or 'none'}", *rows[:MOST]]
            lines += [f"… and {len(rows) - MOST:,} more"] if len(rows) > MOST else []
        return "\n".join(lines)


def compare(before: Report, after: Report) -> ReportDifference:
    """Compares two reports."""
    first, second = _totals(before), _totals(after)
    return ReportDifference(
        [Change(name, first.get(name), second.get(name)) for name in {**first, **second}],
        [*_moved(before, after)],
        [*_regions(before, after)],
        [*_layers(before, after)],
    )


def _totals(report: Report) -> dict[str, int]:
    """Counts what the summary of a report shows."""
    found: dict[str, int] = {}
    for target in report.targets:
        regions = [region for region in report.regions if region.target == target]
        found[f"{target} nodes"] = len({name for region in regions for name in region.nodes})
        found[f"{target} MACs"] = report.macs.get(target, 0)
        found[f"{target} regions"] = len(regions)
        found[f"{target} bytes crossing"] = sum(r.bytes * r.calls for r in regions)
        cycles = [_cycles(report, region) for region in regions]
        if any(each is not None for each in cycles):
            found[f"{target} cycles"] = sum(each or 0 for each in cycles)
    found |= {f"{HOST} nodes": len(report.host), f"{HOST} MACs": report.macs.get(HOST, 0)}
    found["folded nodes"] = len(report.folded)
    if report.memory:
        found[f"{HOST} arena bytes"] = report.memory["arena"]
    return found


def _cycles(report: Report, region: Region) -> int | None:
    """Counts the cycles of a region's calls in one inference, where its target tells them."""
    cycles = report.device.get(region.symbol, {}).get("cycles")
    return None if cycles is None else cycles * region.calls


def _moved(before: Report, after: Report) -> Iterator[tuple[str, str, str]]:
    """Yields the nodes that are elsewhere, or in one model alone."""
    first, second = before.places, after.places
    for node in dict.fromkeys([*first, *second]):
        places = first.get(node, ""), second.get(node, "")
        if places[0] != places[1]:
            yield node, *places


def _regions(before: Report, after: Report) -> Iterator[Change]:
    """Yields the changes of regions; regions of one target with the same nodes are the same."""
    first, second = ({_key(region): region for region in r.regions} for r in (before, after))
    for key in dict.fromkeys([*first, *second]):
        old, new = first.get(key), second.get(key)
        if old is None or new is None:
            for region in (each for each in (old, new) if each is not None):
                counts = (len(region.nodes) if region is each else None for each in (old, new))
                yield Change(f"{region.symbol} nodes", *counts)
            continue
        pairs = {
            "bytes": (old.bytes, new.bytes),
            "bytes kept": (old.kept, new.kept),
            "cycles": (_cycles(before, old), _cycles(after, new)),
        }
        for what, (a, b) in pairs.items():
            if a != b:
                yield Change(f"{old.symbol} {what}", a, b)


def _key(region: Region) -> tuple[str, frozenset[str]]:
    return region.target, frozenset(region.nodes)


def _layers(before: Report, after: Report) -> list[Change]:
    """Lists the changes of nodes' busy cycles, of all units together, the largest first."""
    first, second = _busy(before), _busy(after)
    names = dict.fromkeys([*first, *second])
    changes = [Change(name, first.get(name), second.get(name)) for name in names]
    differing = [change for change in changes if change.before != change.after]
    return sorted(differing, key=lambda c: -abs((c.after or 0) - (c.before or 0)))


def _busy(report: Report) -> Counter[str]:
    found: Counter[str] = Counter()
    for profile in report.device.values():
        for row in profile.get("by_node", ()):
            found[layer_of(row["node"])] += row["cycles"]
    return found
