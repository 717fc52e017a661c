"""Keeps to one limit on memory: what would take more bytes is refused before it is made.

Files and models can ask for any amount in a few bytes. Everything that is as large as they say, a
file, an input, the result of an op and what is held beside it, asks here first. The limit is, in
this order, that of `limit_memory` (`--max-bytes` on the command
line), that of the environment variable BYOCIR_MAX_BYTES, or half of the memory that the machine and
the container have.

| code | what is wrong |
| --- | --- |
| B140 | something would take more memory than the limit, or than there is |
| B141 | a limit is no number of bytes |
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache

from byocir.errors import ByocirError

VARIABLE = "BYOCIR_MAX_BYTES"
UNITS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}
MOST = 2**62
"""More than any machine has."""

CONTAINER = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""The files in which control groups of version 2 and 1 have their limits."""

_given: ContextVar[int | None] = ContextVar("max_bytes", default=None)


@contextmanager
def limit_memory(nbytes: int | str) -> Generator[None]:
    """Inside of a `with`, refuses whatever would take more bytes than this: a number, or a text
    such as "512M". Other threads have a limit of their own. Raises ByocirError B141.
    """
    token = _given.set(read_bytes(str(nbytes)))
    try:
        yield
    finally:
        _given.reset(token)


def max_bytes() -> int:
    """Gives the limit on memory, in bytes. Raises ByocirError B141 where the environment variable
    that sets it holds no size.
    """
    given = _given.get()
    if given is not None:
        return given
    text = os.environ.get(VARIABLE)
    return half_of_memory() if text is None else read_bytes(text, f"in {VARIABLE}")


def read_bytes(text: str, where: str = "") -> int:
    """Reads a number of bytes, such as 1000000, 512M or 2G. Raises ByocirError B141."""
    found = re.fullmatch(r"(\d{1,18})([KMGT]?)", text.strip().upper(), re.ASCII)
    if found is None or int(found[1]) == 0:
        raise ByocirError(
            "B141", f"expected a number of bytes, found '{text}'", where=where, help="e.g. 2G"
        )
    return min(int(found[1]) << UNITS[found[2]], MOST)


def expect_memory(nbytes: int, what: str, where: str = "") -> None:
    """Raises ByocirError B140 if something would take more bytes than the limit."""
    limit = max_bytes()
    if nbytes > limit:
        raise ByocirError(
            "B140",
            f"expected at most {_text(limit)} bytes for {what}, found {_text(nbytes)}",
            where=where,
            help=f"for more memory give --max-bytes, or set {VARIABLE}",
        )


@contextmanager
def refused(what: str, where: str = "") -> Generator[None]:
    """Raises ByocirError B140 where the system has no memory left, though the limit would allow
    it.
    """
    try:
        yield
    except MemoryError as error:
        raise ByocirError(
            "B140",
            f"expected {what} that fits in memory, found: {error or 'no room'}",
            where=where,
            help=f"to get an error before memory is reserved, lower --max-bytes or {VARIABLE}",
        ) from error


def _text(nbytes: int) -> str:
    return f"{nbytes:,}" if nbytes < MOST else "more than any machine has"


@cache
def half_of_memory() -> int:
    """Gives half of the memory that the machine, the container and the shell leave this process."""
    return max(min((MOST, *_of_machine(), *_of_container(), *_of_process())) // 2, 1)


def _of_machine() -> Iterable[int]:
    """Gives the bytes of memory that are built into the machine."""
    with suppress(AttributeError, ValueError, OSError):  # Windows lacks these
        yield os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    yield sys.maxsize


def _of_container() -> Iterable[int]:
    """Gives the limits, in bytes, that control groups of a container set."""
    for path in CONTAINER:
        with suppress(OSError, ValueError), open(path, encoding="ascii") as file:
            yield int(file.read())


def _of_process() -> Iterable[int]:
    """Gives the limits, in bytes, that a shell has set for the process (`ulimit`)."""
    try:
        import resource
    except ImportError:  # Windows lacks this module
        return
    for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA):
        limit = resource.getrlimit(kind)[0]
        if limit != resource.RLIM_INFINITY:
            yield limit
