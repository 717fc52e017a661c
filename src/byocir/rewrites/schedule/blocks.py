"""Restates blocks in place, with other extents, bases, operands or maps, and the same body.

A block stays the same op, so what holds it (a handle of a schedule) keeps its meaning, and its
location is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xdsl.dialects import arith
from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr, DenseArrayBase, UnitAttr, i32
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from byocir.dialects.tir import (
    BlockOp,
    CopyOp,
    FillOp,
    ForOp,
    IntrinsicOp,
    IteratorAttr,
    IteratorKind,
    YieldOp,
)
from byocir.dialects.tir.affine import canonical_map
from byocir.dialects.tir.scalar import Emitted, emit_body
from byocir.dialects.types import element_type_of, shape_of
from byocir.dialects.uses import replace_op
from byocir.rewrites.schedule.index import IndexBuilder


@dataclass(frozen=True)
class Parts:
    """Holds all parts of a block but its body. `guards` hold where they are not negative; `bases`
    has one for each iterator, or none.
    """

    iterators: tuple[IteratorAttr, ...]
    ins: tuple[SSAValue, ...]
    outs: tuple[SSAValue, ...]
    maps: tuple[AffineMap, ...]
    pads: tuple[Attribute | None, ...]
    bases: tuple[SSAValue, ...]
    guards: tuple[AffineExpr, ...]

    @staticmethod
    def of(op: BlockOp) -> Parts:
        return Parts(
            tuple(op.iterators),
            tuple(op.ins),
            tuple(op.outs),
            (*op.in_maps, *op.out_maps),
            tuple(op.pad_values),
            tuple(op.bases),
            () if op.where is None else op.where.data.results,
        )

    def position(self, name: str) -> int:
        """Finds the position of an iterator by its name."""
        return [it.iterator_name.data for it in self.iterators].index(name)

    def with_extents(self, extents: Sequence[int]) -> Parts:
        """Gives the parts with the same iterators over other extents."""
        pairs = zip(self.iterators, extents, strict=True)
        return replace(self, iterators=tuple(it.resized(extent) for it, extent in pairs))

    def with_map(self, operand: int, exprs: Sequence[AffineExpr]) -> Parts:
        """Gives the parts with one operand read or written at another index."""
        maps = list(self.maps)
        maps[operand] = AffineMap(len(self.iterators), 0, tuple(exprs))
        return replace(self, maps=tuple(maps))

    def with_operand(self, operand: int, value: SSAValue) -> Parts:
        """Gives the parts with another buffer in place of an operand, counted over ins and then
        outs.
        """
        values = [*self.ins, *self.outs]
        values[operand] = value
        count = len(self.ins)
        return replace(self, ins=tuple(values[:count]), outs=tuple(values[count:]))

    def with_pad(self, operand: int, pad: Attribute) -> Parts:
        """Gives the parts with this number read outside of an operand."""
        pads = [pad if i == operand else old for i, old in enumerate(self.pads)]
        return replace(self, pads=tuple(pads))

    def substituted(
        self,
        iterators: Sequence[IteratorAttr],
        exprs: Sequence[AffineExpr],
        bases: Sequence[SSAValue],
    ) -> Parts:
        """Restates a block on other iterators, of which `exprs` give the old ones."""
        count = len(iterators)

        def put(expr: AffineExpr) -> AffineExpr:
            return expr.replace_dims_and_symbols(list(exprs), [])

        maps = (AffineMap(count, 0, tuple(map(put, m.results))) for m in self.maps)
        return replace(
            self,
            iterators=tuple(iterators),
            maps=tuple(maps),
            guards=tuple(map(put, self.guards)),
            bases=tuple(bases),
        )

    def with_point(self, name: str, base: SSAValue, zero: SSAValue) -> tuple[Parts, AffineExpr]:
        """Adds an iterator of extent 1 at `base`, which brings an index value into maps; gives the
        new parts and its expression. An iterator that is already there at that base is used again.
        """
        for i, iterator in enumerate(self.iterators):
            if iterator.extent.data == 1 and self.bases and self.bases[i] is base:
                return self, AffineExpr.dimension(i)
        count = len(self.iterators)
        point = IteratorAttr.of(unused_name(name, self.iterators), IteratorKind.PARALLEL, 1)
        at = 1 + max((i for i, it in enumerate(self.iterators) if not it.is_reduction), default=-1)
        iterators, bases = list(self.iterators), list(self.bases or (zero,) * count)
        iterators.insert(at, point)
        bases.insert(at, base)
        exprs = [AffineExpr.dimension(i + (i >= at)) for i in range(count)]
        return self.substituted(iterators, exprs, bases), AffineExpr.dimension(at)

    def put(self, op: BlockOp) -> None:
        """Writes the parts into a block."""
        op.operands = [*self.ins, *self.outs, *self.bases]
        sizes = [len(self.ins), len(self.outs), len(self.bases)]
        op.properties["operandSegmentSizes"] = DenseArrayBase.from_list(i32, sizes)
        op.properties["iterators"] = ArrayAttr(self.iterators)
        op.properties["maps"] = ArrayAttr([AffineMapAttr(canonical_map(m)) for m in self.maps])
        op.properties["pads"] = ArrayAttr([UnitAttr() if p is None else p for p in self.pads])
        op.properties.pop("where", None)
        if self.guards:
            guard = canonical_map(AffineMap(len(self.iterators), 0, self.guards))
            op.properties["where"] = AffineMapAttr(guard)


def unused_name(stem: str, iterators: Sequence[IteratorAttr]) -> str:
    """Numbers a name so that none of some iterators has it: `p0`, or `p1` where that is taken."""
    names = {it.iterator_name.data for it in iterators}
    return next(n for n in (f"{stem}{i}" for i in range(len(names) + 1)) if n not in names)


def retile(op: BlockOp, extents: Sequence[int], bases: Sequence[SSAValue]) -> None:
    """Restricts a block to a box of its iteration space."""
    parts = Parts.of(op).with_extents(extents)
    replace(parts, bases=tuple(bases)).put(op)


def block_of_fill(op: FillOp) -> BlockOp:
    """Makes the block that sets a buffer to a number, as a fill does; unlike a fill, it can have
    bases.
    """
    assert op.destination is not None
    shape = shape_of(op.destination.type)
    iterators = [IteratorAttr.of(f"d{i}", IteratorKind.PARALLEL, n) for i, n in enumerate(shape)]
    return filling(op, op.destination, iterators)


def filling(
    op: FillOp,
    buffer: SSAValue,
    iterators: Sequence[IteratorAttr],
    index: Sequence[AffineExpr] | None = None,
) -> BlockOp:
    """Makes the block that sets the elements of a buffer at an index, by default these iterators,
    to the number of a fill.
    """
    element = element_type_of(buffer.type)
    body = Block(arg_types=[element])
    number = arith.ConstantOp.create(properties={"value": op.value}, result_types=[element])
    body.add_ops([number, YieldOp.create(operands=[number.result])])
    count = len(iterators)
    map_ = AffineMap.identity(count) if index is None else AffineMap(count, 0, tuple(index))
    return BlockOp(iterators, [], [buffer], [map_], Region(body), location=op.location)


def block_of_copy(op: CopyOp, steps: Sequence[int] = ()) -> tuple[BlockOp, list[SSAValue | None]]:
    """Makes the block that moves what a copy moves; unlike a copy, it can be tiled. With `steps` it
    takes elements of the source that are so far apart, for each dimension. Iterators of one point
    bring the start of the box into the maps; the values at which iterators begin come with the
    block, None for those that begin at 0.
    """
    rank, extents = len(op.box), list(op.box)
    bases, ones = list[SSAValue | None]([None] * rank), [1] * rank
    names, maps = [f"d{i}" for i in range(rank)], list[list[AffineExpr]]()
    ends = ("s", op.source_bases, steps or ones), ("t", op.destination_bases, ones)
    for name, starts, own in ends:
        maps.append([AffineExpr.dimension(i) * step for i, step in enumerate(own)])
        for i, start in enumerate(starts):
            maps[-1][i] += AffineExpr.dimension(len(extents))
            names.append(f"{name}{i}")
            extents.append(1)
            bases.append(start)
    pairs = zip(names, extents, strict=True)
    iterators = [IteratorAttr.of(name, IteratorKind.PARALLEL, extent) for name, extent in pairs]
    types = [element_type_of(value.type) for value in (op.source, op.destination)]

    def move(x: Emitted, _: Emitted) -> Emitted:
        return x.to(types[1])

    indices = [AffineMap(len(iterators), 0, tuple(exprs)) for exprs in maps]
    made = BlockOp(
        iterators,
        [op.source],
        [op.destination],
        indices,
        emit_body(types, move),
        pads=[op.pad],
        location=op.location,
    )
    return made, bases


def put_block_of_copy(op: CopyOp, steps: Sequence[int] = ()) -> None:
    """Replaces a copy by the block that `block_of_copy` makes of it."""
    made, bases = block_of_copy(op, steps)
    if any(base is not None for base in bases):
        zero = IndexBuilder(body_of(op), op.location).number(0)
        retile(made, made.extents, [zero if base is None else base for base in bases])
    replace_op(op, made)


def body_of(op: Operation) -> Block:
    """Gives the block of the function or composite around an op, outside of all loops."""
    block = op.parent
    assert block is not None
    while isinstance(parent := block.parent_op(), ForOp | IntrinsicOp):
        outer = parent.parent
        assert outer is not None
        block = outer
    return block


def reads_old(op: BlockOp) -> bool:
    """Tells if the result depends on what the outs held before."""
    return any(arg.first_use is not None for arg in op.body.block.args[len(op.ins) :])
