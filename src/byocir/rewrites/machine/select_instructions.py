"""select-instructions: replaces each block by `tir.intrinsic` of the instruction that does it.

Does: finds the instruction by its pattern, memories, limits and rules. A block that sets elements
to a number disappears where the instructions that write them first can begin with it; elsewhere it
becomes an instruction that does so or, where the machine has none, a copy of a constant. Where an
instruction goes on with what its first block makes, both blocks become one op.

Requires: functions without loops, as `write-out-loops` leaves them. Raises ByocirError B271 for a
block that no instruction does, with what each of them says to it.

Guarantees: the same results, bit for bit; nothing but instructions, buffers and constants is left.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf, prod
from typing import NamedTuple

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import MemRefType, ModuleOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.passes import ModulePass

from byocir.dialects.array import Array
from byocir.dialects.intervals import Interval
from byocir.dialects.new_ops import clone_region
from byocir.dialects.tir import (
    BlockOp,
    ConstantOp,
    IntrinsicOp,
    IteratorAttr,
    IteratorKind,
    scope_of,
)
from byocir.dialects.tir.bodies import first
from byocir.dialects.tir.linear import spans
from byocir.dialects.tir.scalar import emit_body
from byocir.dialects.types import dtype_of, element_type_of, shape_of
from byocir.dialects.uses import erase
from byocir.evaluate.scalar import number
from byocir.machine import MAIN, Machine
from byocir.machine.operand_places import Box, meet
from byocir.rewrites.machine import machines_in
from byocir.rewrites.machine.cut_blocks import (
    Part,
    cycles_of,
    expect_parts,
    parts_of,
    undone,
)
from byocir.rewrites.machine.join_blocks import join_blocks
from byocir.rewrites.schedule.access import BoxAccess, accesses_of, accesses_to
from byocir.rewrites.schedule.blocks import reads_old
from byocir.rewrites.schedule.write_out import PaddedBox


@dataclass(frozen=True)
class SelectInstructionsPass(ModulePass):
    """Turns blocks into instructions of a machine."""

    name = "select-instructions"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function, machine in machines_in(op):
            select(machine, function.body.block)


def select(machine: Machine, body: Block) -> dict[Operation, list[IntrinsicOp]]:
    """Replaces the blocks of a body without loops by instructions, and gives those of each block;
    raises ByocirError B271.
    """
    made = _Numbers(machine, body).settle()
    for op in list(body.ops):
        if isinstance(op, BlockOp):
            made[op] = join_blocks(machine, op) or select_for(machine, op)
    return made


def select_for(machine: Machine, block: BlockOp) -> list[IntrinsicOp]:
    """Replaces a block by the instructions that do it; raises ByocirError B271."""
    return _put(block, expect_parts(machine, block, None))


def _put(block: BlockOp, parts: Sequence[Part], fill: BlockOp | None = None) -> list[IntrinsicOp]:
    """Replaces a block by instructions; those that begin with the number of `fill` have that
    inside.
    """
    home, found = block.parent, list[IntrinsicOp]()
    assert home is not None
    for part in parts:
        work, cut, order = cut_out(block, part)
        before = [beginning(work, fill)] if part.begins and fill is not None else []
        made = IntrinsicOp.of(part.name, before, part.numbers, block.location, cut, order)
        home.insert_op_before(made, block)
        found.append(made)
        if work is block:
            block.detach()
            made.body.block.add_op(block)
            return found
        made.body.block.add_op(work)
    erase(block)
    return found


_Sizes = Sequence[int] | None


def cut_out(block: BlockOp, part: Part) -> tuple[BlockOp, _Sizes, _Sizes]:
    """Makes the block of a part. Gives the block, its cut, if it has one, and the order of its
    calls, if that is not the order of its iterators.
    """
    work, kept = block, [*range(len(part.cut))]
    if part.sides != tuple([(0, extent) for extent in block.extents]):
        box = replace(PaddedBox.of(block), sides=part.sides)
        work, kept = box.made([*block.ins, *block.outs]), box.kept
    cut = tuple(part.cut[i] for i in kept)
    if cut == work.extents:
        return work, None, None
    order = [kept.index(i) for i in part.order if i in kept]
    several = [n for n in order if cut[n] < work.extents[n]]
    return work, cut, None if several == sorted(several) else order


def beginning(writer: BlockOp, fill: BlockOp) -> BlockOp:
    """Makes the fill that sets only what a block writes."""
    kept = writer.parallels or [0]
    places = {i: AffineExpr.dimension(n) for n, i in enumerate(kept)}
    dims = [places.get(i, AffineExpr.constant(0)) for i in range(len(writer.extents))]
    exprs = [e.replace_dims_and_symbols(dims, []) for e in writer.out_maps[0].results]
    iterators = [writer.iterators.data[i] for i in writer.parallels]
    iterators = iterators or [IteratorAttr.of("i", IteratorKind.PARALLEL, 1)]
    map_ = AffineMap(len(kept), 0, tuple(exprs))
    body, outs = clone_region(fill.body), [writer.outs[0]]
    return BlockOp(iterators, [], outs, [map_], body, location=fill.location)


class _Numbers:
    """Decides for each block that sets elements to a number which instructions do that."""

    def __init__(self, machine: Machine, body: Block) -> None:
        self.machine = machine
        self.body = body
        self.fills = [op for op in body.ops if isinstance(op, BlockOp) and is_fill(op)]
        self.accesses: dict[SSAValue, list[_Access]] = {op.outs[0]: [] for op in self.fills}
        self.order: dict[Operation, int] = {}
        for i, op in enumerate(body.ops):
            self.order[op] = i
            for access in self._accesses(op):
                if access.buffer in self.accesses:
                    self.accesses[access.buffer].append(access)

    def _accesses(self, op: Operation) -> Iterator[_Access]:
        """Yields the accesses of an op to buffers of which elements are set."""
        if not isinstance(op, BlockOp):
            yield from (_Access.of(each) for each in accesses_of(op))
            return
        ins, values = op.ins, [*op.ins, *op.outs]
        if self.accesses.keys().isdisjoint(values):
            return
        reached = _reached(self.machine, op)
        for i, value in enumerate(values):
            if value in self.accesses:
                yield _Access(op, value, i >= len(ins), reached[i])

    def settle(self) -> dict[Operation, list[IntrinsicOp]]:
        """Replaces these blocks, and those that begin with their numbers, by instructions; gives
        those of each.
        """
        made = dict[Operation, list[IntrinsicOp]]()
        for op in self.fills:
            writers = self.beginning(op)
            if writers is None or self._is_set_sooner(op, writers):
                made[op] = self._set(op)
                continue
            for writer in writers:
                parts = expect_parts(self.machine, writer, number_of(op))
                made[writer] = _put(writer, parts, op)
            made[op] = []
            erase(op)
        return made

    def beginning(self, fill: BlockOp) -> list[BlockOp] | None:
        """Finds the blocks that can begin with the number of a fill; they write all that it sets
        before anything reads it. None where others access that first.
        """
        box = _reached(self.machine, fill)[0]
        left, touched, writers = prod(b - a for a, b in box), list[Box](), list[BlockOp]()
        for access in self.accesses[fill.outs[0]]:
            if self.order[access.op] <= self.order[fill] or left == 0:
                continue
            found = access.box
            if any(_within(found, each) for each in touched) or not meet(found, box):
                continue
            if any(meet(found, each) for each in touched) or not self._can_begin(access, fill):
                return None
            if not _within(found, box):
                return None
            touched.append(found)
            left -= prod(b - a for a, b in found)
            assert isinstance(access.op, BlockOp)
            writers += [access.op] if reads_old(access.op) else []
        return writers if left == 0 else None

    def _can_begin(self, access: _Access, fill: BlockOp) -> bool:
        op = access.op
        if not isinstance(op, BlockOp) or not access.writes or fill.outs[0] in op.ins:
            return False
        if not reads_old(op):
            return True
        return parts_of(self.machine, op, number_of(fill)) is not None

    def _is_set_sooner(self, fill: BlockOp, writers: Sequence[BlockOp]) -> bool:
        """Tells if an instruction that sets the elements, and those that then add to them, take
        fewer cycles than those that begin with the number.
        """
        begun = [parts_of(self.machine, each, number_of(fill)) for each in writers]
        after = [parts_of(self.machine, each, None) for each in (fill, *writers)]
        return _cycles_of(after) < _cycles_of(begun)

    def _set(self, fill: BlockOp) -> list[IntrinsicOp]:
        """Makes an instruction set the elements, or a copy of a constant."""
        found, block = parts_of(self.machine, fill, None), fill
        if found is None:
            block = self._copied(fill)
            found = parts_of(self.machine, block, None)
        if found is None:
            scope = scope_of(block.outs[0].type) or MAIN.called
            told = f"expected an instruction of {self.machine.name} that sets elements of {scope} "
            told += "to a number, or one that copies there from main memory, found neither"
            raise undone(self.machine, block, None, told)
        return _put(block, found)

    def _copied(self, fill: BlockOp) -> BlockOp:
        """Makes the block that copies a constant of the same dimensions, in place of a fill."""
        home = fill.parent
        assert home is not None
        sides, start = _reached(self.machine, fill)[0], number_of(fill)
        extents = tuple(high - low for low, high in sides)
        exprs = zip(fill.out_maps[0].results, sides, strict=True)
        moved = tuple(expr - low if low else expr for expr, (low, _) in exprs)
        source = AffineMap(len(fill.extents), 0, moved)
        element = element_type_of(fill.outs[0].type)

        def filled() -> tuple[Array, MemRefType[Attribute]]:
            array = np.full(extents, number(start), dtype_of(element))
            return Array.of(array), MemRefType(element, extents)

        key = "filled", start, element, extents
        constant = ConstantOp.of(*self.machine.answer(key, filled), fill.location)
        home.insert_op_before(constant, fill)
        maps, body = [source, *fill.out_maps], emit_body([element, element], first, fill.location)
        ends = ([constant.result], [fill.outs[0]], maps, body)
        made = BlockOp(list(fill.iterators), *ends, location=fill.location)
        home.insert_op_before(made, fill)
        erase(fill)
        return made


def is_fill(op: BlockOp) -> bool:
    """Tells whether a block sets elements to a number, whatever they were."""
    return not op.ins and not reads_old(op)


def _cycles_of(found: Iterable[Sequence[Part] | None]) -> float:
    return sum(inf if parts is None else cycles_of(parts) for parts in found)


class _Access(NamedTuple):
    """Describes an operand of an op, and the box that the op reaches of it."""

    op: Operation
    buffer: SSAValue
    writes: bool
    box: Box

    @staticmethod
    def of(access: BoxAccess) -> _Access:
        sides = ((side.start.constant, side.size) for side in access.box)
        box = tuple((start, start + size) for start, size in sides)
        return _Access(access.op, access.buffer, access.writes, box)


def _reached(machine: Machine, block: BlockOp) -> list[Box]:
    """Gives the box that a block reaches of each operand. Blocks alike but for the constants in
    their indices reach boxes of the same sizes.
    """
    values = [*block.ins, *block.outs]
    index = [machine.keys.index(attr) for attr in block.maps.data]
    ranks = [len(shape_of(value.type)) for value in values]
    if [len(each.moves) for each in index] != ranks:  # one divides, or reads elements by number
        return [_Access.of(each).box for each in accesses_to(block)]

    def found() -> list[list[Interval]]:
        iterators = spans(block.extents)
        return [[m.interval(iterators.__getitem__) for m in each.moves] for each in index]

    boxes = machine.answer(("reached", machine.keys.block(block)), found)
    return [
        tuple([(low + at, high + at + 1) for (low, high), at in zip(box, each.starts, strict=True)])
        for box, each in zip(boxes, index, strict=True)
    ]


def _within(inner: Box, outer: Box) -> bool:
    return all(c <= a and b <= d for (a, b), (c, d) in zip(inner, outer, strict=True))


def number_of(fill: BlockOp) -> Attribute:
    """Gives the number that a block sets elements to."""
    op = fill.yielded[0].owner
    assert isinstance(op, Operation)
    return op.properties["value"]
