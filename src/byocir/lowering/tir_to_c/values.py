"""Finds the buffers, branches and callees of a function's ops and values for its program."""

from __future__ import annotations

from xdsl.dialects.func import CallOp as FuncCallOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, OpResult, SSAValue

from byocir.dialects.graph import ForeignOp
from byocir.dialects.open_values import is_open
from byocir.dialects.tir import ExternOp
from byocir.dialects.types import element_type_of, i64, static_shape, tensor
from byocir.lowering.tir_to_c.steps import ARENA, KEPT, Buffer


def buffer_of(value: OpResult) -> Buffer:
    """Gives a new buffer for what an op makes."""
    op = value.op
    bound = op.bound(value.index) if isinstance(op, ExternOp) else None
    if bound is not None and static_shape(value.type) is None:
        sizes = Buffer(tensor(i64, [len(bound)]), ARENA)
        return Buffer(tensor(element_type_of(value.type), bound), ARENA, sizes=sizes)
    return Buffer(value.type, KEPT if is_open(value.type) else ARENA)


def is_outlined(op: ForeignOp) -> bool:
    """Tells if the graphs of an If are calls of functions."""
    return op.op_type.data == "If" and any(isinstance(i, FuncCallOp) for i in op.walk())


def is_given(value: SSAValue) -> bool:
    """Tells if a value is an argument of a function."""
    return isinstance(value.owner, Block) and isinstance(value.owner.parent_op(), FuncOp)


def functions_of(function: FuncOp) -> dict[str, FuncOp]:
    """Gives the functions that a function can call, by name."""
    module = function.parent_op()
    found = [op for op in module.walk() if isinstance(op, FuncOp)] if module else []
    return {other.sym_name.data: other for other in found}
