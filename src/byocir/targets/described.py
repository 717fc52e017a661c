"""Programs of described machines in packages: the module's text and its weights, and what runs them
on the simulated machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from byocir.dialects.context import load_context
from byocir.dialects.text import parse_module, print_module
from byocir.dialects.types import dtype_of, element_type_of, shape_of
from byocir.dialects.weights import dump_weights, read_weights
from byocir.evaluate.ports import ports_of
from byocir.machine import Machine
from byocir.machine.encoding import encoded
from byocir.machine.simulator import Simulator

TEXT, WEIGHTS, CODE = "program.mlir", "weights.safetensors", ".bin"


def programs_of(machine: Machine, module: ModuleOp, symbols: Sequence[str]) -> Mapping[str, bytes]:
    """What a package keeps of a machine's functions: their text, their weights and, where its
    instructions are encoded as bytes, their code."""
    functions = [f for f in module.ops if isinstance(f, FuncOp) and f.sym_name.data in symbols]
    program = ModuleOp([function.clone() for function in functions])
    text = print_module(program).encode()
    codes = {f"{f.sym_name.data}{CODE}": encoded(machine, f) for f in functions}
    found = {name: b"".join(code) for name, code in codes.items() if code and _is_bytes(code)}
    return {TEXT: text, WEIGHTS: dump_weights(program), **found}


def _is_bytes(code: Sequence[object]) -> bool:
    return all(isinstance(each, bytes) for each in code)


def runner(
    machine: Machine, blobs: Mapping[str, bytes]
) -> Callable[[str, Sequence[np.ndarray]], list[np.ndarray]]:
    """What runs programs on a simulated machine."""
    context = load_context()
    read_weights(blobs[WEIGHTS], context.arrays, WEIGHTS)
    module = parse_module(blobs[TEXT].decode(), context)
    functions = {f.sym_name.data: f for f in module.ops if isinstance(f, FuncOp)}

    def run(symbol: str, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        function = functions[symbol]
        _, types = ports_of(function)
        outputs = [np.zeros(shape_of(t), dtype_of(element_type_of(t))) for t in types]
        Simulator(machine).run(function, [*inputs, *outputs])
        return outputs

    return run
