"""Tests a single value, for `wildcard("x", where=rank(4))` and `constant("w", where=…)`.

A test has a sentence, which is what users read where it fails, with what was seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from byocir.dialects.array import constant_array, known_values
from byocir.dialects.types import shape_of
from byocir.errors import FAILURES, ByocirError
from byocir.vendor.places import failed


@dataclass(frozen=True)
class ValueTest:
    """Describes a test of a value: `look` tells whether it holds, and what was seen."""

    sentence: str
    look: Callable[[SSAValue], tuple[bool, Any]]
    user: Callable[..., Any] | None = None
    """The user's function that it calls."""
    numbers: bool = False
    """Tells if it looks at a constant's numbers."""
    fix: str = ""
    """The advice for a user where it fails."""


Where = ValueTest | Iterable[ValueTest]


def refusal(tests: Iterable[ValueTest], value: SSAValue) -> str:
    """Names the first test that fails, with what was seen and what to do; empty if all hold."""
    for test in tests:
        holds, seen = _looked(test, value)
        if not holds:
            return f"{test.sentence}, found {seen}" + (f"; {test.fix}" if test.fix else "")
    return ""


def _looked(test: ValueTest, value: SSAValue) -> tuple[bool, Any]:
    """Runs a test on a value; raises ByocirError B202 if the test itself fails."""
    try:
        return test.look(value)
    except ByocirError:
        raise
    except FAILURES as error:
        function = test.user or test.look
        raise failed("B202", f"the test '{test.sentence}'", function, error) from error


def rank(dimensions: int) -> ValueTest:
    """Tests that an array has so many dimensions."""

    def look(value: SSAValue) -> tuple[bool, int]:
        seen = len(shape_of(value.type))
        return seen == dimensions, seen

    return ValueTest(f"{dimensions} dimensions", look)


def shape(*sizes: int | None) -> ValueTest:
    """Tests that an array has this shape; None stands for any size."""

    def look(value: SSAValue) -> tuple[bool, tuple[int, ...]]:
        seen = shape_of(value.type)
        fits = len(seen) == len(sizes)
        return fits and all(s in (None, n) for s, n in zip(sizes, seen, strict=True)), seen

    shown = ", ".join("any" if size is None else str(size) for size in sizes)
    return ValueTest(f"shape ({shown})", look)


def per_tensor() -> ValueTest:
    """Tests that an array has one number, such as one scale for a whole tensor."""

    def look(value: SSAValue) -> tuple[bool, tuple[int, ...]]:
        seen = shape_of(value.type)
        return all(size == 1 for size in seen), seen

    return ValueTest("one number", look)


def per_channel(axis: int = 0) -> ValueTest:
    """Tests that an array varies along one axis at most, such as scales by output channel do."""

    def look(value: SSAValue) -> tuple[bool, tuple[int, ...]]:
        seen = shape_of(value.type)
        others = [size for i, size in enumerate(seen) if i != axis % max(1, len(seen))]
        return all(size == 1 for size in others), seen

    return ValueTest(f"one number for each index of axis {axis}", look)


def satisfies(sentence: str, holds: Callable[[np.ndarray], Any]) -> ValueTest:
    """Tests that the numbers of a constant satisfy a condition, e.g. `satisfies("powers of two",
    lambda a: (np.log2(a) % 1 == 0).all())`.
    """

    def look(value: SSAValue) -> tuple[bool, str]:
        array = constant_array(value)
        if array is None:
            return False, "no constant"
        numbers = array.values()
        seen = f"{numbers.min()} to {numbers.max()}" if numbers.size else "no numbers"
        return bool(holds(numbers)), seen

    return ValueTest(sentence, look, holds, numbers=True)


def _present(value: SSAValue) -> tuple[bool, str]:
    return known_values(value) is not None, "none"


PRESENT = ValueTest("numbers that were supplied", _present, numbers=True)


def present() -> ValueTest:
    """Tests that a constant's numbers are at hand: those of a module that was read without its
    weights are not.
    """
    return PRESENT


def within(low: float, high: float) -> ValueTest:
    """Tests that all numbers of a constant lie between these bounds, the bounds included."""
    return satisfies(
        f"numbers within [{low:g}, {high:g}]", lambda a: bool(((a >= low) & (a <= high)).all())
    )
