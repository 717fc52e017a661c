"""Defines functions of one number, element by element, without parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, SSAValue

from byocir.dialects.checks import expect
from byocir.dialects.definition import irdl_op_definition
from byocir.dialects.graph.base import (
    Exact,
    KeepsShape,
    OneInputOp,
    is_number,
    is_signed,
    may_lack,
    undefined,
)
from byocir.dialects.graph.operands import accumulator_of
from byocir.dialects.tir.emit import Emitter
from byocir.dialects.tir.scalar import Emitted
from byocir.dialects.types import element_type_of, is_float, is_unsigned, shape_of, tensor


class UnaryOp(KeepsShape, OneInputOp):
    """Defines what ops share that make one tensor of another of the same type."""

    def check(self, element: Attribute) -> None:
        """Raises VerifyException for an element type or properties that are not allowed. Floats are
        allowed, unless a subclass says otherwise.
        """
        expect(
            is_float(element), lambda: f"expected a floating-point tensor, found {self.input.type}"
        )

    def infer(self) -> Sequence[TensorType]:
        element = element_type_of(self.input.type)
        self.check(element)
        return [tensor(element, shape_of(self.input.type))]

    WIDENS: ClassVar[bool] = True
    """Tells if the function is computed of floats of 32 bits at least."""

    @may_lack
    def body(self, x: Emitted) -> Emitted:
        """Computes the result of one element."""
        raise undefined(self, "it has no definition")

    def define(self, emit: Emitter) -> SSAValue:
        """Makes one block over all elements."""
        element = element_type_of(self.result.type)
        shape = shape_of(self.result.type)
        wide = accumulator_of(element) if self.WIDENS else element
        return emit.elementwise(
            shape, element, [self.input], lambda x: self.body(x.to(wide)).to(element)
        )


class MathOp(UnaryOp):
    """Defines what the ops share that are functions of the dialect `math`, of the same name."""

    def body(self, x: Emitted) -> Emitted:
        return x.unary(self.name.removeprefix("graph."))


class SignedUnaryOp(UnaryOp):
    """Defines what the unary ops on signed numbers share."""

    def check(self, element: Attribute) -> None:
        expect(is_signed(element), lambda: f"expected an input of signed numbers, found {element}")


class NumberUnaryOp(UnaryOp):
    """Defines what the unary ops on all numbers share."""

    def check(self, element: Attribute) -> None:
        expect(is_number(element), lambda: f"expected an input of numbers, found {element}")


# -- what IEEE arithmetic fixes


@irdl_op_definition
class AbsOp(Exact, NumberUnaryOp):
    """Computes `|x|`; the least integer stays as it is, e.g. `graph.abs %x : (tensor<8x4xi32>) ->
    tensor<8x4xi32>`.
    """

    name = "graph.abs"

    def body(self, x: Emitted) -> Emitted:
        return absolute(x)


@irdl_op_definition
class NegOp(Exact, SignedUnaryOp):
    """Computes `-x`; the least integer stays as it is, e.g. `graph.neg %x : (tensor<8x4xi32>) ->
    tensor<8x4xi32>`.
    """

    name = "graph.neg"

    def body(self, x: Emitted) -> Emitted:
        return x.neg() if is_float(x.type) else x.constant(0) - x


@irdl_op_definition
class SignOp(Exact, NumberUnaryOp):
    """Gives the sign of each element: -1, 0 or 1, e.g. `graph.sign %x : (tensor<8x4xi32>) ->
    tensor<8x4xi32>`.
    """

    name = "graph.sign"

    def body(self, x: Emitted) -> Emitted:
        if is_unsigned(x.type):
            return x.compare("gt", x.constant(0)).to(x.type)
        if not is_float(x.type):
            return x.clamp(-1, 1)
        negative = x.compare("lt", 0).select(x.constant(-1), x * 0)  # keeps NaN
        return x.compare("gt", 0).select(x.constant(1), negative)


@irdl_op_definition
class ReluOp(Exact, SignedUnaryOp):
    """Computes `max(x, 0)`, e.g. `graph.relu %x : (tensor<8x4xi32>) -> tensor<8x4xi32>`."""

    name = "graph.relu"

    WIDENS: ClassVar[bool] = False

    def body(self, x: Emitted) -> Emitted:
        return x.max(0)


@irdl_op_definition
class FloorOp(Exact, MathOp):
    """Gives the greatest integer that is not greater, e.g. `graph.floor %x : (tensor<8x4xf32>) ->
    tensor<8x4xf32>`.
    """

    name = "graph.floor"


@irdl_op_definition
class CeilOp(Exact, MathOp):
    """Gives the least integer that is not less, e.g. `graph.ceil %x : (tensor<8x4xf32>) ->
    tensor<8x4xf32>`.
    """

    name = "graph.ceil"


@irdl_op_definition
class RoundOp(Exact, UnaryOp):
    """Gives the nearest integer, halves to the even one, e.g. `graph.round %x : (tensor<8x4xf32>)
    -> tensor<8x4xf32>`.
    """

    name = "graph.round"

    def body(self, x: Emitted) -> Emitted:
        return x.roundeven()


@irdl_op_definition
class SqrtOp(Exact, MathOp):
    """Computes the square root, NaN for numbers below 0, e.g. `graph.sqrt %x : (tensor<8x4xf32>) ->
    tensor<8x4xf32>`.
    """

    name = "graph.sqrt"


@irdl_op_definition
class ReciprocalOp(Exact, UnaryOp):
    """Computes `1 / x`, e.g. `graph.reciprocal %x : (tensor<8x4xf32>) -> tensor<8x4xf32>`."""

    name = "graph.reciprocal"

    def body(self, x: Emitted) -> Emitted:
        return x.constant(1) / x


# -- what a mathematical library computes


@irdl_op_definition
class ExpOp(UnaryOp):
    """Computes `e^x`, e.g. `graph.exp %x : (tensor<8x4xf32>) -> tensor<8x4xf32>`."""

    name = "graph.exp"

    def body(self, x: Emitted) -> Emitted:
        return x.exp()


@irdl_op_definition
class LogOp(MathOp):
    """Computes the natural logarithm, e.g. `graph.log %x : (tensor<8x4xf32>) ->
    tensor<8x4xf32>`.
    """

    name = "graph.log"


@irdl_op_definition
class ErfOp(MathOp):
    """Computes the error function, `2 / sqrt(pi)` times the integral of `e^(-t^2)` from 0 to x,
    e.g. `graph.erf %x : (tensor<8x4xf32>) -> tensor<8x4xf32>`.
    """

    name = "graph.erf"


@irdl_op_definition
class SinOp(MathOp):
    """Computes the sine of an angle (in radians), e.g. `graph.sin %x : (tensor<8x4xf32>) ->
    tensor<8x4xf32>`.
    """

    name = "graph.sin"


@irdl_op_definition
class CosOp(MathOp):
    """Computes the cosine of an angle in radians, e.g. `graph.cos %x : (tensor<8x4xf32>) ->
    tensor<8x4xf32>`.
    """

    name = "graph.cos"


@irdl_op_definition
class TanOp(MathOp):
    """Computes the tangent of an angle in radians, e.g. `graph.tan %x : (tensor<8x4xf32>) ->
    tensor<8x4xf32>`.
    """

    name = "graph.tan"


@irdl_op_definition
class AsinOp(MathOp):
    """Computes the arcsine, in radians, e.g. `graph.asin %x : (tensor<8x4xf32>) ->
    tensor<8x4xf32>`.
    """

    name = "graph.asin"


@irdl_op_definition
class AcosOp(MathOp):
    """Computes the arccosine, in radians, e.g. `graph.acos %x : (tensor<8x4xf32>) ->
    tensor<8x4xf32>`.
    """

    name = "graph.acos"


@irdl_op_definition
class AtanOp(MathOp):
    """Computes the arctangent, in radians, e.g. `graph.atan %x : (tensor<8x4xf32>) ->
    tensor<8x4xf32>`.
    """

    name = "graph.atan"


@irdl_op_definition
class SinhOp(MathOp):
    """Computes the hyperbolic sine, e.g. `graph.sinh %x : (tensor<8x4xf32>) -> tensor<8x4xf32>`."""

    name = "graph.sinh"


@irdl_op_definition
class CoshOp(MathOp):
    """Computes the hyperbolic cosine, e.g. `graph.cosh %x : (tensor<8x4xf32>) ->
    tensor<8x4xf32>`.
    """

    name = "graph.cosh"


@irdl_op_definition
class TanhOp(MathOp):
    """Computes the hyperbolic tangent, e.g. `graph.tanh %x : (tensor<8x4xf32>) ->
    tensor<8x4xf32>`.
    """

    name = "graph.tanh"


@irdl_op_definition
class AsinhOp(MathOp):
    """Computes the inverse of the hyperbolic sine, e.g. `graph.asinh %x : (tensor<8x4xf32>) ->
    tensor<8x4xf32>`.
    """

    name = "graph.asinh"


@irdl_op_definition
class AcoshOp(MathOp):
    """Computes the inverse of the hyperbolic cosine, e.g. `graph.acosh %x : (tensor<8x4xf32>) ->
    tensor<8x4xf32>`.
    """

    name = "graph.acosh"


@irdl_op_definition
class AtanhOp(MathOp):
    """Computes the inverse of the hyperbolic tangent, e.g. `graph.atanh %x : (tensor<8x4xf32>) ->
    tensor<8x4xf32>`.
    """

    name = "graph.atanh"


@irdl_op_definition
class SigmoidOp(UnaryOp):
    """Computes `1 / (1 + e^-x)`, e.g. `graph.sigmoid %x : (tensor<8x4xf32>) -> tensor<8x4xf32>`."""

    name = "graph.sigmoid"

    def body(self, x: Emitted) -> Emitted:
        return sigmoid(x)


@irdl_op_definition
class SoftplusOp(UnaryOp):
    """Computes `log(1 + e^x)`, e.g. `graph.softplus %x : (tensor<8x4xf32>) -> tensor<8x4xf32>`."""

    name = "graph.softplus"

    def body(self, x: Emitted) -> Emitted:
        return _softplus(x)


@irdl_op_definition
class SoftsignOp(UnaryOp):
    """Computes `x / (1 + |x|)`, e.g. `graph.softsign %x : (tensor<8x4xf32>) -> tensor<8x4xf32>`."""

    name = "graph.softsign"

    def body(self, x: Emitted) -> Emitted:
        return x / (x.abs() + 1)


@irdl_op_definition
class MishOp(UnaryOp):
    """Computes `x * tanh(log(1 + e^x))`, e.g. `graph.mish %x : (tensor<8x4xf32>) ->
    tensor<8x4xf32>`.
    """

    name = "graph.mish"

    def body(self, x: Emitted) -> Emitted:
        return x * _softplus(x).tanh()


@irdl_op_definition
class HardSwishOp(UnaryOp):
    """Computes `x * clip(x / 6 + 0.5, 0, 1)`, e.g. `graph.hard_swish %x : (tensor<8x4xf32>) ->
    tensor<8x4xf32>`.
    """

    name = "graph.hard_swish"

    def body(self, x: Emitted) -> Emitted:
        return x * hard_sigmoid(x, 1 / 6, 0.5)


def absolute(x: Emitted) -> Emitted:
    """Computes `|x|`; the least integer stays as it is."""
    if is_float(x.type):
        return x.abs()
    return x if is_unsigned(x.type) else x.max(x.constant(0) - x)


def sigmoid(x: Emitted) -> Emitted:
    """Computes `1 / (1 + e^-x)`."""
    return x.constant(1) / (x.neg().exp() + 1)


def _softplus(x: Emitted) -> Emitted:
    """Computes `log(1 + e^x)` without overflow."""
    return x.max(0) + x.abs().neg().exp().unary("log1p")


def hard_sigmoid(x: Emitted, slope: float, offset: float) -> Emitted:
    """Computes `clip(x * slope + offset, 0, 1)`."""
    return (x * slope + offset).clamp(0, 1)
