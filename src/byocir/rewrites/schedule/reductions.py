"""Finds out if loops around a reduction may change places."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from byocir.dialects.tir import BlockOp
from byocir.dialects.tir.reductions import is_unordered
from byocir.rewrites.schedule.access import BoxAccess


def only_accumulates(buffer: SSAValue, accesses: Sequence[BoxAccess]) -> bool:
    """Tells if the only one of these accesses to a buffer is a block that adds to it in any order:
    then the iterations of the loops around the block may change places.
    """
    found = [access for access in accesses if access.buffer is buffer]
    block = found[0].op
    return (
        len(found) == 1
        and isinstance(block, BlockOp)
        and found[0].operand == len(block.ins)
        and is_unordered(block)
    )
