"""Helps all passes on the way to VTA: finds the functions they act on, restates what their calls
exchange, and makes their errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import cast

from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from byocir.dialects.byoc import TARGET, CallOp, CompositeOp, TargetAttr
from byocir.dialects.locations import names
from byocir.dialects.tir import BlockOp, ConstantOp
from byocir.dialects.uses import replace_uses, set_operand
from byocir.dialects.vta_config import VTA
from byocir.errors import ByocirError
from byocir.patterns.targets import machine_name


def vta_functions(module: ModuleOp) -> list[FuncOp]:
    """Lists the functions of a module that were handed to VTA."""
    return [op for op in module.ops if isinstance(op, FuncOp) and _is_for_vta(op)]


def _is_for_vta(function: FuncOp) -> bool:
    target = function.attributes.get(TARGET)
    is_vta = isinstance(target, TargetAttr) and machine_name(target) == VTA
    return is_vta and not function.is_declaration


def outside_of(composite: CompositeOp) -> Mapping[SSAValue, SSAValue]:
    """Gives what the arguments of a composite's body stand for."""
    return dict[SSAValue, SSAValue](zip(composite.body.block.args, composite.inputs, strict=True))


def sink_constants(composite: CompositeOp) -> None:
    """Moves constants among the operands of a composite into its body."""
    body = composite.body.block
    kept: list[SSAValue] = []
    for argument, value in zip(list(body.args), list(composite.inputs), strict=True):
        if not isinstance(value.owner, ConstantOp):
            kept.append(value)
            continue
        copy = value.owner.clone()
        copy.location = value.owner.location
        first = body.first_op
        assert first is not None
        body.insert_op_before(copy, first)
        replace_uses(argument, copy.result)
        body.erase_arg(argument)
    composite.operands = kept


def pass_in(call: CallOp, index: int, ops: Sequence[Operation]) -> None:
    """Makes the result of new ops, the last one's, an input of a call."""
    Rewriter.insert_op(ops, InsertPoint.before(call))
    set_operand(call, index, ops[-1].results[0])


def take_out(
    call: CallOp, result: SSAValue, type_: Attribute, back: Callable[[SSAValue], list[Operation]]
) -> None:
    """Gives a result of a call another type; what used it uses the result of ops that bring it
    back, the last one's.
    """
    users = list(result.uses)
    ops = back(Rewriter.replace_value_with_new_type(result, type_))
    Rewriter.insert_op(ops, InsertPoint.after(call))
    for use in users:
        set_operand(use.operation, use.index, ops[-1].results[0])


def number_around(block: BlockOp, operand: int) -> IntegerAttr | None:
    """Gives the pad of an input of integers; None where all reads are inside."""
    pad = block.pad_values[operand]
    assert pad is None or isinstance(pad, IntegerAttr)
    return cast("IntegerAttr | None", pad)


def unsupported(code: str, message: str, op: Operation, *, help: str = "") -> ByocirError:
    """Makes the error that VTA cannot do what this op of a composite asks for."""
    return ByocirError(code, message, where=_where(op), help=help)


def _where(op: Operation) -> str:
    parents = list(_ancestors(op))
    composite = next((p for p in parents if isinstance(p, CompositeOp)), None)
    function = next((p for p in parents if isinstance(p, FuncOp)), None)
    nodes = names(op.location) or names(composite.location if composite else op.location)
    parts = [f"node {', '.join(nodes)}" if nodes else f"a {op.name} without location"]
    if composite is not None:
        parts.append(f"composite {composite.pattern.data}")
    if function is not None:
        parts.append(f"function @{function.sym_name.data}")
    return ", ".join(parts)


def _ancestors(op: Operation) -> Iterator[Operation]:
    current: Operation | None = op
    while current is not None:
        yield current
        current = current.parent_op()
