"""Defines activations with parameters, element by element."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import StringAttr, TensorType
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
)

from byocir.dialects.array import ArrayAttr
from byocir.dialects.checks import expect
from byocir.dialects.definition import irdl_op_definition
from byocir.dialects.graph.base import (
    FLOAT,
    Broadcasts,
    Exact,
    GraphOp,
    broadcast,
    dims,
    is_number,
)
from byocir.dialects.graph.elementwise import computed_in, unsigned
from byocir.dialects.graph.unary import NumberUnaryOp, UnaryOp, hard_sigmoid
from byocir.dialects.tir.emit import Emitter
from byocir.dialects.tir.scalar import Emitted
from byocir.dialects.types import element_type_of, shape_of, tensor, ui64


@irdl_op_definition
class ClipOp(Exact, NumberUnaryOp):
    """Computes `min(max(x, min), max)`; a bound that is absent does not bind, e.g. `graph.clip %x
    {min = #graph.array<[0.0] : tensor<f32>>, max = #graph.array<[6.0] : tensor<f32>>} :
    (tensor<8x4xf32>) -> tensor<8x4xf32>`.
    """

    name = "graph.clip"

    WIDENS: ClassVar[bool] = False

    min = opt_prop_def(ArrayAttr)
    max = opt_prop_def(ArrayAttr)

    def check(self, element: Attribute) -> None:
        super().check(element)
        bound = tensor(element, ())
        for name, value in (("min", self.min), ("max", self.max)):
            found = value.data.type if value is not None else bound
            expect(found == bound, f"expected {name} of type {bound}, found {found}")

    def body(self, x: Emitted) -> Emitted:
        element = x.type
        y = x if element == ui64 else x.to(computed_in(element))
        for name, bound in (("max", self.min), ("min", self.max)):
            if bound is not None:
                number = bound.data.values().item()
                y = unsigned(y, name, number) if element == ui64 else y.binary(name, number)
        return y.to(element)


@irdl_op_definition
class LeakyReluOp(UnaryOp):
    """Gives `x` where it is at least 0, else `alpha * x`, e.g. `graph.leaky_relu %x {alpha = 0.01 :
    f32} : (tensor<8x4xf32>) -> tensor<8x4xf32>`.
    """

    name = "graph.leaky_relu"

    alpha = prop_def(FLOAT)

    def body(self, x: Emitted) -> Emitted:
        return _unless_negative(x, x * self.alpha.value.data)


@irdl_op_definition
class ThresholdedReluOp(Exact, UnaryOp):
    """Gives `x` where it is greater than `alpha`, else 0, e.g. `graph.thresholded_relu %x {alpha =
    1.0 : f32} : (tensor<8x4xf32>) -> tensor<8x4xf32>`.
    """

    name = "graph.thresholded_relu"

    alpha = prop_def(FLOAT)

    def body(self, x: Emitted) -> Emitted:
        return x.compare("gt", self.alpha.value.data).select(x, 0)


@irdl_op_definition
class EluOp(UnaryOp):
    """Gives `x` where it is at least 0, else `alpha * (e^x - 1)`, e.g. `graph.elu %x {alpha = 1.0 :
    f32} : (tensor<8x4xf32>) -> tensor<8x4xf32>`.
    """

    name = "graph.elu"

    alpha = prop_def(FLOAT)

    def body(self, x: Emitted) -> Emitted:
        return _unless_negative(x, x.unary("expm1") * self.alpha.value.data)


@irdl_op_definition
class CeluOp(UnaryOp):
    """Computes `max(x, 0) + min(alpha * (e^(x / alpha) - 1), 0)`, e.g. `graph.celu %x {alpha = 1.0
    : f32} : (tensor<8x4xf32>) -> tensor<8x4xf32>`.
    """

    name = "graph.celu"

    alpha = prop_def(FLOAT)

    def body(self, x: Emitted) -> Emitted:
        alpha = self.alpha.value.data
        return x.max(0) + ((x / alpha).unary("expm1") * alpha).min(0)


@irdl_op_definition
class SeluOp(UnaryOp):
    """Computes `gamma * x` where x is greater than 0, else `gamma * alpha * (e^x - 1)`, e.g.
    `graph.selu %x {alpha = 1.67326319 : f32, gamma = 1.05070102 : f32} : (tensor<8x4xf32>) ->
    tensor<8x4xf32>`.
    """

    name = "graph.selu"

    alpha = prop_def(FLOAT)
    gamma = prop_def(FLOAT)

    def body(self, x: Emitted) -> Emitted:
        alpha, gamma = self.alpha.value.data, self.gamma.value.data
        return x.compare("gt", 0).select(x * gamma, x.unary("expm1") * (gamma * alpha))


@irdl_op_definition
class HardSigmoidOp(UnaryOp):
    """Computes `clip(alpha * x + beta, 0, 1)`, e.g. `graph.hard_sigmoid %x {alpha = 0.2 : f32, beta
    = 0.5 : f32} : (tensor<8x4xf32>) -> tensor<8x4xf32>`.
    """

    name = "graph.hard_sigmoid"

    alpha = prop_def(FLOAT)
    beta = prop_def(FLOAT)

    def body(self, x: Emitted) -> Emitted:
        return hard_sigmoid(x, self.alpha.value.data, self.beta.value.data)


@irdl_op_definition
class ShrinkOp(UnaryOp):
    """Gives `x + bias` below `-lambd`, `x - bias` above `lambd`, else 0, e.g. `graph.shrink %x
    {bias = 0.0 : f32, lambd = 0.5 : f32} : (tensor<8x4xf32>) -> tensor<8x4xf32>`.
    """

    name = "graph.shrink"

    bias = prop_def(FLOAT)
    lambd = prop_def(FLOAT)

    def body(self, x: Emitted) -> Emitted:
        bias, lambd = self.bias.value.data, self.lambd.value.data
        low = x.compare("lt", -lambd).select(x + bias, 0)
        return x.compare("gt", lambd).select(x - bias, low)


@irdl_op_definition
class GeluOp(UnaryOp):
    """Computes `x * (1 + erf(x / sqrt(2))) / 2`, or with `approximate = "tanh"` its approximation
    `x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))) / 2`, e.g. `graph.gelu %x {approximate =
    "none"} : (tensor<8x4xf32>) -> tensor<8x4xf32>`.
    """

    name = "graph.gelu"

    approximate = prop_def(StringAttr)

    def check(self, element: Attribute) -> None:
        super().check(element)
        found = self.approximate.data
        expect(found in ("none", "tanh"), f"expected approximate none or tanh, found {found}")

    def body(self, x: Emitted) -> Emitted:
        if self.approximate.data == "tanh":
            inner = (x + x * x * x * 0.044715) * math.sqrt(2 / math.pi)
            return x * 0.5 * (inner.tanh() + 1)
        return x * 0.5 * ((x * math.sqrt(0.5)).erf() + 1)


@irdl_op_definition
class PreluOp(Broadcasts, GraphOp):
    """Gives `x` where it is at least 0, else `slope * x`; the slope broadcasts to the input, e.g.
    `graph.prelu %x, %slope : (tensor<1x4x8x8xf32>, tensor<4x1x1xf32>) -> tensor<1x4x8x8xf32>`.
    """

    name = "graph.prelu"

    input = operand_def(TensorType)
    slope = operand_def(TensorType)
    result = result_def(TensorType)

    def infer(self) -> Sequence[TensorType]:
        element, slope = element_type_of(self.input.type), element_type_of(self.slope.type)
        expect(element == slope, f"expected a slope of {element}, found {slope}")
        expect(is_number(element), f"expected an input of numbers, found {element}")
        x, s = shape_of(self.input.type), shape_of(self.slope.type)
        expect(
            broadcast(x, s) == x, f"expected a slope that broadcasts to {dims(x)}, found {dims(s)}"
        )
        return [tensor(element, x)]

    def define(self, emit: Emitter) -> SSAValue:
        shape, element = shape_of(self.result.type), element_type_of(self.result.type)

        def body(x: Emitted, slope: Emitted) -> Emitted:
            # Low bits of a product are the same for signed and unsigned integers.
            bits = (x.to(element), (x.signless() * slope.signless()).cast(element))
            return x.compare("ge", x.constant(0)).select(*bits)

        return emit.elementwise(shape, element, [self.input, self.slope], body)


def _unless_negative(x: Emitted, otherwise: Emitted) -> Emitted:
    return x.compare("ge", 0).select(x, otherwise)
