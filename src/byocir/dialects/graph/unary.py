"""Functions of one number, element by element, without parameters."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute
from xdsl.irdl import irdl_op_definition, operand_def, result_def, traits_def
from xdsl.traits import Pure

from byocir.dialects.checks import expect
from byocir.dialects.graph.base import Exact, GraphOp, is_number, is_signed
from byocir.dialects.types import element_type_of, is_float, shape_of, tensor


class UnaryOp(GraphOp):
    """Base of the ops from one tensor to one of the same type."""

    input = operand_def(TensorType)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$input attr-dict `:` functional-type(operands, results)"

    def check(self, element: Attribute) -> None:
        """Raises VerifyException for an element type or properties that are not allowed; floats
        are, unless a subclass says otherwise."""
        expect(
            is_float(element), lambda: f"expected a floating-point tensor, found {self.input.type}"
        )

    def infer(self) -> Sequence[TensorType]:
        element = element_type_of(self.input.type)
        self.check(element)
        return [tensor(element, shape_of(self.input.type))]


class SignedUnaryOp(UnaryOp):
    """Base of the unary ops on signed numbers."""

    def check(self, element: Attribute) -> None:
        expect(is_signed(element), lambda: f"expected an input of signed numbers, found {element}")


class NumberUnaryOp(UnaryOp):
    """Base of the unary ops on all numbers."""

    def check(self, element: Attribute) -> None:
        expect(is_number(element), lambda: f"expected an input of numbers, found {element}")


# -- what IEEE arithmetic fixes


@irdl_op_definition
class AbsOp(Exact, NumberUnaryOp):
    """`|x|`; the least integer stays as it is, e.g. `graph.abs %x : (tensor<8x4xi32>) ->
    tensor<8x4xi32>`."""

    name = "graph.abs"


@irdl_op_definition
class NegOp(Exact, SignedUnaryOp):
    """`-x`; the least integer stays as it is, e.g. `graph.neg %x : (tensor<8x4xi32>) ->
    tensor<8x4xi32>`."""

    name = "graph.neg"


@irdl_op_definition
class SignOp(Exact, NumberUnaryOp):
    """-1, 0 or 1, e.g. `graph.sign %x : (tensor<8x4xi32>) -> tensor<8x4xi32>`."""

    name = "graph.sign"


@irdl_op_definition
class ReluOp(Exact, SignedUnaryOp):
    """`max(x, 0)`, e.g. `graph.relu %x : (tensor<8x4xi32>) -> tensor<8x4xi32>`."""

    name = "graph.relu"


@irdl_op_definition
class FloorOp(Exact, UnaryOp):
    """The greatest integer that is not greater, e.g. `graph.floor %x : (tensor<8x4xf32>) ->
    tensor<8x4xf32>`."""

    name = "graph.floor"


@irdl_op_definition
class CeilOp(Exact, UnaryOp):
    """The least integer that is not less, e.g. `graph.ceil %x : (tensor<8x4xf32>) ->
    tensor<8x4xf32>`."""

    name = "graph.ceil"


@irdl_op_definition
class RoundOp(Exact, UnaryOp):
    """The nearest integer, halves to the even one, e.g. `graph.round %x : (tensor<8x4xf32>) ->
    tensor<8x4xf32>`."""

    name = "graph.round"


@irdl_op_definition
class SqrtOp(Exact, UnaryOp):
    """The square root, NaN for numbers below 0, e.g. `graph.sqrt %x : (tensor<8x4xf32>) ->
    tensor<8x4xf32>`."""

    name = "graph.sqrt"


@irdl_op_definition
class ReciprocalOp(Exact, UnaryOp):
    """`1 / x`, e.g. `graph.reciprocal %x : (tensor<8x4xf32>) -> tensor<8x4xf32>`."""

    name = "graph.reciprocal"


# -- what a mathematical library computes


@irdl_op_definition
class ExpOp(UnaryOp):
    """`e^x`, e.g. `graph.exp %x : (tensor<8x4xf32>) -> tensor<8x4xf32>`."""

    name = "graph.exp"


@irdl_op_definition
class LogOp(UnaryOp):
    """The natural logarithm, e.g. `graph.log %x : (tensor<8x4xf32>) -> tensor<8x4xf32>`."""

    name = "graph.log"


@irdl_op_definition
class ErfOp(UnaryOp):
    """The error function, `2 / sqrt(pi)` times the integral of `e^(-t^2)` from 0 to x, e.g.
    `graph.erf %x : (tensor<8x4xf32>) -> tensor<8x4xf32>`."""

    name = "graph.erf"


@irdl_op_definition
class SinOp(UnaryOp):
    """The sine of an angle (in radians), e.g.
    `graph.sin %x : (tensor<8x4xf32>) -> tensor<8x4xf32>`."""

    name = "graph.sin"


@irdl_op_definition
class CosOp(UnaryOp):
    """The cosine of an angle in radians, e.g. `graph.cos %x : (tensor<8x4xf32>) ->
    tensor<8x4xf32>`."""

    name = "graph.cos"


@irdl_op_definition
class TanOp(UnaryOp):
    """The tangent of an angle in radians, e.g. `graph.tan %x : (tensor<8x4xf32>) ->
    tensor<8x4xf32>`."""

    name = "graph.tan"


@irdl_op_definition
class AsinOp(UnaryOp):
    """The arcsine, in radians, e.g. `graph.asin %x : (tensor<8x4xf32>) -> tensor<8x4xf32>`."""

    name = "graph.asin"


@irdl_op_definition
class AcosOp(UnaryOp):
    """The arccosine, in radians, e.g. `graph.acos %x : (tensor<8x4xf32>) -> tensor<8x4xf32>`."""

    name = "graph.acos"


@irdl_op_definition
class AtanOp(UnaryOp):
    """The arctangent, in radians, e.g. `graph.atan %x : (tensor<8x4xf32>) -> tensor<8x4xf32>`."""

    name = "graph.atan"


@irdl_op_definition
class SinhOp(UnaryOp):
    """The hyperbolic sine, e.g. `graph.sinh %x : (tensor<8x4xf32>) -> tensor<8x4xf32>`."""

    name = "graph.sinh"


@irdl_op_definition
class CoshOp(UnaryOp):
    """The hyperbolic cosine, e.g. `graph.cosh %x : (tensor<8x4xf32>) -> tensor<8x4xf32>`."""

    name = "graph.cosh"


@irdl_op_definition
class TanhOp(UnaryOp):
    """The hyperbolic tangent, e.g. `graph.tanh %x : (tensor<8x4xf32>) -> tensor<8x4xf32>`."""

    name = "graph.tanh"


@irdl_op_definition
class AsinhOp(UnaryOp):
    """The inverse of the hyperbolic sine, e.g. `graph.asinh %x : (tensor<8x4xf32>) ->
    tensor<8x4xf32>`."""

    name = "graph.asinh"


@irdl_op_definition
class AcoshOp(UnaryOp):
    """The inverse of the hyperbolic cosine, e.g. `graph.acosh %x : (tensor<8x4xf32>) ->
    tensor<8x4xf32>`."""

    name = "graph.acosh"


@irdl_op_definition
class AtanhOp(UnaryOp):
    """The inverse of the hyperbolic tangent, e.g. `graph.atanh %x : (tensor<8x4xf32>) ->
    tensor<8x4xf32>`."""

    name = "graph.atanh"


@irdl_op_definition
class SigmoidOp(UnaryOp):
    """`1 / (1 + e^-x)`, e.g. `graph.sigmoid %x : (tensor<8x4xf32>) -> tensor<8x4xf32>`."""

    name = "graph.sigmoid"


@irdl_op_definition
class SoftplusOp(UnaryOp):
    """`log(1 + e^x)`, e.g. `graph.softplus %x : (tensor<8x4xf32>) -> tensor<8x4xf32>`."""

    name = "graph.softplus"


@irdl_op_definition
class SoftsignOp(UnaryOp):
    """`x / (1 + |x|)`, e.g. `graph.softsign %x : (tensor<8x4xf32>) -> tensor<8x4xf32>`."""

    name = "graph.softsign"


@irdl_op_definition
class MishOp(UnaryOp):
    """`x * tanh(log(1 + e^x))`, e.g. `graph.mish %x : (tensor<8x4xf32>) -> tensor<8x4xf32>`."""

    name = "graph.mish"


@irdl_op_definition
class HardSwishOp(UnaryOp):
    """`x * clip(x / 6 + 0.5, 0, 1)`, e.g. `graph.hard_swish %x : (tensor<8x4xf32>) ->
    tensor<8x4xf32>`."""

    name = "graph.hard_swish"
