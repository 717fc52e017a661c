"""Represents integer values of a composite as expressions of VTA's ALU operations, with their
ranges.

A `Lane` stands for one i32 value per element of a composite's result. Lanes know between which
integers their values lie, so that a clamp that cannot act is not made and an overflow is found
while compiling.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import LocationAttr
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineMap

from byocir.dialects.intervals import Interval, integer_range
from byocir.dialects.tir import BlockOp
from byocir.dialects.types import Shape, i8, i32
from byocir.rewrites.block_ends import Ends

I32_RANGE, I8_RANGE = integer_range(i32), integer_range(i8)

WIDEST_SHIFT = 15
"""The longest shift in one step of VTAs without products, which read five signed bits."""

IMMEDIATE = Interval.of_bits(16, signed=True)
"""Numbers that fit the immediate of an ALU instruction."""


@dataclass(frozen=True, eq=False)
class Constant:
    """Holds known numbers: int64, of the rank of the composite's result, with size 1 along the
    dimensions that they do not depend on."""

    values: np.ndarray

    @staticmethod
    def uniform(number: int, rank: int) -> Constant:
        return Constant(np.full((1,) * rank, number, np.int64))

    @property
    def number(self) -> int | None:
        """Gives the number that all elements equal, or None."""
        first = int(self.values.flat[0])
        return first if bool(np.all(self.values == first)) else None

    @property
    def range(self) -> Interval:
        return Interval(int(self.values.min()), int(self.values.max()))


@dataclass(frozen=True, eq=False)
class Lane:
    """Stands for an i32 value for each element; all values are in `range`, both ends included."""

    range: Interval
    location: LocationAttr


@dataclass(frozen=True, eq=False)
class Widened(Lane):
    """Stands for an input of the composite (i8), read at `map`."""

    source: SSAValue
    map: AffineMap


@dataclass(frozen=True, eq=False)
class Reduced(Lane):
    """Stands for the result of contractions or of a window reduction. `make` makes the blocks that
    compute it, one after the other, in VTA form from an array of this initial number. `ends` are
    the least and the greatest values of each channel, of the rank of the result."""

    initial: int
    make: Callable[[SSAValue], list[BlockOp]]
    ends: Ends


@dataclass(frozen=True, eq=False)
class Pooled(Lane):
    """Stands for the maxima of a lane over windows. `make` makes the block that computes them from
    the lane, whose array has this `shape`, and from an array of a number that is not above any of
    its values.
    """

    operand: Lane
    shape: Shape
    make: Callable[[SSAValue, SSAValue], BlockOp]


@dataclass(frozen=True, eq=False)
class Step(Lane):
    """Stands for one ALU operation: `name` is one of add, mul, max, min, shr, shl."""

    name: str
    lhs: Lane
    rhs: Lane | Constant


def is_immediate(constant: Constant) -> bool:
    """Tells if an ALU instruction can hold this constant itself."""
    number = constant.number
    return number is not None and IMMEDIATE.holds(number)


OPERAND_CYCLES = 32
"""The cycles of loading an operand of numbers for a vector of channels."""


def cycles(lane: Lane, points: int = 1, operand: int = 0) -> int:
    """Counts the cycles of all steps of a lane for so many points of each channel: one cycle a
    point, or two where the second operand is read, and what loading operands of numbers takes.
    """
    uses = count_uses([lane])
    steps = [found for found in uses if isinstance(found, Step)]
    read = [s for s in steps if isinstance(s.rhs, Lane) or not is_immediate(s.rhs)]
    loaded = sum(isinstance(s.rhs, Constant) for s in read)
    return (len(steps) + len(read)) * points + loaded * operand


def step(
    name: str,
    lhs: Lane,
    rhs: Lane | Constant,
    location: LocationAttr,
    known: Interval | None = None,
) -> Step:
    """Gives an ALU operation on i32, which wraps; `known` is its range where that is known better
    than from the ranges of the operands."""
    return Step(known or _range(name, lhs.range, rhs.range), location, name, lhs, rhs)


def _range(name: str, lhs: Interval, rhs: Interval) -> Interval:
    """Bounds an operation on values in these ranges; all of i32 when it may wrap."""
    found = lhs.corners(rhs, _EXACT[name])
    return found if name in ("max", "min") or I32_RANGE.contains(found) else I32_RANGE


_EXACT: dict[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "max": max,
    "min": min,
    "mul": operator.mul,
    "shl": lambda a, b: a << b,
    "shr": lambda a, b: a >> b,
}


def operands(lane: Lane) -> list[Lane]:
    """Lists the lanes from which a lane is computed."""
    if isinstance(lane, Step):
        return [lane.lhs, *([lane.rhs] if isinstance(lane.rhs, Lane) else [])]
    return [lane.operand] if isinstance(lane, Pooled) else []


def count_uses(roots: Sequence[Lane]) -> Counter[Lane]:
    """Counts the uses of each lane, as a root or by other lanes."""
    uses = Counter(roots)
    seen: set[Lane] = set(roots)
    stack = list(dict.fromkeys(roots))
    while stack:
        for operand in operands(stack.pop()):
            uses[operand] += 1
            if operand not in seen:
                seen.add(operand)
                stack.append(operand)
    return uses
