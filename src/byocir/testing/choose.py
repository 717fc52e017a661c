"""Makes choices by a seed, or by whatever else gives integers between two bounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")
Choose = Callable[[int, int], int]
"""Gives an integer between two bounds, both included."""


def seeded(seed: int) -> Choose:
    """Makes a source that gives the same choices for the same seed."""
    return Random(seed).randint


def pick(choose: Choose, options: Sequence[T]) -> T:
    """Chooses one of the options; the first is the simplest."""
    return options[choose(0, len(options) - 1)]
