"""Element by element: arithmetic, extremes, powers, relu and clip."""

from __future__ import annotations

from xdsl.ir import Attribute, SSAValue

from byocir.dialects.graph import (
    AddOp,
    BinaryOp,
    ClipOp,
    ConstantOp,
    DivOp,
    MaxOp,
    MinOp,
    ModOp,
    MulOp,
    PowOp,
    ReluOp,
    SubOp,
)
from byocir.dialects.tir.scalar import Emitted
from byocir.dialects.types import (
    element_type_of,
    i32,
    i64,
    is_float,
    shape_of,
    ui8,
    ui16,
    ui32,
    ui64,
)
from byocir.lowering.graph_to_tir.emit import Emitter, accumulator_of
from byocir.lowering.graph_to_tir.registry import lowers

_OPERATORS: dict[type[BinaryOp], str] = {AddOp: "add", SubOp: "sub", MulOp: "mul", DivOp: "div"}

_SIGNED: dict[Attribute, Attribute] = {ui8: i32, ui16: i32, ui32: i64}
"""The type that unsigned integers are computed in, for bodies know signed ones only."""


def _computed_in(op: BinaryOp | ClipOp, element: Attribute) -> Attribute | None:
    """None for what 64-bit unsigned integers cannot do in a signed type: compare and divide."""
    if element != ui64:
        return _SIGNED.get(element, element)
    return None if isinstance(op, DivOp | ModOp | ClipOp) else i64


@lowers(AddOp, SubOp, MulOp, DivOp)
def _arithmetic(emit: Emitter, op: BinaryOp) -> SSAValue | None:
    element, name = element_type_of(op.result.type), _OPERATORS[type(op)]
    wide = _computed_in(op, element)
    if wide is None:
        return None

    def body(x: Emitted, y: Emitted) -> Emitted:
        return x.to(wide).binary(name, y.to(wide)).to(element)

    return emit.elementwise(shape_of(op.result.type), element, [op.lhs, op.rhs], body)


@lowers(MaxOp, MinOp)
def _extreme(emit: Emitter, op: MaxOp | MinOp) -> SSAValue:
    element, name = element_type_of(op.result.type), "gt" if isinstance(op, MaxOp) else "lt"

    def body(x: Emitted, y: Emitted) -> Emitted:
        if is_float(element):
            return x.max(y) if isinstance(op, MaxOp) else x.min(y)
        return x.compare(name, y).select(x, y)

    return emit.elementwise(shape_of(op.result.type), element, [op.lhs, op.rhs], body)


@lowers(ModOp)
def _mod(emit: Emitter, op: ModOp) -> SSAValue | None:
    """Of integers; a remainder that has another sign than the divisor is one divisor off."""
    element = element_type_of(op.result.type)
    wide = _computed_in(op, element)
    if is_float(element) or wide is None:
        return None

    def body(x: Emitted, y: Emitted) -> Emitted:
        divisor = y.to(wide)
        rest = x.to(wide).binary("rem", divisor)
        if op.fmod.value.data:
            return rest.to(element)
        differs = rest.compare("lt", 0).binary("xor", divisor.compare("lt", 0))
        off = rest.compare("ne", 0).binary("and", differs)
        return off.select(rest + divisor, rest).to(element)

    return emit.elementwise(shape_of(op.result.type), element, [op.lhs, op.rhs], body)


@lowers(PowOp)
def _pow(emit: Emitter, op: PowOp) -> SSAValue | None:
    """Of floats. The square is a product."""
    element, wide = element_type_of(op.result.type), accumulator_of(element_type_of(op.result.type))
    if not is_float(element):
        return None
    exponent = op.rhs.owner.value.data if isinstance(op.rhs.owner, ConstantOp) else None
    shape = shape_of(op.result.type)
    if exponent is not None and exponent.size == 1 and exponent.values().item() == 2:
        return emit.elementwise(
            shape, element, [op.lhs], lambda x: (x.to(wide) * x.to(wide)).to(element)
        )

    def body(x: Emitted, y: Emitted) -> Emitted:
        return x.to(wide).binary("pow", y.to(wide)).to(element)

    return emit.elementwise(shape, element, [op.lhs, op.rhs], body)


@lowers(ReluOp)
def _relu(emit: Emitter, op: ReluOp) -> SSAValue:
    element, shape = element_type_of(op.result.type), shape_of(op.result.type)
    return emit.elementwise(shape, element, [op.input], lambda x: x.max(0))


@lowers(ClipOp)
def _clip(emit: Emitter, op: ClipOp) -> SSAValue | None:
    element = element_type_of(op.result.type)
    wide = _computed_in(op, element)
    if wide is None:
        return None

    def body(x: Emitted) -> Emitted:
        y = x.to(wide)
        if op.min is not None:
            y = y.max(op.min.data.values().item())
        if op.max is not None:
            y = y.min(op.max.data.values().item())
        return y.to(element)

    return emit.elementwise(shape_of(op.result.type), element, [op.input], body)
