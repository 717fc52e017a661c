"""Blocks on packed arrays: channels in blocks, one block per element of VTA's memories."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import LocationAttr, TensorType
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap

from byocir.dialects.array import Array
from byocir.dialects.tir import BlockOp, ConstantOp, IteratorAttr, IteratorKind
from byocir.dialects.types import Shape, element_type_of, shape_of, tensor
from byocir.lowering.tir_to_vta import forms
from byocir.lowering.tir_to_vta.legalise_groups import GroupedChannel
from byocir.lowering.tir_to_vta.legalise_lanes import OPERAND_CYCLES
from byocir.rewrites.tiled_layout import TiledLayout
from byocir.vta_sim import VTAConfig


@dataclass(frozen=True)
class Lanes:
    """The lanes of an element of VTA's memories: `block` channels for each of `batch` images."""

    block: int
    batch: int = 1

    @staticmethod
    def of(config: VTAConfig) -> Lanes:
        return Lanes(config.block_out, config.batch)


def blocks(channels: int, block: int) -> int:
    """Counts the blocks that hold so many channels."""
    return -(-channels // block)


def layout_of(type_: Attribute, lanes: Lanes) -> TiledLayout:
    """[N, C, …] as [N, C / block, …, block], or [N / batch, C / block, …, batch, block]."""
    rows = {0: lanes.batch} if lanes.batch > 1 else {}
    return TiledLayout(shape_of(type_), {**rows, 1: lanes.block})


def layout_of_weights(shape: Shape, block: int) -> TiledLayout:
    """[O, I, …] as [O / block, I / block, …, block (O), block (I)]."""
    return TiledLayout(shape, {0: block, 1: block})


def packed(type_: Attribute, lanes: Lanes) -> TensorType:
    """Gives the type of [N, C, …] in blocks."""
    return tensor(element_type_of(type_), layout_of(type_, lanes).packed)


def packed_weights(type_: Attribute, order: Sequence[int], block: int) -> TensorType:
    """Gives the type of [O, I, …], in this order of dimensions, in blocks."""
    ordered = tuple(shape_of(type_)[axis] for axis in order)
    return tensor(element_type_of(type_), layout_of_weights(ordered, block).packed)


def computed_weights(op: BlockOp) -> list[int] | None:
    """Gives the order of the dimensions of a contraction's weights (`order_of_weights`) where these
    are computed; None for other blocks."""
    if len(op.ins) != 2 or not op.reductions or isinstance(op.ins[1].owner, ConstantOp):
        return None
    packer = BlockPacker(op, Lanes(1))
    return order_of_weights(op.in_maps[1], packer.channel, packer.summed)


_GROUP, _LANE, _ROW = -1, -2, -3
"""Iterators that the unpacked block does not have."""


def grouped_channel(op: BlockOp) -> GroupedChannel | None:
    """Finds the index of the input's channels where groups of outputs read their own; else None."""
    if not op.reductions or len(op.in_maps[0].results) < 2:
        return None
    return GroupedChannel.of(op.in_maps[0].results[1])


@dataclass
class BlockPacker:
    """Packs one block in VTA form, unpacked so far.

    Its channel iterators (of the result, and of a contraction) become one over blocks and one over
    the lanes of a block; the new ones come last among the parallel and the reduction iterators. So
    does the batch where an element holds several rows: its lanes come before those of channels.
    The blocks of the result are counted by two iterators where `per_group` of them, more than one,
    read the same channels: over groups and over the blocks of one.
    """

    op: BlockOp
    lanes: Lanes
    per_group: int = 1

    def __post_init__(self) -> None:
        op, self.block = self.op, self.lanes.block
        self.images, self.channel = op.parallels[:2]
        self.has_rows = self.lanes.batch > 1
        self.grouped = grouped_channel(op)
        self.summed = self._summed_channel()
        n, c, *spatial = op.parallels
        channels = [c] if self.per_group == 1 else [_GROUP, c]
        rows = [_ROW] if self.has_rows else []
        order = [n, *channels, *spatial, *rows, _LANE, *op.reductions]
        self.lane = order.index(_LANE)
        self.count = len(order) + (self.summed is not None)
        self.dims = [AffineExpr.dimension(order.index(i)) for i in range(len(op.extents))]
        if self.per_group > 1:
            group = AffineExpr.dimension(order.index(_GROUP))
            self.dims[c] = group * self.per_group + self.dims[c]

    def _summed_channel(self) -> int | None:
        """Gives the reduction over the input channels of a contraction."""
        if not self.op.reductions:
            return None
        if self.grouped is not None:
            return self.grouped.summed
        channel = self.op.in_maps[0].results[1]
        position = channel.position if isinstance(channel, AffineDimExpr) else self.channel
        return None if position == self.channel else position

    def pack(self, values: dict[SSAValue, SSAValue], into: Block) -> BlockOp:
        """Appends the packed block; `values` has the packed form of everything but constants."""
        op = self.op
        weights = self._numbers_as_weights()
        if weights is not None:
            return self._product_with(weights, values[op.outs[0]], into)
        ins: list[SSAValue] = []
        maps: list[AffineMap] = []
        for i, (value, map_) in enumerate(zip(op.ins, op.in_maps, strict=True)):
            if isinstance(value.owner, ConstantOp):
                constant, new_map = self._constant(value.owner, map_)
                into.add_op(constant)
                ins.append(constant.result)
            else:
                ins.append(values[value])
                is_weights = self.summed is not None and i == 1
                new_map = self._weights_map(map_) if is_weights else self._activation(map_)
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

    def _numbers_as_weights(self) -> np.ndarray | None:
        """Gives the weights of which a product with a constant input is the number of each channel
        that a block adds; None for blocks that do not, for few points, and for larger numbers."""
        op = self.op
        adds = len(op.ins) == 1 and not op.reductions and len(op.body.block.ops) == 2
        if not adds or not isinstance(op.body.block.first_op, arith.AddiOp) or self.has_rows:
            return None
        numbers, index = op.ins[0].owner, op.in_maps[0].results
        points = math.prod(op.extents) // op.extents[self.channel]
        if not isinstance(numbers, ConstantOp) or points < OPERAND_CYCLES:
            return None  # loading the weights takes as long
        if list(index) != [AffineExpr.dimension(self.channel)]:
            return None
        packed, _ = self._constant(numbers, op.in_maps[0])
        return weights_of_numbers(packed.value.data.values())

    def _product_with(self, weights: np.ndarray, start: SSAValue, into: Block) -> BlockOp:
        """Appends the block that adds the products of a constant input with these weights."""
        count, summed = self.count + 1, AffineExpr.dimension(self.count)
        channel = self._map([AffineExpr.dimension(self.channel)]).results[0]
        out = self._activation(self.op.out_maps[0]).results
        lanes = self._over_lanes(IteratorKind.REDUCTION, "k")
        constants = [
            _constant(array, self.op.location) for array in (input_of_numbers(self.block), weights)
        ]
        into.add_ops(constants)
        indices = [(summed,), (channel, self._lane_of(self.channel), summed), out]
        made = BlockOp(
            [*self._iterators(), lanes],
            [constant.result for constant in constants],
            [start],
            [AffineMap(count, 0, index) for index in indices],
            forms.CONTRACTION.region(),
            location=self.op.location,
        )
        into.add_op(made)
        return made

    def _iterators(self) -> list[IteratorAttr]:
        op = self.op
        old = list(op.iterators)
        n, c, *spatial = op.parallels
        made = [self._counted(old[n], n), *self._over_blocks(old[c]), *(old[i] for i in spatial)]
        if self.has_rows:
            made.append(self._over_lanes(IteratorKind.PARALLEL, "b", self.lanes.batch))
        made.append(self._over_lanes(IteratorKind.PARALLEL, "l"))
        made += [self._counted(old[i], i) for i in op.reductions]
        if self.summed is not None:
            made.append(self._over_lanes(IteratorKind.REDUCTION, "k"))
        return made

    def _over_blocks(self, iterator: IteratorAttr) -> list[IteratorAttr]:
        """Gives the iterators over the blocks of the result's channels."""
        counted = self._counted(iterator, self.channel)
        if self.per_group == 1:
            return [counted]
        name, count = counted.iterator_name.data, counted.extent.data
        counts = {f"{name}_group": count // self.per_group, name: self.per_group}
        return [IteratorAttr.of(n, IteratorKind.PARALLEL, size) for n, size in counts.items()]

    def _counted(self, iterator: IteratorAttr, position: int) -> IteratorAttr:
        sizes = {self.images: self.lanes.batch, self.channel: self.block, self.summed: self.block}
        count = blocks(iterator.extent.data, sizes.get(position, 1))
        return IteratorAttr.of(iterator.iterator_name.data, iterator.kind.data, count)

    def _over_lanes(self, kind: IteratorKind, name: str, count: int = 0) -> IteratorAttr:
        while name in self.op.names:
            name += "_"
        return IteratorAttr.of(name, kind, count or self.block)

    def _lane_of(self, channel: int | None) -> AffineExpr:
        """Gives the position in a block, for the iterator over channels."""
        return AffineExpr.dimension(self.lane if channel == self.channel else self.count - 1)

    def _map(self, exprs: Sequence[AffineExpr]) -> AffineMap:
        return AffineMap(
            self.count, 0, tuple(e.replace_dims_and_symbols(self.dims, []) for e in exprs)
        )

    def _activation(self, map_: AffineMap) -> AffineMap:
        """Gives the map of [N, C, …] as that of [N, C / block, …, block]."""
        n, channel, *spatial = map_.results
        position = channel.position if isinstance(channel, AffineDimExpr) else None
        if self.grouped is not None and GroupedChannel.of(channel) == self.grouped:
            channel, position = self._block_of_group(self.grouped), self.summed
            n, *spatial = self._map([n, *spatial]).results
        else:
            n, channel, *spatial = self._map(map_.results).results
        lanes = (*self._rows(), self._lane_of(position))
        return AffineMap(self.count, 0, (n, channel, *spatial, *lanes))

    def _rows(self) -> list[AffineExpr]:
        """Gives the position in the batch of an element, where it has one."""
        return [AffineExpr.dimension(self.lane - 1)] if self.has_rows else []

    def _block_of_group(self, grouped: GroupedChannel) -> AffineExpr:
        """Gives the index of the block of the input's channels that is read."""
        group = AffineExpr.dimension(1)
        return group * (grouped.inputs // self.block) + self.dims[grouped.summed]

    def _constant(self, op: ConstantOp, map_: AffineMap) -> tuple[ConstantOp, AffineMap]:
        if self.summed is not None:
            return self._weights(op, map_)
        values, exprs = op.value.data.values(), list(map_.results)
        # Along the lanes of the batch, if an element has them, and along those of channels.
        over = [(self.images, self.lanes.batch)] if self.has_rows else []
        for iterator, size in [*over, (self.channel, self.block)]:
            split = [i for i, e in enumerate(exprs) if e == AffineExpr.dimension(iterator)]
            if split:
                values = TiledLayout(values.shape, dict.fromkeys(split, size)).pack(values)
            else:
                values = np.repeat(values[..., None], size, axis=-1)
        lanes = (*self._rows(), AffineExpr.dimension(self.lane))
        new_map = AffineMap(self.count, 0, (*self._map(exprs).results, *lanes))
        return _constant(values, op.location), new_map

    def _weights(self, op: ConstantOp, map_: AffineMap) -> tuple[ConstantOp, AffineMap]:
        """[O, I, …] (in any order) as [O / block, I / block, …, block (O), block (I)]."""
        order = order_of_weights(map_, self.channel, self.summed)
        values = op.value.data.values().transpose(order)
        packed = layout_of_weights(values.shape, self.block).pack(values)
        return _constant(packed, op.location), self._weights_map(map_)

    def _weights_map(self, map_: AffineMap) -> AffineMap:
        order = order_of_weights(map_, self.channel, self.summed)
        lanes = (self._lane_of(self.channel), self._lane_of(self.summed))
        kept = self._map([map_.results[i] for i in order]).results
        return AffineMap(self.count, 0, (*kept, *lanes))


def input_of_numbers(block: int) -> np.ndarray:
    """Gives the input whose products with weights are numbers: digits to the base of 127, many of
    the higher one, as weights are no greater either."""
    return np.array([*[127] * (block - 1), 1], np.int8)


def weights_of_numbers(numbers: np.ndarray) -> np.ndarray | None:
    """Gives the weights, i8 with one more dimension, whose products with `input_of_numbers` are
    these; None where one is too large for that."""
    count = numbers.shape[-1] - 1
    higher = np.rint(numbers / 127).astype(np.int64)
    lower = numbers.astype(np.int64) - 127 * higher
    if np.abs(higher).max() > 127 * count:
        return None
    before = np.abs(higher)[..., None] - 127 * np.arange(count, dtype=np.int64)
    digits = np.sign(higher)[..., None] * before.clip(0, 127)
    return np.concatenate([digits, lower[..., None]], axis=-1).astype(np.int8)


def order_of_weights(map_: AffineMap, channel: int, summed: int | None) -> list[int]:
    """Gives the dimensions of weights: that of output channels, that of input channels, the
    others."""
    assert summed is not None
    exprs = list(map_.results)
    first = [exprs.index(AffineExpr.dimension(i)) for i in (channel, summed)]
    return [*first, *(i for i in range(len(exprs)) if i not in first)]


def _constant(values: np.ndarray, location: LocationAttr) -> ConstantOp:
    return ConstantOp.of(Array.of(values), location=location)


def check_space(op: Operation) -> bool:
    """Tells if this is a block in VTA form: one result [N, C, …] in the order of its parallel
    iterators."""
    if not isinstance(op, BlockOp) or not op.in_value_form or len(op.outs) != 1:
        return False
    dims = [AffineExpr.dimension(i) for i in op.parallels]
    return list(op.out_maps[0].results) == dims and len(dims) >= 2 and not op.bases
