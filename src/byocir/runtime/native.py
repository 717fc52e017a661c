"""Running the host's C code in process: built by the toolchain, kept by content, called by ctypes.

The code is made from the module when it is first run, so a package holds none of it: what is
compiled here never comes out of a file.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from functools import cached_property
from itertools import count
from typing import Any

import numpy as np
from xdsl.dialects.builtin import IndexType, ModuleOp
from xdsl.ir import Attribute, Operation

from byocir.dialects.array import aligned_zeros
from byocir.dialects.collector import collector_paused
from byocir.dialects.graph import YieldOp
from byocir.dialects.open_values import read_by
from byocir.dialects.types import dtype_of, element_type_of, shape_of
from byocir.errors import ByocirError
from byocir.evaluate.foreign import mismatch
from byocir.evaluate.interpreter import Interpreter, Value, rule_of
from byocir.evaluate.module import MAIN
from byocir.evaluate.room import ask_for_results, nbytes_of
from byocir.lowering.tir_to_c import HostCode, emit_host
from byocir.lowering.tir_to_c.host import CHost, c_host_of, check_machine
from byocir.lowering.tir_to_c.literals import NoC
from byocir.lowering.tir_to_c.scalars import OUTSIDE, UNFIT
from byocir.lowering.tir_to_c.steps import KEPT, Buffer, Call
from byocir.memory import ask
from byocir.toolchain import built_and_loaded, takes

FLAGS = (
    *("-std=c99", "-O3"),
    # Floats are rounded after every operation, as the evaluator's are; nobody asks for errno or
    # traps, which would keep conversions and square roots from being vectorised.
    *("-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-lm"),
)
"""How the host's code is built, whatever it is made for."""
OPENMP = "-fopenmp"

NAME = "model"

_REGION = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.c_int,
    ctypes.POINTER(ctypes.c_void_p),
    ctypes.POINTER(ctypes.c_void_p),
)


def host_code(module: ModuleOp, name: str = NAME) -> HostCode:
    """The C code of a module's @main; what it declares begins with the name. Raises NoC for one in
    memory that has no form in C."""
    for op in module.walk():
        ask_for_results(op)
    with collector_paused():  # steps stay until the last line of C is written
        main = Interpreter(module).function(MAIN)
        code = emit_host(main, name, c_host_of(module))
    ports = (*main.function_type.inputs, *main.function_type.outputs)
    own = code.program.arena.nbytes + code.program.constant_bytes
    ask(own + sum(map(nbytes_of, ports)), "the memory in which the host's C works")
    return code


def code_without_evaluator(module: ModuleOp, name: str = NAME) -> HostCode:
    """As `host_code`, where nothing but C will do: raises ByocirError B350 instead."""
    try:
        return host_code(module, name)
    except NoC as error:
        raise ByocirError(
            "B350", f"expected inputs and ops with a form in C, found {error}"
        ) from error


def made_for(host: CHost) -> tuple[str, ...]:
    """The flags that code for a host is built with beside those of all hosts."""
    return tuple(flag for group in _groups(host) for flag in group)


def _groups(host: CHost) -> list[tuple[str, ...]]:
    """The same, those together that a compiler knows or not."""
    groups = [host.description.flags, (OPENMP,) if host.threads > 1 else ()]
    return [group for group in groups if group]


def _without(group: tuple[str, ...], host: CHost) -> str:
    if OPENMP in group:
        return f"the C compiler has no OpenMP: the host runs on 1 thread instead of {host.threads}"
    return f"the C compiler does not know {' '.join(group)}: the host is built for any processor"


def memory_of(code: HostCode) -> dict[str, int]:
    """Bytes that the code needs, by name."""
    arena = code.program.arena
    return {
        "arena": arena.nbytes,
        "arena_lower_bound": arena.lower_bound,
        "weights": code.program.constant_bytes,
    }


class HostProgram:
    """@main as C, ready to run. What has no form in C, and calls of region functions, run in the
    interpreter, which must be of the same module. What C cannot hold passes between them here. Not
    for several threads at once."""

    def __init__(
        self, code: HostCode, interpreter: Interpreter, flags: Sequence[str] | None = None
    ) -> None:
        """Raises ByocirError B405 for code that this machine cannot run."""
        check_machine(code.host)
        self._code, self._interpreter, self._flags = code, interpreter, flags
        self._library: ctypes.CDLL | None = None
        self.lacking: list[str] = []
        """What the compiler does not know, and what that means, once it built the code."""
        self._calls = code.calls
        self._arena = aligned_zeros((code.program.arena.nbytes,), np.dtype(np.uint8))
        self._constants = code.constants
        self._table = _pointers(self._constants)
        self._kept: dict[Buffer, Value] = {}
        """What C cannot hold, in a run."""
        self._raised: BaseException | None = None
        self._callback = _REGION(self._region)

    @cached_property
    def _function(self) -> Any:
        library = self._library or built_and_loaded("host", self._files, self._all_flags())
        function = getattr(library, f"{self._code.name}_run_at")
        function.restype = ctypes.c_int
        function.argtypes = [*[ctypes.c_void_p] * 4, _REGION, ctypes.c_void_p]
        return function

    @property
    def _files(self) -> dict[str, str]:
        name = self._code.name
        return {f"{name}.c": self._code.source, f"{name}.h": self._code.header}

    def _all_flags(self) -> Sequence[str]:
        if self._flags is not None:
            return self._flags
        # A compiler that does not know the processor, or has no threads, still builds the same C.
        known: list[str] = []
        self.lacking = []
        for group in _groups(self._code.host):
            if takes(group):
                known += group
            else:
                self.lacking.append(_without(group, self._code.host))
        return (*known, *FLAGS)

    @staticmethod
    def build_together(programs: Sequence[HostProgram]) -> None:
        """Builds programs for one host, with names of their own, as one library: in a fraction of
        the time that one library each takes. Raises ByocirError B401 to B404."""
        if not programs:
            return
        files = joined([program._code for program in programs])
        library = built_and_loaded("hosts", files, programs[0]._all_flags())
        for program in programs:
            program._library = library

    def run(self, arrays: Sequence[Value]) -> list[Value]:
        """The outputs for inputs of the types of `@main`; raises what a call raises, and
        ByocirError B303 where an index leads outside of its array."""
        program = self._code.program
        given = dict(zip(program.arguments, arrays, strict=True))
        self._kept = {buffer: value for buffer, value in given.items() if buffer.place == KEPT}
        inputs = [np.ascontiguousarray(v) for b, v in given.items() if b.place != KEPT]
        places = [b for r in program.results for b in (r, r.sizes) if b and b.place != KEPT]
        outputs = {buffer: _empty(buffer.type) for buffer in places}
        try:
            self._call(inputs, [*outputs.values()])
            made = {**self._kept, **outputs}
        finally:
            self._kept = {}
        return [_part(made[b], made[b.sizes]) if b.sizes else made[b] for b in program.results]

    def _call(self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
        code = self._function(
            _pointers(inputs),
            _pointers(outputs),
            self._table,
            self._arena.ctypes.data,
            self._callback,
            None,
        )
        raised, self._raised = self._raised, None
        if raised is not None:
            raise raised
        if code == OUTSIDE:
            raise ByocirError("B303", "expected indices inside their arrays, found one outside")
        if code == UNFIT:
            raise ByocirError("B312", "expected sizes that fit each other, found others")
        assert code == 0, code

    def _region(self, _: Any, index: int, inputs: Any, outputs: Any) -> int:
        """Runs a region or an op for the C code; an exception waits until C has returned."""
        try:
            call = self._calls[index]
            made = self._made(call.op, self._given(call, inputs))
            for i, (buffer, value) in enumerate(zip(call.outputs, made, strict=True)):
                if buffer.place == KEPT:
                    self._kept[buffer] = value
                elif (found := mismatch(value, buffer.type)) and isinstance(call.op, YieldOp):
                    raise ByocirError("B313", f"expected {buffer.type} of a graph, found {found}")
                else:
                    _view(outputs[i], buffer)[...] = value
        except BaseException as error:  # it must not pass through C
            self._raised = error
            return 1
        return 0

    def _made(self, op: Operation, given: Sequence[Value]) -> Sequence[Value]:
        """Evaluates an op; values that a graph of an If hands on stay as they are."""
        if isinstance(op, YieldOp):
            return given
        operands = len(op.operands)
        self._interpreter.assume(dict(zip(read_by(op)[operands:], given[operands:], strict=True)))
        with np.errstate(all="ignore"):
            return rule_of(op)(self._interpreter, op, given[:operands])

    def _given(self, call: Call, inputs: Any) -> list[Value]:
        """Collects the inputs of an op in the evaluator. They are copied if results are kept, as
        these may be parts of inputs, in memory that C uses again."""
        keeps = any(buffer.place == KEPT for buffer in call.outputs)
        given: list[Value] = []
        places = count()
        for value, buffer in zip(read_by(call.op), call.inputs, strict=True):
            place = next(places)
            if buffer.place == KEPT:
                given.append(self._kept[buffer])
                continue
            view = _view(inputs[place], buffer)
            if buffer.sizes is not None:
                view = _part(view, _view(inputs[next(places)], buffer.sizes))
            view = view.copy() if keeps else view
            given.append(view.item() if isinstance(value.type, IndexType) else view)
        return given


def joined(codes: Sequence[HostCode]) -> dict[str, str]:
    """The files of programs with names of their own as one source that includes them: most of a C
    compiler's time goes into beginning. Functions that two of them have are told apart."""
    files: dict[str, str] = {}
    lines: list[str] = []
    for code in codes:
        files[f"{code.name}.h"] = code.header
        if "routine_" in code.source:  # it has types, too
            files[f"{code.name}.c"] = code.source
            continue
        files[f"{code.name}.inc"] = code.source
        own = dict.fromkeys(_FUNCTION.findall(code.source))
        lines += [f"#define {name} {code.name}_{name}" for name in own]
        lines += [f'#include "{code.name}.inc"', *(f"#undef {name}" for name in own)]
    return {"hosts.c": "\n".join([*lines, ""]), **files}


_FUNCTION = re.compile(r"^static [^;={(]*?(\w+)\(", re.MULTILINE)


def _part(array: np.ndarray, shape: np.ndarray) -> np.ndarray:
    """The array of a shape that lies at the start of another."""
    return array.reshape(-1)[: int(np.prod(shape))].reshape(shape)


def _empty(type_: Attribute) -> np.ndarray:
    return np.empty(shape_of(type_), dtype_of(element_type_of(type_)))


def _pointers(arrays: Sequence[np.ndarray]) -> Any:
    return (ctypes.c_void_p * max(len(arrays), 1))(*(array.ctypes.data for array in arrays))


def _view(address: int | None, buffer: Buffer) -> np.ndarray:
    """The array at an address."""
    if not buffer.nbytes:
        return _empty(buffer.type)
    memory = (ctypes.c_uint8 * buffer.nbytes).from_address(address or 0)
    flat = np.ctypeslib.as_array(memory)
    return flat.view(dtype_of(element_type_of(buffer.type))).reshape(shape_of(buffer.type))
