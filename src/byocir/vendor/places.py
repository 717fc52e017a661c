"""Finds the lines of a user's code at which it failed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from inspect import unwrap
from typing import Any

from byocir.errors import ByocirError
from byocir.vendor.advice import advice


def place_of(function: Callable[..., Any], error: BaseException | None = None) -> str:
    """Gives the line of a user's function that raised, `file:line`; without an error its first
    line.
    """
    function = unwrap(function)
    code = getattr(function, "__code__", None)
    if code is None:
        return getattr(function, "__qualname__", type(function).__qualname__)
    lines, trace = [code.co_firstlineno], error.__traceback__ if error is not None else None
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == code.co_filename:
            lines.append(trace.tb_lineno)
        trace = trace.tb_next
    return f"{code.co_filename}:{lines[-1]}"


def caller() -> str:
    """Gives the line of a user's code that has called byocir; empty if none has."""
    frame = sys._getframe()
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "byocir":
        frame = frame.f_back
    return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def failed(
    code: str, what: str, function: Callable[..., Any], error: BaseException, help: str = ""
) -> ByocirError:
    """Makes a user error of the error that a user's function raised, with the line at which it
    did. Without `help`, its help line is advice on the error itself.
    """
    told = f"{what} failed with {type(error).__name__}: {error}"
    return ByocirError(code, told, where=place_of(function, error), help=help or advice(error))
