"""Evaluates `tir.block`.

The parallel iterators are evaluated all at once, which is what makes them parallel: no point may
read what another one writes. The reduction iterators run in row-major order, outermost, unless the
body is a reduction of the form `acc = acc <op> term(ins)`: integers wrap around, so that they are
combined in any order; floats are combined one by one, in that order, which is what the block means.
Integer sums of products become matrix products in floating point where no rounding can happen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from xdsl.dialects import arith
from xdsl.ir import Operation, SSAValue

from byocir.dialects.tir import BlockOp
from byocir.dialects.types import MOST_DIMENSIONS, i1
from byocir.errors import ByocirError
from byocir.evaluate.scalar import Body, arguments_of, number
from byocir.evaluate.tir_access import IndexedView, PointGrid, expect_writable

INTEGER_LIMIT = 2**21
"""Elements of a term that are held at once when integers are combined."""
FLOAT_LIMIT = 2**15
"""The same for floats: large enough to amortise calls, small enough for the cache."""
MATRIX_LEAST = 2**11
"""Points below which a matrix product costs more than it saves."""
MATRIX_LIMIT = 2**23
"""Elements of a factor that are held at once."""

_COMBINE: dict[type[Operation], np.ufunc] = {
    arith.AddiOp: np.add,
    arith.MuliOp: np.multiply,
    arith.MaxSIOp: np.maximum,
    arith.MinSIOp: np.minimum,
    arith.AddfOp: np.add,
    arith.MulfOp: np.multiply,
    arith.MaximumfOp: np.maximum,
    arith.MinimumfOp: np.minimum,
}


@dataclass(frozen=True)
class ProductSide:
    """Describes one side of a product, which depends on a single input."""

    argument: int
    body: Body


@dataclass(frozen=True)
class Reduction:
    """Describes a block that computes `acc = combine(acc, term(ins))`; `factors` are there when the
    term is a product of integers, each side of which depends on one input.
    """

    combine: np.ufunc
    term: Body
    factors: tuple[ProductSide, ProductSide] | None

    def run(
        self, views: Sequence[np.ndarray], acc: np.ndarray, reductions: tuple[int, ...]
    ) -> np.ndarray:
        """Computes the final accumulators. `views` have one axis per parallel iterator, then one
        per reduction iterator, of size 1 where they are constant; `acc` has the parallel axes.
        """
        if self.factors is not None and acc.size * prod(reductions) >= MATRIX_LEAST:
            total = self._contract(views, self.factors, acc.ndim, reductions)
            if total is not None:
                return acc + total.astype(acc.dtype)
        if acc.dtype.kind in "iu":
            return self._combine_integers(views, acc, reductions)
        return self._combine_floats(views, acc, reductions)

    def _terms(
        self, views: Sequence[np.ndarray], acc: np.ndarray, piece: tuple[slice, ...]
    ) -> np.ndarray:
        """Computes the terms of a piece of the reduction space, with all axes at full size."""
        terms = self.term.run([_cut(view, piece) for view in views])[0]
        return np.broadcast_to(terms, (*acc.shape, *(s.stop - s.start for s in piece)))

    def _combine_integers(
        self, views: Sequence[np.ndarray], acc: np.ndarray, reductions: tuple[int, ...]
    ) -> np.ndarray:
        axes = tuple(range(acc.ndim, acc.ndim + len(reductions)))
        for piece in pieces(reductions, INTEGER_LIMIT // acc.size):
            terms = self._terms(views, acc, piece)
            acc = self.combine(acc, self.combine.reduce(terms, axis=axes, dtype=acc.dtype))
        return acc

    def _combine_floats(
        self, views: Sequence[np.ndarray], acc: np.ndarray, reductions: tuple[int, ...]
    ) -> np.ndarray:
        for piece in pieces(reductions, FLOAT_LIMIT // acc.size):
            terms = self._terms(views, acc, piece).reshape((*acc.shape, -1))
            if terms.shape[-1] == 1:
                acc = self.combine(acc, terms[..., 0])
            else:  # `reduce` would add pairwise
                chain = np.concatenate([acc[..., None], terms], axis=-1)
                acc = self.combine.accumulate(chain, axis=-1)[..., -1]
        return acc

    def _contract(
        self,
        views: Sequence[np.ndarray],
        factors: tuple[ProductSide, ProductSide],
        parallels: int,
        reductions: tuple[int, ...],
    ) -> np.ndarray | None:
        """Sums the products as int64, by matrix products; None where these would not be exact, or
        not faster.
        """
        first, second = (views[factor.argument] for factor in factors)
        big = first if first.size >= second.size else second
        axis = int(np.argmax(big.shape[:parallels])) if parallels else 0
        if big.size > MATRIX_LIMIT and parallels and big.shape[axis] > 1:
            return self._contract_halves(views, factors, parallels, reductions, axis)
        rows, columns = (factor.body.run(views)[0] for factor in factors)
        return _matrix_product(rows, columns, parallels, reductions)

    def _contract_halves(
        self,
        views: Sequence[np.ndarray],
        factors: tuple[ProductSide, ProductSide],
        parallels: int,
        reductions: tuple[int, ...],
        axis: int,
    ) -> np.ndarray | None:
        size = max(view.shape[axis] for view in views)
        results: list[np.ndarray] = []
        for part in (slice(0, size // 2), slice(size // 2, size)):
            index = (slice(None),) * axis + (part,)
            cut = [view[index] if view.shape[axis] > 1 else view for view in views]
            result = self._contract(cut, factors, parallels, reductions)
            if result is None:
                return None
            results.append(result)
        return np.concatenate(results, axis)


def recognise(op: BlockOp) -> Reduction | None:
    """Reads a block as a reduction of this form; None if it has another one."""
    block = op.body.block
    if len(op.outs) != 1 or op.where is not None or not op.reductions or op.whole:
        return None
    acc, last = block.args[-1], op.yielded[0].owner
    if not isinstance(last, Operation) or type(last) not in _COMBINE or acc.type == i1:
        return None
    terms = [value for value in last.operands if value is not acc]
    if len(terms) != 1 or acc.index in arguments_of(block, terms):
        return None
    factors = _factors(op, terms[0]) if isinstance(last, arith.AddiOp) else None
    return Reduction(_COMBINE[type(last)], Body.of(block, terms), factors)


def _factors(op: BlockOp, term: SSAValue) -> tuple[ProductSide, ProductSide] | None:
    if not isinstance(term.owner, arith.MuliOp):
        return None
    block = op.body.block
    sides = [(value, arguments_of(block, [value])) for value in term.owner.operands]
    if any(len(arguments) != 1 for _, arguments in sides) or sides[0][1] == sides[1][1]:
        return None
    first, second = (ProductSide(min(used), Body.of(block, [value])) for value, used in sides)
    return first, second


def pieces(extents: tuple[int, ...], limit: int) -> Iterator[tuple[slice, ...]]:
    """Yields boxes of at most `limit` points (at least one) that cover a space in row-major
    order.
    """
    if not extents:
        yield ()
        return
    rest = prod(extents[1:])
    step = max(1, limit // rest)
    for start in range(0, extents[0], step):
        head = slice(start, min(start + step, extents[0]))
        for tail in pieces(extents[1:], max(limit, 1) if rest > limit else rest):
            yield head, *tail


def _cut(view: np.ndarray, piece: tuple[slice, ...]) -> np.ndarray:
    """Cuts a piece out of the last axes of a view; axes of size 1 stay."""
    sizes = view.shape[view.ndim - len(piece) :]
    return view[(..., *(s if n > 1 else slice(None) for s, n in zip(piece, sizes, strict=True)))]


def _matrix_product(
    rows: np.ndarray, columns: np.ndarray, parallels: int, reductions: tuple[int, ...]
) -> np.ndarray | None:
    """Sums the product of two integer arrays over the last axes, as int64; None where floating
    point would round, or where both vary along the same axes.
    """
    kinds: dict[tuple[bool, bool], list[int]] = {}
    for axis in range(parallels):
        kind = (rows.shape[axis] > 1, columns.shape[axis] > 1)
        kinds.setdefault(kind, []).append(axis)
    batch, left = kinds.get((True, True), []), kinds.get((True, False), [])
    right, none = kinds.get((False, True), []), kinds.get((False, False), [])
    bound = prod(reductions) * _magnitude(rows) * _magnitude(columns)
    if bound >= 2**53 or not (left or right):
        return None
    # All partial sums are integers that the type holds, so the order of summation is free.
    dtype = np.float32 if bound < 2**24 else np.float64
    order = [*batch, *left, *right, *none]
    summed = range(parallels, parallels + len(reductions))
    matrices: list[np.ndarray] = []
    for factor, own in ((rows, left), (columns, right)):
        full = np.broadcast_to(factor, (*factor.shape[:parallels], *reductions))
        shape = [prod(factor.shape[i] for i in axes) for axes in (batch, own)]
        aligned = full.transpose([*order, *summed]).astype(dtype)
        matrices.append(aligned.reshape((*shape, prod(reductions))))
    product = np.matmul(matrices[0], matrices[1].swapaxes(1, 2)).astype(np.int64)
    sizes = [max(rows.shape[i], columns.shape[i]) for i in order]
    return product.reshape(sizes).transpose(np.argsort(order))


def _magnitude(values: np.ndarray) -> int:
    return max(abs(int(values.max())), abs(int(values.min())))


class BlockPlan:
    """Keeps the part of running a block that needs to be worked out only once, however often the
    block runs.
    """

    def __init__(self, op: BlockOp) -> None:
        """Works out how to run a block. Raises ByocirError B312 for more iterators than numpy's
        arrays have dimensions.
        """
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
        if len(outs) > 1:  # the first write may change an array of which a later value is a view
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
        """Marks the points at which the guard holds; None without a guard."""
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
    """Takes the elements at a point of the last axes; axes of size 1 are constant."""
    sizes = view.shape[view.ndim - len(point) :]
    return view[(..., *(i if n > 1 else 0 for i, n in zip(point, sizes, strict=True)))]


def _share(ins: Sequence[np.ndarray], outs: Sequence[np.ndarray]) -> bool:
    return any(np.may_share_memory(source, out) for source in ins for out in outs)
