"""Element by element: arithmetic, relu and clip."""

from __future__ import annotations

from xdsl.ir import Attribute, SSAValue

from byocir.dialects.graph import (
    AddOp,
    BinaryOp,
    ClipOp,
    DivOp,
    MulOp,
    ReluOp,
    SubOp,
)
from byocir.dialects.tir.scalar import Emitted
from byocir.dialects.types import element_type_of, i32, i64, shape_of, ui8, ui16, ui32, ui64
from byocir.lowering.graph_to_tir.emit import Emitter
from byocir.lowering.graph_to_tir.registry import cannot_lower, lowers

_OPERATORS: dict[type[BinaryOp], str] = {AddOp: "add", SubOp: "sub", MulOp: "mul", DivOp: "div"}

_SIGNED: dict[Attribute, Attribute] = {ui8: i32, ui16: i32, ui32: i64}
"""The type that unsigned integers are computed in, for bodies know signed ones only."""


def _computed_in(op: BinaryOp | ClipOp, element: Attribute) -> Attribute:
    if element != ui64:
        return _SIGNED.get(element, element)
    if isinstance(op, DivOp | ClipOp):
        raise cannot_lower(op, "bodies cannot compare or divide 64-bit unsigned integers")
    return i64


@lowers(AddOp, SubOp, MulOp, DivOp)
def _arithmetic(emit: Emitter, op: BinaryOp) -> SSAValue:
    element, name = element_type_of(op.result.type), _OPERATORS[type(op)]
    wide = _computed_in(op, element)

    def body(x: Emitted, y: Emitted) -> Emitted:
        return x.to(wide).binary(name, y.to(wide)).to(element)

    return emit.elementwise(shape_of(op.result.type), element, [op.lhs, op.rhs], body)


@lowers(ReluOp)
def _relu(emit: Emitter, op: ReluOp) -> SSAValue:
    element, shape = element_type_of(op.result.type), shape_of(op.result.type)
    return emit.elementwise(shape, element, [op.input], lambda x: x.max(0))


@lowers(ClipOp)
def _clip(emit: Emitter, op: ClipOp) -> SSAValue:
    element = element_type_of(op.result.type)
    wide = _computed_in(op, element)

    def body(x: Emitted) -> Emitted:
        y = x.to(wide)
        if op.min is not None:
            y = y.max(op.min.data.values().item())
        if op.max is not None:
            y = y.min(op.max.data.values().item())
        return y.to(element)

    return emit.elementwise(shape_of(op.result.type), element, [op.input], body)
