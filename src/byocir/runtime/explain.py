"""The report as text: a summary after each compilation, and why each node went where it did."""

from __future__ import annotations

from collections.abc import Iterator

from byocir.dialects.byoc import Node
from byocir.errors import ByocirError, did_you_mean
from byocir.runtime.report import HOST, HOST_RUNS_ON, Decision, Region, Report


def summary(report: Report) -> str:
    """What was offloaded where: operators, share of multiply-accumulates, regions."""
    lines = [f"note: {note}" for note in report.notes]
    total = sum(node.macs for node in report.nodes)
    counted = len(report.nodes) - len(report.folded)
    for target in report.targets:
        regions = [region for region in report.regions if region.target == target]
        operators = sum(len(region.nodes) for region in regions)
        lines.append(_row(f"{target} operators", operators, counted))
        lines.append(_row(f"{target} MACs", report.macs.get(target, 0), total))
        padded = sum(report.device.get(r.symbol, {}).get("padded_macs", 0) for r in regions)
        if padded:
            lines.append(f"{f'{target} MACs with padding':<28}{padded:>14,}")
        lines.append(f"{f'{target} regions':<28}{len(regions):>14,}")
    lines.append(
        _row(f"{HOST} operators", len(report.host), counted) + f"   {HOST}: {HOST_RUNS_ON}"
    )
    lines.append(_row(f"{HOST} MACs", report.macs.get(HOST, 0), total))
    lines.append(f"{'folded operators':<28}{len(report.folded):>14,}")
    return "\n".join(lines)


def _row(label: str, count: int, total: int) -> str:
    share = 100 * count / total if total else 0
    return f"{label:<28}{count:>14,} {share:>6.1f} %"


def explain(report: Report, node: str | None = None) -> str:
    """Where each node went; for host nodes every pattern tried, how far it came, and every rule
    that failed with what was seen. Raises ByocirError B230 for a node the model does not have."""
    known = {entry.name: entry for entry in report.nodes}
    if node is not None and node not in known:
        raise ByocirError("B230", f"unknown node '{node}'", help=did_you_mean(node, list(known)))
    chosen = [known[node]] if node is not None else report.nodes
    placement = report.placement
    regions = {region.symbol: region for region in report.regions}
    lines = [f"note: {note}" for note in report.notes] if node is None else []
    for entry in chosen:
        where = placement.get(entry.name, "folded")
        lines.extend(_node(entry, regions.get(where), where, report, verbose=node is not None))
    return "\n".join(lines)


def _node(
    node: Node, region: Region | None, where: str, report: Report, *, verbose: bool
) -> Iterator[str]:
    decisions = report.reasons.get(node.name, [])
    if region is not None:
        taken = next(c for c in region.composites if node.name in c.nodes)
        yield f"{node.name}  {node.op_type}  {region.symbol} ({taken.level} level, {taken.pattern})"
        if verbose:
            yield from _declined(decisions)
        return
    if where != HOST:
        yield f"{node.name}  {node.op_type}  folded at compile time"
        return
    yield f"{node.name}  {node.op_type}  {HOST}"
    if node.name in report.foreign:
        yield f"  stays an ONNX operator: {report.foreign[node.name]}"
    yield from _declined(decisions)
    if not any(not d.taken for d in decisions):
        for target in report.targets:
            yield f"  {target}: no pattern has such an op"


def _declined(decisions: list[Decision]) -> Iterator[str]:
    """Of each pattern the attempt that came furthest."""
    furthest: dict[tuple[str, str], Decision] = {}
    for decision in decisions:
        known = furthest.get((decision.level, decision.pattern))
        if not decision.taken and (known is None or decision.matched > known.matched):
            furthest[decision.level, decision.pattern] = decision
    for decision in furthest.values():
        yield from _decision(decision)


def _decision(decision: Decision) -> Iterator[str]:
    matched = f"{decision.matched}/{decision.total} ops matched"
    yield f"  {decision.level:<6} {decision.pattern:<18} {matched}, {decision.reason}"
    for rule in decision.rules:
        if not rule.holds:
            yield f"         rule fails: {rule.sentence:<44} seen {rule.seen}"
