"""order-weights: orders the dimensions of constants in contractions as sums run over them.

Does: a constant that a contraction reads gets its dimensions in the order of the block's iterators,
those of sums first: weights [o, c, r, s] of a convolution that sums over r, s and c become
[r, s, c, o]. So each point of a window is a matrix.

Requires: blocks in value form; constants whose numbers are there. Looks at functions without
`byoc.target`.

Guarantees: the same results, bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir.affine import AffineDimExpr, AffineExpr
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from byocir.dialects.array import Array
from byocir.dialects.tir import BlockOp, ConstantOp
from byocir.dialects.types import element_type_of
from byocir.rewrites.byoc.host_blocks import host_functions
from byocir.rewrites.host.contraction import is_contraction
from byocir.rewrites.schedule.blocks import Parts


@dataclass(frozen=True)
class OrderWeightsPass(ModulePass):
    """Puts the dimensions of weights in the order of the sums over them, channels last."""

    name = "order-weights"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in host_functions(op):
            for block in list(function.walk()):
                if isinstance(block, BlockOp) and is_contraction(block):
                    _order(block)


def _order(block: BlockOp) -> None:
    for position, value in enumerate(block.ins):
        weights, exprs = value.owner, block.in_maps[position].results
        iterators = [expr.position for expr in exprs if isinstance(expr, AffineDimExpr)]
        wanted = [i for i in [*block.reductions, *block.parallels] if i in iterators]
        plain = len(iterators) == len(exprs) == len(wanted)
        if not isinstance(weights, ConstantOp) or not plain or iterators == wanted:
            continue
        axes = [iterators.index(i) for i in wanted]
        array = Array.of(weights.value.data.values().transpose(axes).copy())
        type_ = TensorType(element_type_of(value.type), array.shape)
        made = ConstantOp.of(array, type_, weights.location)
        Rewriter.insert_op(made, InsertPoint.before(block))
        dims: list[AffineExpr] = [AffineExpr.dimension(i) for i in wanted]
        Parts.of(block).with_operand(position, made.result).with_map(position, dims).put(block)
        if not list(value.uses):
            Rewriter.erase_op(weights)
