"""Restates contractions with weights of more than eight bits as sums of products with bytes.

Weights that were quantised with a zero point have nine bits without it. Each is a sum of bytes, so
the contraction gets one more reduction, over these bytes, which the input does not depend on.
"""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import i16
from xdsl.ir.affine import AffineExpr, AffineMap

from byocir.dialects.array import Array
from byocir.dialects.tir import BlockOp, ConstantOp, IteratorAttr, IteratorKind
from byocir.dialects.tir.bodies import multiply_accumulate
from byocir.dialects.tir.scalar import Emitted, emit_body
from byocir.dialects.types import element_type_of, i8, i32
from byocir.dialects.uses import replace_op

MOST_BYTES = 3
"""255, the farthest that a byte is from a zero point, is a sum of three bytes."""


def bytes_of(values: np.ndarray) -> list[np.ndarray]:
    """Splits an array into as few arrays of int8 as can be that add up to it: [300] → [127], [127],
    [46]."""
    parts, rest = list[np.ndarray](), values.astype(np.int64)
    while rest.any() or not parts:
        part = np.clip(rest, -128, 127)
        parts.append(part.astype(np.int8))
        rest = rest - part
    return parts


def with_bytes_as_weights(op: BlockOp) -> BlockOp:
    """Restates a contraction with constant weights of i16 as one with bytes; other blocks stay as
    they are.
    """
    wide = [i for i, value in enumerate(op.ins) if element_type_of(value.type) == i16]
    if len(op.ins) != 2 or len(wide) != 1 or not op.reductions or op.bases or op.where is not None:
        return op
    (w,) = wide
    owner = op.ins[w].owner
    if not isinstance(owner, ConstantOp):
        return op
    parts = bytes_of(owner.value.data.values())
    if len(parts) > MOST_BYTES:
        return op
    weights = ConstantOp.of(Array.of(np.stack(parts, axis=-1)), location=op.location)
    count = len(op.extents) + 1
    maps = [AffineMap(count, 0, m.results) for m in [*op.in_maps, *op.out_maps]]
    maps[w] = AffineMap(count, 0, (*maps[w].results, AffineExpr.dimension(count - 1)))
    ins = list(op.ins)
    ins[w] = weights.result
    made = BlockOp(
        [*op.iterators, IteratorAttr.of("byte_", IteratorKind.REDUCTION, len(parts))],
        ins,
        list(op.outs),
        maps,
        emit_body([i8, i8, i32], _product),
        pads=op.pad_values,
        location=op.location,
    )
    replace_op(op, [weights, made])
    return made


def _product(x: Emitted, w: Emitted, acc: Emitted) -> Emitted:
    return multiply_accumulate(x, w, acc, to=i32)
