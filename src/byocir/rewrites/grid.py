"""Describes quantisation grids: what scale and zero point of a quantize or dequantize op mean."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TypeGuard

import numpy as np
from xdsl.ir import Attribute, SSAValue

from byocir.dialects.array import Array, column, constant_array
from byocir.dialects.graph import DequantizeOp, QuantizeOp
from byocir.dialects.intervals import Interval, integer_range
from byocir.dialects.types import element_of, i8, ui8
from byocir.patterns import Bound, Pattern, constant, op, wildcard

LEAST_SCALE, _GREATEST = np.float32(2.0**-100), np.float32(2.0**100)


@dataclass(frozen=True)
class Grid:
    """Describes the grid of a quantised tensor: `value = (integer - zero_point) * scale`, in f32.

    `scale` (f32) and `zero_point` are scalars, or have one element per index of `axis`. All scales
    are positive and far from f32's limits, so that quantising is monotone and an 8-bit integer
    that is dequantised and quantised again is itself.
    """

    scale: np.ndarray
    zero_point: np.ndarray
    axis: int | None
    element: Attribute

    def __str__(self) -> str:
        return self._text

    @cached_property
    def _text(self) -> str:
        many = "" if self.axis is None else f" on axis {self.axis}"
        scale, zero_point = _shown(self.scale), _shown(self.zero_point)
        return f"{self.element} with scale {scale}{many} and zero point {zero_point}"

    @property
    def per_tensor(self) -> bool:
        return self.axis is None

    @property
    def symmetric(self) -> bool:
        return not self.zero_point.any()

    @property
    def is_8_bit(self) -> bool:
        return self.element in (i8, ui8)

    @property
    def range(self) -> Interval:
        return integer_range(self.element)

    @property
    def farthest(self) -> int:
        """Gives the greatest distance of an integer from the zero point, for a grid with one zero
        point.
        """
        low, high = self.range
        return max(high - int(self.zero_point), int(self.zero_point) - low)

    def less_zero(self, integers: np.ndarray) -> np.ndarray:
        """Takes the zero points off integers, in the type that these have."""
        return integers - self.along(self.zero_point.astype(integers.dtype), integers.ndim)

    def along(self, numbers: np.ndarray, rank: int) -> np.ndarray:
        """Reshapes what the grid has for each index of its axis, so that it broadcasts to an array
        of a rank.
        """
        return numbers if self.axis is None else column(numbers, rank - self.axis)

    def same_as(self, other: Grid | None) -> bool:
        """Tells if equal integers on both grids stand for equal numbers."""
        return (
            other is not None
            and (self.element, self.axis) == (other.element, other.axis)
            and np.array_equal(self.scale, other.scale)
            and np.array_equal(self.zero_point, other.zero_point)
        )

    def number(self, integer: int) -> np.float32:
        """Dequantizes an integer of this per-tensor grid, as DequantizeLinear does."""
        return np.float32(integer - self.zero_point.astype(np.int32)) * np.float32(self.scale)

    def quantize(self, value: float) -> int:
        """Quantizes one f32 number other than NaN on this per-tensor grid, as QuantizeLinear
        does."""
        with np.errstate(over="ignore"):
            steps = np.rint(np.float32(value) / self.scale) + self.zero_point
        return int(np.clip(steps, *self.range))


def is_plain(grid: Grid | None) -> TypeGuard[Grid]:
    """Tells whether a grid is known and has 8 bits and one scale."""
    return grid is not None and grid.is_8_bit and grid.per_tensor


def shown(grid: Grid | None) -> object:
    """Shows a grid as rules do; the text is made only where somebody reads it."""
    return "scales that are not f32, or not between 2^-100 and 2^100" if grid is None else grid


def _shown(numbers: np.ndarray) -> str:
    """Words one number, or the range of several."""
    low, high = (f"{float(end):.6g}" for end in (numbers.min(), numbers.max()))
    return low if low == high else f"{low} to {high}"


def quantize(value: Pattern, name: str, leaf: Callable[[], Pattern] = constant) -> Pattern:
    """Matches a quantize op on a value; scale and zero point must match `leaf`."""
    return op("graph.quantize", value, leaf(), leaf()) @ name


def dequantize(value: Pattern, name: str, leaf: Callable[[], Pattern] = constant) -> Pattern:
    """Matches a dequantize op on a value; scale and zero point must match `leaf`."""
    return op("graph.dequantize", value, leaf(), leaf()) @ name


def anything() -> Pattern:
    """Matches a scale or zero point that is a constant, or computed."""
    return constant() | wildcard()


def grid_at(bound: Bound) -> Grid | None:
    """Gives the grid of the quantize or dequantize op that a name is bound to."""
    assert isinstance(bound.op, QuantizeOp | DequantizeOp)
    return grid_of(bound.op)


def known_grid(bound: Bound) -> Grid:
    """Gives the grid at a name, where a rule has made sure that there is one."""
    grid = grid_at(bound)
    assert grid is not None
    return grid


def grid_of(op: QuantizeOp | DequantizeOp) -> Grid | None:
    """Reads the grid of a quantize or dequantize op in f32 whose scale and zero point are
    constants; None for others. Raises ByocirError when their values were not supplied.
    """
    scale, zero_point = constant_array(op.scale), constant_array(op.zero_point)
    if scale is None or zero_point is None:
        return None
    for array in (scale, zero_point):
        array.values()  # raises where the numbers were not supplied, also if the result is cached
    return _grid(scale, zero_point, op.axis.value.data)


@lru_cache(maxsize=1024)  # the rules of a chain ask for the same few grids again and again
def _grid(scale: Array, zero_point: Array, axis: int) -> Grid | None:
    scales, element = scale.values(), element_of(zero_point.dtype)
    if scales.dtype != np.float32 or not np.all((scales >= LEAST_SCALE) & (scales <= _GREATEST)):
        return None
    if scale.size == 1:
        return Grid(scales.reshape(()), zero_point.values().reshape(()), None, element)
    return Grid(scales, zero_point.values(), axis, element)


def dequantized(value: SSAValue) -> tuple[SSAValue, Grid] | None:
    """Gives the integers and the grid of a value that a dequantize op makes."""
    source = value.owner
    if not isinstance(source, DequantizeOp):
        return None
    grid = grid_of(source)
    return None if grid is None else (source.input, grid)
