"""Writes in C what a net of oneDNN is made of: sizes, types, numbers, functions of each element."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from xdsl.ir import Attribute, Operation, SSAValue

from byocir.dialects.byoc import stored
from byocir.dialects.graph import ConstantOp
from byocir.dialects.types import Shape, bf16, element_type_of, f32, i8, i32, shape_of, ui8
from byocir.patterns.match import python_value
from byocir.targets.dnnl.patterns import BINARY, FLOATS, FUNCTIONS, LARGEST

TYPES: dict[Attribute, str] = {
    bf16: "dnnl_bf16",
    f32: "dnnl_f32",
    i32: "dnnl_s32",
    i8: "dnnl_s8",
    ui8: "dnnl_u8",
}


def sizes(value: SSAValue) -> Shape:
    """Gives the shape of a value for oneDNN, which has no arrays of rank 0: those get shape
    (1,).
    """
    return shape_of(value.type) or (1,)


def aligned(shape: Shape, rank: int) -> Shape:
    """Extends a shape by dimensions of size 1 in front to this rank: [3, 4] of rank 4 -> [1, 1, 3,
    4].
    """
    return (*[1] * (rank - len(shape)), *shape)


def along(value: SSAValue, rank: int, axis: int) -> Shape:
    """Gives the shape in which numbers along an axis broadcast to an array of this rank: [C] along
    axis 1 of 4 -> [1, C, 1, 1].
    """
    shape = [1] * rank
    if shape_of(value.type):
        (shape[axis],) = shape_of(value.type)
    return tuple(shape)


def other_operand(op: Operation, value: SSAValue) -> SSAValue:
    """Finds the other operand of an op on two."""
    return op.operands[1 if op.operands[0] is value else 0]


def numbers_of(value: SSAValue) -> np.ndarray:
    """Reads the numbers of a constant."""
    assert isinstance(value.owner, ConstantOp)
    return stored(value.owner).values()


def number_of(value: SSAValue) -> float:
    """Reads the only number of a constant."""
    return float(numbers_of(value).reshape(-1)[0])


def is_float(value: SSAValue) -> bool:
    """Tells if a value holds floats."""
    return element_type_of(value.type) in FLOATS


def is_result_of(value: SSAValue, op: Operation, after: Sequence[Operation]) -> bool:
    """Tells if a value is the result of one of these ops."""
    return any(value.owner is each for each in (op, *after))


def fits_rows(added: Shape, shape: Shape) -> bool:
    """Tells if an array can be added to a stack of matrices that is computed as one matrix of all
    rows: it has the same shape, or is one row.
    """
    return added == shape or prod(added[:-1]) == 1


def in_rows(found: Shape, rows: Shape, shape: Shape) -> Shape:
    """Gives the shape in which an array is broadcast to a result that is computed as this many
    rows.
    """
    if found == shape:
        return rows
    return aligned(found, len(rows)) if rows == shape else (1, found[-1])


def attributes(op: Operation) -> dict[str, Any]:
    """Gives the attributes of an op as plain values."""
    return {name: python_value(a) for name, a in op.properties.items()}


def function_of(op: Operation, value: SSAValue) -> str | None:
    """Finds oneDNN's function of each element that an op computes of a value, with its numbers;
    None if there is none.
    """
    if op.name in FUNCTIONS:
        kind, *numbers = FUNCTIONS[op.name](attributes(op))
        return ", ".join([f"dnnl_eltwise_{kind}", *map(c_number, numbers)])
    if op.name not in BINARY or isinstance(value.owner, ConstantOp):
        return None
    other, is_first = other_operand(op, value), op.operands[0] is value
    constant = other.owner
    if not isinstance(constant, ConstantOp) or stored(constant).size != 1:
        return None
    if sizes(op.results[0]) != sizes(value) or not is_float(value):
        return None
    number = number_of(other)
    with np.errstate(divide="ignore", over="ignore"):
        inverse = float(np.float32(1) / np.float32(number))
    known: dict[str, tuple[str, float, float]] = {
        "add": ("linear", 1.0, number),
        "sub": ("linear", 1.0, -number) if is_first else ("linear", -1.0, number),
        "mul": ("linear", number, 0.0),
        "div": ("linear", inverse, 0.0),
        "max": ("clip_v2", number, LARGEST),
        "min": ("clip_v2", -LARGEST, number),
    }
    kind = BINARY[op.name]
    if kind == "div" and not (is_first and np.isfinite(inverse)):
        return None
    name, *numbers = known[kind]
    return ", ".join([f"dnnl_eltwise_{name}", *map(c_number, numbers)])


def spelled_out(ops: Sequence[Operation]) -> str:
    """Names oneDNN's function of each element that several ops spell out."""
    names = {op.name for op in ops}
    if "graph.erf" in names:
        return "dnnl_eltwise_gelu_erf, 0.0f, 0.0f"
    if "graph.clip" in names:
        return f"dnnl_eltwise_hardswish, {c_number(1 / 6)}, 0.5f"
    if "graph.softplus" in names:
        return "dnnl_eltwise_mish, 0.0f, 0.0f"
    return "dnnl_eltwise_swish, 1.0f, 0.0f"


def readers(value: SSAValue, ops: Sequence[Operation]) -> list[Operation]:
    """Lists those of these ops that read a value."""
    return [op for op in ops if value in op.operands]


def c_number(value: float) -> str:
    """Writes a float in C."""
    if not np.isfinite(np.float32(value)):
        return "0.0f / 0.0f" if np.isnan(value) else f"{1 if value > 0 else -1}.0f / 0.0f"
    return f"{float(np.float32(value)).hex()}f"


def c_sizes(values: Sequence[int]) -> str:
    """Writes sizes as an array in C."""
    return f"(const dnnl_dims_t){{{', '.join(map(str, values))}}}"


def c_dims(shape: Shape) -> str:
    """Writes the two arguments of a C call that give a shape."""
    return f"{len(shape)}, {c_sizes(shape)}"


def c_type(value: SSAValue) -> str:
    """Writes the three arguments of a C call that give the type of a value."""
    return f"{TYPES[element_type_of(value.type)]}, {c_dims(sizes(value))}"
