"""Reads index values, of which the bases of blocks and copies are made, as linear forms.

`%o * 4 + %n - 1` is a form of the indices of loops and of values that divide, take remainders or
choose a minimum, which are not looked into except for the interval that they are in.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, IntegerAttr, LocationAttr
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from byocir.dialects.intervals import Interval
from byocir.dialects.tir import ForOp
from byocir.dialects.tir.linear import Linear

INDEX_ARITHMETIC: dict[type[Operation], Callable[[int, int], int]] = {
    arith.AddiOp: operator.add,
    arith.SubiOp: operator.sub,
    arith.MuliOp: operator.mul,
    arith.MinSIOp: min,
    arith.MaxSIOp: max,
    arith.DivUIOp: lambda a, b: a // b,
    arith.RemUIOp: operator.mod,
}
"""Maps the ops that compute index values to what they give for numbers."""


def sum_of(value: SSAValue) -> Linear[SSAValue]:
    """Reads an index value as a linear form."""
    op = value.owner
    if isinstance(op, arith.ConstantOp) and isinstance(op.value, IntegerAttr):
        return Linear((), op.value.value.data)
    if isinstance(op, arith.AddiOp):
        return sum_of(op.lhs) + sum_of(op.rhs)
    if isinstance(op, arith.SubiOp):
        return sum_of(op.lhs) - sum_of(op.rhs)
    if isinstance(op, arith.MuliOp):
        left, right = sum_of(op.lhs), sum_of(op.rhs)
        if not left.terms:
            return right * left.constant
        if not right.terms:
            return left * right.constant
    found = interval_of(value)
    if found is not None and found.size == 1:  # e.g. of a loop of one iteration
        return Linear((), found.low)
    return Linear(((value, 1),))


def base_sums(bases: Sequence[SSAValue], count: int) -> list[Linear[SSAValue]]:
    """Reads the bases of a block's iterators as linear forms; without bases they are 0."""
    return [sum_of(base) for base in bases] or [Linear()] * count


def loop_around(value: SSAValue) -> ForOp | None:
    """Gives the loop whose index this value is; None for other values."""
    if isinstance(value, BlockArgument):
        parent = value.owner.parent_op()
        return parent if isinstance(parent, ForOp) and parent.index is value else None
    return None


def loops_behind(value: SSAValue, below: Block | None = None) -> list[ForOp]:
    """Lists the loops on which an index value depends; with `below` only those inside that
    block.
    """
    if isinstance(value.owner, Block):
        loop = value.owner.parent_op()
        is_one = isinstance(loop, ForOp) and (below is None or below.is_ancestor(loop))
        return [loop] if is_one and isinstance(loop, ForOp) else []
    return [loop for operand in value.owner.operands for loop in loops_behind(operand, below)]


def interval_of(atom: SSAValue) -> Interval | None:
    """Bounds the values of an atom; None where they are not known."""
    loop = loop_around(atom)
    if loop is not None:
        return Interval(0, loop.extent.value.data - 1)
    op = atom.owner
    if not isinstance(op, arith.MinSIOp | arith.DivUIOp | arith.RemUIOp):
        return None
    left, right = interval_of_sum(sum_of(op.lhs)), interval_of_sum(sum_of(op.rhs))
    if left is None or right is None:
        return None
    if isinstance(op, arith.MinSIOp):
        return left.corners(right, min)
    if right.size > 1 or right.low <= 0 or left.low < 0:
        return None
    return left.quotient(right.low) if isinstance(op, arith.DivUIOp) else left.remainder(right.low)


def interval_of_sum(form: Linear[SSAValue]) -> Interval | None:
    """Bounds the values of a form; None where those of an atom are not known."""
    found = {atom: interval_of(atom) for atom in form.atoms}
    known = {atom: values for atom, values in found.items() if values is not None}
    return form.interval(known.__getitem__) if len(known) == len(found) else None


def is_index_arithmetic(op: Operation) -> bool:
    """Tells if this op computes an index from indices, and nothing else."""
    pure = type(op) in INDEX_ARITHMETIC or isinstance(op, arith.ConstantOp)
    return pure and op.results[0].type == IndexType()


class IndexBuilder:
    """Makes index values in front of an op, or at the end of a block. Constants stand at the front
    of `body` and are shared; values made in a block are used again there, so ask for them in order.
    """

    def __init__(self, body: Block, location: LocationAttr) -> None:
        self.body = body
        self.location = location
        self.numbers: dict[int, SSAValue] = {}
        self._sums: dict[tuple[Block, Linear[SSAValue]], SSAValue] = {}
        for op in body.ops:
            if not isinstance(op, arith.ConstantOp):
                break
            if isinstance(op.value, IntegerAttr) and op.result.type == IndexType():
                self.numbers.setdefault(op.value.value.data, op.result)

    def number(self, value: int) -> SSAValue:
        """Makes an index constant, if it is not there yet."""
        if value not in self.numbers:
            op = arith.ConstantOp(IntegerAttr(value, IndexType()))
            self._insert(op, self.body, self.body.first_op)
            op.result.name_hint = f"c{value}" if value >= 0 else f"cm{-value}"
            self.numbers[value] = op.result
        return self.numbers[value]

    def value(
        self, wanted: Linear[SSAValue], block: Block, before: Operation | None = None
    ) -> SSAValue:
        """Makes a sum a value, in front of `before` or at the end of the block."""
        if not wanted.terms:
            return self.number(wanted.constant)
        if (block, wanted) not in self._sums:
            self._sums[block, wanted] = self._made(wanted, block, before)
        return self._sums[block, wanted]

    def minimum(
        self, wanted: Linear[SSAValue], most: int, block: Block, before: Operation | None = None
    ) -> SSAValue:
        """Makes the minimum of a sum and `most`; just the sum where it is never more."""
        value = self.value(wanted, block, before)
        found = interval_of_sum(wanted)
        if found is not None and found.high <= most:
            return value
        return self._insert(arith.MinSIOp(value, self.number(most)), block, before)

    def _insert(self, op: Operation, block: Block, before: Operation | None) -> SSAValue:
        op.location = self.location
        Rewriter.insert_op(op, InsertPoint(block, before))
        return op.results[0]

    def _made(self, wanted: Linear[SSAValue], block: Block, before: Operation | None) -> SSAValue:
        total: SSAValue | None = None
        for value, coefficient in wanted.terms:
            term = value
            if coefficient != 1:
                scaled = arith.MuliOp(value, self.number(coefficient))
                term = self._insert(scaled, block, before)
            if total is not None:
                term = self._insert(arith.AddiOp(total, term), block, before)
            total = term
        assert total is not None
        if wanted.constant > 0:
            added = arith.AddiOp(total, self.number(wanted.constant))
            total = self._insert(added, block, before)
        elif wanted.constant < 0:
            added = arith.SubiOp(total, self.number(-wanted.constant))
            total = self._insert(added, block, before)
        return total


def innermost(loops: Sequence[ForOp]) -> ForOp | None:
    """Finds the innermost of these nested loops; None without any."""
    found: ForOp | None = None
    for loop in loops:
        if found is None or found.is_ancestor(loop):
            found = loop
    return found
