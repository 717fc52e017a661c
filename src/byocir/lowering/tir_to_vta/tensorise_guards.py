"""Guarded iteration spaces as boxes: an instruction runs over a whole box, so the points that a
guard leaves out are left out of the boxes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from byocir.dialects.tir.linear import Linear


@dataclass(frozen=True)
class Box:
    """Points: iterator i runs over [lows[i], lows[i] + extents[i]). The spelled-out iterators take
    each tuple of `points` instead, in the order of their positions."""

    lows: tuple[int, ...]
    extents: tuple[int, ...]
    points: tuple[tuple[int, ...], ...]


def spelled_iterators(guards: Sequence[Linear[int]], preferred: Sequence[int]) -> list[int]:
    """Chooses iterators to spell out so that each guard depends on at most one of the others; those
    in `preferred` first."""
    spelled: set[int] = set()
    for guard in guards:
        free = sorted(
            (i for i, _ in guard.terms if i not in spelled), key=lambda i: (i not in preferred, i)
        )
        spelled.update(free[:-1])
    return sorted(spelled)


def boxes(
    extents: Sequence[int], guards: Sequence[Linear[int]], spelled: Sequence[int]
) -> list[Box]:
    """Gives the boxes that hold the points at which no guard is negative.

    `spelled` comes from `spelled_iterators`. Points that have the same box in the other iterators
    are put together.
    """
    grouped: dict[tuple[tuple[int, int], ...], list[tuple[int, ...]]] = {}
    for point in product(*(range(extents[i]) for i in spelled)):
        known = dict(zip(spelled, point, strict=True))
        ranges = _ranges(extents, guards, known)
        if ranges is not None:
            grouped.setdefault(ranges, []).append(point)
    return [
        Box(tuple(low for low, _ in r), tuple(high - low for low, high in r), tuple(points))
        for r, points in grouped.items()
    ]


def _ranges(
    extents: Sequence[int], guards: Sequence[Linear[int]], known: dict[int, int]
) -> tuple[tuple[int, int], ...] | None:
    """Gives the range of each iterator under the guards, [0, 1) for those that are known; None when
    it is empty."""
    ranges = [(0, 1) if i in known else (0, extent) for i, extent in enumerate(extents)]
    for guard in guards:
        left = guard.substituted(
            lambda i: Linear((), known[i]) if i in known else Linear(((i, 1),))
        )
        rest = left.constant
        if not left.terms:
            if rest < 0:
                return None
            continue
        ((i, c),) = left.terms
        low, high = ranges[i]
        # c * x + rest >= 0
        ranges[i] = (max(low, -(rest // c)), high) if c > 0 else (low, min(high, rest // -c + 1))
    if any(low >= high for low, high in ranges):
        return None
    return tuple(ranges)
