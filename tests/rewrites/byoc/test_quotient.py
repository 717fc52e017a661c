"""Merging groups of a graph, against all paths of small graphs."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from byocir.rewrites.byoc.quotient import QuotientGraph, merge_connected
from byocir.rewrites.byoc.sort_ops import topological


@st.composite
def graphs(draw, most=8):
    """Nodes in topological order, edges between them, and a colour or None for each."""
    count = draw(st.integers(1, most))
    pairs = list(itertools.combinations(range(count), 2))
    edges = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    colours = draw(st.lists(st.sampled_from([None, 0, 1, 2]), min_size=count, max_size=count))
    return count, edges, colours


def merged(count, edges, colours):
    return merge_connected(QuotientGraph(count, edges), edges, colours)


def quotient_edges(edges, group):
    return {(group[a], group[b]) for a, b in edges if group[a] != group[b]}


def is_acyclic(nodes, edges):
    left = set(nodes)
    while left:
        free = {n for n in left if not any(b == n and a in left for a, b in edges)}
        if not free:
            return False
        left -= free
    return True


def reachable(start, edges):
    found, pending = set(), [start]
    while pending:
        node = pending.pop()
        for a, b in edges:
            if a == node and b not in found:
                found.add(b)
                pending.append(b)
    return found


def detours(a, b, edges):
    """Groups outside both on a path from one to the other."""
    return {
        third
        for start, goal in ((a, b), (b, a))
        for third in reachable(start, [e for e in edges if goal not in e]) - {a, b}
        if goal in reachable(third, edges)
    }


def groups_of(quotient, count):
    return {node: quotient.group(node) for node in range(count)}


@given(graphs())
def test_the_result_is_acyclic_and_keeps_colours_apart(graph):
    count, edges, colours = graph
    group = groups_of(merged(count, edges, colours), count)
    assert is_acyclic(set(group.values()), quotient_edges(edges, group))
    for a, b in itertools.combinations(range(count), 2):
        if group[a] == group[b]:
            assert colours[a] == colours[b] is not None


@given(graphs())
def test_no_legal_merge_along_an_edge_is_left(graph):
    """A merge is legal if and only if no path between the two passes through a third group."""
    count, edges, colours = graph
    quotient = merged(count, edges, colours)
    group = groups_of(quotient, count)
    now = quotient_edges(edges, group)
    for a, b in now:
        if colours[a] == colours[b] is not None:
            joined = {node: a if g == b else g for node, g in group.items()}
            assert not is_acyclic(set(joined.values()), quotient_edges(edges, joined))
            assert detours(a, b, now)


@given(graphs(), st.data())
def test_every_answer_on_the_way_is_that_of_all_paths(graph, data):
    """Any legal merges in any order, both directions, connected or not."""
    count, edges, _ = graph
    quotient = QuotientGraph(count, edges)
    while True:
        group = groups_of(quotient, count)
        now = quotient_edges(edges, group)
        legal = []
        for a, b in itertools.permutations(sorted(set(group.values())), 2):
            third = quotient.between(a, b)
            assert (third in detours(a, b, now)) if third is not None else not detours(a, b, now)
            if third is None:
                legal.append((a, b))
            assert (a in quotient.before(b)) == ((a, b) in now)
        if not legal:
            return
        quotient.merge(*data.draw(st.sampled_from(legal)))


@given(graphs(most=40))
def test_groups_are_listed_once_by_their_lowest_node(graph):
    count, edges, colours = graph
    quotient = merged(count, edges, colours)
    groups = quotient.groups
    assert sorted(node for members in groups for node in members) == list(range(count))
    assert groups == sorted(sorted(members) for members in groups)
    assert all(len({quotient.group(node) for node in members}) == 1 for members in groups)


def test_a_detour_through_the_host_keeps_two_groups():
    #  0 -> 1(host) -> 2 and 0 -> 2
    quotient = merged(3, [(0, 1), (1, 2), (0, 2)], [0, None, 0])
    assert quotient.groups == [[0], [1], [2]]


def test_a_detour_through_another_target_keeps_two_groups():
    quotient = merged(3, [(0, 1), (1, 2), (0, 2)], [0, 1, 0])
    assert quotient.groups == [[0], [1], [2]]


def test_the_same_target_on_the_way_joins_first():
    quotient = merged(3, [(0, 1), (1, 2), (0, 2)], [0, 0, 0])
    assert quotient.groups == [[0, 1, 2]]


def test_groups_that_would_wait_for_each_other():
    """Two pairs that cross: either may merge, not both."""
    #  0 -> 2 of colour 0, 1 -> 3 of colour 1, and across 0 -> 3, 1 -> 2
    quotient = merged(4, [(0, 2), (1, 3), (0, 3), (1, 2)], [0, 1, 0, 1])
    assert quotient.groups == [[0, 2], [1], [3]]


def test_a_path_against_the_order_of_the_numbers_is_seen():
    """The later group leads to the earlier one once both have members on either side."""
    #  a = {0, 4}, b = {1, 2}, and 3 is between b and a
    quotient = QuotientGraph(5, [(0, 4), (1, 2), (2, 3), (3, 4)])
    a = quotient.merge(0, 4)
    b = quotient.merge(1, 2)
    assert quotient.between(a, b) == 3
    assert quotient.between(b, a) == 3


def test_an_illegal_merge_may_become_legal_later():
    """The node on the detour joins one of the ends, so the question is asked again."""
    edges = [(0, 2), (0, 1), (1, 2)]
    assert merged(3, edges, [0, 0, 0]).groups == [[0, 1, 2]]
    edges = [(0, 3), (0, 1), (1, 2), (2, 3)]
    assert merged(4, edges, [0, 0, 0, 0]).groups == [[0, 1, 2, 3]]


def test_topological_order_changes_as_little_as_can_be():
    assert topological([[], [], [0], [1]]) == [0, 1, 2, 3]
    assert topological([[2], [], [1]]) == [1, 2, 0]
