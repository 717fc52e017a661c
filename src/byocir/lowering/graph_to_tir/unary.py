"""Functions of one number: what a mathematical library computes, and activations."""

from __future__ import annotations

from collections.abc import Callable
from math import pi, sqrt
from typing import Any

from xdsl.ir import SSAValue

from byocir.dialects import graph as g
from byocir.dialects.tir.emit import Emitter
from byocir.dialects.tir.scalar import Emitted
from byocir.dialects.types import element_type_of, is_float, is_unsigned, shape_of
from byocir.lowering.graph_to_tir.operands import accumulator_of
from byocir.lowering.graph_to_tir.registry import lowers

_FUNCTIONS: dict[type[g.UnaryOp], str] = {
    g.AcosOp: "acos",
    g.AcoshOp: "acosh",
    g.AsinOp: "asin",
    g.AsinhOp: "asinh",
    g.AtanOp: "atan",
    g.AtanhOp: "atanh",
    g.CeilOp: "ceil",
    g.CosOp: "cos",
    g.CoshOp: "cosh",
    g.ErfOp: "erf",
    g.ExpOp: "exp",
    g.FloorOp: "floor",
    g.LogOp: "log",
    g.RoundOp: "roundeven",
    g.SinOp: "sin",
    g.SinhOp: "sinh",
    g.SqrtOp: "sqrt",
    g.TanOp: "tan",
    g.TanhOp: "tanh",
}
"""The ops that are one scalar op."""


def mapped(emit: Emitter, op: g.UnaryOp, body: Callable[[Emitted], Emitted]) -> SSAValue:
    """The function of each element, in a float type of at least 32 bits for floats."""
    element = element_type_of(op.result.type)
    wide = accumulator_of(element)
    shape = shape_of(op.result.type)
    return emit.elementwise(shape, element, [op.input], lambda x: body(x.to(wide)).to(element))


@lowers(*_FUNCTIONS)
def _function(emit: Emitter, op: g.UnaryOp) -> SSAValue:
    return mapped(emit, op, lambda x: x.unary(_FUNCTIONS[type(op)]))


# -- signs


@lowers(g.NegOp)
def _neg(emit: Emitter, op: g.NegOp) -> SSAValue:
    floats = is_float(element_type_of(op.input.type))
    return mapped(emit, op, lambda x: x.unary("neg") if floats else x.constant(0) - x)


@lowers(g.AbsOp)
def _abs(emit: Emitter, op: g.AbsOp) -> SSAValue:
    return mapped(emit, op, absolute)


def absolute(x: Emitted) -> Emitted:
    """`|x|`; the least integer stays as it is."""
    if is_float(x.type):
        return x.unary("abs")
    return x if is_unsigned(x.type) else x.max(x.constant(0) - x)


@lowers(g.SignOp)
def _sign(emit: Emitter, op: g.SignOp) -> SSAValue:
    def body(x: Emitted) -> Emitted:
        if is_unsigned(x.type):
            return x.compare("gt", x.constant(0)).to(x.type)
        if not is_float(x.type):
            return x.clamp(-1, 1)
        negative = x.compare("lt", 0).select(x.constant(-1), x * 0)  # keeps NaN
        return x.compare("gt", 0).select(x.constant(1), negative)

    return mapped(emit, op, body)


@lowers(g.ReciprocalOp)
def _reciprocal(emit: Emitter, op: g.ReciprocalOp) -> SSAValue:
    return mapped(emit, op, lambda x: x.constant(1) / x)


# -- activations


def sigmoid(x: Emitted) -> Emitted:
    """`1 / (1 + e^-x)`"""
    return x.constant(1) / (x.unary("neg").exp() + 1)


def _softplus(x: Emitted) -> Emitted:
    """`log(1 + e^x)` without overflow."""
    return x.max(0) + x.unary("abs").unary("neg").exp().unary("log1p")


def _hard(x: Emitted, slope: float, offset: float) -> Emitted:
    return (x * slope + offset).clamp(0, 1)


def _gelu(x: Emitted, approximate: str) -> Emitted:
    if approximate == "tanh":
        inner = (x + x * x * x * 0.044715) * sqrt(2 / pi)
        return x * 0.5 * (inner.unary("tanh") + 1)
    return x * 0.5 * ((x * sqrt(0.5)).unary("erf") + 1)


def _unless_negative(x: Emitted, otherwise: Emitted) -> Emitted:
    return x.compare("ge", 0).select(x, otherwise)


def _selu(x: Emitted, alpha: float, gamma: float) -> Emitted:
    return x.compare("gt", 0).select(x * gamma, x.unary("expm1") * (gamma * alpha))


def _celu(x: Emitted, alpha: float) -> Emitted:
    return x.max(0) + ((x / alpha).unary("expm1") * alpha).min(0)


def _shrink(x: Emitted, bias: float, lambd: float) -> Emitted:
    low = x.compare("lt", -lambd).select(x + bias, 0)
    return x.compare("gt", lambd).select(x - bias, low)


_ACTIVATIONS: dict[type[g.UnaryOp], Callable[[Any, Emitted], Emitted]] = {
    g.CeluOp: lambda op, x: _celu(x, op.alpha.value.data),
    g.EluOp: lambda op, x: _unless_negative(x, x.unary("expm1") * op.alpha.value.data),
    g.GeluOp: lambda op, x: _gelu(x, op.approximate.data),
    g.HardSigmoidOp: lambda op, x: _hard(x, op.alpha.value.data, op.beta.value.data),
    g.HardSwishOp: lambda op, x: x * _hard(x, 1 / 6, 0.5),
    g.LeakyReluOp: lambda op, x: _unless_negative(x, x * op.alpha.value.data),
    g.MishOp: lambda op, x: x * _softplus(x).unary("tanh"),
    g.SeluOp: lambda op, x: _selu(x, op.alpha.value.data, op.gamma.value.data),
    g.ShrinkOp: lambda op, x: _shrink(x, op.bias.value.data, op.lambd.value.data),
    g.SigmoidOp: lambda op, x: sigmoid(x),
    g.SoftplusOp: lambda op, x: _softplus(x),
    g.SoftsignOp: lambda op, x: x / (x.unary("abs") + 1),
    g.ThresholdedReluOp: lambda op, x: x.compare("gt", op.alpha.value.data).select(x, 0),
}
"""The body of each activation of one operand, from the op and an element."""


@lowers(*_ACTIVATIONS)
def _activation(emit: Emitter, op: g.UnaryOp) -> SSAValue:
    return mapped(emit, op, lambda x: _ACTIVATIONS[type(op)](op, x))


@lowers(g.PreluOp)
def _prelu(emit: Emitter, op: g.PreluOp) -> SSAValue:
    shape, element = shape_of(op.result.type), element_type_of(op.result.type)

    def body(x: Emitted, slope: Emitted) -> Emitted:
        # Low bits of a product are the same for signed and unsigned integers.
        bits = (x.to(element), (x.signless() * slope.signless()).cast(element))
        return x.compare("ge", x.constant(0)).select(*bits)

    return emit.elementwise(shape, element, [op.input, op.slope], body)
