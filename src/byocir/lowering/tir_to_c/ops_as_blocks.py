"""Restates ops in buffer form as blocks, which are easier to write in C; the program itself stays
as it is.

A block that is made here accesses the program's buffers but is not part of the program; the sums
that are its bases stand beside it. Code that has written the block as C erases it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xdsl.ir import Block, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from byocir.dialects import tir
from byocir.dialects.emitting import emitting_to
from byocir.dialects.tir.linear import Linear
from byocir.dialects.tir.scalar import Emitted
from byocir.dialects.types import element_type_of
from byocir.rewrites.machine.select_instructions import beginning
from byocir.rewrites.schedule.blocks import Parts
from byocir.rewrites.schedule.index import base_sums, loops_behind
from byocir.rewrites.schedule.write_out import PaddedBox


@dataclass(frozen=True)
class Based:
    """Holds a block, and the indices at which its iterators begin."""

    op: tir.BlockOp
    bases: list[Linear[SSAValue]]


def block_of_copy(op: tir.CopyOp) -> Based:
    """Makes the block that moves a box as a copy does; iterators of one point bring the start of
    the box into the maps.
    """
    rank = len(op.box)
    iterators = [
        tir.IteratorAttr.of(f"d{i}", tir.IteratorKind.PARALLEL, n) for i, n in enumerate(op.box)
    ]
    bases: list[Linear[SSAValue]] = [Linear()] * rank
    maps: list[AffineMap] = []
    for name, values in (("s", op.source_bases), ("t", op.destination_bases)):
        exprs: list[AffineExpr] = [AffineExpr.dimension(i) for i in range(rank)]
        for i, base in enumerate(base_sums(values, rank)):
            if base == Linear():
                continue
            exprs[i] += AffineExpr.dimension(len(iterators))
            iterators.append(tir.IteratorAttr.of(f"{name}{i}", tir.IteratorKind.PARALLEL, 1))
            bases.append(base)
        maps.append(AffineMap(0, 0, tuple(exprs)))
    maps = [AffineMap(len(iterators), 0, map_.results) for map_ in maps]
    types = [element_type_of(value.type) for value in (op.source, op.destination)]
    body = Block(arg_types=types)
    with emitting_to(body):
        moved = Emitted(body.args[0]).to(types[1])
    body.add_op(tir.YieldOp.create(operands=[moved.value]))
    made = tir.BlockOp(
        iterators,
        [op.source],
        [op.destination],
        maps,
        Region(body),
        pads=[op.pad],
        location=op.location,
    )
    return Based(made, bases)


def calls_of(op: tir.IntrinsicOp) -> list[tir.IntrinsicOp]:
    """Makes an op for each call that an instruction stands for; an instruction that is one call
    stays as it is.
    """
    first, block = op.body.block.first_op, op.body.block.last_op
    if op.cut is None or not isinstance(first, tir.BlockOp) or not isinstance(block, tir.BlockOp):
        return [op]
    calls: list[tir.IntrinsicOp] = []
    for box in op.boxes_of(block):
        work = replace(PaddedBox.of(block), sides=box).made([*block.ins, *block.outs])
        begins = first is not block and all(box[i][0] == 0 for i in block.reductions)
        before = [beginning(work, first)] if begins else []
        calls.append(tir.IntrinsicOp.of(op.callee.data, [*before, work], op.fields, op.location))
    calls[0].waits, calls[0].pops, calls[-1].pushes = op.waits, op.pops, op.pushes
    return calls


def with_lane(op: tir.BlockOp, loop: tir.ForOp) -> tuple[Based, int] | None:
    """Makes the block for all iterations of the loop around it, with one more parallel iterator,
    whose position comes with it; None where the block does not move evenly with the loop.
    """
    sums = base_sums(op.bases, len(op.extents))
    steps = [base.coefficient(loop.index) for base in sums]
    rest = [base.without(loop.index) for base in sums]
    if any(loop in loops_behind(atom) for base in rest for atom in base.atoms):
        return None
    at = 1 + max(op.parallels, default=-1)
    parts = Parts.of(op)
    iterators, extent = list(parts.iterators), loop.extent.value.data
    iterators.insert(at, tir.IteratorAttr.of(_fresh(op.names), tir.IteratorKind.PARALLEL, extent))
    lane = AffineExpr.dimension(at)
    exprs = [AffineExpr.dimension(i + (i >= at)) + lane * step for i, step in enumerate(steps)]
    rest.insert(at, Linear())
    return Based(_made(op, parts.substituted(iterators, exprs, ())), rest), at


def _made(op: tir.BlockOp, parts: Parts) -> tir.BlockOp:
    where = AffineMap(len(parts.iterators), 0, parts.guards) if parts.guards else None
    return tir.BlockOp(
        list(parts.iterators),
        parts.ins,
        parts.outs,
        parts.maps,
        op.body.clone(),
        pads=parts.pads,
        where=where,
        location=op.location,
    )


def _fresh(names: Sequence[str]) -> str:
    """Makes a name that no iterator has."""
    return next(name for i in range(len(names) + 1) if (name := f"lane{i}") not in names)
