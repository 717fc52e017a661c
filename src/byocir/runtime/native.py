"""Runs a module in this process: in the evaluator, or as C with the evaluator for what has no form
in C.

The code is made from the module when it is first run, so a package holds none of it: what is
compiled here never comes out of a file.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields
from itertools import count
from typing import Any

import numpy as np
from xdsl.dialects.builtin import IndexType, ModuleOp
from xdsl.ir import Attribute, Operation

from byocir.dialects.array import Array
from byocir.dialects.byoc import CallOp
from byocir.dialects.gc_pause import gc_paused
from byocir.dialects.graph import YieldOp
from byocir.dialects.open_values import read_by
from byocir.dialects.types import dtype_of, element_type_of, shape_of
from byocir.dialects.weights import large_arrays
from byocir.errors import ByocirError
from byocir.evaluate.interpreter import External, Interpreter, Value, rule_of
from byocir.evaluate.memory_needs import ask_for_results, nbytes_of
from byocir.evaluate.mismatch import mismatch
from byocir.evaluate.module import MAIN, bind, evaluate, owned
from byocir.evaluate.ports import names_of
from byocir.lowering.tir_to_c import HostCode, emit_host
from byocir.lowering.tir_to_c.literals import NoC
from byocir.lowering.tir_to_c.source import CPort
from byocir.lowering.tir_to_c.steps import KEPT, Buffer, CallStep, buffers_of
from byocir.memory import expect_memory
from byocir.rewrites.host.c_host import CHost, c_host_of
from byocir.runtime.c_function import (
    NAME,
    WORKING_MEMORY,
    CFunction,
    CProgram,
    array_at,
    flag_groups,
)
from byocir.runtime.cached_plan import ArrayType, Constant, Plan, RegionCall
from byocir.runtime.host import Host
from byocir.runtime.interface import Interface
from byocir.runtime.region_code import RegionCode
from byocir.runtime.report import C, Report
from byocir.toolchain.calling import CEntry


def host_code(module: ModuleOp, name: str = NAME) -> HostCode:
    """Makes the C code of a module's @main; `name` begins the names that it declares. Raises NoC
    for a function in memory that has no form in C.
    """
    for op in module.walk():
        ask_for_results(op)
    with gc_paused():  # no step is garbage before the last line of C is written
        main = Interpreter(module).function(MAIN)
        code = emit_host(main, name, c_host_of(module))
    ports = (*main.function_type.inputs, *main.function_type.outputs)
    own = code.program.arena.nbytes + code.program.constant_bytes
    expect_memory(own + sum(map(nbytes_of, ports)), WORKING_MEMORY)
    return code


def code_without_evaluator(module: ModuleOp, name: str = NAME) -> HostCode:
    """Makes code as `host_code` does for use without an evaluator: raises ByocirError B350 for what
    needs one.
    """
    try:
        return host_code(module, name)
    except NoC as error:
        raise ByocirError(
            "B350", f"expected inputs and ops with a form in C, found {error}"
        ) from error


def made_for(host: CHost) -> tuple[str, ...]:
    """Gives the flags for code for a host, beside those for all hosts."""
    return tuple(f for group in flag_groups(host.description, host.threads) for f in group)


def c_program(code: HostCode) -> CProgram:
    """Gives the code in the form in which it is built and called."""
    files = {f"{code.name}.c": code.source, f"{code.name}.h": code.header}
    return CProgram(code.name, files, code.host.cpu, code.host.threads, code.program.arena.nbytes)


def plan_of(code: HostCode, interface: Interface, weights: Collection[str]) -> Plan | None:
    """Makes the plan that runs the code without this module and without the evaluator. None where
    the code needs them: for ops that it calls back for, and shapes that only a run tells. `weights`
    are the digests of the arrays that are saved beside the module.
    """
    program = code.program
    ports = [*program.arguments, *program.results]
    buffers = [*ports, *(buffer for call in code.calls for buffer in buffers_of(call))]
    only_regions = all(isinstance(call.op, CallOp) for call in code.calls)
    if not only_regions or any(b.place == KEPT or b.sizes for b in buffers):
        return None
    own = c_program(code)
    return Plan(
        interface=interface,
        **{f.name: getattr(own, f.name) for f in fields(own)},
        inputs=_types(code.inputs),
        outputs=_types(code.outputs),
        constants=[_constant(array, weights) for _, array in program.constants],
        calls=[_region_call(call) for call in code.calls],
    )


def _types(ports: Sequence[CPort]) -> dict[str, ArrayType]:
    return {port.name: _type(port.type) for port in ports}


def _type(type_: Attribute) -> ArrayType:
    return ArrayType.of(shape_of(type_), dtype_of(element_type_of(type_)))


def _constant(array: Array, weights: Collection[str]) -> Constant:
    data = "" if array.digest in weights else b64encode(array.values().tobytes()).decode()
    return Constant(ArrayType.of(array.shape, array.dtype), array.digest, data)


def _region_call(call: CallStep) -> RegionCall:
    assert isinstance(call.op, CallOp)
    types = [[_type(buffer.type) for buffer in each] for each in (call.inputs, call.outputs)]
    return RegionCall(call.op.callee.string_value(), *types)


def memory_of(code: HostCode) -> dict[str, int]:
    """Counts the bytes that the code needs, by name."""
    arena = code.program.arena
    return {
        "arena": arena.nbytes,
        "arena_lower_bound": arena.lower_bound,
        "weights": code.program.constant_bytes,
    }


class HostProgram:
    """Runs @main as C. What has no form in C, and calls of region functions, run in the
    interpreter, which must be of the same module; values that C cannot hold pass between them here.
    Not for several threads at once.
    """

    def __init__(
        self, code: HostCode, interpreter: Interpreter, flags: Sequence[str] | None = None
    ) -> None:
        """Prepares the code. Raises ByocirError B405 for code that this machine cannot run."""
        self.code, self._interpreter = code, interpreter
        self._calls = code.calls
        self._kept: dict[Buffer, Value] = {}
        """Keeps the values of a run that C cannot hold."""
        self.function = CFunction(
            c_program(code), code.constants, self._region, self._entries, flags
        )

    @property
    def arena(self) -> np.ndarray:
        """Gives the memory in which the code works: bytes, whatever they are before a run."""
        return self.function.arena

    @property
    def lacking(self) -> list[str]:
        """Lists what the compiler does not know, and what that means, once it has built the
        code.
        """
        return self.function.lacking

    def run(self, arrays: Sequence[Value]) -> list[Value]:
        """Computes the outputs for inputs of the types of `@main`. Raises what a call raises, and
        ByocirError B303 where an index leads outside of its array.
        """
        program = self.code.program
        given = dict(zip(program.arguments, arrays, strict=True))
        self._kept = {buffer: value for buffer, value in given.items() if buffer.place == KEPT}
        inputs = [np.ascontiguousarray(v) for b, v in given.items() if b.place != KEPT]
        places = [b for r in program.results for b in (r, r.sizes) if b and b.place != KEPT]
        outputs = {buffer: _empty(buffer.type) for buffer in places}
        try:
            self.function(inputs, [*outputs.values()])
            made = {**self._kept, **outputs}
        finally:
            self._kept = {}
        return [_part(made[b], made[b.sizes]) if b.sizes else made[b] for b in program.results]

    def _entries(self) -> list[CEntry | None]:
        return [self._entry(call) for call in self._calls]

    def _entry(self, call: CallStep) -> CEntry | None:
        """Gives the C function of a call, if it calls a region whose code is a C function, on
        arrays of fixed sizes.
        """
        if not isinstance(call.op, CallOp):
            return None
        code = self._interpreter.externals.get(call.op.callee.string_value())
        if not isinstance(code, RegionCode) or not all(map(_is_plain, buffers_of(call))):
            return None
        return code.c_entry()

    def _region(self, index: int, inputs: Any, outputs: Any) -> None:
        """Runs a region or an op when the C code calls back."""
        call = self._calls[index]
        made = self._made(call.op, self._given(call, inputs))
        for i, (buffer, value) in enumerate(zip(call.outputs, made, strict=True)):
            if buffer.place == KEPT:
                self._kept[buffer] = value
            elif (found := mismatch(value, buffer.type)) and isinstance(call.op, YieldOp):
                raise ByocirError("B313", f"expected {buffer.type} of a graph, found {found}")
            else:
                _view(outputs[i], buffer)[...] = value

    def _made(self, op: Operation, given: Sequence[Value]) -> Sequence[Value]:
        """Evaluates an op; the end of an If's graph just passes its values on."""
        if isinstance(op, YieldOp):
            return given
        operands = len(op.operands)
        self._interpreter.assume(dict(zip(read_by(op)[operands:], given[operands:], strict=True)))
        with np.errstate(all="ignore"):
            return rule_of(op)(self._interpreter, op, given[:operands])

    def _given(self, call: CallStep, inputs: Any) -> list[Value]:
        """Collects the inputs of an op that the evaluator runs. They are copied if results are
        kept, as results may be parts of inputs, in memory that C uses again.
        """
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


def _is_plain(buffer: Buffer) -> bool:
    """Tells if a buffer holds an array of fixed sizes."""
    return buffer.place != KEPT and buffer.sizes is None


def _part(array: np.ndarray, shape: np.ndarray) -> np.ndarray:
    """Gives the array of a shape that lies at the start of a larger one."""
    return array.reshape(-1)[: int(np.prod(shape))].reshape(shape)


def _empty(type_: Attribute) -> np.ndarray:
    return np.empty(shape_of(type_), dtype_of(element_type_of(type_)))


def _view(address: int | None, buffer: Buffer) -> np.ndarray:
    """Gives the array of a buffer at an address."""
    return array_at(address, shape_of(buffer.type), dtype_of(element_type_of(buffer.type)))


class Running:
    """Runs a module, and keeps its host's code, once it is built, from one run to the next."""

    def __init__(
        self,
        module: ModuleOp,
        report: Report,
        externals: Callable[[bool], Mapping[str, External]],
        code: HostCode | None = None,
    ) -> None:
        """Takes a module. `externals` gives the functions that run regions, which look for mistakes
        in their own code if asked to; `code` is the host's, where it is known already.
        """
        self._module, self._report, self._externals = module, report, externals
        self._code = code
        self._host = Host()
        self._interpreters: dict[bool, Interpreter] = {}
        self._programs: dict[bool, HostProgram] = {}

    def run(self, feeds: Mapping[str, Any], check: bool) -> dict[str, Any]:
        """Computes outputs by name for inputs by name. Errors as `Package.run`."""
        interpreter = self._interpreter(check)
        self._report.ran_on = self._host.ran_on
        if self._report.host_runs_on != C:
            return evaluate(self._module, feeds, interpreter=interpreter)
        program = self._program(check)
        entry = interpreter.function(MAIN)
        arrays, given = bind(entry, feeds)
        inputs, outputs = names_of(entry)
        # In a function in memory only the feeds tell which arguments are inputs.
        if given != [*outputs]:
            raise ByocirError(
                "B310",
                f"expected feeds for the inputs {', '.join(inputs)}, found {', '.join(feeds)}",
            )
        results = owned(program.run(arrays), arrays)
        self._report.built_without = program.lacking
        return dict(zip(given, results, strict=True))

    @property
    def code(self) -> HostCode:
        """Gives the host's C code."""
        self._code = self._code or host_code(self._module)
        return self._code

    def plan(self, interface: Interface) -> Plan | None:
        """Makes the plan that runs the host's C without the module, whose interface is given; None
        where the C needs the evaluator.
        """
        return plan_of(self.code, interface, large_arrays(self._module))

    def host_program(self, name: str = NAME) -> HostProgram:
        """Gives the host's C code as the program that `run` calls, with names that begin with
        `name`.
        """
        if self._code is None or self._code.name != name:
            self._code = host_code(self._module, name)
        return self._program(False)

    def _program(self, check: bool) -> HostProgram:
        if check not in self._programs:
            self._programs[check] = HostProgram(self.code, self._interpreter(check))
        return self._programs[check]

    def _interpreter(self, check: bool) -> Interpreter:
        if check not in self._interpreters:
            self._interpreters[check] = Interpreter(
                self._module, self._externals(check), engine=self._host, whole=self._host.whole
            )
        return self._interpreters[check]
