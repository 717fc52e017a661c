"""Restates blocks with their iterators in the order of their result, one for each of its
dimensions.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.ir.affine import AffineBinaryOpExpr, AffineDimExpr, AffineExpr, AffineMap

from byocir.dialects.tir import BlockOp, IteratorAttr, IteratorKind
from byocir.dialects.tir.affine import canonical, iterator_of
from byocir.dialects.types import Shape, shape_of
from byocir.dialects.uses import replace_op
from byocir.lowering.tir_to_vta.layout import weights_of

_ZERO = AffineExpr.constant(0)


def evaluated(map_: AffineMap, extents: Sequence[int]) -> list[np.ndarray]:
    """Computes the indices at every point, with size 1 along iterators that they do not depend
    on.
    """
    grids = np.meshgrid(*(np.arange(extent) for extent in extents), indexing="ij", sparse=True)
    exprs = map_.results
    return [np.asarray(expr.eval(grids, [])) for expr in exprs]


def spread(values: np.ndarray, map_: AffineMap, extents: Shape) -> np.ndarray:
    """Reads the elements at every point of a block, int64, with size 1 along iterators that the
    index does not depend on.
    """
    index = tuple(evaluated(map_, extents))
    read = np.asarray(values[index] if index else values, np.int64)
    return read.reshape(read.shape or (1,) * len(extents))


def view_of(map_: AffineMap, extents: Shape, shape: Shape) -> AffineMap | None:
    """Restates a map as [N, C, …] → [N, C, …], if only batch and channel are larger than 1 or
    nothing moves; None when elements move otherwise.
    """
    rank = len(extents)
    dims = tuple(AffineExpr.dimension(i) for i in range(rank))
    same = len(shape) == rank and all(
        expr == dim or size == 1 for expr, dim, size in zip(map_.results, dims, shape, strict=True)
    )
    if same and shape == extents:
        return AffineMap.identity(rank)
    if len(shape) < 2 or shape[:2] != extents[:2] or max([1, *shape[2:], *extents[2:]]) > 1:
        return None
    zeros = tuple(AffineExpr.constant(0) for _ in shape[2:])
    view = AffineMap(rank, 0, (*dims[:2], *zeros))
    found, expected = evaluated(map_, extents), evaluated(view, extents)
    same = all(bool(np.all(a == b)) for a, b in zip(found, expected, strict=True))
    return view if same else None


def without_units(op: BlockOp, units: Collection[int]) -> BlockOp:
    """Puts 0 for these iterators of extent 1 into indices that compute with them. A block without
    such indices stays; else a new one takes its place.
    """
    count = len(op.extents)
    dims = [_ZERO if i in units else AffineExpr.dimension(i) for i in range(count)]
    old = [*op.in_maps, *op.out_maps]
    maps = [AffineMap(count, 0, tuple(_without(e, dims) for e in m.results)) for m in old]
    return op if maps == old else _with_maps(op, list(op.iterators), maps)


def _without(expr: AffineExpr, dims: Sequence[AffineExpr]) -> AffineExpr:
    if not isinstance(expr, AffineBinaryOpExpr):
        return expr
    return canonical(expr.replace_dims_and_symbols(list(dims), []))


def normalise(op: BlockOp) -> BlockOp:
    """Restates a block with its parallel iterators in the order of its result's index, then the
    reductions.

    Iterators of extent 1 that a map may have lost are there again: for each dimension of the
    result and for the channels of a contraction. A block that already is so, or whose result is
    not indexed by iterators alone, stays; else the new one takes its place.
    """
    out = op.out_maps[0].results
    plain = all(isinstance(expr, AffineDimExpr) or expr == _ZERO for expr in out)
    if len(op.outs) != 1 or op.bases or op.where is not None or not plain:
        return op
    space = _Space.of(op)
    if space.is_of(op):
        return op
    return _with_maps(op, space.iterators, [*space.in_maps, space.out_map])


def _with_maps(op: BlockOp, iterators: list[IteratorAttr], maps: list[AffineMap]) -> BlockOp:
    """Replaces a block by one with other iterators and maps."""
    made = op.like(iterators=iterators, maps=maps)
    replace_op(op, made)
    return made


@dataclass
class _Space:
    """Holds the iterators and maps of a block while they are normalised."""

    iterators: list[IteratorAttr]
    in_maps: list[AffineMap]
    out_map: AffineMap

    @staticmethod
    def of(op: BlockOp) -> _Space:
        old = list(op.iterators)
        order: list[int | None] = [iterator_of(expr) for expr in op.out_maps[0].results]
        rank = len(order)
        space = _Space([], [], AffineMap.identity(rank))
        for i in order:
            space.iterators.append(space.unit(IteratorKind.PARALLEL) if i is None else old[i])
        channels = _lost_channels(op)
        reductions = op.reductions
        space.iterators += [old[i] for i in reductions]
        if channels is not None and channels.summed is None:
            space.iterators.append(space.unit(IteratorKind.REDUCTION))
        count = len(space.iterators)
        # A parallel iterator that the result does not use runs over 0 alone.
        dims: list[AffineExpr] = [_ZERO] * len(old)
        for new, i in enumerate([*order, *reductions]):
            if i is not None:
                dims[i] = AffineExpr.dimension(new)
        space.out_map = AffineMap(count, 0, tuple(map(AffineExpr.dimension, range(rank))))
        space.in_maps = [
            AffineMap(count, 0, tuple(e.replace_dims_and_symbols(dims, []) for e in m.results))
            for m in op.in_maps
        ]
        if channels is not None:
            space.restore(channels, dims)
        if op.reductions:
            weights = weights_of(op) if len(op.ins) == 2 else None
            inputs = [i for i in range(len(op.ins)) if i != weights]
            space.restore_batch(inputs, own_channels=channels is None)
        return space

    def unit(self, kind: IteratorKind) -> IteratorAttr:
        """Makes an iterator of extent 1."""
        return IteratorAttr.of(f"unit{len(self.iterators)}", kind, 1)

    def is_of(self, op: BlockOp) -> bool:
        """Tells if the block already has these iterators and maps."""
        same = self.iterators == list(op.iterators) and self.in_maps == op.in_maps
        return same and self.out_map == op.out_maps[0]

    def restore(self, channels: _Channels, dims: list[AffineExpr]) -> None:
        """Puts iterators over channels that were dropped, as their extent is 1, back into the maps
        of a contraction.
        """
        count = len(self.iterators)
        summed = count - 1 if channels.summed is None else iterator_of(dims[channels.summed])
        assert summed is not None
        inner, out = AffineExpr.dimension(summed), AffineExpr.dimension(1)
        x, w = channels.x, channels.w
        x_exprs, w_exprs = list(self.in_maps[x].results), list(self.in_maps[w].results)
        x_exprs[1] = inner
        for channel in (out, inner):
            free = [i for i, expr in enumerate(w_exprs) if expr == _ZERO]
            if channel not in w_exprs and free:
                w_exprs[free[0]] = channel
        self.in_maps[x] = AffineMap(count, 0, tuple(x_exprs))
        self.in_maps[w] = AffineMap(count, 0, tuple(w_exprs))

    def restore_batch(self, inputs: list[int], own_channels: bool) -> None:
        """Puts iterators over the batch back where an input [N, C, …] is read at 0, and those over
        channels, where an input has the result's.
        """
        for i in inputs:
            exprs = list(self.in_maps[i].results)
            for axis in range(2 if own_channels else 1):
                if axis < len(exprs) and exprs[axis] == _ZERO and _extent(self, axis) == 1:
                    exprs[axis] = AffineExpr.dimension(axis)
            self.in_maps[i] = AffineMap(len(self.iterators), 0, tuple(exprs))


def _extent(space: _Space, axis: int) -> int:
    return space.iterators[axis].extent.data


@dataclass
class _Channels:
    """Holds the operands of a contraction, and the reduction over input channels; None for it if it
    was dropped.
    """

    x: int
    w: int
    summed: int | None


def _lost_channels(op: BlockOp) -> _Channels | None:
    """Finds the channels of a contraction, as far as they are known; None for other blocks."""
    if not op.reductions or len(op.ins) != 2 or len(op.parallels) < 1:
        return None
    w = weights_of(op)
    x = 1 - w
    if len(op.out_maps[0].results) < 2 or len(shape_of(op.ins[x].type)) < 2:
        return None
    channel = op.in_maps[x].results[1]
    summed = iterator_of(channel)
    if summed is not None and summed in op.reductions:
        return _Channels(x, w, summed)
    return _Channels(x, w, None) if channel == _ZERO else None
