"""Restates arithmetic on f16 and bf16 in f32, for machines that compute in that and round.

```
(x.to(f16) + b).max(0)   →   (x.to(f16).to(f32) + b.to(f32)).max(0).to(f16)
```

A sum, difference, product or quotient of halves, and a root of one, is that in f32, rounded: f32
has more than twice their bits. Rounding keeps order and sign, so that it may come behind what only
takes the greater, or the other sign.
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects import arith, math
from xdsl.ir import Attribute, Block, Operation, SSAValue

from byocir.dialects.tir import BlockOp
from byocir.dialects.tir.scalar import number_op
from byocir.dialects.types import bf16, f16, f32
from byocir.dialects.uses import erase_unused, replace_uses
from byocir.patterns.scalars import constant_number

HALVES = (f16, bf16)
KEEP_ORDER = (arith.MaximumfOp, arith.MinimumfOp, arith.NegfOp, math.AbsFOp)
ROUND = (arith.AddfOp, arith.SubfOp, arith.MulfOp, arith.DivfOp, math.SqrtOp)


def computes_in_halves(op: BlockOp) -> bool:
    """Tells if the body of a block computes of halves what it may compute in f32."""
    return any(_is_arithmetic(inner) for inner in op.body.block.ops)


def compute_in_f32(op: BlockOp) -> None:
    """Restates the arithmetic on halves in the body of a block."""
    block = op.body.block
    wide = _Wide(block)
    for inner in list(block.ops):
        if _is_arithmetic(inner):
            wide.restate(inner)
    erase_unused(block)


def _is_arithmetic(op: Operation) -> bool:
    return isinstance(op, KEEP_ORDER + ROUND) and op.results[0].type in HALVES


class _Wide:
    """Makes values of f32 that are those of halves, exactly or before these are rounded."""

    def __init__(self, block: Block) -> None:
        self._block = block
        self._exact: dict[SSAValue, SSAValue] = {}

    def restate(self, op: Operation) -> None:
        """Replaces an op on halves by one on f32 that is rounded."""
        of: Callable[[SSAValue, Operation], SSAValue]
        of = self._unrounded if isinstance(op, KEEP_ORDER) else self._of
        operands = [of(value, op) for value in op.operands]
        made = type(op).create(operands=operands, result_types=[f32], properties=op.properties)
        old: Attribute = op.results[0].type
        rounded = arith.TruncFOp(self._put(made, op), old)
        replace_uses(op.results[0], self._put(rounded, op))

    def _unrounded(self, value: SSAValue, before: Operation) -> SSAValue:
        """Gives a value of f32 that, rounded, is a half."""
        owner = value.owner
        if isinstance(owner, arith.TruncFOp) and owner.input.type == f32:
            return owner.input
        return self._of(value, before)

    def _of(self, value: SSAValue, before: Operation) -> SSAValue:
        """Gives a half in f32."""
        if value not in self._exact:
            number = constant_number(value)
            made = arith.ExtFOp(value, f32) if number is None else number_op(number, f32)
            self._exact[value] = self._put(made, before)
        return self._exact[value]

    def _put(self, op: Operation, before: Operation) -> SSAValue:
        op.location = before.location
        self._block.insert_op_before(op, before)
        return op.results[0]
