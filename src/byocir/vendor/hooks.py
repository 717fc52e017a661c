"""Calls the hooks of targets. An error in a target's code is reported as the target's, with the
line; one in byocir's code as an internal error.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, cast

from byocir.errors import FAILURES, ByocirError, OwnMistake
from byocir.vendor.blame import Blame, blame, place_in_class

DEBUG = "BYOCIR_DEBUG"
"""The environment variable with which the command line shows where user errors were raised."""


class CodeFailed(Exception):
    """Says that the code which a target generated reports a failure."""


OF_TARGETS = (CodeFailed, NotImplementedError)
"""What byocir raises where the class of a target, and nobody else, is at fault."""


@contextmanager
def mistakes_of(
    target: str, kind: type, hook: str, function: Callable[..., Any] | None
) -> Generator[None]:
    """Guards a call of the code of a target, or of one of its passes, of class `kind`. Where that
    code fails, raises ByocirError B219 with the line of the target's code that failed or called
    what failed; raises OwnMistake B232 where no code but byocir's was running.
    """
    try:
        yield
    except ByocirError:
        raise
    except FAILURES as error:
        # Imported here, as running code does not need it.
        from xdsl.utils.exceptions import PassFailedException

        from byocir.vta_sim import VTAError  # only VTA's code needs this

        if isinstance(error, PassFailedException):
            raise

        found = blame(kind, function, error, is_known=isinstance(error, OF_TARGETS))
        if isinstance(error, VTAError) or (isinstance(error, MemoryError) and not found.is_users):
            raise
        told = f"target '{target}' failed in {hook} with {type(error).__name__}: {error}"
        if found.is_users:
            raise ByocirError("B219", told, where=found.where, help=_help(found)) from error
        raise OwnMistake(
            "B232",
            told,
            where=found.where,
            help="byocir did that, or a library that it calls, and not code of a target from "
            f"outside: please report it; {DEBUG}=1 shows the whole traceback",
        ) from error


def _help(found: Blame) -> str:
    shown = f"{DEBUG}=1 shows the whole traceback"
    if not found.below:
        return f"this is the target's own code; {shown}"
    return f"the target's own code called {found.below} of byocir, which raised it; {shown}"


def ask(target: Any, hook: str, *arguments: Any) -> Any:
    """Calls a method of a target, or reads its property or attribute of that name. Raises
    ByocirError B219 where the target's code fails.
    """
    kind = cast("type[Any]", type(target))
    found: Any = getattr(kind, hook)
    function: Any = found.fget if isinstance(found, property) else found
    if not callable(function):
        with mistakes_of(target.name, kind, hook, None):
            return getattr(target, hook)
    with mistakes_of(target.name, kind, hook, function):
        return function(target, *arguments)


def expect_given(target: Any, hook: str, fits: bool, expected: str, found: object) -> None:
    """Raises ByocirError B228 unless a hook gave a value of the kind that it must give."""
    if not fits:
        raise ByocirError(
            "B228",
            f"expected {hook} of target '{target.name}' to give {expected}, found "
            f"{type(found).__name__}",
            where=place_in_class(type(target), hook),
        )
