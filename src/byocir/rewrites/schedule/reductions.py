"""Finds out if a reduction gives the same result in any order."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.dialects.utils import FastMathFlag
from xdsl.ir import Operation, SSAValue

from byocir.dialects.tir import BlockOp
from byocir.dialects.types import element_type_of, is_integer
from byocir.rewrites.schedule.access import BoxAccess

_ORDERLESS = (arith.MaximumfOp, arith.MinimumfOp)
_ORDERLESS_ON_INTEGERS = (
    arith.AddiOp,
    arith.MuliOp,
    arith.MaxSIOp,
    arith.MinSIOp,
    arith.MaxUIOp,
    arith.MinUIOp,
    arith.AndIOp,
    arith.OrIOp,
    arith.XOrIOp,
)


def is_unordered(block: BlockOp) -> bool:
    """Tells if a reduction gives the same in any order: it is `acc <op> term` on integers, which
    wrap around, a minimum or maximum, or a sum or product of floats with the flag `reassoc`.
    """
    if len(block.outs) != 1:
        return False
    acc = block.body.block.args[-1]
    step = block.yielded[0].owner
    return (
        isinstance(step, Operation)
        and _is_orderless(step, on_integers=is_integer(element_type_of(block.outs[0].type)))
        and acc in step.operands
        and len(list(acc.uses)) == 1
        and not set(block.ins) & set(block.outs)
    )


def _is_orderless(step: Operation, *, on_integers: bool) -> bool:
    if isinstance(step, arith.AddfOp | arith.MulfOp):
        return FastMathFlag.REASSOC in step.fastmath.data
    return isinstance(step, _ORDERLESS_ON_INTEGERS if on_integers else _ORDERLESS)


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
