"""Defines memos, which keep what was asked for lately and forget the rest: machines live as long as
the process, and each net brings questions of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Generic, TypeVar, cast

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
        known = self._lately.get(key, self)  # hashing a long key takes longer than anything else
        if known is not self:
            return cast("Value", known)
        value = self._before[key] if key in self._before else find()
        if len(self._lately) >= self._most:
            self._before, self._lately = self._lately, {}
            self.turns += 1
        self._lately[key] = value
        return value

    def __len__(self) -> int:
        return len(self._lately.keys() | self._before.keys())


class ObjectMemo(Generic[Value]):
    """Finds values by objects, told apart by identity: that takes less than to compare what they
    say.
    """

    def __init__(self, most: int) -> None:
        # the objects are kept with their value: no others get their identity
        self._known = Memo[tuple[int, ...], tuple[Sequence[object], Value]](most)

    def of(self, objects: Sequence[object], find: Callable[[], Value]) -> Value:
        """Gives the value of these objects, which `find` finds if it is not known."""
        return self._known.of(tuple(map(id, objects)), lambda: (objects, find()))[1]
