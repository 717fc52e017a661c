"""Calls the compiled C of a host's program: the toolchain builds it, the cache keeps it by content,
ctypes calls it.

It knows addresses and numbers only: no module, no compiler. `CProgram` holds everything that it
needs to know.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from byocir.errors import ByocirError
from byocir.toolchain import built_and_loaded, takes
from byocir.toolchain.calling import FLAGS, OUTSIDE, UNFIT, CEntry, aligned_zeros, pointers
from byocir.toolchain.cpu import CPUS, Cpu
from byocir.toolchain.machine import check_runs

OPENMP = "-fopenmp"
NAME = "model"
"""The beginning of the names in a program that is given no other."""
WORKING_MEMORY = "the memory in which the host's C works"

_REGION = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.c_int,
    ctypes.POINTER(ctypes.c_void_p),
    ctypes.POINTER(ctypes.c_void_p),
)

Region = Callable[[int, Any, Any], None]
"""Runs the call of an index: from addresses of its inputs to those of its outputs."""
Entries = Callable[[], Sequence[CEntry | None]]
"""Gives the C functions of calls, by index; None for those that Python makes."""


_CALLS = Path(__file__).with_name("region_calls.c")


class _Entry(ctypes.Structure):
    """Holds a row of the table in `region_calls.c`."""

    _fields_ = [(name, ctypes.c_void_p) for name in ("function", "with_state", "state")]

    @staticmethod
    def of(entry: CEntry | None) -> _Entry:
        """Makes the row of a C function; an empty row for a call that Python makes."""
        if entry is None:
            return _Entry()
        without, state = entry.state is None, entry.state
        return _Entry(entry.function, None) if without else _Entry(None, entry.function, state)


class _Calls(ctypes.Structure):
    """Holds the context of `region_calls.c`."""

    _fields_ = [("entries", ctypes.POINTER(_Entry)), ("python", ctypes.c_void_p)]


@dataclass(frozen=True)
class CProgram:
    """Holds the C text of a program, and what it is built for: a processor of the table, by name,
    and the number of threads. Its functions' names begin with `name`; it works in `arena` bytes.
    """

    name: str
    files: Mapping[str, str]
    cpu: str
    threads: int
    arena: int


class CFunction:
    """Calls a program's C function, which is built when it is called first. Not for several threads
    at once.
    """

    def __init__(
        self,
        program: CProgram,
        constants: Sequence[np.ndarray],
        region: Region,
        entries: Entries,
        flags: Sequence[str] | None = None,
    ) -> None:
        """Takes a program and its constants, which are aligned; `entries` is asked once, before the
        first run. Raises ByocirError B405 for code that this machine cannot run.
        """
        check_runs(CPUS[program.cpu])
        self.library: ctypes.CDLL | None = None
        """The library that has the function, where others were built with it."""
        self.lacking: list[str] = []
        """Notes on what the compiler does not know, once it built the code."""
        self._program, self._region, self._entries, self._flags = program, region, entries, flags
        self.arena = aligned_zeros((program.arena,), np.dtype(np.uint8))
        """The memory in which the code works: bytes."""
        self._constants = constants  # kept alive: C has their addresses
        self._table = pointers(constants)
        self._raised: BaseException | None = None
        self._calls: _Calls | None = None  # kept alive: C has its address
        self._callback = _REGION(self._called_back)

    def __call__(self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
        """Runs the function, which fills the outputs. Raises what a region raises, ByocirError B303
        where an index leads outside of its array, B312 for sizes that do not fit, B401 to B404
        where no compiler works.
        """
        code = self._function(
            pointers(inputs),
            pointers(outputs),
            self._table,
            self.arena.ctypes.data,
            *self._caller,
        )
        raised, self._raised = self._raised, None
        if raised is not None:
            raise raised
        if code == OUTSIDE:
            raise ByocirError("B303", "expected indices inside their arrays, found one outside")
        if code == UNFIT:
            raise ByocirError("B312", "expected sizes that fit each other, found others")
        assert code == 0, code

    @cached_property
    def _function(self) -> Any:
        library = self.library or built_and_loaded("host", self._program.files, self.all_flags())
        function = getattr(library, f"{self._program.name}_run_at")
        function.restype = ctypes.c_int
        function.argtypes = [ctypes.c_void_p] * 6
        return function

    @cached_property
    def _caller(self) -> tuple[Any, Any]:
        """Gives the C function that runs a call, given its index, and the context for it."""
        entries = self._entries()
        if not any(entries):
            return self._callback, None
        library = built_and_loaded("calls", {_CALLS.name: _CALLS.read_text()}, FLAGS)
        table = (_Entry * len(entries))(*(_Entry.of(each) for each in entries))
        python = ctypes.cast(self._callback, ctypes.c_void_p)
        self._calls = _Calls(table, python)
        return library.byocir_call, ctypes.addressof(self._calls)

    def all_flags(self) -> Sequence[str]:
        """Gives the flags of this program. A compiler that does not know the processor, or has no
        threads, still builds the same C: `lacking` says so."""
        if self._flags is not None:
            return self._flags
        known: list[str] = []
        self.lacking = []
        for group in flag_groups(CPUS[self._program.cpu], self._program.threads):
            if takes(group):
                known += group
            else:
                self.lacking.append(_without(group, self._program.threads))
        return (*known, *FLAGS)

    def _called_back(self, _: Any, index: int, inputs: Any, outputs: Any) -> int:
        """Runs a call for the C code; an exception is kept until C has returned."""
        try:
            self._region(index, inputs, outputs)
        except BaseException as error:  # an exception must not pass through C
            self._raised = error
            return 1
        return 0


def flag_groups(cpu: Cpu, threads: int) -> list[tuple[str, ...]]:
    """Gives the flags, beside `FLAGS`, for code for a processor and threads, in groups: a compiler
    knows all flags of a group, or may know none.
    """
    groups = [cpu.flags, (OPENMP,) if threads > 1 else ()]
    return [group for group in groups if group]


def _without(group: tuple[str, ...], threads: int) -> str:
    if OPENMP in group:
        return f"the C compiler has no OpenMP: the host runs on 1 thread instead of {threads}"
    return f"the C compiler does not know {' '.join(group)}: the host is built for any processor"


def array_at(address: int | None, shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
    """Gives the array at an address; it does not own the memory."""
    nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    if not nbytes:
        return np.empty(shape, dtype)
    memory = (ctypes.c_uint8 * nbytes).from_address(address or 0)
    return np.ctypeslib.as_array(memory).view(dtype).reshape(shape)
