"""Runs a function in a child process, so that a crash or a hang of what it calls is a result."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from typing import Any

SECONDS = 120


class Died(Exception):
    """The child ended by a signal; its name is the message."""


def isolated(function: Callable[[], Any], seconds: int = SECONDS) -> Any:
    """What a function gives, as JSON keeps it, from a child process. Raises Died if that does not
    live to tell, or not within some seconds."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        _work(function, write, seconds)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        told = pipe.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        raise Died(signal.Signals(os.WTERMSIG(status)).name)
    if not told:
        raise Died(f"exit code {os.waitstatus_to_exitcode(status)}")
    return json.loads(told)


def _work(function: Callable[[], Any], write: int, seconds: int) -> None:
    """Never returns: what is registered to run at exit is the parent's."""
    signal.alarm(seconds)
    try:
        told = json.dumps(function()).encode()
        with os.fdopen(write, "wb") as pipe:
            pipe.write(told)
    except BaseException as error:
        os.write(2, f"{type(error).__name__}: {error}\n".encode(errors="replace"))
        os._exit(1)
    os._exit(0)
