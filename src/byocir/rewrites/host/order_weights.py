"""order-weights: orders the dimensions of constants in contractions as sums run over them.

Does: a constant that a contraction reads gets its dimensions in the order of the block's iterators,
those of sums first: weights [o, c, r, s] of a convolution that sums over r, s and c become
[r, s, c, o]. So each point of a window is a matrix. Where a group of a convolution has one channel,
the iterator over these has one point and is left out: weights [g + o, c, r, s] of a depthwise
convolution become [r, s, g], and each point of a window is a vector.

Requires: blocks in value form; constants whose numbers are there. Looks at functions without
`byoc.target`.

Guarantees: the same results, bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir.affine import AffineExpr
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from byocir.dialects.array import Array
from byocir.dialects.tir import BlockOp, ConstantOp
from byocir.dialects.tir.affine import linear
from byocir.dialects.types import element_type_of, shape_of
from byocir.rewrites.byoc.host_blocks import host_functions
from byocir.rewrites.host.contraction import inside_groups, is_contraction
from byocir.rewrites.schedule.blocks import Parts


@dataclass(frozen=True)
class OrderWeightsPass(ModulePass):
    """Puts the dimensions of weights in the order of the sums over them, channels last."""

    name = "order-weights"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in host_functions(op):
            for block in list(function.walk()):
                if isinstance(block, BlockOp) and is_contraction(block):
                    _leave_out_points(block)
                    _order(block)


def _leave_out_points(block: BlockOp) -> None:
    """Leaves out iterators of one point that an index adds to one which all operands have."""
    count = len(block.extents)
    points = {i for i in inside_groups(block) if block.extents[i] == 1}
    kept = [i for i in range(count) if i not in points]
    exprs: list[AffineExpr] = [AffineExpr.constant(0)] * count
    for at, i in enumerate(kept):
        exprs[i] = AffineExpr.dimension(at)
    if points:
        iterators = [block.iterators.data[i] for i in kept]
        Parts.of(block).substituted(iterators, exprs, ()).put(block)


def _order(block: BlockOp) -> None:
    for position, value in enumerate(block.ins):
        weights, counted = value.owner, _counted(block, position)
        if not isinstance(weights, ConstantOp) or counted is None:
            continue
        iterators = [i for each in counted for i in each]
        wanted = [i for i in [*block.reductions, *block.parallels] if i in iterators]
        if counted == [[i] for i in wanted]:
            continue
        values = weights.value.data.values().reshape([block.extents[i] for i in iterators])
        array = Array.of(values.transpose([iterators.index(i) for i in wanted]).copy())
        type_ = TensorType(element_type_of(value.type), array.shape)
        made = ConstantOp.of(array, type_, weights.location)
        Rewriter.insert_op(made, InsertPoint.before(block))
        dims: list[AffineExpr] = [AffineExpr.dimension(i) for i in wanted]
        Parts.of(block).with_operand(position, made.result).with_map(position, dims).put(block)
        if not list(value.uses):
            Rewriter.erase_op(weights)


def _counted(block: BlockOp, position: int) -> list[list[int]] | None:
    """Lists, for each dimension of an input, the iterators that count its elements, the slowest
    first: g and o for g * 4 + o, where o has 4 points. None where they do not count them all, or
    count some twice.
    """
    exprs, shape = block.in_maps[position].results, shape_of(block.ins[position].type)
    found = [_digits(block, expr, size) for expr, size in zip(exprs, shape, strict=True)]
    counted = [each for each in found if each is not None]
    iterators = [i for each in counted for i in each]
    whole = len(counted) == len(found) and len({*iterators}) == len(iterators)
    return counted if whole else None


def _digits(block: BlockOp, expr: AffineExpr, size: int) -> list[int] | None:
    form = linear(expr)
    if form is None or form.constant:
        return None
    found, step = list[int](), 1
    for i, factor in sorted(form.terms, key=lambda term: (term[1], block.extents[term[0]])):
        if factor != step:
            return None
        found, step = [i, *found], step * block.extents[i]
    return found if step == size else None
