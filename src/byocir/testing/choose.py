"""Gives Hypothesis and plain seeds one way to make choices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

T = TypeVar("T")
Choose = Callable[[int, int], int]
"""Gives an integer between two bounds, both included."""


def seeded(seed: int) -> Choose:
    """Makes a source that gives the same choices for the same seed."""
    return Random(seed).randint


def strategy(make: Callable[[Choose], T]) -> SearchStrategy[T]:
    """Turns `make` into a Hypothesis strategy that shrinks towards low choices."""
    from hypothesis import strategies as st

    @st.composite
    def drawn(draw: st.DrawFn) -> T:
        return make(lambda low, high: draw(st.integers(low, high)))

    return drawn()


def pick(choose: Choose, options: Sequence[T]) -> T:
    """Chooses one of the options; the first is the simplest."""
    return options[choose(0, len(options) - 1)]
