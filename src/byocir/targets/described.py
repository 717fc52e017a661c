"""Keeps programs of described machines in packages (the module's text and its weights), and runs
them on the simulated machine.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from math import ceil
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from byocir.dialects.context import load_context
from byocir.dialects.locations import names
from byocir.dialects.new_ops import clone_op
from byocir.dialects.text import parse_module, print_module
from byocir.dialects.tir import IntrinsicOp
from byocir.dialects.types import dtype_of, element_type_of, shape_of
from byocir.dialects.weights import dump_weights, read_weights
from byocir.evaluate.ports import ports_of
from byocir.machine import Call, Machine
from byocir.machine.calls import calls_in
from byocir.machine.encoding import encoded
from byocir.machine.numeric_programs import check_order, model_of, numbers_of, times_of
from byocir.machine.simulator import Simulator
from byocir.machine_sim.trace import program_trace

TEXT, WEIGHTS = "program.mlir", "weights.safetensors"


def programs_of(machine: Machine, module: ModuleOp, symbols: Sequence[str]) -> Mapping[str, bytes]:
    """Makes the files that a package keeps of a machine's functions: their text, their weights and,
    where its instructions are encoded, their code, as bytes or as JSON.
    """
    functions = [f for f in module.ops if isinstance(f, FuncOp) and f.sym_name.data in symbols]
    program = ModuleOp([clone_op(function) for function in functions])
    text, weights = print_module(program).encode(), dump_weights(program)
    kept = _keep((text, weights), program)
    codes = [_code(symbol, _encoded(machine, function)) for symbol, function in kept.items()]
    found = {name: code for name, code in codes if code}
    return {TEXT: text, WEIGHTS: weights, **found}


def _encoded(machine: Machine, function: FuncOp) -> list[Any]:
    """Encodes a program, and times it while its calls are there: reports ask for both."""
    calls = calls_in(machine, function.body.block)
    _timed[function] = machine, _costs_of(machine, calls)
    return encoded(calls)


def _code(symbol: str, code: Sequence[Any]) -> tuple[str, bytes]:
    if all(isinstance(each, bytes) for each in code):
        return f"{symbol}.bin", b"".join(code)
    return f"{symbol}.json", json.dumps(code).encode()


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
        parts = model_of(machine), numbers_of(machine, calls), times_of(machine, calls)
        yield symbol, program_trace(machine.name, *parts, texts, locations)


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


def _costs_of(machine: Machine, calls: Sequence[Call]) -> Costs:
    units = [unit.name for unit in model_of(machine).units]
    times = times_of(machine, calls)
    spent = dict(zip(units, times.units, strict=True))
    causes = {unit: asdict(each) for unit, each in spent.items()}
    bounds = {unit: each.busy for unit, each in spent.items()}
    details = {"padded_macs": sum(call.kind.macs for call in calls), "instructions": len(calls)}
    return times.cycles, _busy_by_node(calls), causes, bounds, details


def _busy_by_node(calls: Sequence[Call]) -> list[tuple[str, str, int]]:
    """Counts the cycles that units are busy for each node of the model."""
    nodes: dict[IntrinsicOp, str] = {}
    busy: Counter[tuple[str, str]] = Counter()
    for call in calls:
        if call.op not in nodes:
            nodes[call.op] = ", ".join(names(call.op.location)) or call.instruction.name
        busy[nodes[call.op], call.unit.name] += ceil(call.cycles)
    return [(node, unit, cycles) for (node, unit), cycles in busy.items()]
