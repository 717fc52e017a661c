"""Meaning of `tir.block`.

The parallel iterators are evaluated all at once, which is what makes them parallel: no point may
read what another one writes. The reduction iterators run in row-major order, outermost, unless the
body is of a form that `tir_reduce` knows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from byocir.dialects.tir import BlockOp
from byocir.dialects.types import MOST_DIMENSIONS
from byocir.errors import ByocirError
from byocir.evaluate.scalar import Body, number
from byocir.evaluate.tir_access import IndexedView, PointGrid, expect_writable
from byocir.evaluate.tir_reduce import recognise


class BlockPlan:
    """The part of running a block that is worked out once, though the block may run many times."""

    def __init__(self, op: BlockOp) -> None:
        """Raises ByocirError B312 for more iterators than numpy's arrays have dimensions."""
        if len(op.extents) > MOST_DIMENSIONS:
            most, found = MOST_DIMENSIONS, len(op.extents)
            raise ByocirError("B312", f"expected at most {most} iterators, found {found}")
        self._names = tuple(op.names)
        parallels, reductions = tuple(op.parallels), tuple(op.reductions)
        self._space = PointGrid(self._names, op.extents, (*parallels, *reductions))
        written = PointGrid(self._names, op.extents, parallels)
        whole = op.whole
        self._ins = [
            None if i in whole else IndexedView(self._space, map_, full=False)
            for i, map_ in enumerate(op.in_maps)
        ]
        """None for what the body gets whole."""
        self._outs = [IndexedView(written, map_, full=True) for map_ in op.out_maps]
        self._pads = [None if pad is None else number(pad) for pad in op.pad_values]
        self._body = Body.of(op.body.block, op.yielded)
        self._reduction = recognise(op)
        self._guards = op.where.data.results if op.where is not None else None
        self._reduced = tuple(op.extents[i] for i in reductions)
        self._first = (0,) * len(op.extents)

    def run(
        self, ins: Sequence[np.ndarray], outs: Sequence[np.ndarray], bases: Sequence[int]
    ) -> None:
        """Updates `outs` in place. `bases` is empty or has one integer per iterator. Raises
        ByocirError B303 for an access outside an array and B304 for a write to a constant."""
        for array in outs:
            expect_writable(array)
        bases = bases or self._first
        if not self._reduced:
            self._run_parallel(ins, outs, bases)
        elif self._reduction is None or _share(ins, outs):
            self._run_in_order(ins, outs, bases)
        else:
            views = self._read(ins, bases, None)
            acc = self._outs[0].view(outs[0], bases)
            self._write(outs, bases, [self._reduction.run(views, acc, self._reduced)], None)

    def _run_parallel(
        self, ins: Sequence[np.ndarray], outs: Sequence[np.ndarray], bases: Sequence[int]
    ) -> None:
        mask = self._mask(bases)
        views = self._read(ins, bases, mask)
        old = [a.view(out, bases, None, mask) for a, out in zip(self._outs, outs, strict=True)]
        new = self._body.run([*views, *old])
        if len(outs) > 1:  # a value may be a view of what the first write changes
            new = [np.array(value) for value in new]
        self._write(outs, bases, new, mask)

    def _run_in_order(
        self, ins: Sequence[np.ndarray], outs: Sequence[np.ndarray], bases: Sequence[int]
    ) -> None:
        mask = self._mask(bases)
        shape = self._space.shape[: -len(self._reduced)]
        axes = tuple(range(len(shape), len(self._space.axes)))
        once = None if mask is None else np.asarray(mask.any(axis=axes))
        guard = None if mask is None else np.broadcast_to(mask, self._space.shape)
        shared = _share(ins, outs)
        views = self._read(ins, bases, mask)
        acc = [
            a.view(out, bases, None, once).copy() for a, out in zip(self._outs, outs, strict=True)
        ]
        for point in np.ndindex(self._reduced):
            if shared:
                views = self._read(ins, bases, mask)
            pairs = zip(self._ins, views, strict=True)
            at = [view if access is None else _at(view, point) for access, view in pairs]
            new = self._body.run([*at, *acc])
            if guard is not None:
                kept = guard[(..., *point)]
                new = [np.where(kept, n, a) for n, a in zip(new, acc, strict=True)]
            acc = [np.broadcast_to(value, shape) for value in new]
            if shared:
                self._write(outs, bases, acc, once)
        self._write(outs, bases, acc, once)

    def _mask(self, bases: Sequence[int]) -> np.ndarray | None:
        """Tells of each point if the guard holds there; None without a guard."""
        if self._guards is None:
            return None
        mask = np.ones((1,) * len(self._space.axes), np.bool_)
        for expr in self._guards:
            mask = mask & (self._space.values(expr, bases) >= 0)
        return mask

    def _read(
        self, ins: Sequence[np.ndarray], bases: Sequence[int], mask: np.ndarray | None
    ) -> list[np.ndarray]:
        return [
            array if access is None else access.view(array, bases, pad, mask)
            for access, array, pad in zip(self._ins, ins, self._pads, strict=True)
        ]

    def _write(
        self,
        outs: Sequence[np.ndarray],
        bases: Sequence[int],
        values: Sequence[np.ndarray],
        mask: np.ndarray | None,
    ) -> None:
        for access, array, value in zip(self._outs, outs, values, strict=True):
            if access.is_in_place(array, bases):
                view = access.view(array, bases)
                np.copyto(view, value, where=True if mask is None else mask)
                continue
            shape = access.space.shape
            indices = [np.broadcast_to(index, shape) for index in access.indices(bases)]
            value = np.broadcast_to(value, shape)
            if mask is None:
                array[tuple(indices)] = value
            else:
                kept = np.broadcast_to(mask, shape)
                array[tuple(index[kept] for index in indices)] = value[kept]


def _at(view: np.ndarray, point: tuple[int, ...]) -> np.ndarray:
    """Gives the elements at a point of the last axes; axes of size 1 are constant."""
    sizes = view.shape[view.ndim - len(point) :]
    return view[(..., *(i if n > 1 else 0 for i, n in zip(point, sizes, strict=True)))]


def _share(ins: Sequence[np.ndarray], outs: Sequence[np.ndarray]) -> bool:
    return any(np.may_share_memory(source, out) for source in ins for out in outs)
