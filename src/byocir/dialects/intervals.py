"""Computes with intervals of integers."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from xdsl.ir import Attribute

from byocir.dialects.types import is_unsigned, width_of


class Interval(NamedTuple):
    """Stands for the integers from `low` to `high`, both of them included."""

    low: int
    high: int

    @staticmethod
    def at(number: int) -> Interval:
        """Gives the interval of one number."""
        return Interval(number, number)

    @staticmethod
    def of_bits(width: int, *, signed: bool) -> Interval:
        """Gives the integers that so many bits hold: `of_bits(8, signed=True)` is `Interval(-128,
        127)`.
        """
        least = -(2 ** (width - 1)) if signed else 0
        return Interval(least, least + 2**width - 1)

    @property
    def size(self) -> int:
        """Counts the interval's integers."""
        return self.high - self.low + 1

    def holds(self, number: int) -> bool:
        """Tells if a number lies in it."""
        return self.low <= number <= self.high

    def contains(self, other: Interval) -> bool:
        """Tells if all of another interval lies in this one."""
        return self.low <= other.low and other.high <= self.high

    def corners(self, other: Interval, apply: Callable[[int, int], int]) -> Interval:
        """Gives the interval of an operation's results, which is monotone in each operand, for
        operands in this interval and another: `Interval(1, 2).corners(Interval(-3, 4), mul)` is
        `Interval(-6, 8)`.
        """
        ends = [apply(a, b) for a in self for b in other]
        return Interval(min(ends), max(ends))

    def clamped(self, to: Interval) -> Interval:
        """Gives the interval of `clamp(x, to.low, to.high)`."""
        low, high = (min(max(end, to.low), to.high) for end in self)
        return Interval(low, high)

    def scaled(self, factor: int) -> Interval:
        """Gives the interval of the products with a number."""
        low, high = self.low * factor, self.high * factor
        return Interval(low, high) if factor >= 0 else Interval(high, low)

    def quotient(self, divisor: int) -> Interval:
        """Gives the values of `x floordiv divisor`, for a positive number."""
        return Interval(self.low // divisor, self.high // divisor)

    def remainder(self, divisor: int) -> Interval:
        """Gives the values of `x mod divisor`, for a positive number."""
        if self.low // divisor == self.high // divisor:
            return Interval(self.low % divisor, self.high % divisor)
        return Interval(0, divisor - 1)


def integer_range(element: Attribute) -> Interval:
    """Gives the values of an integer type; a boolean is 0 or 1."""
    return Interval.of_bits(width_of(element), signed=not is_unsigned(element))
