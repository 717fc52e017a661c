"""Turns the index maps of a block into views of arrays.

A view has one axis per iterator, of size 1 where the map of an input does not use the iterator, so
that views broadcast against each other. Linear maps give strided views without copying; maps that
divide or take remainders gather. Reads outside an array go to a copy with a margin of pad values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.lib.stride_tricks import as_strided
from xdsl.ir.affine import AffineExpr, AffineMap

from byocir.dialects.tir.affine import format_expr, iterators_in, linear
from byocir.dialects.tir.linear import spans
from byocir.errors import ByocirError
from byocir.memory import expect_memory


@dataclass(frozen=True)
class PointGrid:
    """Describes an iteration space, with its iterators in the order in which views have axes."""

    names: tuple[str, ...]
    """The names of all iterators of the block, by position."""
    extents: tuple[int, ...]
    """The extents of all iterators of the block, by position."""
    axes: tuple[int, ...]
    """The position of each axis' iterator; iterators that have no axis are not in the space."""

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.extents[i] for i in self.axes)

    def values(self, expr: AffineExpr, bases: Sequence[int]) -> np.ndarray:
        """Computes an expression at every point, with axes of size 1 for iterators that it does not
        use.
        """
        grids: list[np.ndarray | None] = [None] * len(self.extents)
        for axis, i in enumerate(self.axes):
            shape = [1] * len(self.axes)
            shape[axis] = self.extents[i]
            grids[i] = np.arange(bases[i], bases[i] + self.extents[i]).reshape(shape)
        values = np.asarray(expr.eval(grids, []))
        return values.reshape(values.shape or (1,) * len(self.axes))


class IndexedView:
    """Applies an index map over a space to arrays; `full` views have axes of full size also for
    unused iterators.
    """

    def __init__(self, space: PointGrid, map_: AffineMap, *, full: bool) -> None:
        self.space = space
        self.exprs = map_.results
        forms = [linear(expr) for expr in self.exprs]
        self.is_linear = all(form is not None for form in forms)
        self._forms = [form for form in forms if form is not None]
        used = iterators_in(self.exprs)
        self._shape = tuple(space.extents[i] if full or i in used else 1 for i in space.axes)
        offsets = spans(space.extents)
        self._spans = [form.variable.interval(offsets.__getitem__) for form in self._forms]
        self._strides: dict[tuple[int, ...], tuple[int, ...]] = {}

    def view(
        self,
        array: np.ndarray,
        bases: Sequence[int],
        pad: np.generic | None = None,
        mask: np.ndarray | None = None,
    ) -> np.ndarray:
        """Gives the elements of `array` at every point. Reads outside give `pad`; without one they
        raise ByocirError B303, except at points where `mask` is false.
        """
        if not self.is_linear:
            return self._gather(array, bases, pad, mask)
        starts = self._starts(bases)
        if not self._inside(array, starts):
            self._check(array, bases, pad, mask)
            lows = [s + low for s, (low, _) in zip(starts, self._spans, strict=True)]
            highs = [s + high for s, (_, high) in zip(starts, self._spans, strict=True)]
            array = surrounded(array, lows, highs, pad)
            starts = [start - low for start, low in zip(starts, lows, strict=True)]
        return self._strided(array, starts)

    def is_in_place(self, array: np.ndarray, bases: Sequence[int]) -> bool:
        """Tells if `view` gives a view into this array, not a copy."""
        return self.is_linear and self._inside(array, self._starts(bases))

    def _inside(self, array: np.ndarray, starts: list[int]) -> bool:
        return all(
            start + low >= 0 and start + high < size
            for start, (low, high), size in zip(starts, self._spans, array.shape, strict=True)
        )

    def _starts(self, bases: Sequence[int]) -> list[int]:
        """Gives the index at the first point of the space, for each dimension of the array."""
        return [form.value(bases.__getitem__) for form in self._forms]

    def _strided(self, array: np.ndarray, starts: Sequence[int]) -> np.ndarray:
        strides = self._strides.get(array.strides)
        if strides is None:
            strides = self._strides[array.strides] = tuple(
                sum(
                    form.coefficient(i) * stride
                    for form, stride in zip(self._forms, array.strides, strict=True)
                )
                for i in self.space.axes
            )
        if array.flags.c_contiguous and array.dtype.isbuiltin == 1:
            offset = sum(s * stride for s, stride in zip(starts, array.strides, strict=True))
            return np.ndarray(self._shape, array.dtype, array, offset, strides)
        corner = array[(..., *(slice(start, None) for start in starts))]  # never a scalar
        return as_strided(corner, self._shape, strides)

    def indices(self, bases: Sequence[int]) -> tuple[np.ndarray, ...]:
        """Computes the index into each dimension of the array at every point; the results
        broadcast.
        """
        return tuple(self.space.values(expr, bases) for expr in self.exprs)

    def _gather(
        self,
        array: np.ndarray,
        bases: Sequence[int],
        pad: np.generic | None,
        mask: np.ndarray | None,
    ) -> np.ndarray:
        indices = self.indices(bases)
        lows, highs = [int(i.min()) for i in indices], [int(i.max()) for i in indices]
        if any(low < 0 for low in lows) or any(
            high >= size for high, size in zip(highs, array.shape, strict=True)
        ):
            self._check(array, bases, pad, mask)
            array = surrounded(array, lows, highs, pad)
            indices = tuple(i - low for i, low in zip(indices, lows, strict=True))
        return np.broadcast_to(array[indices], self._shape)

    def _check(
        self,
        array: np.ndarray,
        bases: Sequence[int],
        pad: np.generic | None,
        mask: np.ndarray | None,
    ) -> None:
        """Raises ByocirError B303 for an access outside that neither pad nor mask covers."""
        if pad is not None:
            return
        for expr, size in zip(self.exprs, array.shape, strict=True):
            index = self.space.values(expr, bases)
            outside = (index < 0) | (index >= size)
            if (outside if mask is None else outside & mask).any():
                raise ByocirError(
                    "B303",
                    f"expected index {format_expr(expr, self.space.names)} inside [0, {size}), "
                    f"found [{index.min()}, {index.max()}]",
                )


def surrounded(
    array: np.ndarray, lows: Sequence[int], highs: Sequence[int], pad: np.generic | None
) -> np.ndarray:
    """Gives the box from `lows` to `highs` of an array that is surrounded by `pad` (0 for None) on
    all sides.
    """
    shape = [high - low + 1 for low, high in zip(lows, highs, strict=True)]
    expect_memory(prod(shape) * array.dtype.itemsize, "an array with its pads")
    result = np.zeros(shape, array.dtype)
    if pad is not None and any(pad.tobytes()):
        result.fill(pad)
    inner: list[slice] = []
    outer: list[slice] = []
    for low, high, size in zip(lows, highs, array.shape, strict=True):
        start, stop = max(low, 0), max(min(high + 1, size), max(low, 0))
        inner.append(slice(start, stop))
        outer.append(slice(start - low, stop - low))
    result[tuple(outer)] = array[tuple(inner)]
    return result


def expect_writable(array: np.ndarray) -> None:
    """Raises ByocirError B304 for an array that holds a constant."""
    if not array.flags.writeable:
        raise ByocirError("B304", "expected a buffer that can be written, found a constant")
