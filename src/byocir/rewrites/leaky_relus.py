"""Turns leaky relus and prelus of bytes into integer ops: a part of fix-point.

With t, the bytes without their zero point, `leaky_relu` is `t * a + min(t, 0) * (b - a)`, where a
is the scale of t and b that times the slope, both on a grid so fine that nothing is rounded but the
sum. Slopes may be one number or one for each channel, above 0 or not.
"""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from byocir.dialects.array import ArrayAttr, known_values
from byocir.dialects.graph import AddOp, ClipOp, LeakyReluOp, MulOp, PreluOp
from byocir.patterns import Bound, constant, op, wildcard
from byocir.rewrites.driver import NewOps
from byocir.rewrites.grid import dequantize, dequantized, grid_at, is_plain, known_grid
from byocir.rewrites.integers import (
    CLOSER_SCALES,
    ONE,
    ONE_SCALE,
    Integers,
    one_scale,
    requantized,
    to_integers,
    without_zero_point,
)
from byocir.rewrites.residual_sums import sum_parameters

_DATA = dequantize(wildcard("x"), "data")
_SLOPE = constant("slope") | dequantize(constant(), "slope")
_ACTIVATION = op("graph.leaky_relu", _DATA) | op("graph.prelu", _DATA, _SLOPE)


@to_integers(_ACTIVATION @ "activation")
def leaky_relu_to_sum(
    x: Bound, data: Bound, activation: Bound, quantize: Bound, new: NewOps
) -> SSAValue:
    """`quantize(leaky_relu(dequantize(x)))` becomes a sum of integers and a requantize."""
    parameters = _parameters(data, activation, quantize)
    assert parameters is not None
    (whole, below), shift = parameters
    centred = without_zero_point(x.value, int(known_grid(data).zero_point), new)
    zero = ArrayAttr.of(np.zeros((), np.int32))
    least = new.add(ClipOp.make(centred, max=zero)).result
    terms = [
        new.add(MulOp.make(value, new.constant(factors))).result
        for value, factors in ((centred, whole), (least, below))
    ]
    total = new.add(AddOp.make(*terms)).result
    scale = np.float32(np.ldexp(known_grid(quantize).scale, -shift))
    return requantized(quantize, Integers(total, np.asarray(scale), ONE), new)


def _parameters(
    data: Bound, activation: Bound, quantize: Bound
) -> tuple[tuple[np.ndarray, np.ndarray], int] | None:
    """Computes the multipliers (int32) of the integers and of those below 0, and the shift of their
    sum; None where no shift keeps the sum in i32.
    """
    slopes, before, after = _slopes(activation), grid_at(data), grid_at(quantize)
    assert slopes is not None
    assert before is not None
    assert after is not None
    scale = np.float64(before.scale) / np.float64(after.scale)
    both = np.stack(np.broadcast_arrays(scale, scale * (slopes.astype(np.float64) - 1)))
    found = sum_parameters(both, [before.farthest] * 2, after)
    if found is None:
        return None
    (whole, below), shift = found
    return (whole.reshape(-1)[:1].reshape(()), below), shift


leaky_relu_to_sum.where(fix=ONE_SCALE)(one_scale("data", "The input"))


@leaky_relu_to_sum.where(fix="make the slopes an initializer")
def slopes_are_known(activation: Bound) -> tuple[bool, object]:
    """The slopes are numbers that are known when the model is compiled."""
    slopes = _slopes(activation)
    return slopes is not None, "slopes that are computed" if slopes is None else slopes.shape


@leaky_relu_to_sum.where(fix=CLOSER_SCALES)
def sum_fits(data: Bound, activation: Bound, quantize: Bound) -> tuple[bool, str]:
    """The sum on a fine grid fits in i32."""
    plain = all(is_plain(grid_at(each)) for each in (data, quantize))
    if not plain or _slopes(activation) is None:
        return True, "another rule says"
    return _parameters(data, activation, quantize) is not None, "scales too far apart"


def _slopes(activation: Bound) -> np.ndarray | None:
    """Reads the slopes below 0, f32, which broadcast to the input; None where they are not
    known.
    """
    op = activation.op
    if isinstance(op, LeakyReluOp):
        return np.array(op.alpha.value.data, np.float32)
    assert isinstance(op, PreluOp)
    found = dequantized(op.slope)
    slopes = known_values(op.slope if found is None else found[0])
    if slopes is None or not np.isfinite(slopes).all():
        return None
    if found is None:
        return slopes
    grid, steps = found[1], slopes.astype(np.int32)
    if not grid.per_tensor:
        return None
    return (steps - grid.zero_point.astype(np.int32)).astype(np.float32) * grid.scale
