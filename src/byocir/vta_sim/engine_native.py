"""Runs streams fast: a C core checks, orders and runs a whole stream in one call each.

Values, checks and orders are those of `token_order.py` and `engine_numpy.py`. The core says which
instruction is refused; what a user reads about it is said by them: a stream that the core refuses
is handed to `token_order.py`, and an instruction that it cannot execute to a numpy `Machine` with
the same scratchpads.
"""

from __future__ import annotations

import ctypes
import warnings
import weakref
from collections.abc import Mapping
from ctypes import POINTER, Structure, byref, c_int, c_size_t, c_uint32, c_uint64, c_void_p
from dataclasses import replace
from functools import cache
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from byocir.errors import ByocirError
from byocir.toolchain import built_and_loaded, takes
from byocir.vta_sim.config import DEFAULT_CONFIG, FEATURES, Memory, VTAConfig, computes
from byocir.vta_sim.engine_numpy import Machine, as_dram, check_widths
from byocir.vta_sim.isa import Opcode, as_stream, decode
from byocir.vta_sim.token_order import check_form

PORTABLE = ("-std=c99", "-O3")
FLAGS = (*PORTABLE, "-march=native")
NO_MEMORY = 1
# Scratchpads in the layout of DRAM: dtype, and shape after the depth as letters of the config.
LAYOUTS = {
    Memory.UOP: (np.uint32, ()),
    Memory.WGT: (np.int8, ("block_out", "block_in")),
    Memory.INP: (np.int8, ("batch", "block_in")),
    Memory.ACC: (np.int32, ("batch", "block_out")),
}


class _Config(Structure):
    _fields_ = [
        *((name, c_uint32) for name in ("log_batch", "log_block")),
        *((f"log_{name}_depth", c_uint32) for name in ("uop", "inp", "wgt", "acc")),
        *((name, c_uint32) for name in FEATURES),
    ]


class _Fault(Structure):
    _fields_ = [("code", c_uint32), ("instruction", c_uint32)]
    code: int
    instruction: int


COUNTS = (
    *("inp_load_nbytes", "wgt_load_nbytes", "acc_load_nbytes", "uop_load_nbytes"),
    *("out_store_nbytes", "gemm_counter", "alu_counter"),
)


class _Counters(Structure):
    _fields_ = [
        *((name, c_uint64) for name in COUNTS),
        ("instructions", c_uint64 * len(Opcode)),
    ]


@cache
def core() -> ctypes.CDLL:
    """Loads the C core, compiled on first use: for this machine, or for its kind where the compiler
    has no `-march=native`. Raises ByocirError B401 to B404.
    """
    return load_core(FLAGS if takes(FLAGS) else PORTABLE)


@cache
def load_core(flags: tuple[str, ...]) -> ctypes.CDLL:
    """Loads the C core, compiled with ``flags``."""
    folder = resources.files("byocir.vta_sim") / "native"
    files = {
        file.name: file.read_bytes() for file in folder.iterdir() if file.name[-2:] in (".c", ".h")
    }
    library = built_and_loaded("vta", files, flags)
    signatures: Mapping[str, tuple[object, list[object]]] = {
        "program_open": (c_void_p, [POINTER(_Config), c_void_p, c_size_t, POINTER(_Fault)]),
        "program_close": (None, [c_void_p]),
        "program_schedule": (c_uint32, [c_void_p, POINTER(c_uint64), POINTER(_Fault)]),
        "program_order": (POINTER(c_uint32), [c_void_p]),
        "program_counters": (POINTER(_Counters), [c_void_p]),
        "device_open": (c_void_p, [POINTER(_Config), c_int]),
        "device_close": (None, [c_void_p]),
        "device_run": (c_uint32, [c_void_p, c_void_p, c_void_p, c_size_t, POINTER(_Fault)]),
        "device_read": (None, [c_void_p, c_int, c_size_t, c_size_t, c_void_p]),
        "device_write": (None, [c_void_p, c_int, c_size_t, c_size_t, c_void_p]),
        "device_written": (c_void_p, [c_void_p, c_int]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, f"vta_{name}")
        function.restype, function.argtypes = result, arguments
    return library


@cache
def is_available() -> bool:
    """Tells if the engine can be built; warns once if there is a compiler that does not work."""
    try:
        core()
    except ByocirError as error:
        if error.code != "B401":
            message = f"simulating with numpy, which is slower\n{error}"
            warnings.warn(message, RuntimeWarning, stacklevel=2)
        return False
    return True


def require(config: VTAConfig) -> None:
    """Raises VTAError V207 or ByocirError B401 to B404 unless the engine can run ``config``."""
    check_widths(config)
    core()


class NativeStream:
    """Holds a stream in the C core: copied, with its form checked, in stream order until it is
    scheduled.

    ``insns`` uint8 [N, 16], contiguous. ``fault`` is the code that the core refuses it with, or 0.
    """

    def __init__(self, insns: NDArray[np.uint8], config: VTAConfig) -> None:
        library, fault = core(), _Fault()
        self.insns = insns
        self.handle = library.vta_program_open(
            byref(_config(config)), insns.ctypes.data, len(insns), byref(fault)
        )
        self.fault = _checked(fault)
        weakref.finalize(self, library.vta_program_close, self.handle)

    def schedule(self, seed: int | None) -> None:
        """Puts the instructions into an order that the tokens allow; see ``tokens.schedule``."""
        fault = _Fault()
        number = None if seed is None else byref(c_uint64(seed % (1 << 64)))
        core().vta_program_schedule(self.handle, number, byref(fault))
        self.fault = _checked(fault)

    @property
    def order(self) -> NDArray[np.uint32]:
        """Lists the indices of the instructions in the order in which they run, uint32 [N]."""
        order = core().vta_program_order(self.handle)
        return np.ctypeslib.as_array(order, (len(self.insns),)).copy()

    @property
    def counts(self) -> dict[str, int]:
        """Gives the counts of one run, by the names in ``COUNTS``."""
        counters = core().vta_program_counters(self.handle).contents
        return {name: getattr(counters, name) for name in COUNTS}

    @property
    def instructions(self) -> list[int]:
        """Counts the instructions of each opcode."""
        return list(core().vta_program_counters(self.handle).contents.instructions)


def native_stream(
    insns: NDArray[np.uint8], config: VTAConfig, seed: int | None
) -> NativeStream | None:
    """Makes a scheduled stream; None if the engine cannot be built, or the core refuses the
    stream.
    """
    if not computes(config) or not is_available():
        return None
    stream = NativeStream(insns, config)
    if not stream.fault:
        stream.schedule(seed)
    return None if stream.fault else stream


class NativeMachine:
    """Simulates a machine in C: scratchpads, DRAM and the core that works on them. It is
    ``Machine``, but fast.

    ``dram`` (uint8 [B]) is copied; read the result from ``machine.dram``. With ``check``,
    scratchpads start with garbage, and reading an element that was never written is an error.
    """

    def __init__(
        self, dram: NDArray[np.uint8], config: VTAConfig = DEFAULT_CONFIG, *, check: bool = False
    ) -> None:
        require(config)
        self.config = config
        self.dram = np.array(as_dram(dram), order="C")
        self._check = check
        self._handle = core().vta_device_open(byref(_config(config)), check)
        if not self._handle:
            raise MemoryError
        weakref.finalize(self, core().vta_device_close, self._handle)

    def run(self, stream: NativeStream) -> None:
        """Executes a stream that the core accepts, encoded for the same config, in its order.

        Raises VTAError V2xx when an access leaves a memory; then all earlier instructions have run.
        """
        fault = _Fault()
        dram, size = self.dram.ctypes.data, self.dram.size
        core().vta_device_run(self._handle, stream.handle, dram, size, byref(fault))
        if fault.code:
            self._refuse(stream, fault)

    def run_in_order(self, insns: NDArray[np.uint8]) -> None:
        """Executes a stream (uint8 [N, 16]) in program order, ignoring tokens and FINISH."""
        insns = as_stream(insns)
        stream = NativeStream(insns, self.config)
        if stream.fault:
            check_form(decode(insns, self.config))
            raise AssertionError(f"expected the core to accept the stream, found {stream.fault}")
        self.run(stream)

    def read(self, memory: Memory) -> NDArray[Any]:
        """Reads the elements of UOP (uint32 [depth]), INP (int8 [depth, batch, block_in]), WGT
        (int8 [depth, block_out, block_in]) or ACC (int32 [depth, batch, block_out])."""
        dtype, shape = _layout(memory, self.config)
        elements = np.empty(shape, dtype)
        core().vta_device_read(self._handle, memory, 0, len(elements), elements.ctypes.data)
        return elements

    def write(self, memory: Memory, first: int, elements: ArrayLike) -> None:
        """Sets elements from ``first`` on, given in the layout that ``read`` returns.

        Raises ValueError for elements that do not fit the scratchpad.
        """
        dtype, (depth, *shape) = _layout(memory, self.config)
        values = np.ascontiguousarray(elements, dtype).reshape(-1, *shape)
        if not 0 <= first <= depth - len(values):
            raise ValueError(f"expected elements within 0..{depth}, found {first}+{len(values)}")
        core().vta_device_write(self._handle, memory, first, len(values), values.ctypes.data)

    def _refuse(self, stream: NativeStream, fault: _Fault) -> None:
        """Raises the numpy engine's error for the instruction that the core refused."""
        machine = Machine(self.dram, self.config, check=self._check)
        for memory in LAYOUTS:
            machine.write(memory, self._written(memory), self.read(memory)[self._written(memory)])
        insn = decode(stream.insns[fault.instruction][None], self.config).instruction(0)
        machine.step(replace(insn, index=fault.instruction))
        raise AssertionError(f"expected {insn} to be executed, found {fault.code}")

    def _written(self, memory: Memory) -> slice | NDArray[np.intp]:
        """Selects the elements of a scratchpad that were written; all of them where writes are not
        recorded.
        """
        flags = core().vta_device_written(self._handle, memory)
        if not flags:
            return slice(None)
        return np.flatnonzero(
            np.frombuffer(ctypes.string_at(flags, self.config.depth(memory)), np.uint8)
        )


def _layout(memory: Memory, config: VTAConfig) -> tuple[type[np.generic], tuple[int, ...]]:
    dtype, names = LAYOUTS[memory]
    return dtype, (config.depth(memory), *(getattr(config, name) for name in names))


def _config(config: VTAConfig) -> _Config:
    return _Config(*config.device_numbers)


def _checked(fault: _Fault) -> int:
    if fault.code == NO_MEMORY:
        raise MemoryError
    return fault.code
