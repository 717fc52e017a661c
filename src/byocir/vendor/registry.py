"""Keeps the classes that targets are made of, by name: those that the user of this process gave,
and those that installed packages bring, which are imported when they are asked for.
"""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from typing import Any

from byocir.errors import FAILURES, ByocirError

TARGETS = "byocir.targets"
"""The group of entry points whose objects are targets."""
LOADERS = "byocir.loaders"
"""The group of those that run what targets made, and need no compiler: `byocir.targets.loader`."""


class _OfThread(threading.local):
    def __init__(self) -> None:
        self.given: dict[str, Any] = {}


_dialects: dict[str, Any] = {}
"""The dialects that targets known in this process bring, by name."""

_given: dict[str, Any] = {}
_of_thread = _OfThread()
"""The targets that each thread gave itself: two may have classes of one name."""


def give(name: str, kind: Any) -> None:
    """Registers a target's class in this process by its name; a thread finds the classes that it
    registered itself first.
    """
    _given[name] = _of_thread.given[name] = kind


def give_dialect(name: str, dialect: Any) -> None:
    """Registers a target's own dialect in this process by its name."""
    _dialects[name] = dialect


def registered_dialects() -> dict[str, Any]:
    """Gives the dialects that targets of this process registered, by name."""
    return {**_dialects}


def registered_class(name: str) -> Any | None:
    """Gives the class of a target that was registered in this process; None for others."""
    return _of_thread.given.get(name) or _given.get(name)


@contextmanager
def forgetting(*, afresh: bool = False) -> Generator[None]:
    """Restores, at the end of a `with`, the registered targets and dialects of before: what was
    registered inside it, by this thread or others, is forgotten. With `afresh` it begins with none,
    as a new process does.
    """
    known = (_given, _of_thread.given, _dialects)
    before = [dict(each) for each in known]
    if afresh:
        for each in known:
            each.clear()
    try:
        yield
    finally:
        for now, then in zip(known, before, strict=True):
            now.clear()
            now.update(then)


def all_given() -> dict[str, Any]:
    """Gives all classes of targets that were registered in this process, by name."""
    return {**_given}


@cache
def installed(group: str = TARGETS) -> EntryPoints:
    """Gives the entry points that packages bring."""
    return entry_points(group=group)


def imported(entry: EntryPoint) -> Any:
    """Gives the class that a package brings; raises ByocirError B217 where that fails."""
    try:
        return entry.load()
    except FAILURES as error:
        package = f" of package {entry.dist.name}" if entry.dist is not None else ""
        raise ByocirError(
            "B217",
            f"target '{entry.name}'{package} cannot be loaded: {type(error).__name__}: {error}",
            where=entry.value,
            help="install what it needs, or the package once more",
        ) from error
