"""Lets Hypothesis make the choices that seeds make elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from hypothesis import strategies as st

from byocir.testing.choose import Choose

T = TypeVar("T")


def strategy(make: Callable[[Choose], T]) -> st.SearchStrategy[T]:
    """Turns `make` into a strategy that shrinks towards low choices."""

    @st.composite
    def drawn(draw: st.DrawFn) -> T:
        return make(lambda low, high: draw(st.integers(low, high)))

    return drawn()
