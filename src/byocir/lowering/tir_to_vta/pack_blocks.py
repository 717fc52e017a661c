"""Restates blocks on packed arrays: channels in blocks, one block per element of VTA's memories."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import LocationAttr, TensorType
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from byocir.dialects.array import Array
from byocir.dialects.tir import BlockOp, ConstantOp, IteratorAttr, IteratorKind
from byocir.dialects.tir.linear import spans
from byocir.dialects.types import Shape, element_type_of, shape_of, tensor
from byocir.lowering.tir_to_vta import forms
from byocir.lowering.tir_to_vta.legalise_groups import GroupedChannel, counting_channels
from byocir.lowering.tir_to_vta.legalise_lanes import OPERAND_CYCLES
from byocir.patterns.scalars import number
from byocir.rewrites.numbers_as_products import input_of_numbers, weights_of_numbers
from byocir.rewrites.tiled_layout import TiledLayout
from byocir.vta_sim import VTAConfig

BYTE = 127
"""The largest factor of a product, by which numbers are added."""


@dataclass(frozen=True)
class Lanes:
    """Describes the lanes of an element of VTA's memories: `block` channels for each of `batch`
    images."""

    block: int
    batch: int = 1
    loads_widen: bool = True
    """Bytes can be loaded as numbers of i32."""

    @staticmethod
    def of(config: VTAConfig) -> Lanes:
        return Lanes(config.block_out, config.batch, config.acc_8bit)


def blocks(channels: int, block: int) -> int:
    """Counts the blocks that hold so many channels."""
    return -(-channels // block)


def layout_of(type_: Attribute, lanes: Lanes) -> TiledLayout:
    """Lays out [N, C, …] as [N, C / block, …, block], or [N / batch, C / block, …, batch,
    block].
    """
    rows = {0: lanes.batch} if lanes.batch > 1 else {}
    return TiledLayout(shape_of(type_), {**rows, 1: lanes.block})


def layout_of_weights(shape: Shape, block: int) -> TiledLayout:
    """Lays out [O, I, …] as [O / block, I / block, …, block (O), block (I)]."""
    return TiledLayout(shape, {0: block, 1: block})


def packed(type_: Attribute, lanes: Lanes) -> TensorType:
    """Gives the type of [N, C, …] laid out in blocks."""
    return tensor(element_type_of(type_), layout_of(type_, lanes).packed)


def packed_weights(type_: Attribute, order: Sequence[int], block: int) -> TensorType:
    """Gives the type of [O, I, …], in this order of dimensions, laid out in blocks."""
    ordered = tuple(shape_of(type_)[axis] for axis in order)
    return tensor(element_type_of(type_), layout_of_weights(ordered, block).packed)


def computed_weights(op: BlockOp) -> list[int] | None:
    """Gives the order of the dimensions of a contraction's weights (`order_of_weights`) if these
    are computed; None for other blocks.
    """
    if len(op.ins) != 2 or not op.reductions or isinstance(op.ins[1].owner, ConstantOp):
        return None
    packer = BlockPacker(op, Lanes(1))
    return order_of_weights(op.in_maps[1], packer.channel, packer.summed)


def grouped_channel(op: BlockOp) -> GroupedChannel | None:
    """Finds the index of the input's channels where groups of outputs read channels of their own;
    else None.
    """
    if not op.reductions or len(op.in_maps[0].results) < 2:
        return None
    return GroupedChannel.of(op.in_maps[0].results[1])


@dataclass
class BlockPacker:
    """Packs one block in VTA form.

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
        op = self.op
        self.images, self.channel = op.parallels[:2]
        self.grouped = grouped_channel(op)
        self.summed = self._summed_channel()
        self.iterators: list[IteratorAttr] = []
        self.dims = [AffineExpr.constant(0)] * len(op.extents)
        """The iterators as sums of those of the packed block: c → 16 * c + l."""
        for i in op.parallels:
            self._count(i)
        self.places = [
            (i, self._over_places(i, name))
            for i, name in ((self.images, "b"), (self.channel, "l"))
            if self._size(i) > 1 or name == "l"
        ]
        """The iterators of which an element holds several, with those over its places."""
        for i in op.reductions if not self._adds_lanes() else ():
            self._count(i)
        if self.summed is not None:
            self._over_places(self.summed, "k")

    def _size(self, i: int) -> int:
        """Gives how many points of an iterator lie in one block."""
        sizes = {self.images: self.lanes.batch, self.channel: self.lanes.block}
        return self.lanes.block if i == self.summed else sizes.get(i, 1)

    def _count(self, i: int) -> None:
        """Adds an iterator over the blocks of an iterator, and in front of it one over groups of
        blocks where several read the same channels.
        """
        old, size = self.op.iterators.data[i], self._size(i)
        name, kind, count = old.iterator_name.data, old.kind.data, blocks(old.extent.data, size)
        if i == self.channel and self.per_group > 1:
            groups = self._add(f"{name}_group", kind, count // self.per_group)
            self.dims[i] = groups * (self.per_group * size)
            count = self.per_group
        self.dims[i] += self._add(name, kind, count) * size

    def _over_places(self, i: int, name: str) -> AffineExpr:
        """Adds an iterator over the places in a block of an iterator."""
        made = self._add(name, self.op.iterators.data[i].kind.data, self._size(i))
        self.dims[i] += made
        return made

    def _add(self, name: str, kind: IteratorKind, extent: int) -> AffineExpr:
        names = {iterator.iterator_name.data for iterator in self.iterators}
        while name in names:
            name += "_"
        self.iterators.append(IteratorAttr.of(name, kind, extent))
        return AffineExpr.dimension(len(self.iterators) - 1)

    def _summed_channel(self) -> int | None:
        """Gives the reduction over the input channels of a contraction."""
        if not self.op.reductions:
            return None
        if self.grouped is not None:
            return self.grouped.summed
        position = counting_channels(self.op.in_maps[0].results[1])
        return None if position == self.channel else position

    def _adds_lanes(self) -> bool:
        """Tells if a contraction adds to other sums the products of one vector of the input."""
        sums = [self.op.extents[i] for i in self.op.reductions]
        one = len(sums) == 1 and self.summed is not None and sums[0] <= self.lanes.block
        return one and isinstance(self.op.outs[0].owner, BlockOp)

    def pack(self, values: dict[SSAValue, SSAValue], into: Block) -> BlockOp:
        """Appends the packed block; `values` has the packed form of everything but constants."""
        op, start = self.op, values[self.op.outs[0]]
        weights, factor = self._numbers_as_weights(), self._factor()
        if weights is not None:
            block = TiledLayout((0,), {0: self.lanes.block})
            channel = self._packed(block, [self.dims[self.channel]])
            numbers = input_of_numbers(self.lanes.block, BYTE).astype(np.int8)
            numbers = _constant(numbers, op.location)
            into.add_op(numbers)
            return self._product(numbers.result, [], weights, channel, start, into)
        if factor is not None:
            diagonal = np.int8(factor) * np.eye(self.lanes.block, dtype=np.int8)
            *index, lane = self._activation(op.ins[0], op.in_maps[0]).results
            return self._product(values[op.ins[0]], index, diagonal, [lane], start, into)
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
                new_map = self._weights_map(map_) if is_weights else self._activation(value, map_)
            maps.append(new_map)
        maps.append(self._activation(op.outs[0], op.out_maps[0]))
        made = BlockOp(
            self.iterators,
            ins,
            [start],
            maps,
            op.body.clone(),
            pads=op.pad_values,
            where=self._map(self._index(op.where.data)) if op.where is not None else None,
            location=op.location,
        )
        into.add_op(made)
        return made

    def _numbers_as_weights(self) -> np.ndarray | None:
        """Gives the weights whose products with a constant input are the numbers of each channel
        that a block adds. None for blocks that do not add such, for few points, and for numbers
        that are too large.
        """
        op = self.op
        adds = len(op.ins) == 1 and not op.reductions and len(op.body.block.ops) == 2
        if not adds or not isinstance(op.body.block.first_op, arith.AddiOp) or self.lanes.batch > 1:
            return None
        numbers, index = op.ins[0].owner, op.in_maps[0].results
        points = math.prod(op.extents) // op.extents[self.channel]
        if not isinstance(numbers, ConstantOp) or points < OPERAND_CYCLES:
            return None  # nothing is saved, as loading the weights takes as long
        if list(index) != [AffineExpr.dimension(self.channel)]:
            return None
        packed, _ = self._constant(numbers, op.in_maps[0])
        weights = weights_of_numbers(packed.value.data.values(), self.lanes.block, BYTE, BYTE)
        return None if weights is None else weights.astype(np.int8)

    def _factor(self) -> int | None:
        """Gives the number by which a block multiplies bytes that it adds to accumulators, if that
        needs a product with the number on the diagonal; else None.
        """
        if forms.WINDOW_SUM.fits(self.op) and (not self.lanes.loads_widen or self._saves_cycles()):
            return 1
        found = forms.product(number("factor")).numbers(self.op)
        return None if found is None or self.op.reductions else int(found["factor"])

    def _saves_cycles(self) -> bool:
        """Tells if so much is summed that products with 1 are worth the load of a block of weights
        and of its micro-ops: bytes for the ALU are loaded while the compute module stands still.
        """
        summed = math.prod(self.op.extents) // (self.lanes.block * self.lanes.batch)
        return summed > 2 * OPERAND_CYCLES

    def _product(
        self,
        source: SSAValue,
        index: Sequence[AffineExpr],
        weights: np.ndarray,
        weights_index: Sequence[AffineExpr],
        start: SSAValue,
        into: Block,
    ) -> BlockOp:
        """Appends a block that adds the products of an element's lanes, of an input at this index,
        with weights.
        """
        out = self._activation(self.op.outs[0], self.op.out_maps[0]).results
        summed = self._add("k", IteratorKind.REDUCTION, self.lanes.block)
        constant = _constant(weights, self.op.location)
        into.add_op(constant)
        indices = ([*index, summed], [*weights_index, summed], out)
        made = BlockOp(
            self.iterators,
            [source, constant.result],
            [start],
            [self._map(exprs) for exprs in indices],
            forms.CONTRACTION.region(),
            pads=[self.op.pad_values[0] if index else None, None],
            location=self.op.location,
        )
        into.add_op(made)
        return made

    def _map(self, exprs: Sequence[AffineExpr]) -> AffineMap:
        return AffineMap(len(self.iterators), 0, tuple(exprs))

    def _index(self, map_: AffineMap) -> list[AffineExpr]:
        """Restates an index in the iterators of the packed block."""
        return [expr.replace_dims_and_symbols(self.dims, []) for expr in map_.results]

    def _packed(self, layout: TiledLayout, index: Sequence[AffineExpr]) -> list[AffineExpr]:
        return layout.packed_index(index, spans([it.extent.data for it in self.iterators]))

    def _activation(self, value: SSAValue, map_: AffineMap) -> AffineMap:
        """Restates a map of [N, C, …] as that of [N, C / block, …, block]."""
        return self._map(self._packed(layout_of(value.type, self.lanes), self._index(map_)))

    def _constant(self, op: ConstantOp, map_: AffineMap) -> tuple[ConstantOp, AffineMap]:
        if self.summed is not None:
            return self._weights(op, map_)
        values, index = op.value.data.values(), self._index(map_)
        # Along the lanes of the batch, if an element has them, and along those of channels.
        for iterator, place in self.places:
            size = self._size(iterator)
            split = [i for i, e in enumerate(map_.results) if e == AffineExpr.dimension(iterator)]
            if split:
                layout = TiledLayout(values.shape, dict.fromkeys(split, size))
                values, index = layout.pack(values), self._packed(layout, index)
            else:
                values, index = np.repeat(values[..., None], size, axis=-1), [*index, place]
        return _constant(values, op.location), self._map(index)

    def _weights(self, op: ConstantOp, map_: AffineMap) -> tuple[ConstantOp, AffineMap]:
        """Restates a map of [O, I, …], in any order, as that of [O / block, I / block, …, block
        (O), block (I)].
        """
        order = order_of_weights(map_, self.channel, self.summed)
        values = op.value.data.values().transpose(order)
        packed = layout_of_weights(values.shape, self.lanes.block).pack(values)
        return _constant(packed, op.location), self._weights_map(map_)

    def _weights_map(self, map_: AffineMap) -> AffineMap:
        order, index = order_of_weights(map_, self.channel, self.summed), self._index(map_)
        layout = layout_of_weights((0,) * len(order), self.lanes.block)
        return self._map(self._packed(layout, [index[i] for i in order]))


def order_of_weights(map_: AffineMap, channel: int, summed: int | None) -> list[int]:
    """Gives the dimensions of weights in order: output channels, input channels, the others."""
    assert summed is not None
    exprs = list(map_.results)
    first = [exprs.index(AffineExpr.dimension(i)) for i in (channel, summed)]
    return [*first, *(i for i in range(len(exprs)) if i not in first)]


def _constant(values: np.ndarray, location: LocationAttr) -> ConstantOp:
    return ConstantOp.of(Array.of(values), location=location)


def check_space(op: Operation) -> bool:
    """Tells if a block is in VTA form: one result [N, C, …] in the order of its parallel
    iterators.
    """
    if not isinstance(op, BlockOp) or not op.in_value_form or len(op.outs) != 1:
        return False
    dims = [AffineExpr.dimension(i) for i in op.parallels]
    return list(op.out_maps[0].results) == dims and len(dims) >= 2 and not op.bases
