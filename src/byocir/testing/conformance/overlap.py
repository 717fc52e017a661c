"""Runs two functions at once, in ways that show what they share.

Threads that run side by side seldom meet where it matters. So a second way stops the first function
between two of its Python lines, again and again, runs the other there, and goes on.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import cache
from pathlib import PurePath
from time import monotonic
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")

LIBRARIES = frozenset({"byocir", "numpy", "onnxruntime", "xdsl", "concurrent", "threading.py"})
"""Folders and files whose code is nobody's target."""
ROUNDS = 2
"""The times that two threads run side by side."""
STOPS = 16
"""At how many of its lines, or a few more, a function is stopped."""
PATIENCE = 0.05
"""Seconds to wait for the other function: one that waits for the first holds a lock."""
ENOUGH = 3.0
"""Seconds after which no further line is stopped at: simulators take long for a call."""
WAIT = 60.0
"""Seconds, beside `TIMES` those of one call, after which two count as waiting for each other."""
TIMES = 20


def side_by_side(
    one: Callable[[], T], other: Callable[[], T], spent: float
) -> Iterator[tuple[T, T]]:
    """Yields the results of two functions that run in two threads; one run alone took `spent`
    seconds.
    """
    patience = WAIT + TIMES * spent
    before = sys.getswitchinterval()
    try:
        sys.setswitchinterval(1e-5)
        with ThreadPoolExecutor(2) as pool:
            for _ in range(ROUNDS):
                begun = pool.submit(one), pool.submit(other)
                yield begun[0].result(patience), begun[1].result(patience)
    finally:
        sys.setswitchinterval(before)


def interleaved(
    one: Callable[[], T], other: Callable[[], T], spent: float
) -> Iterator[tuple[T, T]]:
    """Yields the results of two functions, the first of which is stopped at some line while the
    other runs; one run alone took `spent` seconds.
    """
    end = monotonic() + ENOUGH
    lines = _Lines(None, lambda: None)
    lines.trace(one)
    step = max(1, len(lines.seen) // STOPS)
    for stop in [*lines.seen][1::step]:
        if monotonic() > end:
            return
        with ThreadPoolExecutor(1) as pool:
            begun = _Lines(stop, lambda pool=pool: pool.submit(other))
            mine = begun.trace(one)
            if begun.other is not None:
                yield mine, begun.other.result(WAIT + TIMES * spent)


Line = tuple[str, int]
"""A file and the number of a line in it."""


class _Lines:
    """Notes the lines of a target's own Python that a function runs, and starts something else when
    one of them is first reached.
    """

    def __init__(self, stop: Line | None, begin: Callable[[], Future[Any] | None]) -> None:
        self.seen: dict[Line, None] = {}
        self.stop, self.begin = stop, begin
        self.other: Future[Any] | None = None

    def trace(self, function: Callable[[], T]) -> T:
        before = sys.gettrace()
        sys.settrace(self._called)
        try:
            return function()
        finally:
            sys.settrace(before)

    def _called(self, frame: FrameType, event: str, argument: Any) -> Any:
        return self._at if _is_own(frame.f_code.co_filename) else None

    def _at(self, frame: FrameType, event: str, argument: Any) -> Any:
        place = (frame.f_code.co_filename, frame.f_lineno)
        if event == "line" and place not in self.seen:
            self.seen[place] = None
            if place == self.stop:
                self.other = self.begin()
                wait([self.other] if self.other is not None else [], timeout=PATIENCE)
        return self._at


@cache
def _is_own(file: str) -> bool:
    """Tells if a file may be a target's own: it belongs to none of the packages on which targets
    are built.
    """
    return not LIBRARIES & {*PurePath(file).parts} and not file.startswith("<frozen")
