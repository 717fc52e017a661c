"""Graphs on integers, and the slow and obvious way to judge how they are grouped."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import cache

Edge = tuple[int, int]
PAIRS = list(itertools.combinations(range(5), 2))


def all_edge_sets() -> Iterator[list[Edge]]:
    """Every graph on five nodes in topological order."""
    for bits in range(2 ** len(PAIRS)):
        yield [pair for i, pair in enumerate(PAIRS) if bits >> i & 1]


def is_acyclic(edges: Sequence[Edge], group: Sequence[int]) -> bool:
    """Whether the quotient graph is; `group` gives each node its group."""
    left = {(group[a], group[b]) for a, b in edges if group[a] != group[b]}
    while left:
        ends = {b for _, b in left}
        kept = {(a, b) for a, b in left if a in ends}
        if len(kept) == len(left):
            return False
        left = kept
    return True


@cache
def partitions(count: int) -> list[tuple[int, ...]]:
    """All set partitions of some nodes: the group of each, numbered by first appearance."""
    if count == 0:
        return [()]
    return [
        (*head, number)
        for head in partitions(count - 1)
        for number in range(max(head, default=-1) + 2)
    ]


def keeps_colours(group: Sequence[int], colours: Sequence[int | None]) -> bool:
    """Whether groups have one colour and the host's nodes are alone."""
    colour_of: dict[int, int | None] = {}
    for node, number in enumerate(group):
        if number in colour_of and (colours[node] is None or colour_of[number] != colours[node]):
            return False
        colour_of[number] = colours[node]
    return True


def regions(group: Sequence[int], colours: Sequence[int | None]) -> int:
    return len({number for node, number in enumerate(group) if colours[node] is not None})


@cache
def _by_size(colours: tuple[int | None, ...]) -> list[tuple[int, tuple[int, ...]]]:
    """All groupings that keep colours, those of the fewest regions first."""
    kept = [group for group in partitions(len(colours)) if keeps_colours(group, colours)]
    return sorted((regions(group, colours), group) for group in kept)


def fewest(edges: Sequence[Edge], colours: Sequence[int | None]) -> int:
    """The least number of regions that any legal grouping has."""
    found = _by_size(tuple(colours))
    return next(size for size, group in found if is_acyclic(edges, group))
