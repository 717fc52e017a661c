"""Numpy rules of element by element ops where the ONNX form leaves something open (what conversions
do with numbers that do not fit, integers to powers below 0) or onnx's reference fails, or adds
products that make NaN of a slope that is not finite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from xdsl.ir import Operation

from byocir.dialects.graph import (
    CastOp,
    ErfOp,
    GeluOp,
    HardSwishOp,
    LeakyReluOp,
    PowOp,
    PreluOp,
    SoftsignOp,
)
from byocir.dialects.types import dtype_of
from byocir.evaluate.rule import Rule
from byocir.evaluate.scalar import error_function, saturate


def _cast(op: CastOp, operands: Sequence[np.ndarray]) -> np.ndarray:
    x, dtype = operands[0], dtype_of(op.to)
    if x.dtype.kind in "iub" or dtype.kind not in "iu":
        return x.astype(dtype)
    wide = x.astype(np.promote_types(x.dtype, np.float32))
    return saturate(np.where(np.isnan(wide), 0, wide).astype(wide.dtype), dtype)


def _pow(op: PowOp, operands: Sequence[np.ndarray]) -> np.ndarray:
    base, exponent = operands
    if base.dtype.kind not in "iu":
        return np.power(base, exponent.astype(base.dtype))
    if exponent.dtype.kind not in "iu":
        power = np.power(base.astype(np.float64), exponent.astype(np.float64))
        return saturate(np.trunc(power), base.dtype)
    # Modulo 2^64, of which the low bits are those of any narrower product.
    raised = np.power(base.astype(np.uint64), np.maximum(exponent, 0).astype(np.uint64))
    odd = np.where(exponent % 2 == 1, base, np.ones_like(base))
    unit = (base == 1) | ((base.astype(np.int64) == -1) & (base.dtype.kind == "i"))
    inverse = np.where(unit, odd, np.zeros_like(base))
    return np.where(exponent < 0, inverse, raised.astype(base.dtype))


def _erf(op: ErfOp, operands: Sequence[np.ndarray]) -> np.ndarray:
    """onnx's reference computes in f32, whatever the type."""
    return error_function(operands[0])


def _gelu(op: GeluOp, operands: Sequence[np.ndarray]) -> np.ndarray:
    (x,) = operands
    wide = x.astype(np.float64)
    if op.approximate.data == "tanh":
        curve = np.tanh(np.sqrt(2 / np.pi) * (wide + 0.044715 * wide**3))
    else:
        curve = error_function(wide / np.sqrt(2))
    return (0.5 * wide * (1 + curve)).astype(x.dtype)


def _softsign(op: SoftsignOp, operands: Sequence[np.ndarray]) -> np.ndarray:
    """onnx's reference fails for scalars."""
    (x,) = operands
    return np.asarray(x / (1 + np.abs(x)), x.dtype)


def _hard_swish(op: HardSwishOp, operands: Sequence[np.ndarray]) -> np.ndarray:
    """Rounded as blocks round it: what is quantised next may otherwise be another integer."""
    (x,) = operands
    wide = x.astype(np.promote_types(x.dtype, np.float32))
    slope, offset = map(wide.dtype.type, (1 / 6, 0.5))
    return (wide * np.clip(wide * slope + offset, 0, 1)).astype(x.dtype)


def _leaky_relu(op: LeakyReluOp, operands: Sequence[np.ndarray]) -> np.ndarray:
    (x,) = operands
    return np.where(x >= 0, x, x * x.dtype.type(op.alpha.value.data))


def _prelu(op: PreluOp, operands: Sequence[np.ndarray]) -> np.ndarray:
    x, slope = operands
    return np.where(x >= 0, x, x * slope)


ELEMENTWISE_RULES: Mapping[type[Operation], Rule] = {
    CastOp: _cast,
    ErfOp: _erf,
    GeluOp: _gelu,
    HardSwishOp: _hard_swish,
    LeakyReluOp: _leaky_relu,
    PowOp: _pow,
    PreluOp: _prelu,
    SoftsignOp: _softsign,
}
"""By op class."""
