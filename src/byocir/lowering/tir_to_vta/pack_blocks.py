"""Blocks on packed arrays: channels in blocks, one block per element of VTA's memories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import LocationAttr, TensorType
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap

from byocir.dialects.array import Array
from byocir.dialects.tir import BlockOp, ConstantOp, IteratorAttr, IteratorKind
from byocir.dialects.types import element_type_of, shape_of, tensor


def blocks(channels: int, block: int) -> int:
    """How many blocks hold this many channels."""
    return -(-channels // block)


def packed(type_: Attribute, block: int) -> TensorType:
    """[N, C, …] as [N, C / block, …, block]."""
    n, c, *spatial = shape_of(type_)
    return tensor(element_type_of(type_), (n, blocks(c, block), *spatial, block))


def packed_array(values: np.ndarray, axes: Sequence[int], block: int) -> np.ndarray:
    """The array with each of these axes split into blocks, filled up with zeros; the positions in
    the blocks become the last axes, in this order: [O, I, …] over (0, 1) gives
    [O / block, I / block, …, block, block]."""
    for axis in axes:
        size, count = values.shape[axis], blocks(values.shape[axis], block)
        margin = [(0, 0)] * values.ndim
        margin[axis] = (0, count * block - size)
        split = (*values.shape[:axis], count, block, *values.shape[axis + 1 :])
        # The blocks split before stand at the end already; this one goes after them.
        values = np.moveaxis(np.pad(values, margin).reshape(split), axis + 1, -1)
    return np.ascontiguousarray(values)


@dataclass
class BlockPacker:
    """Packs one block in VTA form, unpacked so far.

    Its channel iterators (of the result, and of a contraction) become one over blocks and one over
    the lanes of a block; the new ones come last among the parallel and the reduction iterators.
    """

    op: BlockOp
    block: int

    def __post_init__(self) -> None:
        op = self.op
        self.channel = op.parallels[1]
        self.summed = self._summed_channel()
        order = [*op.parallels, -1, *op.reductions]
        self.position = {old: new for new, old in enumerate(order) if old >= 0}
        self.lane = len(op.parallels)
        self.count = len(op.extents) + 1 + (self.summed is not None)

    def _summed_channel(self) -> int | None:
        """The reduction over the input channels of a contraction."""
        if not self.op.reductions:
            return None
        channel = self.op.in_maps[0].results[1]
        position = channel.position if isinstance(channel, AffineDimExpr) else self.channel
        return None if position == self.channel else position

    def pack(self, values: dict[SSAValue, SSAValue], into: Block) -> BlockOp:
        """Appends the packed block; `values` has the packed form of everything but constants."""
        op = self.op
        ins: list[SSAValue] = []
        maps: list[AffineMap] = []
        for value, map_ in zip(op.ins, op.in_maps, strict=True):
            if isinstance(value.owner, ConstantOp):
                constant, new_map = self._constant(value.owner, map_)
                into.add_op(constant)
                ins.append(constant.result)
            else:
                ins.append(values[value])
                new_map = self._activation(map_)
            maps.append(new_map)
        maps.append(self._activation(op.out_maps[0]))
        made = BlockOp(
            self._iterators(),
            ins,
            [values[op.outs[0]]],
            maps,
            op.body.clone(),
            pads=op.pad_values,
            where=self._map(op.where.data.results) if op.where is not None else None,
            location=op.location,
        )
        into.add_op(made)
        return made

    def _iterators(self) -> list[IteratorAttr]:
        op = self.op
        old = list(op.iterators)
        made = [self._counted(old[i], i) for i in op.parallels]
        made.append(self._over_lanes(IteratorKind.PARALLEL, "l"))
        made += [self._counted(old[i], i) for i in op.reductions]
        if self.summed is not None:
            made.append(self._over_lanes(IteratorKind.REDUCTION, "k"))
        return made

    def _counted(self, iterator: IteratorAttr, position: int) -> IteratorAttr:
        if position not in (self.channel, self.summed):
            return iterator
        count = blocks(iterator.extent.data, self.block)
        return IteratorAttr.of(iterator.iterator_name.data, iterator.kind.data, count)

    def _over_lanes(self, kind: IteratorKind, name: str) -> IteratorAttr:
        while name in self.op.names:
            name += "_"
        return IteratorAttr.of(name, kind, self.block)

    def _lane_of(self, channel: int | None) -> AffineExpr:
        """The position in a block, for the iterator over channels."""
        return AffineExpr.dimension(self.lane if channel == self.channel else self.count - 1)

    def _map(self, exprs: Sequence[AffineExpr]) -> AffineMap:
        dims = [AffineExpr.dimension(self.position[i]) for i in range(len(self.op.extents))]
        return AffineMap(self.count, 0, tuple(e.replace_dims_and_symbols(dims, []) for e in exprs))

    def _activation(self, map_: AffineMap) -> AffineMap:
        """The map of [N, C, …] as that of [N, C / block, …, block]."""
        channel = map_.results[1]
        position = channel.position if isinstance(channel, AffineDimExpr) else None
        return AffineMap(self.count, 0, (*self._map(map_.results).results, self._lane_of(position)))

    def _constant(self, op: ConstantOp, map_: AffineMap) -> tuple[ConstantOp, AffineMap]:
        if self.summed is not None:
            return self._weights(op, map_)
        values, exprs = op.value.data.values(), list(map_.results)
        split = [i for i, e in enumerate(exprs) if e == AffineExpr.dimension(self.channel)]
        if split:
            values = packed_array(values, split, self.block)
        else:
            values = np.repeat(values[..., None], self.block, axis=-1)
        lane = AffineExpr.dimension(self.lane)
        new_map = AffineMap(self.count, 0, (*self._map(exprs).results, lane))
        return _constant(values, op.location), new_map

    def _weights(self, op: ConstantOp, map_: AffineMap) -> tuple[ConstantOp, AffineMap]:
        """[O, I, …] (in any order) as [O / block, I / block, …, block (O), block (I)]."""
        assert self.summed is not None
        exprs = list(map_.results)
        out = exprs.index(AffineExpr.dimension(self.channel))
        inner = exprs.index(AffineExpr.dimension(self.summed))
        order = [out, inner, *(i for i in range(len(exprs)) if i not in (out, inner))]
        values = packed_array(op.value.data.values().transpose(order), (0, 1), self.block)
        lanes = (self._lane_of(self.channel), self._lane_of(self.summed))
        kept = self._map([exprs[i] for i in order]).results
        return _constant(values, op.location), AffineMap(self.count, 0, (*kept, *lanes))


def _constant(values: np.ndarray, location: LocationAttr) -> ConstantOp:
    return ConstantOp.of(Array.of(values), location=location)


def check_space(op: Operation) -> bool:
    """Whether this is a block in VTA form: one result [N, C, …] in the order of its parallel
    iterators."""
    if not isinstance(op, BlockOp) or not op.in_value_form or len(op.outs) != 1:
        return False
    dims = [AffineExpr.dimension(i) for i in op.parallels]
    return list(op.out_maps[0].results) == dims and len(dims) >= 2 and not op.bases
