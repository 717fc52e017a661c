"""Finds how many channels a layer must have for an instruction to do it.

A layer that is refused for its own number of channels could have more: `pad-channels` fills them up
to a multiple.
"""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Operation
from xdsl.ir.affine import AffineDimExpr, AffineMap

from byocir.dialects.tir import BlockOp
from byocir.dialects.traits import is_constant_value
from byocir.dialects.types import element_type_of
from byocir.machine import Machine
from byocir.rewrites.host.contraction import is_contraction
from byocir.rewrites.machine.whole_blocks import plans_for


def channels_wanted(machine: Machine, ops: Iterable[Operation]) -> int:
    """Gives the least multiple to which channels must be padded, so that instructions do the
    contractions among ops; 1 where they do them as they are, or with no multiple.
    """
    layers = [op for op in ops if isinstance(op, BlockOp) and _is_padded(op)]
    limits = (limit for each in machine.instructions for limit in each.limits.values())
    multiples = sorted({1, *(limit.step for limit in limits)})
    fitting = (n for n in multiples if all(_is_done(machine, layer, n) for layer in layers))
    return next(fitting, 1)


def _is_padded(block: BlockOp) -> bool:
    """Tells if `pad-channels` gives such a layer whole blocks of channels."""
    if not is_contraction(block) or len(block.ins) != 2:
        return False
    is_product = all(isinstance(e, AffineDimExpr) for m in block.in_maps for e in m.results)
    integers = isinstance(element_type_of(block.ins[0].type), IntegerType)
    return integers and (is_product or is_constant_value(block.ins[1]))


def _is_done(machine: Machine, block: BlockOp, multiple: int) -> bool:
    """Tells if an instruction does a layer with a multiple of its channels: of the iterators that
    weights alone have, and of the sums by which an image is read, shifted by nothing.
    """
    image, weights = map(_plain, block.in_maps[:2])
    extents = [*block.extents]
    for i in weights:
        if (i in image) == (i in block.reductions):
            extents[i] = -(-extents[i] // multiple) * multiple
    return bool(plans_for(machine, block, extents))


def _plain(map_: AffineMap) -> set[int]:
    return {expr.position for expr in map_.results if isinstance(expr, AffineDimExpr)}
