"""Describes programs as statements: stores with the loops around them, the elements that they
touch, and whether two of them may touch the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import gcd

from xdsl.dialects.builtin import LocationAttr
from xdsl.ir import Attribute, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr

from byocir.dialects.intervals import Interval
from byocir.dialects.tir.affine import canonical, linear
from byocir.dialects.tir.linear import Linear

Exprs = tuple[AffineExpr, ...]
"""An index: dimension d of an expression is the loop of that number."""


class NotRaised(Exception):
    """Says in one sentence why loops cannot become blocks."""


@dataclass(frozen=True, eq=False)
class SourceLoop:
    """Describes a loop from 0 with steps of 1. Each loop of a function has a number of its own."""

    number: int
    extent: int
    name: str


@dataclass(frozen=True)
class ElementAccess:
    """Describes an access of elements of a buffer, one at each point of the loops. `pad` is the
    number that is read outside.
    """

    buffer: SSAValue
    index: Exprs
    pad: Attribute | None = None

    @staticmethod
    def of(
        buffer: SSAValue, index: Sequence[AffineExpr], pad: Attribute | None = None
    ) -> ElementAccess:
        return ElementAccess(buffer, tuple(canonical(expr) for expr in index), pad)


@dataclass
class Nesting:
    """Names the place of statements in a program: the loops and guards around them."""

    loops: list[SourceLoop] = field(default_factory=list[SourceLoop])
    guards: list[AffineExpr] = field(default_factory=list[AffineExpr])


@dataclass
class Statement:
    """Describes a body that runs at each point of some loops where all guards are at least 0. It
    takes the elements of `ins`, then of `outs`, and yields those of `outs`."""

    loops: list[SourceLoop]
    guards: list[AffineExpr]
    ins: list[ElementAccess]
    outs: list[ElementAccess]
    body: Region
    location: LocationAttr

    @property
    def accesses(self) -> list[tuple[ElementAccess, bool]]:
        """Lists all accesses, each with whether it writes."""
        return [*((access, False) for access in self.ins), *((a, True) for a in self.outs)]


@dataclass
class RaisedOp:
    """Holds an op of a function's body with the ops that it becomes, or the reason why it stays."""

    op: Operation
    made: list[Operation] = field(default_factory=list[Operation])
    reason: str = ""


def check_order(statements: Sequence[Statement]) -> None:
    """Raises NotRaised unless each statement may run for all its points before the next begins."""
    for i, first in enumerate(statements):
        for second in statements[i + 1 :]:
            _check_pair(first, second)


def _check_pair(first: Statement, second: Statement) -> None:
    shared = [loop for loop in first.loops if loop in second.loops]
    for access, writes in first.accesses:
        for other, also_writes in second.accesses:
            if access.buffer is not other.buffer or not (writes or also_writes):
                continue
            for level in range(len(shared)):
                if may_meet(access, first.loops, other, second.loops, shared, level):
                    name = access.buffer.name_hint or "a buffer"
                    raise NotRaised(
                        f"expected iterations of {shared[level].name} that do not wait for each "
                        f"other, found elements of {name} that may go from one to the next"
                    )


def may_meet(
    access: ElementAccess,
    loops: Sequence[SourceLoop],
    other: ElementAccess,
    other_loops: Sequence[SourceLoop],
    shared: Sequence[SourceLoop],
    level: int,
) -> bool:
    """Tells if `access` at one point and `other` at another may be the same element, where the
    points agree in the shared loops before `level`, and the first is later in the loop of `level`.

    Each index is tested on its own: the interval of the difference (Banerjee's test), and the
    greatest common divisor of its coefficients.
    """
    same = {loop.number for loop in shared[:level]}
    later = shared[level] if level < len(shared) else None
    for mine, theirs in zip(access.index, other.index, strict=True):
        left, right = linear(mine), linear(theirs)
        if left is None or right is None:
            continue
        terms = _difference(left, loops, right, other_loops, same, later)
        if not _reaches_zero(terms, left.constant - right.constant):
            return False
    return True


_Term = tuple[int, Interval]
"""A coefficient, and the values of what it multiplies."""


def _difference(
    left: Linear[int],
    loops: Sequence[SourceLoop],
    right: Linear[int],
    other_loops: Sequence[SourceLoop],
    same: set[int],
    later: SourceLoop | None,
) -> list[_Term]:
    terms: list[_Term] = []
    for loop in loops:
        mine, theirs = left.coefficient(loop.number), right.coefficient(loop.number)
        whole = Interval(0, loop.extent - 1)
        if loop.number in same:
            terms.append((mine - theirs, whole))
        elif loop is later:
            # Here the first point is the second one and a distance of at least 1.
            terms.append((mine - theirs, Interval(0, loop.extent - 2)))
            terms.append((mine, Interval(1, loop.extent - 1)))
        else:
            terms.append((mine, whole))
    for loop in other_loops:
        if loop.number not in same and loop is not later:
            terms.append((-right.coefficient(loop.number), Interval(0, loop.extent - 1)))
    return terms


def _reaches_zero(terms: Sequence[_Term], constant: int) -> bool:
    if any(values.size < 1 for _, values in terms):
        return False  # a loop of one iteration has no later iteration
    ends = [values.scaled(c) for c, values in terms]
    low, high = constant + sum(e.low for e in ends), constant + sum(e.high for e in ends)
    divisor = gcd(*(c for c, _ in terms))
    return low <= 0 <= high and (constant % divisor == 0 if divisor else constant == 0)


def is_injective(access: ElementAccess, loops: Sequence[SourceLoop]) -> bool:
    """Tells if each point of these loops accesses an element of its own, for fixed values of the
    other loops.
    """
    forms = [form for expr in access.index if (form := linear(expr)) is not None]

    def widest(loop: SourceLoop) -> int:
        return max((abs(form.coefficient(loop.number)) for form in forms), default=0)

    ordered = sorted((loop for loop in loops if loop.extent > 1), key=widest, reverse=True)
    return not any(
        may_meet(access, ordered, access, ordered, ordered, level) for level in range(len(ordered))
    )
