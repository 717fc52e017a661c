"""Comparisons, logic, bits and choices, element by element."""

from __future__ import annotations

from xdsl.ir import SSAValue

from byocir.dialects import graph as g
from byocir.dialects.tir.emit import Emitter
from byocir.dialects.tir.scalar import Emitted
from byocir.dialects.types import element_type_of, i1, i64, shape_of, width_of
from byocir.lowering.graph_to_tir.registry import lowers

_COMPARISONS: dict[type[g.CompareOp], str] = {
    g.EqualOp: "eq",
    g.GreaterOp: "gt",
    g.GreaterOrEqualOp: "ge",
    g.LessOp: "lt",
    g.LessOrEqualOp: "le",
}


@lowers(*_COMPARISONS)
def _compare(emit: Emitter, op: g.CompareOp) -> SSAValue:
    name = _COMPARISONS[type(op)]
    shape = shape_of(op.result.type)
    return emit.elementwise(shape, i1, [op.lhs, op.rhs], lambda x, y: x.compare(name, y))


_BITS: dict[type[g.BinaryOp], str] = {
    g.AndOp: "and",
    g.BitwiseAndOp: "and",
    g.BitwiseOrOp: "or",
    g.BitwiseXorOp: "xor",
    g.OrOp: "or",
    g.XorOp: "xor",
}


@lowers(*_BITS)
def _bits(emit: Emitter, op: g.BinaryOp) -> SSAValue:
    name, element = _BITS[type(op)], element_type_of(op.result.type)

    def body(x: Emitted, y: Emitted) -> Emitted:
        return x.signless().binary(name, y.signless()).cast(element)

    return emit.elementwise(shape_of(op.result.type), element, [op.lhs, op.rhs], body)


@lowers(g.BitwiseNotOp, g.NotOp)
def _not(emit: Emitter, op: g.UnaryOp) -> SSAValue:
    element = element_type_of(op.result.type)
    ones = 1 if element == i1 else -1

    def body(x: Emitted) -> Emitted:
        return x.signless().binary("xor", ones).cast(element)

    return emit.elementwise(shape_of(op.result.type), element, [op.input], body)


@lowers(g.BitShiftOp)
def _shift(emit: Emitter, op: g.BitShiftOp) -> SSAValue:
    """In a wider type, which knows unsigned numbers from negative ones, if there is one."""
    element = element_type_of(op.result.type)
    width, left = width_of(element), op.direction.data == "LEFT"

    def body(x: Emitted, distance: Emitted) -> Emitted:
        if width == 64:  # a distance beyond 2^63 is negative, and gives 0 as it should
            name = "shl" if left else "shru"
            return x.signless().binary(name, distance.signless()).cast(element)
        wide, far = x.to(i64), distance.to(i64)
        shifted = wide.binary("shl" if left else "shr", far.min(width - 1))
        return far.compare("lt", width).select(shifted, 0).to(element)

    return emit.elementwise(shape_of(op.result.type), element, [op.lhs, op.rhs], body)


@lowers(g.IsNanOp)
def _is_nan(emit: Emitter, op: g.IsNanOp) -> SSAValue:
    shape = shape_of(op.result.type)
    return emit.elementwise(shape, i1, [op.input], lambda x: x.compare("ne", x))


@lowers(g.IsInfOp)
def _is_inf(emit: Emitter, op: g.IsInfOp) -> SSAValue:
    asked = [
        number
        for flag, number in (
            (op.detect_negative, float("-inf")),
            (op.detect_positive, float("inf")),
        )
        if flag.value.data
    ]

    def body(x: Emitted) -> Emitted:
        result = x.compare("eq", asked[0]) if asked else x.compare("lt", float("-inf"))
        for number in asked[1:]:
            result = result.binary("or", x.compare("eq", number))
        return result

    return emit.elementwise(shape_of(op.result.type), i1, [op.input], body)


@lowers(g.WhereOp)
def _where(emit: Emitter, op: g.WhereOp) -> SSAValue:
    shape, element = shape_of(op.result.type), element_type_of(op.result.type)
    return emit.elementwise(
        shape, element, [op.condition, op.lhs, op.rhs], lambda c, x, y: c.select(x, y)
    )
