"""Calls of what a target from outside wrote: its mistakes are told, with the place, as its own."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, cast

from xdsl.utils.exceptions import PassFailedException

from byocir.errors import FAILURES, ByocirError
from byocir.patterns.mistakes import place_in

DEBUG = "BYOCIR_DEBUG"
"""The environment variable with which the command line shows where user errors were raised."""


@contextmanager
def mistakes_of(
    target: str, kind: type, hook: str, function: Callable[..., Any] | None
) -> Generator[None]:
    """Around the code of a target, or of a pass of its own, of class `kind`: raises ByocirError
    B219, with file and line, where it fails. What byocir's own classes raise is a mistake of ours
    and stays."""
    try:
        yield
    except (ByocirError, PassFailedException):
        raise
    except FAILURES as error:
        from byocir.vta_sim import VTAError  # a simulator, which other targets need not import

        if isinstance(error, VTAError) or kind.__module__.split(".")[0] == "byocir":
            raise
        raise ByocirError(
            "B219",
            f"target '{target}' failed in {hook} with {type(error).__name__}: {error}",
            where=place_in(kind, function, error),
            help=f"this is the target's own code; {DEBUG}=1 shows the whole traceback",
        ) from error


def ask(target: Any, hook: str, *arguments: Any) -> Any:
    """Calls a method of a target, or reads a property or attribute of that name. Raises
    ByocirError B219 where the target's code fails."""
    kind = cast("type[Any]", type(target))
    found: Any = getattr(kind, hook)
    function: Any = found.fget if isinstance(found, property) else found
    if not callable(function):
        with mistakes_of(target.name, kind, hook, None):
            return getattr(target, hook)
    with mistakes_of(target.name, kind, hook, function):
        return function(target, *arguments)


def expect_given(target: Any, hook: str, fits: bool, expected: str, found: object) -> None:
    """Raises ByocirError B228 for a hook that gives something else than it must."""
    if not fits:
        raise ByocirError(
            "B228",
            f"expected {hook} of target '{target.name}' to give {expected}, found "
            f"{type(found).__name__}",
        )
