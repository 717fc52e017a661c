"""Counts the multiply-accumulates of ops, at either level."""

from __future__ import annotations

import math
from collections.abc import Iterable

from xdsl.dialects import arith
from xdsl.ir import Operation

from byocir.dialects import tir
from byocir.frontend.onnx.macs import macs


def macs_of(ops: Iterable[Operation]) -> int:
    """Multiply-accumulates of these ops and of what is inside them."""
    return sum(_macs(inner) for op in ops for inner in op.walk())


def _macs(op: Operation) -> int:
    if not isinstance(op, tir.BlockOp):
        return macs(op)
    multiplies = any(isinstance(o, arith.MuliOp | arith.MulfOp) for o in op.body.block.ops)
    return math.prod(op.extents) if op.reductions and multiplies else 0
