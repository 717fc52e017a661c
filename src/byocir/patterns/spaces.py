"""Finds the ways in which a block's iterators can stand for those that a block pattern names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import permutations, product

from byocir.dialects import tir
from byocir.patterns.index import (
    FloorIndex,
    Group,
    Index,
    Iterators,
    NamedIterators,
    Unknowns,
    match_index,
)

Forms = Sequence[Sequence[FloorIndex]]
"""The index of each operand of a block, the result last: a form per dimension."""


def spaces(
    op: tir.BlockOp, iterators: Iterators, out: Index, result: Sequence[FloorIndex]
) -> Iterator[tuple[NamedIterators, Unknowns]]:
    """Yields each way in which the block's iterators can stand for the pattern's so that the
    result's index fits, with the unknowns of that index. Reductions of extent 1 are tried last, so
    that names prefer the others.
    """
    count = len(op.iterators)
    unit = [extent == 1 for extent in op.extents]
    units = (*unit, *[True] * (len(iterators.parallel) + len(iterators.reduction)))
    parallels = _result_order(op)
    missing = range(count, count + len(iterators.parallel) - len(parallels))
    reductions = sorted(op.reductions, key=units.__getitem__)
    unread = range(len(units) - len(iterators.reduction) + len(reductions), len(units))
    none = NamedIterators(units, {}, {})
    rows = [*parallels, *missing]
    sums = [*reductions, *unread]
    for space in _assigned(none, rows, iterators.parallel, iterators.parallel_groups):
        unknowns = match_index(out, result, space, {})
        if unknowns is not None:
            reduced = _assigned(space, sums, iterators.reduction, iterators.reduction_groups)
            yield from ((whole, unknowns) for whole in reduced)


def _assigned(
    space: NamedIterators, iterators: Sequence[int], names: Sequence[str], groups: Sequence[str]
) -> Iterator[NamedIterators]:
    """Yields each way in which some of these iterators stand for the names, while the rest are in
    the groups or, without groups, of extent 1.
    """
    for chosen in permutations(iterators, len(names)):
        rest = [i for i in iterators if i not in chosen]
        if not groups and not all(space.units[i] for i in rest):
            continue
        named = {**space.names, **dict(zip(names, chosen, strict=True))}
        for grouping in _groupings(rest, groups):
            yield replace(space, names=named, groups={**space.groups, **grouping})


def _groupings(
    iterators: Sequence[int], groups: Sequence[str]
) -> Iterator[Mapping[str, tuple[int, ...]]]:
    """Yields each way to put each of these iterators into one of the groups."""
    if not groups:
        yield {}
        return
    for places in product(groups, repeat=len(iterators)):
        pairs = list(zip(iterators, places, strict=True))
        yield {group: tuple(i for i, place in pairs if place == group) for group in groups}


def in_reading_order(
    space: NamedIterators, reduced: Sequence[str], indices: Sequence[Index], forms: Forms
) -> NamedIterators:
    """Orders the iterators of each reduction group as they index the first operand that has the
    group.
    """
    groups = dict(space.groups)
    for name in reduced:
        whole = Group(name, broadcast=False)
        reads = [read for index, read in zip(indices, forms, strict=True) if whole in index]
        order = dict.fromkeys(i for at in (reads[0] if reads else ()) for i in at.form.atoms)
        known = [i for i in order if i in groups[name]]
        groups[name] = (*known, *(i for i in groups[name] if i not in known))
    return replace(space, groups=groups)


def _result_order(op: tir.BlockOp) -> list[int]:
    """Gives the parallel iterators in the order in which they index the result."""
    used: list[int] = []
    for expr in op.out_maps[0].results:
        used.extend(i for i in sorted(expr.used_dims()) if i not in used)
    return [*used, *(i for i in op.parallels if i not in used)]
