"""Restates ops in buffer form as blocks, which are easier to write in C; the program itself stays
as it is.

A block that is made here accesses the program's buffers but is not part of the program; the sums
that are its bases stand beside it. Code that has written the block as C erases it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from byocir.dialects import tir
from byocir.dialects.tir.linear import Linear
from byocir.rewrites.machine.select_instructions import beginning
from byocir.rewrites.schedule.blocks import Parts, unused_name
from byocir.rewrites.schedule.index import base_sums, loops_behind
from byocir.rewrites.schedule.write_out import PaddedBox


@dataclass(frozen=True)
class Based:
    """Holds a block, and the indices at which its iterators begin."""

    op: tir.BlockOp
    bases: list[Linear[SSAValue]]


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
    iterators.insert(
        at, tir.IteratorAttr.of(unused_name("lane", iterators), tir.IteratorKind.PARALLEL, extent)
    )
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
