"""Divides things between two sides for the least cost: it finds a minimum cut by maximum flow.

E. A. Dinic, "Algorithm for solution of a problem of maximum flow in networks with power
estimation", Soviet Math. Dokl. 11, 1970.
"""

from __future__ import annotations

from collections.abc import Iterable

SOURCE, SINK = 0, 1
"""The two nodes that a cut parts; others are numbered from 2."""

Edge = tuple[int, int, int]
"""Two nodes, and the cost of having the first on the source's side and the second on the sink's."""


def sink_side(count: int, edges: Iterable[Edge]) -> set[int]:
    """Finds a cut of the least cost through nodes 0 to `count` - 1, and gives the nodes on the
    sink's side; of several cuts, the one where these are fewest.
    """
    flow = _Flow(count)
    for start, end, capacity in edges:
        flow.add(start, end, capacity)
    while flow.levels_reach_sink():
        flow.block()
    return flow.reaching_sink()


class _Flow:
    """Lets a flow grow until it blocks all ways. Edges come in pairs, each with the capacity that
    is left.
    """

    def __init__(self, count: int) -> None:
        self._ends: list[int] = []
        self._left: list[int] = []
        self._edges: list[list[int]] = [[] for _ in range(count)]
        self._levels: list[int] = []

    def add(self, start: int, end: int, capacity: int) -> None:
        for node, other, left in ((start, end, capacity), (end, start, 0)):
            self._edges[node].append(len(self._ends))
            self._ends.append(other)
            self._left.append(left)

    def levels_reach_sink(self) -> bool:
        """Numbers the nodes by their distance from the source; tells if the sink has one."""
        self._levels = [-1] * len(self._edges)
        self._levels[SOURCE] = 0
        queue = [SOURCE]
        for node in queue:
            for edge in self._edges[node]:
                end = self._ends[edge]
                if self._left[edge] and self._levels[end] < 0:
                    self._levels[end] = self._levels[node] + 1
                    queue.append(end)
        return self._levels[SINK] >= 0

    def block(self) -> None:
        """Sends as much as fits along all shortest ways."""
        tried = [0] * len(self._edges)
        path: list[int] = []
        while True:
            node = self._ends[path[-1]] if path else SOURCE
            if node == SINK:
                least = min(self._left[edge] for edge in path)
                for edge in path:
                    self._left[edge] -= least
                    self._left[edge ^ 1] += least
                path.clear()
            elif (edge := self._next(node, tried)) is not None:
                path.append(edge)
            elif path:
                tried[self._ends[path.pop() ^ 1]] += 1
            else:
                return

    def _next(self, node: int, tried: list[int]) -> int | None:
        """Gives the next edge of a node that leads on; edges that led nowhere are not tried
        again.
        """
        edges = self._edges[node]
        while tried[node] < len(edges):
            edge = edges[tried[node]]
            if self._left[edge] and self._levels[self._ends[edge]] == self._levels[node] + 1:
                return edge
            tried[node] += 1
        return None

    def reaching_sink(self) -> set[int]:
        """Lists the nodes from which more could flow into the sink."""
        found, queue = {SINK}, [SINK]
        for node in queue:
            for edge in self._edges[node]:
                start = self._ends[edge]
                if self._left[edge ^ 1] and start not in found:
                    found.add(start)
                    queue.append(start)
        return found
