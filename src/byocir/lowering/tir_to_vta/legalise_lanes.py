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
from dataclasses import dataclass, replace

import numpy as np
from xdsl.dialects.builtin import LocationAttr
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineMap

from byocir.dialects.graph.fixed_point import Rounding
from byocir.dialects.intervals import Interval, integer_range
from byocir.dialects.locations import fuse
from byocir.dialects.tir import BlockOp
from byocir.dialects.types import Shape, i8, i32
from byocir.rewrites.block_ends import Ends

I32_RANGE, I8_RANGE = integer_range(i32), integer_range(i8)

WIDEST_SHIFT = 15
"""The longest shift in one step: some VTAs read five signed bits."""

SHIFT_WITH_PRODUCTS = 31
"""The longest shift of those VTAs that have a product: they read the whole number."""

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


@dataclass(frozen=True, eq=False)
class Requantised(Lane):
    """Stands for `clamp(round(operand * multiplier / 2^shift) + zero, range)`, in exact
    arithmetic."""

    operand: Lane
    multiplier: Constant
    shift: int
    rounding: Rounding
    zero: int = 0

    @property
    def half(self) -> int:
        """Gives the number added before the shift, so that ties go up; 0 where results are
        cut off."""
        return 0 if self.rounding == "floor" else 1 << self.shift >> 1


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


def ends_of(lane: Lane) -> Ends:
    """Bounds the values of a lane, for each channel where that is known."""
    if isinstance(lane, Reduced):
        return lane.ends
    if isinstance(lane, Pooled) and lane.range == lane.operand.range:
        return ends_of(lane.operand)
    if not isinstance(lane, Step) or not isinstance(lane.rhs, Constant):
        return Ends.of(lane.range)
    if lane.name != "add" or lane.range == I32_RANGE:  # such a sum may wrap around
        return Ends.of(lane.range)
    low, high = ends_of(lane.lhs)
    return Ends(low + lane.rhs.values, high + lane.rhs.values)


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
    return [lane.operand] if isinstance(lane, Requantised | Pooled) else []


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


def merge_clamps(roots: Sequence[Lane]) -> list[Lane]:
    """Merges relu and clip into the requantise between them, which keeps all values.

    Rescaling by a multiplier that is not negative is monotone and takes 0 to the zero point, so a
    relu before it and a clip after it only narrow the range that its result is clamped to.
    """
    uses = count_uses(roots)
    made: dict[Lane, Lane] = {}

    def merged(lane: Lane) -> Lane:
        if lane not in made:
            made[lane] = _merge(lane, merged, uses)
        return made[lane]

    return [merged(root) for root in roots]


def _merge(lane: Lane, merged: Callable[[Lane], Lane], uses: Counter[Lane]) -> Lane:
    if isinstance(lane, Requantised):
        return _merge_relu(lane, merged(lane.operand), uses)
    if isinstance(lane, Pooled):
        return replace(lane, operand=merged(lane.operand))
    if not isinstance(lane, Step):
        return lane
    lhs = merged(lane.lhs)
    rhs = merged(lane.rhs) if isinstance(lane.rhs, Lane) else lane.rhs
    clip = rhs.number if isinstance(rhs, Constant) and lane.name in ("max", "min") else None
    if isinstance(lhs, Requantised) and clip is not None and uses[lane.lhs] == 1:
        narrowed = _range(lane.name, lhs.range, Interval.at(clip))
        location = fuse(lhs.location, lane.location)
        return replace(lhs, range=narrowed, location=location)
    return step(lane.name, lhs, rhs, lane.location)


def _merge_relu(lane: Requantised, operand: Lane, uses: Counter[Lane]) -> Lane:
    low, high = lane.range
    relu = (
        isinstance(operand, Step)
        and operand.name == "max"
        and isinstance(operand.rhs, Constant)
        and operand.rhs.number == 0
        and uses[lane.operand] == 1
        and lane.multiplier.range[0] >= 0
        and high >= lane.zero
    )
    location = lane.location
    if relu and isinstance(operand, Step):
        low, location = max(low, lane.zero), fuse(operand.location, location)
        operand = operand.lhs
    return replace(lane, range=Interval(low, high), location=location, operand=operand)
