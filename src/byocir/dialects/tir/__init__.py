"""The tensor level: blocks on tensors or scoped buffers, and what stands around them."""

from xdsl.ir import Dialect

from byocir.dialects.tir.block import BlockOp, blocks_in, ops_around
from byocir.dialects.tir.intrinsic import IntrinsicOp
from byocir.dialects.tir.iterators import IteratorAttr, IteratorKind, IteratorKindAttr
from byocir.dialects.tir.loop import ForOp, LoopKind, LoopKindAttr
from byocir.dialects.tir.ops import (
    AllocOp,
    ConstantOp,
    CopyOp,
    EmptyOp,
    ExternOp,
    FillOp,
    ReadOp,
    YieldOp,
    buffer,
    scope_of,
)

Tir = Dialect(
    "tir",
    [
        AllocOp,
        BlockOp,
        ConstantOp,
        CopyOp,
        EmptyOp,
        ExternOp,
        FillOp,
        ForOp,
        IntrinsicOp,
        ReadOp,
        YieldOp,
    ],
    [IteratorAttr, IteratorKindAttr, LoopKindAttr],
)

__all__ = [
    "AllocOp",
    "BlockOp",
    "ConstantOp",
    "CopyOp",
    "EmptyOp",
    "ExternOp",
    "FillOp",
    "ForOp",
    "IntrinsicOp",
    "IteratorAttr",
    "IteratorKind",
    "IteratorKindAttr",
    "LoopKind",
    "LoopKindAttr",
    "ReadOp",
    "Tir",
    "YieldOp",
    "blocks_in",
    "buffer",
    "ops_around",
    "scope_of",
]
