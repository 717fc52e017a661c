"""relax-contractions: lets float contractions fuse and reorder their sums.

Does: gives the multiplication and the addition of a contraction with sums of f32, of f32 or of
narrower floats, the flags `reassoc` and `contract`: its products may be added in any order, and
each be rounded together with the addition.

Requires: blocks in value form, also inside loops. Looks at functions without `byoc.target`.

Guarantees: no contraction has the flags whose result leads to a conversion to integers, at whatever
distance and through whatever loop, to a routine that gives integers, or to a call of a region that
has integers: quantised numbers stay what they are, bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.arith import FastMathFlagsAttr
from xdsl.dialects.builtin import MemRefType, ModuleOp, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.dialects.utils import FastMathFlag
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.traits import SymbolTable

from byocir.dialects.byoc import CallOp
from byocir.dialects.tir import (
    BlockOp,
    ConstantOp,
    EmptyOp,
    ExternOp,
    FillOp,
    ForOp,
    YieldOp,
    blocks_in,
)
from byocir.dialects.types import bf16, element_type_of, f16, f32, is_float
from byocir.rewrites.byoc.host_blocks import host_functions
from byocir.rewrites.host.contraction import multiplies_and_adds

RELAXED = FastMathFlagsAttr([FastMathFlag.REASSOC, FastMathFlag.ALLOW_CONTRACT])


@dataclass(frozen=True)
class RelaxContractionsPass(ModulePass):
    """Flags contractions whose sums may be taken in any order."""

    name = "relax-contractions"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in host_functions(op):
            _relax(function)


def _relax(function: FuncOp) -> None:
    exact: set[SSAValue] = set()
    _follow(function.body.block, exact)
    for op in blocks_in(function):
        if not exact.isdisjoint(op.results):
            continue
        if _is_float_contraction(op):
            for inner in op.body.block.ops:
                if isinstance(inner, arith.AddfOp | arith.MulfOp):
                    inner.fastmath = RELAXED


def _follow(block: Block, exact: set[SSAValue]) -> None:
    """Adds to `exact` the values of a block that lead to integers, walking against the flow."""
    for op in reversed(list(block.ops)):
        if isinstance(op, ForOp):
            _follow_loop(op, exact)
        elif _leads_to_integers(op) or not exact.isdisjoint(op.results):
            exact.update(value for inner in op.walk() for value in inner.operands)


def _follow_loop(op: ForOp, exact: set[SSAValue]) -> None:
    """Adds to `exact` the values that a loop carries where the next iteration needs them so, until
    nothing is new.
    """
    known = -1
    while known < len(exact):
        known = len(exact)
        for initial, carried, yielded, result in zip(
            op.initial, op.carried, op.yielded, op.results, strict=True
        ):
            if carried in exact or result in exact:
                exact.update((initial, yielded))
        _follow(op.body.block, exact)


def _leads_to_integers(op: Operation) -> bool:
    """Tells if an op rounds or compares floats to integers, or may: nothing is known of ops other
    than blocks, loops, routines and calls.
    """
    if isinstance(op, BlockOp):
        return any(isinstance(inner, arith.FPToSIOp | arith.FPToUIOp) for inner in op.walk())
    if isinstance(op, ExternOp):
        return not all(is_float(element_type_of(result.type)) for result in op.results)
    if isinstance(op, CallOp):
        return not _is_of_floats(SymbolTable.lookup_symbol(op, op.callee))
    return not isinstance(op, ReturnOp | YieldOp | ConstantOp | EmptyOp | FillOp)


def _is_of_floats(function: Operation | None) -> bool:
    """Tells if all that a function takes, computes and gives is floats."""
    if not isinstance(function, FuncOp) or function.is_declaration:
        return False
    values = [result for op in function.walk() for result in op.results]
    types = {value.type for value in (*function.body.block.args, *values)}
    return all(is_float(_scalar(type_)) for type_ in types)


def _scalar(type_: Attribute) -> Attribute:
    if not isinstance(type_, TensorType | MemRefType):
        return type_
    return element_type_of(cast("Attribute", type_))


def _is_float_contraction(op: BlockOp) -> bool:
    if not op.in_value_form or not multiplies_and_adds(op):
        return False
    *read, total = (arg.type for arg in op.body.block.args)
    return total == f32 and {*read} <= {f16, bf16, f32}
