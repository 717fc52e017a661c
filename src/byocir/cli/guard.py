"""Guards both tools: every error becomes one message and an exit code, never a traceback, also
where standard output or error is closed or full.

Exit codes: 0 ok, 1 user error, 2 usage, 3 a check failed, 70 internal error, 130 interrupted.
"""

from __future__ import annotations

import argparse
import errno
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TextIO

from byocir.errors import (
    MOST,
    ByocirError,
    CheckFailed,
    OwnMistake,
    did_you_mean,
    printable,
    shortened,
)
from byocir.memory import refused

OK, USER_ERROR, CHECK_FAILED, INTERNAL, INTERRUPTED = 0, 1, 3, 70, 130


def guarded(tool: Callable[[], int], command: Sequence[str]) -> int:
    """Runs a tool and reports errors on stderr; `command` is what the user typed. Gives the exit
    code. A parser that ends the tool, as behind its help, raises SystemExit.
    """
    _open_streams()
    try:
        with refused("work"):
            return _flushed(tool)
    except KeyboardInterrupt:
        _tell("interrupted")
        return INTERRUPTED
    except BrokenPipeError:  # the reader, such as `head`, has closed the pipe
        _drop(sys.stdout)
        return OK
    except Exception as error:
        return _reported(error, command)


def _flushed(tool: Callable[[], int]) -> int:
    """Runs a tool, and writes out all that it printed."""
    try:
        code = tool()
    except SystemExit:
        sys.stdout.flush()
        raise
    sys.stdout.flush()
    return code


def _reported(error: Exception, command: Sequence[str]) -> int:
    """Reports an error; gives the exit code. Modules that know the errors are imported only here: a
    tool without an error starts sooner.
    """
    if isinstance(error, ByocirError) and not isinstance(error, OwnMistake):
        return _reported_to_user(error)
    from byocir.rewrites.reproducer import ByocirInternalError
    from byocir.vta_sim.errors import CODES, VTAError

    found = _of_the_system(error)
    if isinstance(error, VTAError):
        _tell(error)
        return CHECK_FAILED if CODES[error.code].checked else USER_ERROR
    if isinstance(error, ByocirInternalError):
        _tell(error)
        return INTERNAL
    if found is not None:
        _tell(found)
        return USER_ERROR
    _report_crash(error, command)
    return INTERNAL


def _reported_to_user(error: ByocirError) -> int:
    from byocir.vendor.hooks import DEBUG

    if isinstance(error, CheckFailed):
        _tell(error)
        return CHECK_FAILED
    if os.environ.get(DEBUG):
        traceback.print_exception(error, file=sys.stderr)
    _tell(error)
    return USER_ERROR


class Parser(argparse.ArgumentParser):
    """Parses a command line; its errors are as short and printable as others, and come from the
    verb that they belong to.
    """

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parses all arguments; an unknown option is an error that names the options there are."""
        found, rest = super().parse_known_args(args, namespace)
        if rest:
            name = next((word for word in rest if word.startswith("-")), None)
            known = [text for text in self._option_string_actions if text.startswith("--")]
            near = "" if name is None else f"; {did_you_mean(name.partition('=')[0], known)}"
            self.error(f"unrecognized arguments: {' '.join(rest)}{near}")
        return found, rest

    def _print_message(self, message: str, file: Any = None) -> None:
        """Prints help and usage. What cannot be written is an error, which argparse would hide."""
        if message:
            (file or sys.stderr).write(message)

    def error(self, message: str) -> NoReturn:
        super().error(shortened(printable(message), MOST))


def _open_streams() -> None:
    """Replaces standard streams that the caller has closed: Python has None for these, and the
    first file that is opened would take their place. Reading then finds nothing, messages are lost,
    and output fails instead of being lost.
    """
    for name, mode in (("stdin", "r"), ("stdout", "r"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115


def _tell(text: object) -> None:
    """Prints to standard error; where that cannot be written, the exit code has to do."""
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        _drop(sys.stderr)


def _drop(stream: TextIO) -> None:
    """Drops all that is written to a stream from now on, also in Python's last flush."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _of_the_system(error: Exception) -> ByocirError | None:
    """Makes a user error of a refusal of the system that concerns no file; None for others, about
    which those who open files tell.
    """
    if not isinstance(error, OSError):
        return None
    if error.errno == errno.ENAMETOOLONG:
        where = str(error.filename)
        return ByocirError("B101", "expected a file, found a name that is too long", where=where)
    if error.filename is not None:
        return None
    _drop(sys.stdout)
    found = error.strerror or "it closed"
    return ByocirError("B112", f"expected standard output that can be written, found: {found}")


def _report_crash(error: Exception, command: Sequence[str]) -> None:
    from byocir.rewrites.reproducer import write_crash

    try:
        where = str(write_crash(error, command))
    except OSError as unwritten:
        where = f"none, as they cannot be written: {unwritten.strerror}"
    if isinstance(error, OwnMistake):
        _tell(f"{error}\n  details  {where}")
        return
    _tell(
        f"internal error: {type(error).__name__}: {shortened(printable(str(error)), MOST)}\n"
        f"  details  {where}\n"
        "  help  this is a bug: please report it with that file"
    )
