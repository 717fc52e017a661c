"""Finds whose code failed, that of a target from outside or byocir's, and at which line."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from inspect import getsourcefile, getsourcelines, isfunction, unwrap
from types import FrameType
from typing import Any

from byocir.vendor.places import place_of

OURS = "byocir"
LIBRARIES = frozenset({"ml_dtypes", "numpy", "onnx", "onnxruntime", "xdsl"})
"""Packages that byocir calls, beside Python's own: whoever calls them is to blame."""


@dataclass(frozen=True)
class Blame:
    """Names the one to blame for a mistake, and the line where it happened."""

    is_users: bool
    """Tells if it is the user's code, and not byocir's alone."""
    where: str
    """The line at fault: of the user's code the last that was running."""
    below: str = ""
    """The line of byocir that was running below that, if the user's code had called it."""


def blame(
    kind: type, function: Callable[..., Any] | None, error: BaseException, *, is_known: bool
) -> Blame:
    """Finds who is to blame for an error that a method of class `kind` raised. The user is to blame
    where code of the user's was running, where both the class and the method are the user's, and
    where such an error `is_known` to be a fault of the user's class; byocir is else.
    """
    ours, users, below = "", "", ""
    for frame, line in _lines(error):
        package, module = _package(frame.f_globals.get("__name__", "")), frame.f_globals["__name__"]
        if package == OURS:
            ours = below = f"{module}:{line}"
        elif package not in LIBRARIES and package not in sys.stdlib_module_names:
            users, below = f"{frame.f_code.co_filename}:{line}", ""
    own = None if function is None or is_ours(_inner(function)) else function
    if not users and (is_ours(kind) or not (own or is_known)):
        return Blame(False, ours)
    where = _place_in(kind, own, error)
    return Blame(True, where or users or _begin_of(kind), below if users else "")


def _lines(error: BaseException) -> Iterator[tuple[FrameType, int]]:
    """Walks the calls that were running when an error was raised, outermost first, each with its
    line.
    """
    trace = error.__traceback__
    while trace is not None:
        yield trace.tb_frame, trace.tb_lineno
        trace = trace.tb_next


def _inner(function: Callable[..., Any]) -> Callable[..., Any]:
    """Gives the function inside the wrappers of a decorator or `partial`."""
    found = unwrap(function)
    return _inner(found.func) if isinstance(found, partial) else found


def _package(module: str) -> str:
    return module.partition(".")[0]


def is_ours(thing: object) -> bool:
    """Tells if a class or function is part of byocir."""
    return _package(getattr(thing, "__module__", None) or "") == OURS


def _place_in(kind: type, function: Callable[..., Any] | None, error: BaseException) -> str:
    """Gives the line of a user's method that failed. Without a method, gives the innermost line
    that was running in the files of a user's class; empty if there is none.
    """
    if function is not None:
        return place_of(function, error)
    own = [sys.modules.get(each.__module__) for each in kind.__mro__ if not is_ours(each)]
    files = {getattr(module, "__file__", None) for module in own} - {None}
    lines = [(frame.f_code.co_filename, line) for frame, line in _lines(error)]
    return next((f"{file}:{line}" for file, line in reversed(lines) if file in files), "")


def _begin_of(kind: type) -> str:
    """Gives the place where a class is defined: `file:line`, or its module where it is in no
    file.
    """
    return place_in_class(kind) or kind.__module__


def place_in_class(kind: type, name: str = "") -> str:
    """Gives the line at which a class of a user, or one that it derives from, gives a `name` its
    value, or that of the class where there is none; empty for what is byocir's own or in no file.
    """
    owner = next((each for each in kind.__mro__ if name in vars(each)), kind)
    if is_ours(owner):
        return "" if is_ours(kind) else place_in_class(kind)
    found: Any = vars(owner).get(name)
    found = getattr(found, "fget", None) or getattr(found, "func", None) or found
    if isfunction(found):
        return place_of(found)
    try:
        lines, first = getsourcelines(owner)
        file = getsourcefile(owner)
    except (OSError, TypeError):  # the code was typed in, or is in no file
        return ""
    sets = rf"[\s\w,=:]*\b{name}\b[^=(]*="
    at = next((n for n, line in enumerate(lines) if name and re.match(sets, line)), 0)
    return f"{file}:{first + at}"
