"""Operators on elements: operands broadcast to one shape, and numbers are where functions are
defined."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from onnx_fuzz.cases import element_of
from onnx_fuzz.draft import VARIADIC, Draft, Unfit, dtype_of, kind_of
from onnx_fuzz.draws import limits_of
from onnx_fuzz.rules.registry import rule

BOUNDS: Mapping[str, tuple[float, float]] = {
    "Acos": (-1, 1),
    "Acosh": (1, 12),
    "Asin": (-1, 1),
    "Atanh": (-0.95, 0.95),
    "Log": (0.01, 20),
    "Sqrt": (0, 30),
    "Tan": (-1.4, 1.4),
}
"""Maps functions to ranges where they are defined and no cliff is near."""

UNARY = """
    Abs Acos Acosh Asin Asinh Atan Atanh BitwiseNot Ceil Celu Cos Cosh Elu Erf Exp Floor HardSigmoid
    HardSwish Identity IsInf IsNaN LeakyRelu Log Mish Neg Not Reciprocal Relu Round Selu Shrink
    Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Swish Tan Tanh ThresholdedRelu
"""

BINARY = """
    Add And BitwiseAnd BitwiseOr BitwiseXor Equal Greater GreaterOrEqual Less LessOrEqual Mul Or
    PRelu StringConcat Sub SwiGLU Xor
"""


@rule(*UNARY.split())
def unary(d: Draft) -> None:
    name = d.schema.inputs[0].name
    low, high = BOUNDS.get(d.schema.name, (None, None))
    if low is not None and (d.draws.special or d.maybe(0.1)):
        low = high = None
    d.take(name, low=low, high=high)


@rule("Gelu")
def gelu(d: Draft) -> None:
    d.take("X")
    d.attr("approximate", d.draws.one(["none", "tanh"]), "none")


@rule(*BINARY.split())
def binary(d: Draft) -> None:
    left, right = (each.name for each in d.schema.inputs)
    x = d.take(left)
    other = d.draws.broadcast(x.shape)
    if d.schema.name != "PRelu" and d.maybe(0.3):  # the other way round: the left one broadcasts
        other = tuple(size if size != 1 or d.maybe() else d.draws.upto(4) for size in x.shape)
    d.take(right, shape=other)


@rule("Div", "Mod")
def quotient(d: Draft) -> None:
    """Integers are not divided by zero, and floats seldom by one near it."""
    x = d.take("A")
    if d.schema.name == "Mod" and kind_of(x.dtype) == "f":
        d.attributes["fmod"] = 1 if d.schema.since_version < 28 else d.draws.upto(1, 0)
    y = d.draws.array(x.dtype, d.draws.broadcast(x.shape))
    if kind_of(x.dtype) == "f" and d.draws.special:
        d.put("B", y)
        return
    y = np.where(y == 0, np.ones((), x.dtype), y).astype(x.dtype)
    if kind_of(x.dtype) == "i":  # the least number by -1 has no result
        y = np.where(y == -1, np.ones((), x.dtype) * 2, y).astype(x.dtype)
    d.put("B", y)


@rule("Pow")
def power(d: Draft) -> None:
    dtype = d.bind("X")
    if kind_of(dtype) == "f":
        x = d.take("X", low=0.1, high=3)
        d.take("Y", shape=d.draws.broadcast(x.shape), low=-2, high=3)
        return
    x = d.take("X", low=-4, high=4)
    d.take("Y", shape=d.draws.broadcast(x.shape), low=0, high=3)


@rule("BitShift")
def shift(d: Draft) -> None:
    x = d.take("X")
    bits = 8 * x.dtype.itemsize
    most = bits - 1 if d.schema.since_version < 28 else min(bits + 2, limits_of(x.dtype)[1])
    d.take("Y", shape=d.draws.broadcast(x.shape), low=0, high=most)
    d.attr("direction", d.draws.one(["LEFT", "RIGHT"]))


@rule("Clip")
def clip(d: Draft) -> None:
    x = d.take("input" if d.has_input("input") else d.schema.inputs[0].name)
    if not d.has_input("min"):
        if d.maybe(0.8):
            d.attr("min", d.draws.one([-1.0, -0.5]))
        if d.maybe(0.8):
            d.attr("max", d.draws.one([0.75, 2.0]))
        d.left_out |= {"min", "max"}
        return
    low, high = (-2, 3) if kind_of(x.dtype) != "u" else (1, 4)
    if d.maybe(0.8):
        d.put("min", np.array(low, x.dtype))
    if d.maybe(0.8):
        d.put("max", np.array(high, x.dtype))


@rule("Max", "Min", "Sum", "Mean")
def of_many(d: Draft) -> None:
    name = d.schema.inputs[0].name
    x = d.take(name)
    for _ in range(d.draws.one([0, 1, 1, 1, 2, 3])):
        d.take(name, shape=d.draws.broadcast(x.shape) if d.schema.since_version >= 8 else x.shape)
    assert d.schema.inputs[0].option == VARIADIC


@rule("Where")
def where(d: Draft) -> None:
    x = d.take("X")
    d.take("Y", shape=d.draws.broadcast(x.shape))
    d.take("condition", shape=d.draws.broadcast(x.shape))


@rule("Dropout")
def dropout(d: Draft) -> None:
    """Draws a Dropout without training, which is random."""
    d.take("data")
    if d.has_input("ratio") and d.maybe():
        d.put("ratio", np.array(0.3, d.bind("ratio", "f")))
        if d.maybe():
            d.put("training_mode", np.array(False), 1.0)
    d.attr("ratio", 0.25, 0.5)
    d.attr("seed", 7, 0)
    if d.schema.since_version >= 10:  # before, it was no bool, and nobody gave it another type
        d.outputs = d.draws.upto(2)


@rule("Cast")
def cast(d: Draft) -> None:
    x, to = _cast_from(d), _cast_to(d)
    _check_cast(x, to)
    d.attributes["to"] = element_of(to)
    _cast_modes(d)


@rule("CastLike")
def cast_like(d: Draft) -> None:
    x = _cast_from(d)
    like = d.take("target_type", rank=(0, 2), fresh=True)
    _check_cast(x, like.dtype)
    _cast_modes(d)


def _cast_modes(d: Draft) -> None:
    d.attr("saturate", d.draws.upto(1, 0), 1)
    d.attr("round_mode", d.draws.one(["up", "down", "nearest"]), "up")


def _cast_from(d: Draft) -> np.ndarray:
    """Gives numbers that all but the narrowest types hold."""
    dtype = d.bind("input")
    if kind_of(dtype) == "s":
        texts = d.draws.array(np.dtype(np.int64), d.draws.shape(), 0, 9)
        return d.put("input", texts.astype(str).astype(object))
    if d.maybe(0.3):
        return d.take(
            "input", shape=d.draws.shape(), low=0 if kind_of(dtype) == "u" else -6, high=7
        )
    return d.take("input")


def _cast_to(d: Draft, size: int | None = None) -> np.dtype:
    """Gives a type of the result, of some bytes if they are given."""
    dtypes = [dtype_of(each) for each in sorted(d.schema.outputs[0].types)]
    return d.draws.dtype([t for t in dtypes if t is not None and size in (None, t.itemsize)])


def _check_cast(x: np.ndarray, to: np.dtype) -> None:
    """Raises Unfit where the number is outside of what a type holds: ONNX leaves that open."""
    source, target = kind_of(x.dtype), kind_of(to)
    if "c" in (source, target) or {source, target} == {"s"}:
        raise Unfit
    if source == "s" or target not in ("i", "u") or source == "b":
        return
    numbers = np.asarray(x, np.float64)
    low, high = limits_of(to)
    if not np.isfinite(numbers).all():
        raise Unfit
    if source == "f" and ((numbers < low) | (numbers >= high)).any():
        raise Unfit


@rule("BitCast")
def bit_cast(d: Draft) -> None:
    x = d.take("input")
    to = _cast_to(d, x.dtype.itemsize)
    if kind_of(to) in "sb" or kind_of(x.dtype) in "sb" or "4" in (x.dtype.name[-1] + to.name[-1]):
        raise Unfit
    d.attributes["to"] = element_of(to)
