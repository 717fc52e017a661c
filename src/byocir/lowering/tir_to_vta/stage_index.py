"""Where a tile's box begins: sums of loop indices, as keys and as ops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, IntegerAttr, LocationAttr
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from byocir.dialects.tir import ForOp, LoopKind
from byocir.dialects.tir.affine import Linear
from byocir.dialects.types import Shape


@dataclass(frozen=True)
class Start:
    """`sum(coefficient * value) + constant` of index values."""

    terms: tuple[tuple[int, SSAValue], ...]
    constant: int

    @staticmethod
    def of(form: Linear, bases: Sequence[SSAValue], extents: Shape) -> Start:
        """The least value of an index over a tile; constant bases count as constants."""
        constant, terms = form.constant, list[tuple[int, SSAValue]]()
        for i, coefficient in form.terms:
            constant += min(0, coefficient * (extents[i] - 1))
            known = constant_index(bases[i])
            if known is None:
                terms.append((coefficient, bases[i]))
            else:
                constant += coefficient * known
        return Start(tuple(terms), constant)


def constant_index(value: SSAValue) -> int | None:
    """The number of an index constant, or None."""
    owner = value.owner
    if isinstance(owner, arith.ConstantOp) and isinstance(owner.value, IntegerAttr):
        return owner.value.value.data
    return None


def loop_of(value: SSAValue) -> ForOp | None:
    """The innermost loop that an index depends on."""
    if isinstance(value, BlockArgument):
        parent = value.owner.parent_op()
        return parent if isinstance(parent, ForOp) else None
    assert isinstance(value.owner, Operation)
    return innermost([loop_of(operand) for operand in value.owner.operands])


def innermost(loops: Sequence[ForOp | None]) -> ForOp | None:
    """The one of these nested loops that is inside all the others."""
    found: ForOp | None = None
    for loop in loops:
        if loop is not None and (found is None or found.is_ancestor(loop)):
            found = loop
    return found


def unrolled_around(op: Operation) -> ForOp | None:
    """The nearest loop around an op that stands for one unrolled tile."""
    parent = op.parent_op()
    while isinstance(parent, ForOp):
        if parent.kind.data is LoopKind.UNROLL:
            return parent
        parent = parent.parent_op()
    return None


class Indices:
    """Makes index values; constants stand at the front of the composite's body."""

    def __init__(self, body: Block, location: LocationAttr) -> None:
        self.body = body
        self.location = location
        self.numbers: dict[int, SSAValue] = {}
        self.starts: dict[tuple[Block, Start], SSAValue] = {}
        for op in body.ops:
            if isinstance(op, arith.ConstantOp) and op.result.type == IndexType():
                value = constant_index(op.result)
                assert value is not None
                self.numbers[value] = op.result

    def number(self, value: int) -> SSAValue:
        """An index constant."""
        if value not in self.numbers:
            op = arith.ConstantOp(IntegerAttr(value, IndexType()))
            op.location = self.location
            first = self.body.first_op
            assert first is not None
            self.body.insert_op_before(op, first)
            self.numbers[value] = op.result
        return self.numbers[value]

    def start(self, start: Start, before: Operation) -> SSAValue:
        """The value of a start, made in front of an op unless it is known in its block."""
        block = before.parent
        assert block is not None
        if not start.terms:
            return self.number(start.constant)
        key = (block, start)
        if key not in self.starts:
            self.starts[key] = self._sum(start, block, before)
        return self.starts[key]

    def _sum(self, start: Start, block: Block, before: Operation) -> SSAValue:
        def add(op: Operation) -> SSAValue:
            op.location = self.location
            block.insert_op_before(op, before)
            return op.results[0]

        total: SSAValue | None = None
        for coefficient, value in start.terms:
            term = value
            if coefficient != 1:
                term = add(arith.MuliOp(value, self.number(coefficient)))
            total = term if total is None else add(arith.AddiOp(total, term))
        assert total is not None
        if start.constant > 0:
            total = add(arith.AddiOp(total, self.number(start.constant)))
        elif start.constant < 0:
            total = add(arith.SubiOp(total, self.number(-start.constant)))
        return total
