"""Groups the nodes of a report that are left on the host for one reason."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass

from byocir.dialects.byoc import HOST, Node
from byocir.dialects.decisions import Decision
from byocir.runtime.report import Report

MANY = 3
"""The least number of nodes whose reason is told once for all."""
SEEN = 3
"""The number of things that a rule saw which are shown."""


@dataclass(frozen=True)
class SharedReason:
    """Names a reason for which many nodes of one op type stay on the host, with the decisions on
    each of them.
    """

    nodes: Sequence[Node]
    decisions: Sequence[Sequence[Decision]]

    def lines(self, number: int, total: int) -> Iterator[str]:
        """Words the reason, with the part of `total` multiply-accumulates that its nodes would
        bring to a target.
        """
        macs = sum(node.macs for node in self.nodes)
        gain = f", {macs:,} MACs ({100 * macs / total:.1f} %)" if macs else ""
        yield f"reason {number}: {len(self.nodes):,} {self.nodes[0].op_type}{gain}"
        for index, decision in enumerate(self.decisions[0]):
            if not _failed(decision):
                yield f"  {decision.shown}"
                continue
            kind = f"{decision.level} " if decision.target else "stays float: "
            yield f"  {kind}{decision.pattern}"
            for place, rule in enumerate(decision.rules):
                if rule.holds:
                    continue
                seen = dict.fromkeys(each[index].rules[place].seen for each in self.decisions)
                yield f"         rule fails: {rule.sentence:<44} seen {_some([*seen])}"
                if rule.fix:
                    yield f"         to fix it: {rule.fix}"


def _some(seen: Sequence[str]) -> str:
    """Words the first of what was seen, and how many more there are."""
    more = f" and {len(seen) - SEEN:,} others" if len(seen) > SEEN else ""
    return "; ".join(seen[:SEEN]) + more


def shared_reasons(
    report: Report,
    placement: Mapping[str, str],
    deciding: Callable[[Sequence[Decision]], Sequence[Decision]],
    besides: Container[str],
) -> list[SharedReason]:
    """Lists the reasons that many nodes on the host share, those with the most work first;
    `placement` is that of the report, `deciding` picks the decisions that keep a node there, and
    nodes `besides` are not counted.
    """
    groups: dict[tuple[object, ...], list[tuple[Node, Sequence[Decision]]]] = {}
    for node in report.nodes:
        if node.name in besides or placement[node.name] != HOST:
            continue
        decisions = deciding(report.reasons.get(node.name, ()))
        failed = [(d.level, d.pattern, *(_failed(d) or _missed(d))) for d in decisions]
        if any(rest for _, _, *rest in failed):
            groups.setdefault((node.op_type, *failed), []).append((node, decisions))
    many = [group for group in groups.values() if len(group) >= MANY]
    shared = [SharedReason([n for n, _ in group], [d for _, d in group]) for group in many]
    return sorted(shared, key=lambda each: -sum(node.macs for node in each.nodes))


def _missed(decision: Decision) -> Sequence[int | str]:
    """Makes a key that tells decisions apart where no rule failed; decisions that no pattern has
    such an op are all alike.
    """
    is_miss = decision.target and decision.shares_an_op
    return [decision.matched, decision.reason] if is_miss else []


def _failed(decision: Decision) -> Sequence[int | str]:
    """Makes a key that tells decisions apart by their rules that failed: place and fix."""
    return [
        part
        for place, rule in enumerate(decision.rules)
        if not rule.holds
        for part in (place, rule.sentence, rule.fix)
    ]
