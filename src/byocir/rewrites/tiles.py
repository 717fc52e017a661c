"""Computes with sizes of tiles in arrays: what all choices need and cost, at once.

Each iterator whose size is open has an axis of its own, along which its sizes lie. What depends on
few iterators is an array over their axes alone; numpy spreads it over the others where it meets
what depends on them. So three iterators of ten sizes each are thirty numbers until something asks
for a thousand.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from byocir.dialects.tir.linear import Linear
from byocir.dialects.types import Ints

Number = TypeVar("Number", bound=np.generic)

MOST_CHOICES = 200_000
"""The longest lists of sizes are thinned out where there are more choices."""


def spread(sizes: Sequence[Sequence[int]]) -> list[Ints]:
    """Arranges the sizes of each iterator along an axis of its own. Where there are more than
    `MOST_CHOICES` choices, the longest lists lose every other size but the first and the last.
    """
    lists = [list(each) for each in sizes]
    while prod(map(len, lists)) > MOST_CHOICES:
        longest = max(range(len(lists)), key=lambda i: len(lists[i]))
        found = lists[longest]
        kept = sorted({found[0], *found[1::2], found[-1]})
        lists[longest] = kept if len(kept) < len(found) else found[:1]
    open_ones = [i for i, found in enumerate(lists) if len(found) > 1]
    arrays = [np.array(found, np.int64).reshape(len(found)) for found in lists]
    for axis, i in enumerate(open_ones):
        arrays[i] = arrays[i].reshape([-1 if n == axis else 1 for n in range(len(open_ones))])
    return [array if array.size > 1 else array.reshape(()) for array in arrays]


def shape_over(arrays: Iterable[NDArray[Any]]) -> tuple[int, ...]:
    """Gives the joint shape of arrays, over all the choices that any of them depends on."""
    return np.broadcast_shapes(*(array.shape for array in arrays))


def at(array: NDArray[Number], choices: tuple[Ints, ...]) -> NDArray[Number]:
    """Takes from an array the elements for some choices, given by their places along each axis."""
    own = zip(choices[len(choices) - array.ndim :], array.shape, strict=True)
    places = tuple(places * (size > 1) for places, size in own)
    return array[places] if places else np.broadcast_to(array, choices[0].shape if choices else ())


def sides(index: Sequence[Linear[int]], sizes: Sequence[Ints]) -> list[Ints]:
    """Computes the sizes of the box that an index reaches over a tile, for each of its dimensions:
    as `byocir.rewrites.schedule.access.reach` does for one tile.
    """
    one = np.ones((), np.int64)
    return [sum((abs(c) * (sizes[i] - 1) for i, c in form.terms), start=one) for form in index]


def product(numbers: Iterable[Ints]) -> Ints:
    """Multiplies arrays; 1 if there are none."""
    return prod(numbers, start=np.ones((), np.int64))


def fills(loops: Iterable[tuple[Ints, bool]]) -> Ints:
    """Counts how often a buffer is filled that moves with some of the loops around it. Loops are
    given by their iterations, the outermost first; those inside the last one that moves it fill it
    once.
    """
    entered = times = np.ones((), np.int64)
    for count, moves in loops:
        entered = entered * count
        if moves:
            times = np.where(count > 1, entered, times)
    return times
