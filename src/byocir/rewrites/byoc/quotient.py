"""Decides which groups of a graph may merge: this is the core of region merging, on integers.

Nodes are numbered in a topological order. Two groups may merge if and only if no path from one to
the other passes through a node outside both; the question is asked of the current quotient graph at
every merge, never of a set computed earlier.

Groups keep places in a topological order of the quotient graph, so that a search for such a path
looks only at what lies between the two. A merge moves only what lies between (as in Pearce and
Kelly, "A dynamic topological sort algorithm for directed acyclic graphs").
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence


class QuotientGraph:
    """Describes a graph whose nodes are merged into groups; a group is known by one of its
    nodes."""

    def __init__(
        self,
        count: int,
        edges: Iterable[tuple[int, int]],
        *,
        groups: Sequence[Sequence[int]] | None = None,
    ) -> None:
        """Begins with groups that are merged already, in a topological order of the quotient graph;
        by default every node is alone, and nodes are in order.
        """
        ordered = [[node] for node in range(count)] if groups is None else groups
        self._group = [0] * count
        self._members: dict[int, list[int]] = {}
        for members in ordered:
            self._members[members[0]] = list(members)
            for node in members:
                self._group[node] = members[0]
        self._after: dict[int, set[int]] = {group: set() for group in self._members}
        self._before: dict[int, set[int]] = {group: set() for group in self._members}
        for source, target in edges:
            a, b = self._group[source], self._group[target]
            if a != b:
                self._after[a].add(b)
                self._before[b].add(a)
        self._place = {group: place for place, group in enumerate(self._members)}

    @property
    def groups(self) -> list[list[int]]:
        """Lists the nodes of every group, in order, by the lowest."""
        return sorted(sorted(members) for members in self._members.values())

    def group(self, node: int) -> int:
        """Gives the group that a node is in."""
        return self._group[node]

    def members(self, group: int) -> list[int]:
        """Gives the nodes of a group."""
        return self._members[group]

    def before(self, group: int) -> set[int]:
        """Gives the groups that edges come from."""
        return self._before[group]

    def after(self, group: int) -> set[int]:
        """Gives the groups that edges lead to."""
        return self._after[group]

    def order(self) -> list[int]:
        """Gives all groups, each after those it depends on."""
        return sorted(self._place, key=self._place.__getitem__)

    def between(self, a: int, b: int) -> int | None:
        """Finds a third group on a path between two groups; None if there is none. Then they may
        merge: the quotient graph stays acyclic.
        """
        first, last = sorted((a, b), key=self._place.__getitem__)
        found = self._reach(last, self._before, range(self._place[first] + 1, self._place[last]))
        return next((group for group in found if first in self._before[group]), None)

    def merge(self, a: int, b: int) -> int:
        """Merges two groups with nothing between them; gives the merged group."""
        place = self._arrange(*sorted((a, b), key=self._place.__getitem__))
        keep, gone = (a, b) if self._weight(a) >= self._weight(b) else (b, a)
        for node in self._members[gone]:
            self._group[node] = keep
        self._members[keep] += self._members.pop(gone)
        for edges, back in ((self._after, self._before), (self._before, self._after)):
            for other in edges.pop(gone):
                back[other].discard(gone)
                if other != keep:
                    edges[keep].add(other)
                    back[other].add(keep)
            edges[keep].discard(gone)
        del self._place[gone]
        self._place[keep] = place
        return keep

    def _weight(self, group: int) -> int:
        """Estimates the cost of renaming a group by its members and edges."""
        return len(self._members[group]) + len(self._after[group]) + len(self._before[group])

    def _arrange(self, first: int, last: int) -> int:
        """Moves all that must come before a merged group in front of it, and all that must come
        after it behind; gives the place for the group itself.
        """
        between = range(self._place[first] + 1, self._place[last])
        earlier = list(self._reach(last, self._before, between))
        if not earlier:
            return self._place[first]
        later = list(self._reach(first, self._after, between))
        places = sorted(self._place[group] for group in (first, *earlier, *later, last))
        for moved, where in ((earlier, places[: len(earlier)]), (later, places[-len(later) :])):
            moved.sort(key=self._place.__getitem__)
            self._place.update(zip(moved, where, strict=False))
        return places[len(earlier)]

    def _reach(self, start: int, edges: Mapping[int, set[int]], places: range) -> Iterator[int]:
        """Yields the groups, at these places, to which edges lead from a group."""
        pending, seen = [start], {start}
        while pending:
            for group in edges[pending.pop()]:
                if group not in seen and self._place[group] in places:
                    seen.add(group)
                    pending.append(group)
                    yield group


def merge_connected(
    quotient: QuotientGraph, edges: Sequence[tuple[int, int]], colours: Sequence[int | None]
) -> QuotientGraph:
    """Merges groups of one colour along edges, every node in turn with those it depends on, until
    no further legal merge of that kind exists. Nodes of colour None stay alone."""
    pending = [(b, a) for a, b in edges if colours[a] == colours[b] and colours[a] is not None]
    heapq.heapify(pending)
    # An edge stays illegal until the group found on the detour joins one of its ends.
    blocked: dict[int, list[tuple[int, int]]] = {}
    while pending:
        edge = heapq.heappop(pending)
        a, b = (quotient.group(node) for node in edge)
        third = quotient.between(a, b) if a != b else None
        if third is not None:
            blocked.setdefault(third, []).append(edge)
        elif a != b:
            merged = quotient.merge(a, b)
            for waiting in [*blocked.pop(a, ()), *blocked.pop(b, ())]:
                if merged in (quotient.group(waiting[0]), quotient.group(waiting[1])):
                    heapq.heappush(pending, waiting)
                else:
                    blocked.setdefault(merged, []).append(waiting)
    return quotient
