"""fuse-blocks: fuses producers into the blocks that read them, and scalar constants into bodies.

Does: where a block without reductions computes a value that one other block reads, once for each of
its points or several times there, that one computes it itself and the value is never stored, up to
so many arrays that it reads and ops of its body. Inputs that are constants of one element become
constants of the body.

Requires: blocks in value form. Looks at functions without `byoc.target`.

Guarantees: the same results, bit for bit; a fused block has the locations of both; windows and
contractions read what they read before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from xdsl.context import Context
from xdsl.dialects import math
from xdsl.dialects.builtin import LocationAttr, ModuleOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap
from xdsl.passes import ModulePass

from byocir.dialects.locations import fuse
from byocir.dialects.tir import BlockOp, ConstantOp, EmptyOp, YieldOp, blocks_in
from byocir.dialects.tir.affine import linear, whole_axes
from byocir.dialects.tir.scalar import number_op
from byocir.dialects.types import element_type_of, i1, is_unsigned, shape_of
from byocir.dialects.uses import erase, replace_op, replace_uses
from byocir.rewrites.byoc.host_blocks import host_functions
from byocir.rewrites.host.contraction import is_contraction

MOST_INPUTS = 12
"""Arrays that one block reads at most: more streams than that slow each other down."""
MOST_OPS = 128
"""Ops of the body that blocks fuse into at most: what another array in between costs is little
beside them, and C compilers leave longer loops as they are, without vectors, at a seventh of the
speed."""
LONG_OPS: Mapping[type[Operation], int] = {math.ErfOp: 4, math.ExpOp: 4, math.TanhOp: 4}
"""Ops that count for several there: functions that C compilers put into the loop."""


@dataclass(frozen=True)
class FuseBlocksPass(ModulePass):
    """Lets blocks compute what they alone read."""

    name = "fuse-blocks"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in host_functions(op):
            for block in blocks_in(function):
                if block.in_value_form:
                    with_numbers(fuse_into(block))


def fuse_into(op: BlockOp) -> BlockOp:
    """Fuses into a block all its producers, and theirs, which were fused before."""
    current = op
    while (position := _fusible(current)) is not None:
        value, current = current.ins[position], reading_once(current)
        current = fuse_producer(current, current.ins.index(value))
    return current


def reading_once(op: BlockOp) -> BlockOp:
    """Makes a block read once what it reads at several positions, at one index."""
    reads = [*zip(op.ins, op.in_maps, op.pad_values, strict=True)]
    kept = [i for i, read in enumerate(reads) if i in op.whole or read not in reads[:i]]
    if len(kept) == len(reads):
        return op
    arguments = list(op.body.block.args)
    for i in (i for i in range(len(reads)) if i not in kept):
        replace_uses(arguments[i], arguments[reads.index(reads[i])])
        op.body.block.erase_arg(arguments[i])
    ins, maps, pads = zip(*(reads[i] for i in kept), strict=True)
    made = op.like(ins=ins, maps=[*maps, *op.out_maps], pads=pads, body=_detached(op, op.location))
    replace_op(op, made)
    return made


def with_numbers(op: BlockOp) -> BlockOp:
    """Makes all inputs of a block that are constants of one element constants of its body."""
    current = op
    while (position := number_input(current)) is not None:
        current = _with_number(current, position)
    return current


def _fusible(op: BlockOp) -> int | None:
    """Finds an input whose producer can be fused; gives its position, or None."""
    if not op.in_value_form or is_contraction(op):
        return None
    return next((i for i in range(len(op.ins)) if _can_fuse(op, i)), None)


def _can_fuse(op: BlockOp, position: int) -> bool:
    value = op.ins[position]
    producer = value.owner
    if not isinstance(producer, BlockOp) or producer.parent is not op.parent:
        return False
    reads = [i for i, read in enumerate(op.ins) if read is value]
    if any(op.pad_values[i] is not None or i in op.whole for i in reads):
        return False
    if len({op.in_maps[i] for i in reads}) > 1 or len([*value.uses]) > len(reads):
        return False
    if len(op.ins) + len(producer.ins) - 1 > MOST_INPUTS or not is_map(producer):
        return False
    if producer.whole and op.where is not None:
        return False
    return _reads_each_once(op, op.in_maps[position]) and _is_short(op, producer)


def _is_short(*blocks: BlockOp) -> bool:
    """Tells whether the bodies of blocks together are short enough for fusing to help."""
    ops = (inner for block in blocks for inner in block.body.block.ops)
    return all(total <= MOST_OPS for total in accumulate(LONG_OPS.get(type(op), 1) for op in ops))


def is_map(op: BlockOp) -> bool:
    """Tells if a block computes each element of its only result by itself, from the inputs
    alone.
    """
    return computes_each(op) and isinstance(op.outs[0].owner, EmptyOp)


def computes_each(op: BlockOp) -> bool:
    """Tells if a block computes each element of its only result by itself, from the inputs and from
    what was in its place.
    """
    if op.reductions or op.where is not None or op.bases or len(op.outs) != 1:
        return False
    used = whole_axes(op.out_maps[0], shape_of(op.outs[0].type), op.extents)
    return used is not None and all(i in used or extent == 1 for i, extent in enumerate(op.extents))


def _reads_each_once(op: BlockOp, map_: AffineMap) -> bool:
    """Tells if a block reads no element at two points: each index follows one iterator, and all
    iterators are followed. Where nothing is reduced, a sum of iterators, as in a plane of rows,
    will do, too.
    """
    forms = [linear(expr) for expr in map_.results]
    used = [i for form in forms if form is not None for i, _ in form.terms]
    alone = all(form is not None and len(form.terms) <= 1 for form in forms)
    if (op.reductions and not alone) or len(set(used)) != len(used) or None in forms:
        return False
    return all(i in used or extent == 1 for i, extent in enumerate(op.extents))


def fuse_producer(op: BlockOp, position: int) -> BlockOp:
    """Makes the block in which an input is computed where it is read."""
    producer = op.ins[position].owner
    assert isinstance(producer, BlockOp)
    at = _inverse(producer, op.in_maps[position])
    count = len(op.iterators)
    added = [m.replace_dims_and_symbols(at, [], count, 0) for m in producer.in_maps]
    ins = [*op.ins[:position], *op.ins[position + 1 :], *producer.ins]
    in_maps, pads = list(op.in_maps), list(op.pad_values)
    del in_maps[position], pads[position]
    made = op.like(
        ins=ins,
        maps=[*in_maps, *added, *op.out_maps],
        body=_joined(op, producer, position),
        pads=[*pads, *producer.pad_values],
    )
    made.location = fuse(producer.location, op.location)
    replace_op(op, made)
    erase(producer)
    return made


def _inverse(producer: BlockOp, map_: AffineMap) -> list[AffineExpr]:
    """Gives the value of each iterator of a producer at the point whose result is read at
    `map_`.
    """
    at: list[AffineExpr] = [AffineExpr.constant(0)] * len(producer.iterators)
    for expr, index in zip(producer.out_maps[0].results, map_.results, strict=True):
        if isinstance(expr, AffineDimExpr):
            at[expr.position] = index
    return at


def _joined(op: BlockOp, producer: BlockOp, position: int) -> Region:
    """Joins the producer's body with the block's, which uses what the first yields. Both are moved:
    copies of a body that grows at each step would cost the square of its length.
    """
    old, block = op.body.block, producer.body.block
    computed, inputs = producer.yielded[0], len(producer.ins)
    _end(block).erase()
    _drop(block, block.args[inputs:])
    others = [arg for i, arg in enumerate(old.args[: len(op.ins)]) if i != position]
    for i, arg in enumerate(others):
        replace_uses(arg, block.insert_arg(arg.type, i))
    for arg in old.args[len(op.ins) :]:
        replace_uses(arg, block.insert_arg(arg.type, len(block.args)))
    replace_uses(old.args[position], computed)
    for inner in list(old.ops):
        inner.detach()
        block.add_op(inner)
    return _detached(producer, op.location)


def _end(block: Block) -> Operation:
    """Detaches the end of a body and gives it."""
    end = block.last_op
    assert isinstance(end, YieldOp)
    end.detach()
    return end


def _drop(block: Block, args: Sequence[BlockArgument]) -> None:
    """Erases arguments of a body that nothing needs, and the ops that use them."""
    unknown: set[SSAValue] = {arg for arg in args if arg.first_use is not None}
    dead: list[Operation] = []
    for op in block.ops if unknown else ():
        if not unknown.isdisjoint(op.operands):
            unknown.update(op.results)
            dead.append(op)
    for op in reversed(dead):
        erase(op)
    for arg in args:
        block.erase_arg(arg)


def _detached(op: BlockOp, location: LocationAttr) -> Region:
    """Takes the body from a block, for another block at this location."""
    end = op.body.block.last_op
    assert end is not None
    end.location = location
    return op.detach_region(op.body)


# -- constants of one element


def number_input(op: BlockOp) -> int | None:
    """Finds an input that is a constant of one element, of a type that bodies compute in; gives its
    position, or None.
    """
    whole = op.whole
    for i, value in enumerate(op.ins):
        owner = value.owner
        if (
            isinstance(owner, ConstantOp)
            and i not in whole
            and owner.value.data.size == 1
            and owner.value.data.present
            and op.pad_values[i] is None
            and (not is_unsigned(element_type_of(value.type)) or element_type_of(value.type) == i1)
        ):
            return i
    return None


def _with_number(op: BlockOp, position: int) -> BlockOp:
    """Makes the block with an input as a constant of its body."""
    owner = op.ins[position].owner
    assert isinstance(owner, ConstantOp)
    element: Attribute = element_type_of(owner.result.type)
    block = op.body.block
    value = number_op(owner.value.data.values().item(), element)
    value.location = op.location
    assert block.first_op is not None
    block.insert_op_before(value, block.first_op)
    replace_uses(block.args[position], value.results[0])
    block.erase_arg(block.args[position])
    maps, pads = [*op.in_maps, *op.out_maps], list(op.pad_values)
    del maps[position], pads[position]
    made = BlockOp(
        list(op.iterators),
        [*op.ins[:position], *op.ins[position + 1 :]],
        list(op.outs),
        maps,
        _detached(op, op.location),
        pads=pads,
        bases=list(op.bases),
        where=op.where.data if op.where is not None else None,
        location=op.location,
    )
    replace_op(op, made)
    return made
