"""Activations with parameters, element by element."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import StringAttr, TensorType
from xdsl.ir import Attribute
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure

from byocir.dialects.array import ArrayAttr
from byocir.dialects.checks import expect
from byocir.dialects.graph.base import (
    FLOAT,
    Exact,
    GraphOp,
    broadcast,
    dims,
    is_number,
)
from byocir.dialects.graph.unary import NumberUnaryOp, UnaryOp
from byocir.dialects.types import element_type_of, shape_of, tensor


@irdl_op_definition
class ClipOp(Exact, NumberUnaryOp):
    """`min(max(x, min), max)`; a bound that is absent does not bind, e.g. `graph.clip %x
    {min = #graph.array<[0.0] : tensor<f32>>, max = #graph.array<[6.0] : tensor<f32>>} :
    (tensor<8x4xf32>) -> tensor<8x4xf32>`."""

    name = "graph.clip"

    min = opt_prop_def(ArrayAttr)
    max = opt_prop_def(ArrayAttr)

    def check(self, element: Attribute) -> None:
        super().check(element)
        bound = tensor(element, ())
        for name, value in (("min", self.min), ("max", self.max)):
            found = value.data.type if value is not None else bound
            expect(found == bound, f"expected {name} of type {bound}, found {found}")


@irdl_op_definition
class LeakyReluOp(UnaryOp):
    """`x` where it is at least 0, else `alpha * x`, e.g. `graph.leaky_relu %x {alpha = 0.01 : f32}
    : (tensor<8x4xf32>) -> tensor<8x4xf32>`."""

    name = "graph.leaky_relu"

    alpha = prop_def(FLOAT)


@irdl_op_definition
class ThresholdedReluOp(Exact, UnaryOp):
    """`x` where it is greater than `alpha`, else 0, e.g. `graph.thresholded_relu %x {alpha = 1.0 :
    f32} : (tensor<8x4xf32>) -> tensor<8x4xf32>`."""

    name = "graph.thresholded_relu"

    alpha = prop_def(FLOAT)


@irdl_op_definition
class EluOp(UnaryOp):
    """`x` where it is at least 0, else `alpha * (e^x - 1)`, e.g. `graph.elu %x {alpha = 1.0 : f32}
    : (tensor<8x4xf32>) -> tensor<8x4xf32>`."""

    name = "graph.elu"

    alpha = prop_def(FLOAT)


@irdl_op_definition
class CeluOp(UnaryOp):
    """`max(x, 0) + min(alpha * (e^(x / alpha) - 1), 0)`, e.g. `graph.celu %x {alpha = 1.0 : f32} :
    (tensor<8x4xf32>) -> tensor<8x4xf32>`."""

    name = "graph.celu"

    alpha = prop_def(FLOAT)


@irdl_op_definition
class SeluOp(UnaryOp):
    """`gamma * x` where x is greater than 0, else `gamma * alpha * (e^x - 1)`, e.g. `graph.selu %x
    {alpha = 1.67326319 : f32, gamma = 1.05070102 : f32} : (tensor<8x4xf32>) ->
    tensor<8x4xf32>`."""

    name = "graph.selu"

    alpha = prop_def(FLOAT)
    gamma = prop_def(FLOAT)


@irdl_op_definition
class HardSigmoidOp(UnaryOp):
    """`clip(alpha * x + beta, 0, 1)`, e.g. `graph.hard_sigmoid %x {alpha = 0.2 : f32, beta = 0.5 :
    f32} : (tensor<8x4xf32>) -> tensor<8x4xf32>`."""

    name = "graph.hard_sigmoid"

    alpha = prop_def(FLOAT)
    beta = prop_def(FLOAT)


@irdl_op_definition
class ShrinkOp(UnaryOp):
    """`x + bias` below `-lambd`, `x - bias` above `lambd`, else 0, e.g. `graph.shrink %x {bias =
    0.0 : f32, lambd = 0.5 : f32} : (tensor<8x4xf32>) -> tensor<8x4xf32>`."""

    name = "graph.shrink"

    bias = prop_def(FLOAT)
    lambd = prop_def(FLOAT)


@irdl_op_definition
class GeluOp(UnaryOp):
    """`x * (1 + erf(x / sqrt(2))) / 2`, or with `approximate = "tanh"` its approximation
    `x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))) / 2`, e.g. `graph.gelu %x {approximate =
    "none"} : (tensor<8x4xf32>) -> tensor<8x4xf32>`."""

    name = "graph.gelu"

    approximate = prop_def(StringAttr)

    def check(self, element: Attribute) -> None:
        super().check(element)
        found = self.approximate.data
        expect(found in ("none", "tanh"), f"expected approximate none or tanh, found {found}")


@irdl_op_definition
class PreluOp(GraphOp):
    """`x` where it is at least 0, else `slope * x`; the slope broadcasts to the input, e.g.
    `graph.prelu %x, %slope : (tensor<1x4x8x8xf32>, tensor<4x1x1xf32>) -> tensor<1x4x8x8xf32>`."""

    name = "graph.prelu"

    input = operand_def(TensorType)
    slope = operand_def(TensorType)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$input `,` $slope attr-dict `:` functional-type(operands, results)"

    def infer(self) -> Sequence[TensorType]:
        element, slope = element_type_of(self.input.type), element_type_of(self.slope.type)
        expect(element == slope, f"expected a slope of {element}, found {slope}")
        expect(is_number(element), f"expected an input of numbers, found {element}")
        x, s = shape_of(self.input.type), shape_of(self.slope.type)
        expect(
            broadcast(x, s) == x, f"expected a slope that broadcasts to {dims(x)}, found {dims(s)}"
        )
        return [tensor(element, x)]
