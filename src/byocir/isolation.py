"""Runs code in a child process, so that a crash, a loop without end or too much memory is an error.

The child is a fork of this process: it knows what was imported and made, and imports nothing by
itself. Questions and answers go through a socket as JSON, arrays through memory that both see.
"""

from __future__ import annotations

import faulthandler
import json
import mmap
import os
import signal
import socket
import sys
import tempfile
import time
import traceback
import warnings
import weakref
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from threading import Thread
from typing import Any, NoReturn, cast

import ml_dtypes
import numpy as np

from byocir.arguments import SECONDS as TIME
from byocir.arguments import check
from byocir.errors import ByocirError
from byocir.memory import max_bytes, read_bytes

SECONDS = 300.0
"""The longest that one call of a region's code may take, unless another limit is given."""
LOOK = 0.02
"""Seconds between two looks at the memory that a child has taken."""
ALIGNMENT = 64
DIED = "B314"
"""The code of errors that tell how a child process ended."""
HERE = "it ran in a process of its own; --no-isolate runs it in this one, for a debugger"
"""The help of errors about code that a child process ended, unless more is known."""

Answer = Callable[[Any, list[np.ndarray]], tuple[Any, list[np.ndarray]]]
"""The work of a child: plain data and arrays give plain data and arrays."""


@dataclass(frozen=True)
class Limits:
    """Bounds a call: seconds, and bytes beyond those of this process; None for the bytes set by
    `limit_memory`.
    """

    seconds: float = SECONDS
    nbytes: int | None = None
    only_files: bool = False
    """Limits targets from files alone."""


GOES_ON = "goes on"
"""The key of a child's message before its answer: what it does from there on, for which it has as
much time as for all before."""

_given: ContextVar[Limits | None] = ContextVar("isolation", default=None)


@contextmanager
def isolate(
    *, seconds: float = SECONDS, nbytes: int | str | None = None, only_files: bool = False
) -> Generator[None]:
    """Runs targets apart inside of a `with`: their `emit` in a process of its own, and in another
    the code of regions that are first run there. Each call has `seconds`, and `nbytes` of memory
    beside its inputs and outputs; with `only_files` targets from files alone are run so. A crash,
    or more than that, is ByocirError B314, a written input B315. Raises ByocirError B141 or B142,
    and where processes cannot be forked B143; with `only_files` all runs in this process there."""
    check(seconds=(seconds, TIME))
    limit = None if nbytes is None else read_bytes(str(nbytes))
    can_fork = hasattr(os, "fork")
    if not can_fork and not only_files:
        raise ByocirError(
            "B143",
            f"expected a system that forks processes to run targets apart, found {sys.platform}",
            help="leave out --isolate: the code of targets runs in this process",
        )
    token = _given.set(Limits(seconds, limit, only_files) if can_fork else None)
    try:
        yield
    finally:
        _given.reset(token)


def limits_for(*, is_from_file: bool) -> Limits | None:
    """Gives the limits for a target's code; None where it runs in this process."""
    limits = _given.get()
    return limits if limits is not None and (is_from_file or not limits.only_files) else None


class Died(Exception):
    """Tells that a child ended, or had to be ended, before it answered. The message says how,
    `during` what the child last noted that it does.
    """

    def __init__(self, found: str, help: str = "", *, during: str = "") -> None:
        self.help, self.during = help, during
        super().__init__(found)


_go_on: ContextVar[Callable[[str], None]] = ContextVar("go_on", default=lambda _: None)


def go_on(what: str = "") -> None:
    """Gives the child process that runs this as much time as it had at its beginning, and notes
    what that is for."""
    _go_on.get()(what)


def isolated(function: Callable[[], Any], limits: Limits) -> Any:
    """Runs a function in a child process; gives its result as JSON keeps it. Raises Died."""

    def answer(data: Any, arrays: list[np.ndarray]) -> tuple[Any, list[np.ndarray]]:
        return function(), []

    child = Child(answer, limits)
    try:
        return child.ask(None, [])[0]
    finally:
        child.close()


class Child:
    """Runs a process that answers one question after the other, until it is closed or dies."""

    def __init__(self, answer: Answer, limits: Limits) -> None:
        self._limits, self._memory, self._during = limits, _Memory(), ""
        self._socket, theirs = socket.socketpair()
        sys.stdout.flush()
        sys.stderr.flush()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Python's, where there are threads
            self._pid = os.fork()
        if self._pid == 0:
            self._socket.close()
            _serve(answer, theirs, self._memory, limits)
        theirs.close()
        self._before = _taken_by(self._pid)
        self._end = weakref.finalize(
            self, _end, os.getpid(), self._pid, self._socket, self._memory.file
        )

    def ask(
        self, data: Any, arrays: Sequence[np.ndarray]
    ) -> tuple[Any, list[np.ndarray], list[int]]:
        """Sends data and arrays to the child; gives its answer, copied, and which of the arrays it
        wrote to. Raises Died, and what interrupts this process; the child is closed then.
        """
        try:
            sent = self._memory.write(data, arrays)
            told = None
            with suppress(ConnectionError):  # the child died before
                _send(self._socket, sent)
                told = self._wait()
        except BaseException:
            self.close()
            raise
        if told is None:
            raise self._died()
        made, results = self._memory.read(told)
        given = [view for view, _ in self._memory.views(sent)]
        written = [i for i, view in enumerate(given) if not _same(view, arrays[i])]
        return made, [np.array(each) for each in results], written

    def close(self) -> None:
        """Ends the child, and the processes that it began."""
        self._end()

    def _died(self) -> Died:
        """Says how the child ended."""
        code, end = _exit_code(self._pid), time.monotonic() + 1
        while code is None and time.monotonic() < end:  # a child that ends closes its socket first
            time.sleep(0.001)
            code = _exit_code(self._pid)
        self.close()
        if code == -signal.SIGALRM:
            return self._late()
        if code is not None and code < 0:
            return self._found(f"{signal.strsignal(-code)} ({signal.Signals(-code).name})")
        end_of = "the end of its process" + (f", exit code {code}" if code is not None else "")
        return self._found(end_of)

    def _late(self) -> Died:
        seconds = f"{self._limits.seconds:g} s"
        return self._found(f"no end within {seconds}", "--region-seconds allows more")

    def _found(self, what: str, help: str = "") -> Died:
        return Died(what, help, during=self._during)

    def _wait(self) -> Any:
        """Waits for the child's answer; None where it died."""
        self._during = ""
        while (told := self._message()) is not None and GOES_ON in told:
            self._during = told[GOES_ON]
        return told

    def _message(self) -> Any:
        """Reads the child's next message."""
        end = time.monotonic() + self._limits.seconds
        limit = self._limits.nbytes if self._limits.nbytes is not None else max_bytes()
        self._socket.settimeout(min(LOOK, self._limits.seconds))
        while True:
            with suppress(TimeoutError):
                first = self._socket.recv(1)
                break
            if time.monotonic() > end:
                raise self._late()
            if _taken_by(self._pid) - self._before > limit:
                raise self._found(f"more than {limit:,} bytes taken", "--region-bytes allows more")
        self._socket.settimeout(None)
        return _receive(self._socket, first)


def _end(owner: int, pid: int, *files: Any) -> None:
    """Ends a child and the processes that it began, unless this is a child itself."""
    for file in files:
        file.close()
    if os.getpid() != owner:
        return
    for kill in (os.killpg, os.kill):
        with suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)
    with suppress(ChildProcessError):
        os.waitpid(pid, 0)


def _exit_code(pid: int) -> int | None:
    """Gives the exit code of a child, in the form of `os.waitstatus_to_exitcode`; None while it
    runs.
    """
    status = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    if status is None:
        return None
    return status.si_status if status.si_code == os.CLD_EXITED else -status.si_status


# In the child.


def _serve(answer: Answer, end: socket.socket, memory: _Memory, limits: Limits) -> NoReturn:
    """Answers until the parent closes the connection. It never returns, because what is registered
    to run at exit is the parent's.
    """
    codes: list[int] = []

    def serve() -> None:
        try:
            _answer_all(answer, end, memory, limits)
            codes.append(0)
        except BaseException as error:
            traceback.print_exception(error, file=sys.stderr)

    try:
        _begin()
        # OpenMP keeps the threads of each thread that ran some: those of this one were not forked.
        thread = Thread(target=copy_context().run, args=(serve,))
        thread.start()
        thread.join()
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(0 if codes else 1)


def _answer_all(answer: Answer, end: socket.socket, memory: _Memory, limits: Limits) -> None:
    """Answers one question after the other."""

    def begin() -> None:
        # This process may outlive the one that looks at the time.
        signal.setitimer(signal.ITIMER_REAL, limits.seconds + 1)

    def begin_anew(what: str) -> None:
        _send(end, {GOES_ON: what})
        begin()

    _go_on.set(begin_anew)
    while (asked := _receive(end, end.recv(1))) is not None:
        begin()
        made, results = answer(*memory.read(asked))
        signal.setitimer(signal.ITIMER_REAL, 0)
        sys.stdout.flush()
        _send(end, memory.write(made, results, after=asked["end"]))


def _begin() -> None:
    """Resets what the parent has set up for itself, such as handlers of signals."""
    os.setsid()
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    faulthandler.disable()
    _given.set(None)


# What passes between the two.


def _send(end: socket.socket, message: Any) -> None:
    text = json.dumps(message).encode()
    end.sendall(len(text).to_bytes(8, "little") + text)


def _receive(end: socket.socket, first: bytes) -> Any:
    """Reads a message that begins with this byte; None at the end."""
    head = first + _exactly(end, 7) if first else b""
    text = _exactly(end, int.from_bytes(head, "little")) if len(head) == 8 else b""
    return json.loads(text) if text else None


def _exactly(end: socket.socket, count: int) -> bytes:
    parts = bytearray()
    while len(parts) < count and (part := end.recv(count - len(parts))):
        parts += part
    return bytes(parts) if len(parts) == count else b""


class _Memory:
    """Holds memory that parent and child share, which grows when either needs more."""

    def __init__(self) -> None:
        if hasattr(os, "memfd_create"):
            self.file = os.fdopen(os.memfd_create("byocir"), "r+b")
        else:
            self.file = tempfile.TemporaryFile()  # noqa: SIM115
        self._map: bytearray | mmap.mmap = bytearray()

    def write(self, data: Any, arrays: Sequence[np.ndarray], after: int = 0) -> dict[str, Any]:
        """Copies data and arrays behind what is there, and makes the message that tells of them."""
        places, end = list[Any](), after
        for array in arrays:
            is_shared = array.dtype.kind not in "OUS"
            start = -(-end // ALIGNMENT) * ALIGNMENT
            end = start + array.nbytes if is_shared else end
            rest = start if is_shared else array.tolist()
            places.append([array.shape, array.dtype.name if is_shared else "", rest])
        message = {"data": data, "arrays": places, "end": end}
        for (view, is_shared), array in zip(self.views(message), arrays, strict=True):
            if is_shared:
                view[...] = array
        return message

    def read(self, message: Any) -> tuple[Any, list[np.ndarray]]:
        """Reads data and arrays of a message: the arrays are views of this memory."""
        return message["data"], [view for view, _ in self.views(message)]

    def views(self, message: Any) -> list[tuple[np.ndarray, bool]]:
        """Yields the arrays of a message, each with whether it lies in this memory."""
        if message["end"] > len(self._map):
            size = -(-message["end"] // mmap.PAGESIZE) * mmap.PAGESIZE
            if os.fstat(self.file.fileno()).st_size < size:
                os.ftruncate(self.file.fileno(), size)
            self._map = mmap.mmap(self.file.fileno(), 0)
        return [(self._view(*each), each[1] != "") for each in message["arrays"]]

    def _view(self, shape: list[int], dtype: str, rest: Any) -> np.ndarray:
        if not dtype:
            return np.array(rest, dtype=object).reshape(shape)
        kind = np.dtype(getattr(ml_dtypes, dtype, None) or dtype)
        return np.ndarray(shape, kind, cast("Any", self._map), rest if np.prod(shape) else 0)


def _same(view: np.ndarray, array: np.ndarray) -> bool:
    """Tells if an array in the shared memory still has the bytes that it was given."""
    if view.dtype.kind == "O" or not view.size:
        return True
    given = np.ascontiguousarray(array, view.dtype)
    kind = np.uint8 if view.nbytes % 8 else np.uint64
    return np.array_equal(view.reshape(-1).view(kind), given.reshape(-1).view(kind))


def _taken_by(pid: int) -> int:
    """Measures the bytes of memory that a process has of its own; 0 where the system does not
    tell.
    """
    with suppress(OSError, ValueError, IndexError), open(f"/proc/{pid}/statm", "rb") as file:
        fields = file.read().split()
        return (int(fields[1]) - int(fields[2])) * mmap.PAGESIZE
    return 0
