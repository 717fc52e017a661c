"""Element by element: arithmetic, extremes, powers, relu and clip."""

from __future__ import annotations

from xdsl.ir import Attribute, SSAValue

from byocir.dialects.graph import (
    AddOp,
    BinaryOp,
    ClipOp,
    DivOp,
    MaxOp,
    MinOp,
    ModOp,
    MulOp,
    PowOp,
    ReluOp,
    SubOp,
)
from byocir.dialects.tir.emit import Emitter
from byocir.dialects.tir.scalar import Emitted, signless
from byocir.dialects.types import (
    element_type_of,
    f64,
    i32,
    i64,
    is_float,
    is_unsigned,
    shape_of,
    ui8,
    ui16,
    ui32,
    ui64,
    width_of,
)
from byocir.lowering.graph_to_tir.operands import accumulator_of, known_values
from byocir.lowering.graph_to_tir.registry import Way, lowers

_OPERATORS: dict[type[BinaryOp], str] = {AddOp: "add", SubOp: "sub", MulOp: "mul", DivOp: "div"}

_SIGNED: dict[Attribute, Attribute] = {ui8: i32, ui16: i32, ui32: i64, ui64: i64}
"""The type that unsigned integers are computed in, for bodies know signed ones only."""


def _computed_in(element: Attribute) -> Attribute:
    return _SIGNED.get(element, element)


def _unsigned(x: Emitted, name: str, y: Emitted | int) -> Emitted:
    """An operator on 64-bit unsigned integers, whose bits bodies hold as signed ones."""
    other = y.signless() if isinstance(y, Emitted) else x.signless().constant(y)
    return x.signless().binary(f"{name}u", other).cast(ui64)


@lowers(AddOp, SubOp, MulOp, DivOp)
def _arithmetic(emit: Emitter, op: BinaryOp) -> SSAValue:
    element, name = element_type_of(op.result.type), _OPERATORS[type(op)]
    wide = _computed_in(element)

    def body(x: Emitted, y: Emitted) -> Emitted:
        if element == ui64 and name == "div":
            return _unsigned(x, name, y)
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


@lowers(ModOp, way=Way.EXTERN)
def _mod(emit: Emitter, op: ModOp) -> SSAValue:
    """Of integers blocks; a remainder that has another sign than the divisor is one divisor off. Of
    floats a routine, for there is no scalar op."""
    element, shape = element_type_of(op.result.type), shape_of(op.result.type)
    wide, towards_zero = _computed_in(element), op.fmod.value.data
    if is_float(element):
        both = [emit.elementwise(shape, element, [x], lambda x: x) for x in (op.lhs, op.rhs)]
        return emit.extern("float_remainder", both, [op.result.type], towards_zero=towards_zero)[0]

    def body(x: Emitted, y: Emitted) -> Emitted:
        if element == ui64:
            return _unsigned(x, "rem", y)
        divisor = y.to(wide)
        rest = x.to(wide).binary("rem", divisor)
        if towards_zero:
            return rest.to(element)
        differs = rest.compare("lt", 0).binary("xor", divisor.compare("lt", 0))
        off = rest.compare("ne", 0).binary("and", differs)
        return off.select(rest + divisor, rest).to(element)

    return emit.elementwise(shape, element, [op.lhs, op.rhs], body)


@lowers(PowOp)
def _pow(emit: Emitter, op: PowOp) -> SSAValue:
    """The square is a product; so is an integer to the power of one, bit by bit of the exponent."""
    element, shape = element_type_of(op.result.type), shape_of(op.result.type)
    exponent, power = known_values(op.rhs), element_type_of(op.rhs.type)
    if exponent is not None and exponent.size == 1 and exponent.item() == 2:
        wide = accumulator_of(signless(element))
        return emit.elementwise(
            shape, element, [op.lhs], lambda x: (x.to(wide) * x.to(wide)).to(element)
        )
    in_integers = not is_float(element) and not is_float(power)
    is_positive = is_unsigned(power) or (exponent is not None and bool((exponent >= 0).all()))

    def body(x: Emitted, y: Emitted) -> Emitted:
        if in_integers:
            raised = _integer_power(x.to(i64), y.to(i64), width_of(power))
            if not is_positive:
                raised = _inverse(x.to(i64), y, raised, is_signed=not is_unsigned(element))
            return raised.to(element)
        wide = accumulator_of(element) if is_float(element) else f64
        return _narrowed(x.to(wide).binary("pow", y.to(wide)), element)

    return emit.elementwise(shape, element, [op.lhs, op.rhs], body)


def _integer_power(x: Emitted, exponent: Emitted, bits: int) -> Emitted:
    """`x` to the power of an exponent, with the low bits of the product; of a negative one right
    for 1 and -1, whose powers ask for its last bit alone."""
    result = x.constant(1)
    for bit in range(bits):
        odd = (exponent >> bit).binary("and", 1).compare("ne", 0)
        result = odd.select(result * x, result)
        x = x * x
    return result


def _inverse(x: Emitted, exponent: Emitted, raised: Emitted, *, is_signed: bool) -> Emitted:
    """The power where the exponent is not negative, else cut towards 0: 0 but for 1 and -1, which
    in bits is the largest number of a type without sign."""
    is_unit = x.compare("eq", 1)
    if is_signed:
        is_unit = is_unit.binary("or", x.compare("eq", -1))
    is_cut = exponent.compare("lt", 0).binary("and", is_unit.compare("eq", 0))
    return is_cut.select(x.constant(0), raised)


def _narrowed(x: Emitted, element: Attribute) -> Emitted:
    """A float as a number of a type, towards zero."""
    return x.to(element) if is_float(element) else x.to(i64).to(element)


@lowers(ReluOp)
def _relu(emit: Emitter, op: ReluOp) -> SSAValue:
    element, shape = element_type_of(op.result.type), shape_of(op.result.type)
    return emit.elementwise(shape, element, [op.input], lambda x: x.max(0))


@lowers(ClipOp)
def _clip(emit: Emitter, op: ClipOp) -> SSAValue:
    element = element_type_of(op.result.type)
    wide = _computed_in(element)
    bounds = [("max", op.min), ("min", op.max)]

    def body(x: Emitted) -> Emitted:
        y = x if element == ui64 else x.to(wide)
        for name, bound in bounds:
            if bound is not None:
                number = bound.data.values().item()
                y = _unsigned(y, name, number) if element == ui64 else y.binary(name, number)
        return y.to(element)

    return emit.elementwise(shape_of(op.result.type), element, [op.input], body)
