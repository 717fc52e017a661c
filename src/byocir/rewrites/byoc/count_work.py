"""Counts the multiply-accumulates of ops, at either level."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Sequence
from functools import cached_property

from xdsl.dialects import arith
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute, Operation, SSAValue

from byocir.dialects import tir
from byocir.dialects.graph.base import macs
from byocir.dialects.traits import is_constant_value
from byocir.dialects.types import element_type_of, holds_numbers, nbytes, static_shape


class MatchedOps(tuple[Operation, ...]):
    """Lists the ops of a match, the last one first, with the figures that reports have for them."""

    constants: Sequence[Operation] = ()
    """The constants of the match that move into its composite."""

    @staticmethod
    def of(ops: Iterable[Operation], constants: Sequence[Operation]) -> MatchedOps:
        """Makes the ops of a match that has these constants."""
        made = MatchedOps(ops)
        made.constants = constants
        return made

    @cached_property
    def macs(self) -> int:
        """Counts the multiply-accumulates of the ops."""
        return macs_of(self)

    @cached_property
    def bytes(self) -> int:
        """Counts the bytes that cross if these ops alone are handed over, without constants and
        arrays of open sizes.
        """
        return sum(size_of(value.type) or 0 for value in crossing(self))


def crossing(ops: Iterable[Operation]) -> list[SSAValue]:
    """Lists the values that ops read from outside, constants aside, and those that they give to
    others.
    """
    inside = dict.fromkeys(ops)
    given = {result: None for op in inside for result in op.results}
    read = dict.fromkeys(v for op in inside for v in op.operands if v not in given)
    inputs = [v for v in read if not is_constant_value(v)]
    return [*inputs, *(v for v in given if _is_used_outside(v, inside))]


def size_of(type_: Attribute) -> int | None:
    """Counts the bytes of a tensor or buffer; None where they depend on the inputs, as those of
    strings do.
    """
    if not isinstance(type_, MemRefType) and static_shape(type_) is None:
        return None
    return nbytes(type_) if holds_numbers(element_type_of(type_)) else None


def _is_used_outside(value: SSAValue, inside: Container[Operation]) -> bool:
    users = [use.operation for use in value.uses]
    return not users or any(user not in inside for user in users)


def macs_of(ops: Iterable[Operation]) -> int:
    """Counts the multiply-accumulates of these ops and of those inside them."""
    return sum(_macs(inner) for op in ops for inner in op.walk())


def _macs(op: Operation) -> int:
    if not isinstance(op, tir.BlockOp):
        return macs(op)
    multiplies = any(isinstance(o, arith.MuliOp | arith.MulfOp) for o in op.body.block.ops)
    return math.prod(op.extents) if op.reductions and multiplies else 0
