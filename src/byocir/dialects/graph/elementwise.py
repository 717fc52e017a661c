"""Defines arithmetic on two tensors that broadcast, choices and conversions of elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, prop_def, result_def

from byocir.dialects.array import known_values
from byocir.dialects.checks import expect
from byocir.dialects.definition import irdl_op_definition
from byocir.dialects.graph.base import (
    INT,
    Broadcasts,
    Exact,
    GraphOp,
    KeepsShape,
    OneInputOp,
    Way,
    broadcast,
    expect_flag,
    is_number,
    may_lack,
    shapes,
    undefined,
)
from byocir.dialects.graph.operands import accumulator_of
from byocir.dialects.intervals import integer_range
from byocir.dialects.tir.emit import Emitter
from byocir.dialects.tir.scalar import Emitted, signless
from byocir.dialects.types import (
    dtype_of,
    element_type_of,
    f64,
    has_element,
    i1,
    i32,
    i64,
    is_float,
    is_integer,
    is_unsigned,
    shape_of,
    tensor,
    ui8,
    ui16,
    ui32,
    ui64,
    width_of,
)


class BinaryOp(Broadcasts, GraphOp):
    """Defines what ops on two tensors of one element type share: the tensors broadcast, and numbers
    go in and come out, unless a subclass says otherwise.
    """

    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)
    result = result_def(TensorType)
    assembly_format = "$lhs `,` $rhs attr-dict `:` functional-type(operands, results)"

    def check(self, lhs: Attribute, rhs: Attribute) -> None:
        """Raises VerifyException for element types or properties that are not allowed."""
        expect(lhs == rhs, lambda: f"expected operands of one element type, found {lhs} and {rhs}")
        expect(is_number(lhs), lambda: f"expected operands of numbers, found {lhs}")

    def element(self, operand: Attribute) -> Attribute:
        """Gives the result's element type for operands of this one."""
        return operand

    def infer(self) -> Sequence[TensorType]:
        lhs, rhs = element_type_of(self.lhs.type), element_type_of(self.rhs.type)
        self.check(lhs, rhs)
        return [tensor(self.element(lhs), broadcast(*shapes([self.lhs, self.rhs])))]

    @may_lack
    def body(self, x: Emitted, y: Emitted) -> Emitted:
        """Computes the result of two elements."""
        raise undefined(self, "it has no definition")

    def define(self, emit: Emitter) -> SSAValue:
        """Makes one block over all elements of the result."""
        shape, element = shape_of(self.result.type), element_type_of(self.result.type)
        return emit.elementwise(shape, element, [self.lhs, self.rhs], self.body)


class ArithmeticOp(Exact, BinaryOp):
    """Defines what the ops share that are operators on two numbers of one type, of the same name;
    integers keep the low bits."""

    def body(self, x: Emitted, y: Emitted) -> Emitted:
        operator, wide = self.name.removeprefix("graph."), computed_in(x.type)
        if x.type == ui64 and operator == "div":
            return unsigned(x, operator, y)
        return x.to(wide).binary(operator, y.to(wide)).to(x.type)


@irdl_op_definition
class AddOp(ArithmeticOp):
    """Adds two elements, e.g. `graph.add %a, %b : (tensor<8x4xi32>, tensor<4xi32>) ->
    tensor<8x4xi32>`. Integers wrap around.
    """

    name = "graph.add"


@irdl_op_definition
class SubOp(ArithmeticOp):
    """Subtracts the right element from the left one, e.g. `graph.sub %a, %b : (tensor<8x4xf32>,
    tensor<4xf32>) -> tensor<8x4xf32>`. Integers wrap around.
    """

    name = "graph.sub"


@irdl_op_definition
class MulOp(ArithmeticOp):
    """Multiplies two elements, e.g. `graph.mul %a, %b : (tensor<8x4xf32>, tensor<4xf32>) ->
    tensor<8x4xf32>`. Integers wrap around.
    """

    name = "graph.mul"


@irdl_op_definition
class DivOp(ArithmeticOp):
    """Divides the left element by the right one, e.g. `graph.div %a, %b : (tensor<8x4xf32>,
    tensor<4xf32>) -> tensor<8x4xf32>`. Integers round towards zero.
    """

    name = "graph.div"


@irdl_op_definition
class MaxOp(Exact, BinaryOp):
    """Gives the greater of two elements, NaN if one is, e.g. `graph.max %a, %b : (tensor<8x4xf32>,
    tensor<4xf32>) -> tensor<8x4xf32>`.
    """

    name = "graph.max"

    def body(self, x: Emitted, y: Emitted) -> Emitted:
        return x.max(y) if is_float(x.type) else x.compare("gt", y).select(x, y)


@irdl_op_definition
class MinOp(Exact, BinaryOp):
    """Gives the smaller of two elements, NaN if one is, e.g. `graph.min %a, %b : (tensor<8x4xf32>,
    tensor<4xf32>) -> tensor<8x4xf32>`.
    """

    name = "graph.min"

    def body(self, x: Emitted, y: Emitted) -> Emitted:
        return x.min(y) if is_float(x.type) else x.compare("lt", y).select(x, y)


@irdl_op_definition
class ModOp(Exact, BinaryOp):
    """Gives the remainder of a division: with `fmod = 0`, of integers only, it has the sign of the
    divisor, with `fmod = 1` that of the dividend, e.g. `graph.mod %a, %b {fmod = 0 : i64} :
    (tensor<8x4xi32>, tensor<4xi32>) -> tensor<8x4xi32>`.
    """

    name = "graph.mod"
    WAY: ClassVar[Way] = Way.EXTERN

    fmod = prop_def(INT)

    def check(self, lhs: Attribute, rhs: Attribute) -> None:
        super().check(lhs, rhs)
        fmod = expect_flag("fmod", self.fmod)
        expect(bool(fmod) or not is_float(lhs), f"expected fmod 1 for {lhs}, found 0")

    def define(self, emit: Emitter) -> SSAValue:
        """Emits a call of a routine for floats, which have no scalar op for that."""
        shape, element = shape_of(self.result.type), element_type_of(self.result.type)
        if not is_float(element):
            return super().define(emit)
        both = [emit.elementwise(shape, element, [x], lambda x: x) for x in (self.lhs, self.rhs)]
        numbers = {"towards_zero": self.fmod.value.data}
        return emit.extern("float_remainder", both, [self.result.type], **numbers)[0]

    def body(self, x: Emitted, y: Emitted) -> Emitted:
        """Adds the divisor to a remainder that has another sign than the divisor."""
        element = x.type
        if element == ui64:
            return unsigned(x, "rem", y)
        divisor = y.to(computed_in(element))
        rest = x.to(divisor.type).binary("rem", divisor)
        if self.fmod.value.data:
            return rest.to(element)
        differs = rest.compare("lt", 0).binary("xor", divisor.compare("lt", 0))
        off = rest.compare("ne", 0).binary("and", differs)
        return off.select(rest + divisor, rest).to(element)


@irdl_op_definition
class PowOp(BinaryOp):
    """Computes the power `lhs^rhs`, of the base's element type, e.g. `graph.pow %a, %b :
    (tensor<8x4xf32>, tensor<4xi32>) -> tensor<8x4xf32>`. Integers wrap around; to powers below 0
    they give `1 / lhs^-rhs` rounded towards zero, and 0 where lhs is 0.
    """

    name = "graph.pow"

    def check(self, lhs: Attribute, rhs: Attribute) -> None:
        for element in (lhs, rhs):
            expect(is_number(element), f"expected operands of numbers, found {element}")

    def define(self, emit: Emitter) -> SSAValue:
        """Emits a product for the square, else the body for each element."""
        shape, element = shape_of(self.result.type), element_type_of(self.result.type)
        exponent = known_values(self.rhs)
        if exponent is None or exponent.size != 1 or exponent.item() != 2:
            return super().define(emit)
        wide = accumulator_of(signless(element))
        return emit.elementwise(
            shape, element, [self.lhs], lambda x: (x.to(wide) * x.to(wide)).to(element)
        )

    def body(self, x: Emitted, y: Emitted) -> Emitted:
        """Computes integers to the power of one by a product for each bit of the exponent."""
        element, power = x.type, y.type
        if is_float(element) or is_float(power):
            wide = accumulator_of(element) if is_float(element) else f64
            return _narrowed(x.to(wide).binary("pow", y.to(wide)), element)
        raised = _integer_power(x.to(i64), y.to(i64), width_of(power))
        exponent = known_values(self.rhs)
        if not is_unsigned(power) and (exponent is None or bool((exponent < 0).any())):
            raised = _inverse(x.to(i64), y, raised, is_signed=not is_unsigned(element))
        return raised.to(element)


@irdl_op_definition
class WhereOp(Exact, Broadcasts, GraphOp):
    """Gives `lhs` where the condition is true, else `rhs`; all three broadcast, e.g. `graph.where
    %c, %a, %b : (tensor<8x1xi1>, tensor<8x4xf32>, tensor<f32>) -> tensor<8x4xf32>`.
    """

    name = "graph.where"

    condition = operand_def(TensorType)
    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)
    result = result_def(TensorType)

    def infer(self) -> Sequence[TensorType]:
        condition, lhs, rhs = (element_type_of(value.type) for value in self.operands)
        expect(condition == i1, f"expected a condition of i1, found {condition}")
        expect(lhs == rhs, lambda: f"expected operands of one element type, found {lhs} and {rhs}")
        return [tensor(lhs, broadcast(*shapes(self.operands)))]

    def define(self, emit: Emitter) -> SSAValue:
        shape, element = shape_of(self.result.type), element_type_of(self.result.type)
        return emit.elementwise(
            shape, element, [self.condition, self.lhs, self.rhs], lambda c, x, y: c.select(x, y)
        )


@irdl_op_definition
class CastOp(KeepsShape, Exact, OneInputOp):
    """Converts numbers to element type `to`, e.g. `graph.cast %x {to = i32} : (tensor<8x4xf32>) ->
    tensor<8x4xi32>`. Floats become integers towards zero; those that do not fit saturate, and NaN
    is 0 (ONNX leaves both open). Integers keep their low bits. What is not 0 is true.
    """

    name = "graph.cast"

    to = prop_def(Attribute)

    def infer(self) -> Sequence[TensorType]:
        expect(has_element(self.to), f"expected to of a number type or i1, found {self.to}")
        return [tensor(self.to, shape_of(self.input.type))]

    def define(self, emit: Emitter) -> SSAValue:
        source, target = element_type_of(self.input.type), self.to

        def body(x: Emitted) -> Emitted:
            if target == i1 and source != i1:
                return x.compare("ne", x.constant(0))
            if is_float(source) and is_integer(target):
                return to_integer(x.to(accumulator_of(source)), target)
            return x.to(target)

        return emit.elementwise(shape_of(self.result.type), target, [self.input], body)


_SIGNED: dict[Attribute, Attribute] = {ui8: i32, ui16: i32, ui32: i64, ui64: i64}
"""The type that unsigned integers are computed in, for bodies know signed ones only."""


def computed_in(element: Attribute) -> Attribute:
    """Gives the type in which bodies compute with integers: a signed one, wider if it can be, for
    those without sign.
    """
    return _SIGNED.get(element, element)


def unsigned(x: Emitted, name: str, y: Emitted | int) -> Emitted:
    """Applies an operator to 64-bit unsigned integers, whose bits bodies hold as signed ones."""
    other = y.signless() if isinstance(y, Emitted) else x.signless().constant(y)
    return x.signless().binary(f"{name}u", other).cast(ui64)


def _integer_power(x: Emitted, exponent: Emitted, bits: int) -> Emitted:
    """Computes `x` to the power of an exponent, keeping the low bits. Below 0 the exponent's bits
    are those of a large power, which is right for 1 and -1: their powers depend on its last bit
    alone.
    """
    result = x.constant(1)
    for bit in range(bits):
        odd = (exponent >> bit).binary("and", 1).compare("ne", 0)
        result = odd.select(result * x, result)
        x = x * x
    return result


def _inverse(x: Emitted, exponent: Emitted, raised: Emitted, *, is_signed: bool) -> Emitted:
    """Gives `raised` where the exponent is not negative, or x is 1 or -1; else 0, to which other
    inverses are cut.
    """
    is_unit = x.compare("eq", 1)
    if is_signed:
        is_unit = is_unit.binary("or", x.compare("eq", -1))
    is_cut = exponent.compare("lt", 0).binary("and", is_unit.compare("eq", 0))
    return is_cut.select(x.constant(0), raised)


def _narrowed(x: Emitted, element: Attribute) -> Emitted:
    """Converts a float to a number of another type, towards zero."""
    return x.to(element) if is_float(element) else x.to(i64).to(element)


def to_integer(x: Emitted, target: Attribute) -> Emitted:
    """Converts floats to integers towards zero, saturating. It goes by way of i64, for bodies know
    no unsigned integers, and clamps before to floats that fit.
    """
    if target == ui64:
        return x.to(ui64)  # the cast saturates, and turns NaN into 0
    low, high = integer_range(target)
    dtype = dtype_of(x.type)
    ceiling = dtype.type(high)
    if int(ceiling) > high:  # `high` is no float: it rounds to the power of two above
        ceiling = np.nextafter(ceiling, dtype.type(0))
    number = x.compare("eq", x).select(x, 0)
    fits = number.clamp(float(low), float(ceiling)).to(i64)
    if int(ceiling) != high:
        fits = number.compare("gt", float(ceiling)).select(fits.constant(high), fits)
    return fits.to(target)
