"""Index values as sums: what the bases of blocks and copies are made of.

A `Sum` is `sum(coefficient * atom) + constant`. Atoms are the indices of loops, and values that
divide, take remainders or choose a minimum, which are not looked into except for their range.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, IntegerAttr, LocationAttr
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineExpr

from byocir.dialects.tir import ForOp
from byocir.dialects.tir.affine import Linear

Range = tuple[int, int]
"""The least and the greatest value."""


@dataclass(frozen=True)
class Sum:
    """`sum(coefficient * atom) + constant`; no coefficient is 0, atoms in the order of their first
    use."""

    terms: tuple[tuple[SSAValue, int], ...] = ()
    constant: int = 0

    @staticmethod
    def of(coefficients: Mapping[SSAValue, int], constant: int) -> Sum:
        return Sum(tuple((v, c) for v, c in coefficients.items() if c), constant)

    def __add__(self, other: Sum | int) -> Sum:
        if isinstance(other, int):
            return Sum(self.terms, self.constant + other)
        terms = dict(self.terms)
        for value, coefficient in other.terms:
            terms[value] = terms.get(value, 0) + coefficient
        return Sum.of(terms, self.constant + other.constant)

    def __mul__(self, factor: int) -> Sum:
        return Sum.of({v: c * factor for v, c in self.terms}, self.constant * factor)

    def __sub__(self, other: Sum | int) -> Sum:
        return self + other * -1

    def coefficient(self, atom: SSAValue) -> int:
        return dict(self.terms).get(atom, 0)

    @property
    def variable(self) -> Sum:
        """Without the constant."""
        return Sum(self.terms)

    def range(self) -> Range | None:
        """The values it can take; None when an atom's are not known."""
        low = high = self.constant
        for atom, coefficient in self.terms:
            found = range_of(atom)
            if found is None:
                return None
            ends = sorted(coefficient * end for end in found)
            low, high = low + ends[0], high + ends[1]
        return low, high


def sum_of(value: SSAValue) -> Sum:
    """An index value as a sum of atoms."""
    op = value.owner
    if isinstance(op, arith.ConstantOp) and isinstance(op.value, IntegerAttr):
        return Sum((), op.value.value.data)
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
    found = range_of(value)
    if found is not None and found[0] == found[1]:  # e.g. of a loop of one iteration
        return Sum((), found[0])
    return Sum(((value, 1),))


def base_sums(bases: Sequence[SSAValue], count: int) -> list[Sum]:
    """The bases of a block's iterators; without any they are 0."""
    return [sum_of(base) for base in bases] or [Sum()] * count


def start_of(form: Linear, bases: Sequence[Sum], extents: Sequence[int]) -> Sum:
    """The least value of a linear index over a tile."""
    total = Sum((), form.constant)
    for i, coefficient in form.terms:
        total += bases[i] * coefficient + min(0, coefficient * (extents[i] - 1))
    return total


def loop_around(value: SSAValue) -> ForOp | None:
    """The loop whose index this value is."""
    if isinstance(value, BlockArgument):
        parent = value.owner.parent_op()
        return parent if isinstance(parent, ForOp) and parent.index is value else None
    return None


def loops_behind(value: SSAValue, below: Block | None = None) -> list[ForOp]:
    """The loops that an index value depends on; with `below` only those inside that block."""
    if isinstance(value.owner, Block):
        loop = value.owner.parent_op()
        is_one = isinstance(loop, ForOp) and (below is None or below.is_ancestor(loop))
        return [loop] if is_one and isinstance(loop, ForOp) else []
    return [loop for operand in value.owner.operands for loop in loops_behind(operand, below)]


def range_of(atom: SSAValue) -> Range | None:
    """The values an atom can take, or None."""
    loop = loop_around(atom)
    if loop is not None:
        return 0, loop.extent.value.data - 1
    op = atom.owner
    if not isinstance(op, arith.MinSIOp | arith.DivUIOp | arith.RemUIOp):
        return None
    left, right = sum_of(op.lhs).range(), sum_of(op.rhs).range()
    if left is None or right is None:
        return None
    if isinstance(op, arith.MinSIOp):
        return min(left[0], right[0]), min(left[1], right[1])
    if right[0] != right[1] or right[0] <= 0 or left[0] < 0:
        return None
    if isinstance(op, arith.DivUIOp):
        return left[0] // right[0], left[1] // right[0]
    return 0, min(left[1], right[0] - 1)


def expression(form: Linear, constant: int) -> AffineExpr:
    """A linear form as an expression, with another constant."""
    total: AffineExpr = AffineExpr.constant(constant)
    for i, coefficient in form.terms:
        total = AffineExpr.dimension(i) * coefficient + total
    return total


def is_index_arithmetic(op: Operation) -> bool:
    """Whether this op computes an index from indices, and nothing else."""
    pure = isinstance(
        op,
        arith.AddiOp
        | arith.SubiOp
        | arith.MuliOp
        | arith.MinSIOp
        | arith.MaxSIOp
        | arith.DivUIOp
        | arith.RemUIOp
        | arith.ConstantOp,
    )
    return pure and op.results[0].type == IndexType()


class Indices:
    """Makes index values in front of an op, or at the end of a block; constants stand at the front
    of `body` and are shared. What was made in a block is not made again there: ask in order."""

    def __init__(self, body: Block, location: LocationAttr) -> None:
        self.body = body
        self.location = location
        self.numbers: dict[int, SSAValue] = {}
        self._sums: dict[tuple[Block, Sum], SSAValue] = {}
        for op in body.ops:
            if not isinstance(op, arith.ConstantOp):
                break
            if isinstance(op.value, IntegerAttr) and op.result.type == IndexType():
                self.numbers.setdefault(op.value.value.data, op.result)

    def number(self, value: int) -> SSAValue:
        """An index constant."""
        if value not in self.numbers:
            op = arith.ConstantOp(IntegerAttr(value, IndexType()))
            self._insert(op, self.body, self.body.first_op)
            op.result.name_hint = f"c{value}" if value >= 0 else f"cm{-value}"
            self.numbers[value] = op.result
        return self.numbers[value]

    def value(self, wanted: Sum, block: Block, before: Operation | None = None) -> SSAValue:
        """A sum as a value, in front of `before` or at the end of the block."""
        if not wanted.terms:
            return self.number(wanted.constant)
        if (block, wanted) not in self._sums:
            self._sums[block, wanted] = self._made(wanted, block, before)
        return self._sums[block, wanted]

    def minimum(
        self, wanted: Sum, most: int, block: Block, before: Operation | None = None
    ) -> SSAValue:
        """The sum or `most`, whichever is less; just the sum where it is never more."""
        value = self.value(wanted, block, before)
        found = wanted.range()
        if found is not None and found[1] <= most:
            return value
        return self._insert(arith.MinSIOp(value, self.number(most)), block, before)

    def _insert(self, op: Operation, block: Block, before: Operation | None) -> SSAValue:
        op.location = self.location
        if before is None:
            block.add_op(op)
        else:
            block.insert_op_before(op, before)
        return op.results[0]

    def _made(self, wanted: Sum, block: Block, before: Operation | None) -> SSAValue:
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
    """The one of these nested loops that is inside all the others."""
    found: ForOp | None = None
    for loop in loops:
        if found is None or found.is_ancestor(loop):
            found = loop
    return found
