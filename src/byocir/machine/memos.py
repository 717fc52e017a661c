"""Defines `Memo`, which keeps what was asked for lately: machines live as long as the process, and
each net brings questions of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Memo(Generic[Key, Value]):
    """Finds values by keys, each once as long as it is asked for. It keeps at most twice as many as
    `most`: of so many new ones in a row, those before that nobody asked for again are dropped.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lately = dict[Key, Value]()
        self._before = dict[Key, Value]()
        self.turns = 0
        """Counts how often values were dropped."""

    def of(self, key: Key, find: Callable[[], Value]) -> Value:
        """Gives the value of a key, which `find` finds if it is not known."""
        if key in self._lately:
            return self._lately[key]
        value = self._before[key] if key in self._before else find()
        if len(self._lately) >= self._most:
            self._before, self._lately = self._lately, {}
            self.turns += 1
        self._lately[key] = value
        return value

    def lately(self, key: Key) -> Value | None:
        """Gives the value of a key that was asked for lately; None for another, known or not."""
        return self._lately.get(key)

    def __len__(self) -> int:
        return len(self._lately.keys() | self._before.keys())
