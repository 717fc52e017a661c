"""Finds out if a reduction gives the same result in any order."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from xdsl.dialects import arith
from xdsl.dialects.utils import FastMathFlag
from xdsl.ir import Operation

from byocir.dialects.tir.block import BlockOp
from byocir.dialects.types import Bools, Ints, element_type_of, is_integer

_ORDERLESS_ON_FLOATS = (arith.MaximumfOp, arith.MinimumfOp)
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
ORDERLESS = (*_ORDERLESS_ON_INTEGERS, *_ORDERLESS_ON_FLOATS)
"""Ops that give the same result in whatever order they take their operands, on numbers of their own
type; sums and products of floats only do with the flag `reassoc`."""


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
        return FastMathFlag.REASSOC in step.fastmath.data  # pyrefly: ignore[missing-attribute]
    return isinstance(step, _ORDERLESS_ON_INTEGERS if on_integers else _ORDERLESS_ON_FLOATS)


def keeps_order(
    block: BlockOp, sizes: Sequence[int | Ints], extents: Sequence[int | Ints]
) -> bool | Bools:
    """Tells if pieces of these sizes, one after the other, reduce a block over these extents as it
    does: in any order if that does not matter, else those of an iterator hold one point of all
    around it. Marks where, if sizes are arrays of choices.
    """
    sums, kept = block.reductions, True
    if len(sums) < 2 or is_unordered(block):
        return kept
    for outer, inner in combinations(sums, 2):
        kept = kept & ((sizes[outer] == 1) | (sizes[inner] == extents[inner]))
    return kept
