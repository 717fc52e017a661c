"""Counts the cycles of the calls that together do a block, for many sizes of it at once.

A description's costs are functions that take one size of each iterator. They are called once for
each combination of sizes that occurs; further calls of the same sizes are looked up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product, starmap
from math import prod
from typing import Any

import numpy as np

from byocir.dialects.types import Bools, Floats, Ints
from byocir.machine.instructions import Fit
from byocir.machine.parts import Sizes


def asked(question: Callable[..., float], numbers: Sequence[Ints], where: Bools) -> Floats:
    """Asks a function about each combination of numbers, the first of all arrays, the second, and
    so on; equal combinations are asked about once. Gives 0 where it is not to be asked.
    """
    shape = np.broadcast_shapes(where.shape, *(array.shape for array in numbers))
    if not where.any():
        return np.zeros(shape)
    if where.size == 1 and all(array.size == 1 for array in numbers):
        said = question(*(array.item() for array in numbers))
        return np.full(shape, said, np.float64)
    alike = np.zeros((), np.int64)
    for array in (array for array in numbers if array.size > 1):
        values, places = np.unique(array, return_inverse=True)
        joined = alike * len(values) + places.reshape(array.shape)
        alike = np.unique(joined, return_inverse=True)[1].reshape(joined.shape)
    where, answers = np.broadcast_to(where, shape), np.zeros(shape)
    kinds = np.broadcast_to(alike, shape)[where]
    _, first, which = np.unique(kinds, return_index=True, return_inverse=True)
    given = [np.broadcast_to(array, shape)[where][first].tolist() for array in numbers]
    rows = zip(*given, strict=True) if given else [() for _ in first]
    answers[where] = np.array(list(starmap(question, rows)), np.float64)[which]
    return answers


def cycles_of_calls(
    fit: Fit, sizes: Sequence[Ints], extents: Sequence[Ints], where: Bools
) -> Floats:
    """Counts the cycles of all calls that do a block over these extents in pieces of these sizes,
    for many blocks at once: each iterator has an array of extents, and one of sizes. Where an
    operand stays in the unit, calls that use the same part of it come one after the other.
    """
    pieces = [list(_pieces(*pair)) for pair in zip(extents, sizes, strict=True)]

    def ask(cost: _Cost, sizes: Sequence[Any], count: Any) -> Floats:
        given = [np.asarray(size, np.int64) for size in sizes]
        names = fit.iterators

        def told(*numbers: int) -> float:
            return cost(dict(zip(names, numbers, strict=True)))

        return asked(told, given, where & (count > 0))

    return _total(fit, pieces, ask)


def cycles_of_block(fit: Fit, sizes: Sequence[int], extents: Sequence[int]) -> float:
    """Counts the cycles of all calls that do one block, as `cycles_of_calls` does for many."""
    pairs = [(min(size, extent), extent) for size, extent in zip(sizes, extents, strict=True)]
    pieces = [[(n, end // n), *([(end % n, 1)] if end % n else [])] for n, end in pairs]
    names = fit.iterators
    return _total(fit, pieces, lambda cost, sizes, _: cost(dict(zip(names, sizes, strict=True))))


def count_calls(sizes: Sequence[Ints], extents: Sequence[Ints]) -> Ints:
    """Counts the calls that do a block over these extents in pieces of these sizes."""
    pairs = zip(extents, sizes, strict=True)
    return prod((-(-extent // size) for extent, size in pairs), start=np.ones((), np.int64))


_Piece = tuple[Any, Any]
"""The size of a piece of an iterator, and how often it comes: numbers, or arrays for many
blocks."""
_Cost = Callable[[Sizes], float]
_Ask = Callable[[_Cost, Sequence[Any], Any], Any]
"""Asks for the cost of calls of these sizes, of which there are so many."""


def _total(fit: Fit, pieces: Sequence[Sequence[_Piece]], ask: _Ask) -> Any:
    """Counts the cycles of all calls of these pieces."""
    if not fit.instruction.keeps:
        return _summed(fit, pieces, fit.instruction.cost, ask)
    cost = fit.instruction.cost_kept
    inner = {i for i in range(len(pieces)) if i not in fit.turns}
    first = [[(side[0][0], 1)] if i in inner else side for i, side in enumerate(pieces)]
    total = _summed(fit, pieces, cost, ask) + _summed(fit, first, fit.instruction.cost, ask)
    return total - _summed(fit, first, cost, ask)


def _pieces(extent: Ints, size: Ints) -> Iterator[_Piece]:
    size = np.minimum(size, extent)
    whole, rest = np.divmod(extent, size)
    yield size, whole
    if np.any(rest):
        yield rest, np.asarray(rest > 0, np.int64)


def _summed(fit: Fit, pieces: Sequence[Sequence[_Piece]], cost: _Cost, ask: _Ask) -> Any:
    """Sums the cycles of the calls for all combinations of these pieces."""
    named = sorted({i for positions in fit.iterators.values() for i in positions})
    total: Any = 0.0
    for chosen in product(*(pieces[i] for i in named)):
        size_of = {i: size for i, (size, _) in zip(named, chosen, strict=True)}
        sizes = [prod(size_of[i] for i in at) for at in fit.iterators.values()]
        count = prod(times for _, times in chosen)
        total = total + count * ask(cost, sizes, count)
    times = [sum(n for _, n in side) for i, side in enumerate(pieces) if i not in named]
    return total * prod(times)
