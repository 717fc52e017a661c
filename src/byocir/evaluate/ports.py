"""Finds the inputs and outputs of functions, on tensors or in memory.

A function in memory has no results: it takes its inputs and then memrefs for its outputs, which are
those that it writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.dialects import func, memref
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    IntegerAttr,
    MemRefType,
    StringAttr,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue

from byocir.dialects import byoc
from byocir.dialects.byoc import NAME
from byocir.dialects.tir import BlockOp, CopyOp, FillOp
from byocir.errors import ByocirError

INPUTS = "inputs"
"""The attribute of a function in memory that counts its inputs. Behind them come arrays of its
callers, which it writes."""


def is_in_memory(function: FuncOp) -> bool:
    """Tells if a function takes memrefs and has no results."""
    types = function.function_type
    found = any(isinstance(type_, MemRefType) for type_ in types.inputs)
    return found and not types.outputs.data


def ports_of(function: FuncOp) -> tuple[list[Attribute], list[Attribute]]:
    """Gives the types of a function's inputs and of its outputs. Raises ByocirError B340 for one in
    memory that writes an argument in front of one that it does not write."""
    types = function.function_type
    inputs, outputs = list(types.inputs), list(types.outputs)
    if not is_in_memory(function) or function.is_declaration:
        return inputs, outputs
    written = written_in(function)
    is_output = [arg in written for arg in function.body.block.args]
    count = is_output.index(True) if True in is_output else len(is_output)
    if not all(is_output[count:]):
        later = is_output.index(False, count)
        raise ByocirError(
            "B340",
            f"expected inputs, then outputs as arguments of @{function.sym_name.data}, found "
            f"argument {count} written and argument {later} not",
            help="put the memrefs that the function writes last",
        )
    return inputs[:count], inputs[count:]


def port_names(attributes: ArrayAttr[DictionaryAttr] | None, count: int, default: str) -> list[str]:
    """Gives the names of arguments or results."""
    names: list[Attribute | None] = [None] * count
    if attributes is not None:
        names = [dictionary.data.get(NAME) for dictionary in attributes]
    return [
        name.data if isinstance(name, StringAttr) else f"{default}{i}"
        for i, name in enumerate(names)
    ]


def names_of(function: FuncOp) -> tuple[list[str], list[str]]:
    """Gives the names of a function's inputs and of its outputs."""
    inputs, outputs = ports_of(function)
    if outputs and not function.function_type.outputs.data:
        found = port_names(function.arg_attrs, len(inputs) + len(outputs), "arg")
        return found[: len(inputs)], found[len(inputs) :]
    return (
        port_names(function.arg_attrs, len(inputs), "arg"),
        port_names(function.res_attrs, len(outputs), "res"),
    )


def written_in(around: Operation) -> set[SSAValue]:
    """Lists the memrefs that a function, or another op with ops inside, writes."""
    same: dict[SSAValue, SSAValue] = {}
    written: set[SSAValue] = set()
    for op in around.walk():
        if isinstance(op, byoc.CompositeOp | byoc.RegionOp):
            same.update(zip(op.body.block.args, op.operands, strict=False))
        written.update(_written(op))
    for value in list(written):
        while value in same:
            value = same[value]
            written.add(value)
    return written


def _written(op: Operation) -> Iterator[SSAValue]:
    if isinstance(op, BlockOp):
        yield from op.outs
    elif isinstance(op, FillOp):
        yield from op.operands
    elif isinstance(op, CopyOp):
        yield op.destination
    elif isinstance(op, memref.StoreOp):
        yield op.memref
    elif isinstance(op, func.CallOp | byoc.CallOp):
        yield from _written_by_call(op)


def _written_by_call(op: func.CallOp | byoc.CallOp) -> Sequence[SSAValue]:
    top: Operation = op
    while (parent := top.parent_op()) is not None:
        top = parent
    functions = (f for f in top.walk() if isinstance(f, FuncOp))
    callee = next((f for f in functions if f.sym_name.data == op.callee.string_value()), None)
    if callee is None:
        return op.operands
    count = callee.attributes.get(INPUTS)
    if isinstance(count, IntegerAttr):  # a routine, or code
        return op.operands[count.value.data :]
    if callee.is_declaration:
        return op.operands
    written = written_in(callee)
    pairs = zip(callee.body.block.args, op.operands, strict=True)
    return [value for arg, value in pairs if arg in written]
