"""relax-contractions: lets float contractions fuse and reorder their sums.

Does: gives the multiplication and the addition of a contraction of f32 the flags `reassoc` and
`contract`: its products may be added in any order, and each be rounded together with the addition.

Requires: blocks in value form. Looks at functions without `byoc.target`.

Guarantees: no contraction has the flags whose result leads to a conversion to integers, at whatever
distance, or to a call: quantised numbers stay what they are, bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.arith import FastMathFlagsAttr
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.dialects.utils import FastMathFlag
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from byocir.dialects.byoc import TARGET
from byocir.dialects.tir import BlockOp, ConstantOp, EmptyOp, FillOp
from byocir.dialects.types import f32
from byocir.rewrites.host.contraction import is_contraction

RELAXED = FastMathFlagsAttr([FastMathFlag.REASSOC, FastMathFlag.ALLOW_CONTRACT])


@dataclass(frozen=True)
class RelaxContractionsPass(ModulePass):
    """Flags contractions whose sums may be taken in any order."""

    name = "relax-contractions"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.body.block.ops:
            if isinstance(function, FuncOp) and TARGET not in function.attributes:
                _relax(function)


def _relax(function: FuncOp) -> None:
    exact: set[SSAValue] = set()
    for op in reversed(list(function.body.block.ops)):
        if _leads_to_integers(op) or not exact.isdisjoint(op.results):
            exact.update(value for inner in op.walk() for value in inner.operands)
        elif isinstance(op, BlockOp) and _is_float_contraction(op):
            for inner in op.body.block.ops:
                if isinstance(inner, arith.AddfOp | arith.MulfOp):
                    inner.fastmath = RELAXED


def _leads_to_integers(op: Operation) -> bool:
    """Whether an op rounds floats to integers, or may: of others than blocks nothing is known."""
    if isinstance(op, BlockOp):
        return any(isinstance(inner, arith.FPToSIOp | arith.FPToUIOp) for inner in op.walk())
    return not isinstance(op, ReturnOp | ConstantOp | EmptyOp | FillOp)


def _is_float_contraction(op: BlockOp) -> bool:
    types = {arg.type for arg in op.body.block.args}
    return op.in_value_form and is_contraction(op) and types == {f32}
