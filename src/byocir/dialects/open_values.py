"""Finds values that no C array holds: those of open shape, which only a run tells, and those that
are no numbers.

Such a value comes from somewhere: an input of open shape, or an op whose result's size depends on
what its operands hold, as that of NonZero does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, IndexType, MemRefType, StringAttr
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Attribute, Operation, OpResult, SSAValue
from xdsl.ir import BlockArgument as Argument
from xdsl.traits import SymbolTable

from byocir.dialects.byoc.records import DIMS, NAME
from byocir.dialects.graph.foreign import ForeignOp
from byocir.dialects.locations import names
from byocir.dialects.tir.ops import ExternOp
from byocir.dialects.types import element_type_of, has_element, static_shape


def is_open(type_: Attribute) -> bool:
    """Tells if a type leaves a size to the run, or has elements that nothing computes with. Numbers
    of type `index` and memrefs are never open.
    """
    if isinstance(type_, IndexType | MemRefType):
        return False
    return static_shape(type_) is None or not has_element(element_type_of(type_))


def read_by(op: Operation) -> list[SSAValue]:
    """Lists the values that an op reads: its operands, and those from outside that the graphs of a
    foreign op use.
    """
    return [*op.operands, *(op.captures() if isinstance(op, ForeignOp) else [])]


@dataclass(frozen=True)
class Origin:
    """Names the place where a value became open: an input of the function, or the op that
    made it."""

    value: SSAValue

    @property
    def is_input(self) -> bool:
        return isinstance(self.value, Argument)

    @property
    def is_loop(self) -> bool:
        op = self.value.owner
        return isinstance(op, ForeignOp) and op.op_type.data == "Loop"

    @property
    def name(self) -> str:
        """Gives the name that messages show: `input 'x'` or `node 'nms' (NonMaxSuppression)`."""
        if isinstance(self.value, Argument):
            return f"input '{_port(self.value, NAME)}'"
        op = cast(Operation, self.value.owner)
        kind = op.kind if isinstance(op, ForeignOp) else op.name
        kind = op.routine.data if isinstance(op, ExternOp) else kind
        nodes = ", ".join(f"'{name}'" for name in names(op.location))
        return f"node {nodes} ({kind})" if nodes else kind

    @property
    def pin(self) -> str:
        """Gives the option that pins the sizes of an input, e.g. `x=batch,3,8`; empty for other
        values."""
        if not isinstance(self.value, Argument):
            return ""
        return f"{_port(self.value, NAME)}={_port(self.value, DIMS) or 'D,D,…'}"

    def __str__(self) -> str:
        return f"{self.name}, {self.value.type}"


def origins(values: Iterable[SSAValue]) -> list[Origin]:
    """Finds where the open ones among some values became so, each place once."""
    found: dict[object, Origin] = {}
    seen: set[SSAValue] = set()
    rest = [value for value in values if is_open(value.type)][::-1]
    while rest:
        value = rest.pop()
        if value in seen:
            continue
        seen.add(value)
        before = _open_before(value)
        if not before:
            found.setdefault(value if isinstance(value, Argument) else value.owner, Origin(value))
        rest += before[::-1]
    return list(found.values())


def _open_before(value: SSAValue) -> list[SSAValue]:
    return [before for before in _before(value) if is_open(before.type)]


def _before(value: SSAValue) -> list[SSAValue]:
    """Lists the values that a value was made from. Of a call these are what the called function
    returns, of an If what its graphs yield.
    """
    if isinstance(value, Argument):
        calls = _calls_of(value.block.parent_op())
        return [call.operands[value.index] for call in calls]
    assert isinstance(value, OpResult)
    op = value.op
    if isinstance(op, CallOp):
        callee = SymbolTable.lookup_symbol(op, op.callee)
        last = callee.body.block.last_op if isinstance(callee, FuncOp) else None
        return [last.operands[value.index]] if last is not None else list(op.operands)
    if isinstance(op, ForeignOp) and op.op_type.data == "If":
        there = [i for i, present in enumerate(op.present_outputs()) if present]
        ends = [graph.block.last_op for graph in op.graphs]
        return [end.operands[there[value.index]] for end in ends if end is not None]
    return read_by(op)


def _calls_of(function: Operation | None) -> list[CallOp]:
    module = function.parent_op() if isinstance(function, FuncOp) else None
    if module is None or not isinstance(function, FuncOp):
        return []
    name, calls = function.sym_name.data, (op for op in module.walk() if isinstance(op, CallOp))
    return [call for call in calls if call.callee.string_value() == name]


def listed(found: Sequence[Origin], most: int = 3) -> str:
    """Words the first few of some origins, and how many more there are."""
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return "; ".join(map(str, found[:most])) + more


def how_to_close(found: Sequence[Origin]) -> str:
    """Words the help line on how to give open values a static shape."""
    pins = " ".join(f"--shape {origin.pin}" for origin in found if origin.is_input)
    ops = ", ".join(dict.fromkeys(origin.name for origin in found if not origin.is_input))
    help_ = [f"pin the sizes of the inputs, {pins}"] if pins else []
    if ops:
        help_.append(f"let the model end before {ops}, or replace it by what has a static shape")
    if any(origin.is_loop for origin in found):
        help_.append("a loop with a constant number of turns has one")
    return "; ".join(help_)


def _port(argument: Argument, attribute: str) -> str:
    """Reads what the function notes about an argument: its name, or its sizes as the model names
    them.
    """
    function = argument.block.parent_op()
    entries = function.arg_attrs if isinstance(function, FuncOp) else None
    told = entries.data[argument.index].data.get(attribute) if entries is not None else None
    if isinstance(told, StringAttr):
        return told.data
    if isinstance(told, ArrayAttr):
        return ",".join(size.data for size in cast("ArrayAttr[StringAttr]", told))
    return f"arg{argument.index}" if attribute == NAME else ""
