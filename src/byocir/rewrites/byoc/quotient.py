"""Which groups of a graph may merge: the core of region merging, on integers.

Nodes are numbered in a topological order. Two groups may merge if and only if no path from one to
the other passes through a node outside both; the question is asked of the current quotient graph at
every merge, never of a set computed earlier.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence


class Quotient:
    """A graph whose nodes are merged into groups; a group is known by its lowest node."""

    def __init__(self, count: int, edges: Iterable[tuple[int, int]]) -> None:
        self.members: dict[int, list[int]] = {node: [node] for node in range(count)}
        self._group = list(range(count))
        self._after: dict[int, set[int]] = {node: set() for node in range(count)}
        self._before: dict[int, set[int]] = {node: set() for node in range(count)}
        for source, target in edges:
            if source != target:
                self._after[source].add(target)
                self._before[target].add(source)

    def group(self, node: int) -> int:
        """The group a node is in."""
        return self._group[node]

    def successors(self, group: int) -> list[int]:
        """The groups that an edge leads to, in order."""
        return sorted(self._after[group])

    def may_merge(self, a: int, b: int) -> bool:
        """Whether merging two groups keeps the quotient graph acyclic."""
        return a != b and not self._detour(a, b) and not self._detour(b, a)

    def merge(self, a: int, b: int) -> int:
        """Merges two groups; gives the group that stays."""
        keep, gone = min(a, b), max(a, b)
        self.members[keep] = sorted(self.members[keep] + self.members.pop(gone))
        for node in self.members[keep]:
            self._group[node] = keep
        for edges, back in ((self._after, self._before), (self._before, self._after)):
            for other in edges.pop(gone):
                back[other].discard(gone)
                if other != keep:
                    edges[keep].add(other)
                    back[other].add(keep)
            edges[keep].discard(gone)
        return keep

    def _detour(self, start: int, goal: int) -> bool:
        """Whether a path from `start` to `goal` passes through a third group."""
        pending = [group for group in self._after[start] if group != goal]
        seen = set(pending)
        while pending:
            group = pending.pop()
            for following in self._after[group]:
                if following == goal:
                    return True
                if following not in seen and following != start:
                    seen.add(following)
                    pending.append(following)
        return False


def merge_connected(
    count: int, edges: Sequence[tuple[int, int]], colours: Sequence[int | None]
) -> Quotient:
    """Merges groups of one colour along edges, until no
    further legal merge of that kind exists. Nodes of colour None stay alone."""
    quotient = Quotient(count, edges)
    changed = True
    while changed:
        changed = False
        for group in sorted(quotient.members):
            while group in quotient.members and colours[group] is not None:
                partner = _partner(quotient, group, colours)
                if partner is None:
                    break
                quotient.merge(group, partner)
                changed = True
    return quotient


def _partner(quotient: Quotient, group: int, colours: Sequence[int | None]) -> int | None:
    for following in quotient.successors(group):
        if colours[following] == colours[group] and quotient.may_merge(group, following):
            return following
    return None
