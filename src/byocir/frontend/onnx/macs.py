"""How much work an op is."""

from __future__ import annotations

import math

from xdsl.ir import Operation

from byocir.dialects.graph import ConvOp, MatmulOp
from byocir.dialects.types import shape_of


def macs(op: Operation) -> int:
    """Multiply-accumulates of a convolution or matrix product, those on padding counted; 0 for
    every other op."""
    if isinstance(op, ConvOp):
        return math.prod(shape_of(op.result.type)) * math.prod(shape_of(op.weight.type)[1:])
    if isinstance(op, MatmulOp):
        return math.prod(shape_of(op.result.type)) * shape_of(op.lhs.type)[-1]
    return 0
