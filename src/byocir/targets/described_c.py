"""Writes programs of described machines as C: a table of the code of each, and the statements by
which the machine issues an entry.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any, cast

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from byocir.dialects.tir import AllocOp, ConstantOp, scope_of
from byocir.dialects.types import element_type_of, shape_of
from byocir.errors import ByocirError
from byocir.evaluate.ports import ports_of
from byocir.lowering.tir_to_c.literals import defined_array, initialiser, stored_type
from byocir.machine import Machine
from byocir.targets.described import functions_of
from byocir.targets.device import ARRAYS, CFunctions, c_name


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
