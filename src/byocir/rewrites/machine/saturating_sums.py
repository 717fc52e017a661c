"""Restates bodies as units compute that saturate. Sums of bytes get the one form of units that add
two arrays and scale: a factor for each byte and none for their sum, a number, a shift, and both
ends of a clamp. What else is narrowed gets both ends, where one was dropped that never acts.

```
(((x * 88 + y * 55) * 16964 + 1048576) >> 21).min(127)
  →  ((x * 1492832 + y * 933020 + 1048576) >> 21).clamp(-128, 127)
x + y * 2
  →  ((x * 1 + y * 2 + 0) >> 0).clamp(-128, 127)
```
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from operator import add

from xdsl.dialects import arith
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from byocir.dialects.emitting import emitting_to
from byocir.dialects.intervals import Interval, integer_range
from byocir.dialects.new_ops import clone_op
from byocir.dialects.tir import BlockOp
from byocir.dialects.tir.scalar import Emitted
from byocir.dialects.types import i8
from byocir.dialects.uses import erase_unused, set_operand
from byocir.patterns.scalars import constant_number


def saturating_sum(op: BlockOp) -> BlockOp | None:
    """Copies a block that adds bytes in this form. No number may leave its type on the way to the
    result: where one wraps there, this form saturates. None for another block, and where a factor
    does not fit its type.
    """
    if (found := _Sum.of(op)) is None or not found.fits:
        return None
    made = clone_op(op)
    found = _Sum.of(made)
    assert found is not None
    found.put()
    erase_unused(made.body.block)
    return made


def with_both_ends(op: BlockOp) -> BlockOp | None:
    """Copies a block whose result is narrowed, and none of whose numbers leave their types, with
    both ends of a clamp in front of that. None for another block, and for one that has both.
    """
    made = clone_op(op)
    narrowed = made.yielded[0].owner
    if not isinstance(narrowed, arith.TruncIOp):
        made.erase()
        return None
    low, high = integer_range(narrowed.result.type)
    below, most = _undone(narrowed.input, arith.MinSIOp, high)
    value, least = _undone(below, arith.MaxSIOp, low)
    if value is not below and below is not narrowed.input:
        made.erase()
        return None
    _put_before(narrowed, lambda: Emitted(value).clamp(least, most))
    return made


def _put_before(narrowed: arith.TruncIOp, emit: Callable[[], Emitted]) -> None:
    """Narrows what is computed in front of an op that narrows something else."""
    block = Block()
    with emitting_to(block):
        result = emit()
    ops = list(block.ops)
    for op in ops:
        op.detach()
        op.location = narrowed.location
    assert narrowed.parent is not None
    narrowed.parent.insert_ops_before(ops, narrowed)
    set_operand(narrowed, 0, result.value)


@dataclass(frozen=True)
class _Sum:
    """Describes what is converted to the result of a block as a sum of values times factors and a
    number, which is shifted and clamped.
    """

    narrowed: arith.TruncIOp
    terms: list[tuple[SSAValue, int]]
    number: int
    shift: int
    ends: Interval

    @staticmethod
    def of(op: BlockOp) -> _Sum | None:
        narrowed = op.yielded[0].owner
        if not isinstance(narrowed, arith.TruncIOp):
            return None
        low, high = integer_range(narrowed.result.type)
        value, most = _undone(narrowed.input, arith.MinSIOp, high)
        value, least = _undone(value, arith.MaxSIOp, low)
        value, shift = _undone(value, arith.ShRSIOp, 0)
        terms, number = list[tuple[SSAValue, int]](), 0
        for term, factor in _terms(value, 1):
            if term is None:
                number += factor
            else:
                terms.append((term, factor))
        return _Sum(narrowed, terms, number, shift, Interval(least, most))

    @property
    def fits(self) -> bool:
        """Tells whether several bytes are added, whose factors fit the type of their sum."""
        range_ = integer_range(self.narrowed.input.type)
        factors = [factor for _, factor in self.terms]
        fits = len(factors) > 1 and all(map(range_.holds, [*factors, self.number]))
        return fits and all(_is_byte(value) for value, _ in self.terms)

    def put(self) -> None:
        """Puts this form of the sum in the place of its own one."""

        def total() -> Emitted:
            terms = [Emitted(value) * factor for value, factor in self.terms]
            return ((reduce(add, terms) + self.number) >> self.shift).clamp(*self.ends)

        _put_before(self.narrowed, total)


def _undone(value: SSAValue, kind: type[Operation], neutral: int) -> tuple[SSAValue, int]:
    """Gives the value that an op of this kind and a number make another value of, and the number;
    the value itself and the neutral number where none does.
    """
    owner = value.owner
    if not isinstance(owner, Operation) or not isinstance(owner, kind):
        return value, neutral
    number = constant_number(owner.operands[1])
    return (value, neutral) if number is None else (owner.operands[0], int(number))


def _terms(value: SSAValue, factor: int) -> Iterator[tuple[SSAValue | None, int]]:
    """Yields the terms of a value times a factor, each with its own; that of a number is 1."""
    owner, number = value.owner, constant_number(value)
    if number is not None:
        yield None, factor * int(number)
    elif isinstance(owner, arith.AddiOp):
        for operand in owner.operands:
            yield from _terms(operand, factor)
    elif isinstance(owner, arith.MuliOp) and (found := constant_number(owner.rhs)) is not None:
        yield from _terms(owner.lhs, factor * int(found))
    else:
        yield value, factor


def _is_byte(value: SSAValue) -> bool:
    """Tells whether a value is a byte of an array, in a wider type."""
    owner = value.owner
    if not isinstance(owner, arith.ExtSIOp):
        return False
    return isinstance(owner.input, BlockArgument) and owner.input.type == i8
