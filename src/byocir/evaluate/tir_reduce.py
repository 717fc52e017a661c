"""Reductions of the form `acc = acc <op> term(ins)`, vectorised and still exact.

Integers are combined in any order, for they wrap around and every order gives the same. Floats are
combined one by one in row-major order of the reduction iterators, which is what the block means.
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
from byocir.dialects.types import i1
from byocir.evaluate.scalar import Body, arguments_of

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
    """One side of a product that depends on a single input."""

    argument: int
    body: Body


@dataclass(frozen=True)
class Reduction:
    """`acc = combine(acc, term(ins))`; `factors` when the term is a product of integers of which
    each side depends on one input."""

    combine: np.ufunc
    term: Body
    factors: tuple[ProductSide, ProductSide] | None

    def run(
        self, views: Sequence[np.ndarray], acc: np.ndarray, reductions: tuple[int, ...]
    ) -> np.ndarray:
        """Gives the final accumulators. `views` have one axis per parallel iterator, then one per
        reduction iterator, of size 1 where they are constant; `acc` has the parallel axes."""
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
        """Gives the terms of a piece of the reduction space, with all axes at full size."""
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
        """Gives the sum of products as int64, by matrix products; None where they would not be
        exact or not be faster."""
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
    """Gives the block as a reduction of this form, if it is one."""
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
    """Boxes of at most `limit` points (at least one) that cover a space in row-major order."""
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
    """Gives a piece of the last axes of a view."""
    sizes = view.shape[view.ndim - len(piece) :]
    return view[(..., *(s if n > 1 else slice(None) for s, n in zip(piece, sizes, strict=True)))]


def _matrix_product(
    rows: np.ndarray, columns: np.ndarray, parallels: int, reductions: tuple[int, ...]
) -> np.ndarray | None:
    """Gives the sum over the last axes of the product of two integer arrays, as int64; None where
    floating point would round, or where both vary along the same axes."""
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
