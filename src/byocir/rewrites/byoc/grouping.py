"""Groups the nodes of a graph into regions, on integers, apart from any IR.

Nodes are numbered in a topological order. A colour stands for a target; nodes of colour None are
the host's. Whatever is merged, the quotient graph stays acyclic (see `quotient`).

The fewest regions come from waves: run the host until only a target can go on, then that target
until only others can. For one target no grouping has fewer: a node is in wave k only if some path
to it leaves the target and comes back k times. With several targets the one that the longest chain
of changes is waiting for goes first, and waves that turn out to have nothing between them are
merged; that need not be the fewest.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from byocir.patterns.policy import Merge
from byocir.rewrites.byoc.quotient import QuotientGraph, merge_connected

Edge = tuple[int, int]
Colour = int | None


def group_nodes(
    count: int, edges: Sequence[Edge], colours: Sequence[Colour], merge: Sequence[Merge]
) -> QuotientGraph:
    """Groups nodes of one colour in the way that `merge` says for each colour."""
    quotient = QuotientGraph(count, edges)
    if "connected" in merge:
        # In waves, what a group waits for stands before its other inputs already.
        order = [[node] for run in _waves(quotient, colours) for node in run]
        quotient = QuotientGraph(count, edges, groups=order)
        merge_connected(quotient, edges, _of_kind("connected", colours, merge))
    if "any" in merge:
        quotient = _gather(quotient, count, edges, _of_kind("any", colours, merge))
    return quotient


def _of_kind(kind: Merge, colours: Sequence[Colour], merge: Sequence[Merge]) -> list[Colour]:
    """Gives the colours that are merged in this way, and None for all others."""
    return [c if c is not None and merge[c] == kind else None for c in colours]


def _gather(
    quotient: QuotientGraph, count: int, edges: Sequence[Edge], colours: Sequence[Colour]
) -> QuotientGraph:
    """Merges the nodes of each wave, then each wave with the one before of its colour, if nothing
    is between them.
    """
    groups: list[list[int]] = []
    for run in _waves(quotient, colours):
        parts = [quotient.members(group) for group in run]
        whole = colours[run[0]] is not None
        groups += [[node for part in parts for node in part]] if whole else parts
    gathered = QuotientGraph(count, edges, groups=groups)
    last: dict[int, int] = {}
    for members in groups:
        colour = colours[members[0]]
        if colour is None:
            continue
        mine = gathered.group(members[0])
        before = last.get(colour)
        if before is not None and gathered.between(before, mine) is None:
            mine = gathered.merge(before, mine)
        last[colour] = mine
    return gathered


def _waves(quotient: QuotientGraph, colours: Sequence[Colour]) -> list[list[int]]:
    """Lists all groups in waves: runs of groups of one colour (or None) that can go one after the
    other.
    """
    order = quotient.order()
    waiting = {group: len(quotient.before(group)) for group in order}
    depth = _changes(quotient, colours, order)
    ready: dict[Colour, deque[int]] = {}
    for group in order:
        if not waiting[group]:
            ready.setdefault(colours[group], deque()).append(group)
    runs: list[list[int]] = []
    while any(ready.values()):
        queue = ready[_next_colour(ready, depth)]
        run: list[int] = []
        while queue:
            run.append(queue.popleft())
            for after in sorted(quotient.after(run[-1])):
                waiting[after] -= 1
                if not waiting[after]:
                    ready.setdefault(colours[after], deque()).append(after)
        runs.append(run)
    return runs


def _next_colour(ready: Mapping[Colour, deque[int]], depth: Mapping[int, int]) -> Colour:
    """Chooses the colour of the next wave: the host's as long as it can go on, else the one with
    the most waves still to come after it.
    """
    if ready.get(None):
        return None
    free = sorted(colour for colour, queue in ready.items() if queue and colour is not None)
    return max(free, key=lambda colour: max(depth[group] for group in ready[colour]))


def _changes(
    quotient: QuotientGraph, colours: Sequence[Colour], order: Sequence[int]
) -> dict[int, int]:
    """Counts, for each group, the fewest waves that the paths from it on need, its own included."""
    depth: dict[int, int] = {}
    for group in reversed(order):
        colour = colours[group]
        depth[group] = int(colour is not None)
        for after in quotient.after(group):
            changes = colour is not None and colours[after] != colour
            depth[group] = max(depth[group], depth[after] + changes)
    return depth


def components(members: Sequence[int], neighbours: Mapping[int, Sequence[int]]) -> list[list[int]]:
    """Splits a group into the parts that edges among its members connect, ordered by their lowest
    member.
    """
    inside, parts = set(members), list[list[int]]()
    for start in sorted(members):
        if start not in inside:
            continue
        inside.discard(start)
        part = [start]
        for node in part:  # `part` grows while it is walked
            near = [other for other in neighbours.get(node, ()) if other in inside]
            part += dict.fromkeys(near)
            inside.difference_update(near)
        parts.append(sorted(part))
    return parts


MOST_CUTS = 4
"""The cuts that are told of one group: enough to see the cause, few enough to read."""


@dataclass(frozen=True)
class GroupCut:
    """Says why a group is apart from an earlier one of its colour: a path leads from `leaves` (of
    the earlier) through `first` … `last`, all outside both, to `enters` (of the later).
    """

    leaves: int
    first: int
    last: int
    enters: int


_Upstream = dict[int, tuple[int, Edge]]
"""Maps a colour to the latest group of it that leads here, by its place, and the edge leaving
it."""


def find_cuts(
    quotient: QuotientGraph, edges: Sequence[Edge], colours: Sequence[Colour]
) -> dict[int, list[GroupCut]]:
    """Finds, for each group of a colour, the paths that keep it apart from the nearest earlier
    group of that colour."""
    order = quotient.order()
    place = {group: i for i, group in enumerate(order)}
    entering: dict[int, list[Edge]] = {}
    for a, b in sorted(edges):
        if quotient.group(a) != quotient.group(b):
            entering.setdefault(quotient.group(b), []).append((a, b))
    upstream: dict[int, _Upstream] = {}
    found: dict[int, list[GroupCut]] = {}
    for group in order:
        mine: _Upstream = {}
        for edge in entering.get(group, ()):
            source = quotient.group(edge[0])
            _nearest(mine, upstream[source])
            colour = colours[source]
            if colour is not None:
                _nearest(mine, {colour: (place[source], edge)})
        upstream[group] = mine
        colour = colours[group]
        if colour is not None:
            outside = [e for e in entering.get(group, ()) if colours[e[0]] != colour]
            cuts = _cuts_from([(e, upstream[quotient.group(e[0])].get(colour)) for e in outside])
            if cuts:
                found[group] = cuts
    return found


def _nearest(known: _Upstream, other: _Upstream) -> None:
    for colour, entry in other.items():
        if colour not in known or known[colour][0] < entry[0]:
            known[colour] = entry


def _cuts_from(entering: Sequence[tuple[Edge, tuple[int, Edge] | None]]) -> list[GroupCut]:
    """Lists cuts, one for each last node of a path that comes from the nearest group."""
    nearest = max((entry[0] for _, entry in entering if entry is not None), default=None)
    cuts: dict[int, GroupCut] = {}
    for (last, enters), entry in entering:
        if entry is not None and entry[0] == nearest:
            leaves, first = entry[1]
            cuts.setdefault(last, GroupCut(leaves, first, last, enters))
    return list(cuts.values())[:MOST_CUTS]
