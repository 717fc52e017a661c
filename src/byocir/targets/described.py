"""Keeps programs of described machines in packages (the module's text and its weights), and runs
them on the simulated machine. Writes them as C: a table of the code of each, and the statements by
which the machine issues an entry.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from math import prod
from typing import Any, cast
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, Region

from byocir.dialects.context import load_context
from byocir.dialects.locations import names
from byocir.dialects.new_ops import new_op
from byocir.dialects.text import parse_module, print_module
from byocir.dialects.tir import AllocOp, ConstantOp, scope_of
from byocir.dialects.types import dtype_of, element_type_of, shape_of
from byocir.dialects.weights import dump_weights, read_weights
from byocir.errors import ByocirError
from byocir.evaluate.ports import ports_of
from byocir.lowering.tir_to_c.literals import defined_array, initialiser, stored_type
from byocir.machine import Call, Machine
from byocir.machine.calls import IssuedCalls, calls_in, forget_calls
from byocir.machine.encoding import Encoder, assembled
from byocir.machine.numeric_programs import check_order, model_of, timed_numbers_of
from byocir.machine.simulator import Simulator
from byocir.machine_sim import run_times
from byocir.machine_sim.trace import program_trace
from byocir.targets.device import ARRAYS, CFunctions, c_name

TEXT, WEIGHTS = "program.mlir", "weights.safetensors"


def programs_of(machine: Machine, module: ModuleOp, symbols: Sequence[str]) -> Mapping[str, bytes]:
    """Makes the files that a package keeps of a machine's functions: their text, their weights and,
    where its instructions are encoded, their code, as bytes or as JSON. It takes the bodies of the
    functions: declarations are left of them.
    """
    functions = [f for f in module.ops if isinstance(f, FuncOp) and f.sym_name.data in symbols]
    program = ModuleOp([_taken(function) for function in functions])
    text, weights = print_module(program).encode(), dump_weights(program)
    kept = _keep((text, weights), program)
    found: dict[str, bytes] = {}
    encoder = Encoder(machine)
    for function in kept.values():
        found |= _code(machine, function, _encoded(machine, encoder, function))
    return {TEXT: text, WEIGHTS: weights, **found}


def _taken(function: FuncOp) -> FuncOp:
    """Makes a function with the body of another, which loses it."""
    body = function.detach_region(0)
    function.add_region(Region())
    return new_op(
        FuncOp,
        properties=function.properties,
        attributes=function.attributes,
        location=function.location,
        regions=[body],
    )


def _encoded(machine: Machine, encoder: Encoder, function: FuncOp) -> list[Any]:
    """Encodes a program, and times it while its calls are there: reports ask for both."""
    calls = calls_in(machine, function.body.block)
    _timed[function] = machine, _costs_of(machine, calls)
    forget_calls(function.body.block)  # no pass comes after this one
    return encoder.code(calls)


def _code(machine: Machine, function: FuncOp, code: Sequence[Any]) -> Mapping[str, bytes]:
    """Makes the files of a function's code."""
    symbol = function.sym_name.data
    if machine.assemble is not None:
        return assembled(machine, function, code)
    if not all(isinstance(each, bytes) for each in code):
        try:
            return {f"{symbol}.json": json.dumps(code).encode()}
        except TypeError:
            kinds = sorted({type(each).__name__ for each in code})
            told = f"expected code of {machine.name} to be bytes, or what JSON can hold, found "
            raise ByocirError("B270", told + ", ".join(kinds), where=symbol) from None
    return {f"{symbol}.bin": b"".join(code)} if code else {}


def functions_of(blobs: Mapping[str, bytes]) -> dict[str, FuncOp]:
    """Reads the functions whose programs a package has, by symbol; nobody may change them."""
    key = blobs[TEXT], blobs[WEIGHTS]
    found = _known.get(key)
    if found is None:
        context = load_context()
        read_weights(blobs[WEIGHTS], context.arrays, WEIGHTS)
        found = _keep(key, parse_module(blobs[TEXT].decode(), context))
    return found


_known: dict[tuple[bytes, bytes], dict[str, FuncOp]] = {}
"""The functions of the last programs that were printed or read, which nobody may change: reports
and runs share them."""
_MOST_KNOWN = 4


def _keep(key: tuple[bytes, bytes], program: ModuleOp) -> dict[str, FuncOp]:
    _known[key] = {f.sym_name.data: f for f in program.ops if isinstance(f, FuncOp)}
    for oldest in list(_known)[:-_MOST_KNOWN]:
        _known.pop(oldest, None)
    return _known[key]


def runner(
    machine: Machine, blobs: Mapping[str, bytes], *, check: bool = False
) -> Callable[[str, Sequence[np.ndarray]], list[np.ndarray]]:
    """Makes the runner of programs on a simulated machine. With `check`, it raises ByocirError B274
    for one that has hazards.
    """
    functions = functions_of(blobs)

    def run(symbol: str, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        function = functions[symbol]
        if check:
            check_order(machine, calls_in(machine, function.body.block))
        _, types = ports_of(function)
        outputs = [np.zeros(shape_of(t), dtype_of(element_type_of(t))) for t in types]
        Simulator(machine).run(function, [*inputs, *outputs])
        return outputs

    return run


def traces_of(machine: Machine, blobs: Mapping[str, bytes]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Times the calls of each program, and yields its trace."""
    for symbol, function in (functions_of(blobs) if TEXT in blobs else {}).items():
        calls = calls_in(machine, function.body.block)
        texts = [_text(call) for call in calls]
        locations = [", ".join(names(call.op.location)) for call in calls]
        model, program = model_of(machine), timed_numbers_of(machine, calls)
        times = run_times(model, program)
        yield symbol, program_trace(machine.name, model, program, times, texts, locations)


def _text(call: Call) -> str:
    sizes = ", ".join(f"{name}={size}" for name, size in call.sizes.items())
    return f"{call.instruction.name}({sizes})"


Cycles = Mapping[str, int]
Costs = tuple[int, Sequence[tuple[str, str, int]], Mapping[str, Cycles], Cycles, Cycles]
"""The fields of a `Profile` behind the symbol, in order."""


def costs_of_programs(machine: Machine, blobs: Mapping[str, bytes]) -> Iterator[tuple[str, *Costs]]:
    """Times the calls of each program. Yields the fields of a `Profile` in order."""
    for symbol, function in (functions_of(blobs) if TEXT in blobs else {}).items():
        known = _timed.get(function)
        if known is None or known[0] is not machine:
            calls = calls_in(machine, function.body.block)
            known = _timed[function] = machine, _costs_of(machine, calls)
        yield (symbol, *known[1])


_timed: WeakKeyDictionary[FuncOp, tuple[Machine, Costs]] = WeakKeyDictionary()
"""The costs of programs that were timed: reports have them, and profiles."""


def _costs_of(machine: Machine, calls: IssuedCalls) -> Costs:
    model, program = model_of(machine), timed_numbers_of(machine, calls)
    times = run_times(model, program)
    spent = dict(zip([unit.name for unit in model.units], times.units, strict=True))
    causes = {unit: asdict(each) for unit, each in spent.items()}
    bounds = {unit: each.busy for unit, each in spent.items()}
    details = {"padded_macs": sum(op.macs for op in calls.ops), "instructions": len(calls)}
    return times.cycles, _busy_by_node(calls, program.cycles), causes, bounds, details


def _busy_by_node(calls: IssuedCalls, cycles: NDArray[np.int64]) -> list[tuple[str, str, int]]:
    """Counts the cycles that units are busy for each node of the model."""
    of_ops = np.zeros(len(calls.ops), np.int64)
    np.add.at(of_ops, calls.op, cycles)
    busy: Counter[tuple[str, str]] = Counter()
    for number in calls.in_turn:
        op = calls.ops[number]
        node = ", ".join(names(op.op.location)) or op.instruction.name
        busy[node, op.unit.name] += int(of_ops[number])
    return [(node, unit, cycles) for (node, unit), cycles in busy.items()]


def c_functions(machine: Machine, blobs: Mapping[str, bytes]) -> CFunctions | None:
    """Writes the programs of a machine as functions in C; None for one that does not say how its
    code is issued. Raises ByocirError B271 for code that is not rows of numbers.
    """
    if machine.issue is None:
        return None
    functions = functions_of(blobs)
    texts = [_function(machine, f, _rows(machine, name, blobs)) for name, f in functions.items()]
    source = "\n".join(["#include <stddef.h>\n#include <stdint.h>\n", machine.issue, *texts])
    return CFunctions({symbol: c_name(symbol) for symbol in functions}, source.encode())


def _rows(machine: Machine, symbol: str, blobs: Mapping[str, bytes]) -> list[list[int]]:
    """Converts the code of a program to rows that have the same number of integers."""
    code: Any = json.loads(blobs.get(f"{symbol}.json", b"[]"))
    rows = [*_flat(code)]
    if len({len(row) for row in rows}) != 1:
        told = f"expected code of {machine.name} that is tuples of integers, all as long, found"
        raise ByocirError("B271", f"{told} {str(code)[:60]}", where=symbol)
    return rows


def _flat(code: Any) -> Iterator[list[int]]:
    """Yields the innermost lists of integers, in order."""
    parts = cast("list[Any]", code) if isinstance(code, list) else []
    if parts and all(isinstance(each, int) for each in parts):
        yield parts
        return
    for each in parts:
        yield from _flat(each)


def _function(machine: Machine, function: FuncOp, rows: Sequence[Sequence[int]]) -> str:
    name = c_name(function.sym_name.data)
    inputs, outputs = ports_of(function)
    others = [op for op in function.body.block.ops if _is_array(op)]
    arrays = [f"(void *)inputs[{i}]" for i in range(len(inputs))]
    arrays += [f"outputs[{i}]" for i in range(len(outputs))]
    arrays += [f"(void *){name}_array_{i}" for i in range(len(others))]
    table = [f"{{{', '.join(hex(n % 2**64) for n in row)}}}" for row in rows]
    return f"""{"".join(_array(op, f"{name}_array_{i}") for i, op in enumerate(others))}
static const uint64_t {name}_code[][{len(rows[0])}] = {initialiser(table, 4)};

int {name}({ARRAYS})
{{
    void *const arrays[] = {{{", ".join(arrays)}}};
    for (size_t i = 0; i < {len(rows)}; i++)
        {c_name(machine.name)}_issue({name}_code[i], arrays);
    {c_name(machine.name)}_finish();
    return 0;
}}
"""


def _is_array(op: Operation) -> bool:
    """Tells whether an op makes an array in main memory; code numbers these after the ports."""
    return isinstance(op, ConstantOp | AllocOp) and not scope_of(op.results[0].type)


def _array(op: Operation, name: str) -> str:
    type_ = op.results[0].type
    if isinstance(op, ConstantOp):
        return defined_array(name, type_, op.value.data)
    return f"static {stored_type(element_type_of(type_))} {name}[{prod(shape_of(type_))}];\n"
