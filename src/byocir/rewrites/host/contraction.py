"""Recognises contractions, and says how they may be computed."""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import UnrealizedConversionCastOp
from xdsl.dialects.utils import FastMathFlag
from xdsl.ir import Attribute, Operation, SSAValue

from byocir.dialects.tir import BlockOp
from byocir.dialects.types import f32, i1, i8, i16, i32, ui8, ui16

CONVERSIONS = (arith.ExtSIOp, arith.ExtUIOp, arith.ExtFOp, UnrealizedConversionCastOp)
UNSIGNED: dict[Attribute, bool] = {
    **dict.fromkeys((i8, i16, i32), False),
    **dict.fromkeys((i1, ui8, ui16), True),
}
"""The integers that C extends to i32, and whether by zeros."""


def is_contraction(op: BlockOp) -> bool:
    """Tells if the body is `acc + x * y` on two inputs, which may be converted first, at all points
    from 0."""
    return op.where is None and not op.bases and multiplies_and_adds(op)


def multiplies_and_adds(op: BlockOp) -> bool:
    """Tells if the body is `acc + x * y` on two inputs, which may be converted first."""
    block = op.body.block
    if len(op.ins) != 2 or len(op.outs) != 1:
        return False
    add = op.yielded[0].owner
    if not isinstance(add, arith.AddfOp | arith.AddiOp):
        return False
    terms = [value.owner for value in add.operands if value is not block.args[2]]
    if len(terms) != 1 or not isinstance(terms[0], arith.MulfOp | arith.MuliOp):
        return False
    product: Operation = terms[0]
    return {_converted(value) for value in product.operands} == {block.args[0], block.args[1]}


def _converted(value: SSAValue) -> SSAValue:
    """Gives the value before the conversions, in one or more steps, that make this one."""
    while isinstance(value.owner, CONVERSIONS):
        value = value.owner.operands[0]
    return value


def inside_groups(op: BlockOp) -> set[int]:
    """Gives the iterators that an index adds to one which all operands have: in a convolution in
    groups those over the channels of one.
    """
    used = [[e.used_dims() for e in m.results] for m in (*op.in_maps, *op.out_maps)]
    groups = {i for i in op.parallels if all(any(i in at for at in each) for each in used)}
    return {i for each in used for at in each if at & groups for i in at - groups}


def may_reorder(op: BlockOp) -> bool:
    """Tells if the sum of a contraction may be taken in any order: sums of integers may, and of
    floats where the addition says so.
    """
    add = op.yielded[0].owner
    return isinstance(add, arith.AddiOp) or (
        isinstance(add, arith.AddfOp) and FastMathFlag.REASSOC in add.fastmath.data  # pyrefly: ignore[missing-attribute]
    )


def may_fuse(op: BlockOp) -> bool:
    """Tells if the products of a contraction may be rounded together with their addition."""
    add = op.yielded[0].owner
    return isinstance(add, arith.AddfOp) and FastMathFlag.ALLOW_CONTRACT in add.fastmath.data  # pyrefly: ignore[missing-attribute]


def is_computable(op: BlockOp) -> bool:
    """Tells if all values are f32, or are integers that are extended to i32, by sign or zeros as C
    would extend them.
    """
    args = op.body.block.args
    if all(arg.type == f32 for arg in args):
        return True
    if args[2].type != i32:
        return False
    add = op.yielded[0].owner
    assert isinstance(add, arith.AddiOp)
    product = (add.rhs if add.lhs is args[2] else add.lhs).owner
    assert isinstance(product, arith.MuliOp)
    return all(_extends_as_c(value) for value in product.operands)


def _extends_as_c(value: SSAValue) -> bool:
    unsigned = False
    while isinstance(value.owner, CONVERSIONS):
        unsigned = unsigned or isinstance(value.owner, arith.ExtUIOp)
        value = value.owner.operands[0]
    return UNSIGNED.get(value.type) == unsigned
