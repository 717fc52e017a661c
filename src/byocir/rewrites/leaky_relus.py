"""Leaky relus of bytes as sums: a part of fix-point.

`leaky_relu(x)` is `max(x, 0) + alpha * min(x, 0)`, of which one term is always 0. On a grid both
terms are the bytes, clipped at the zero point, and the second one's scale is alpha times the first
one's. What takes sums on two grids to integers takes leaky relus with that. A prelu of one slope is
the same.
"""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from byocir.dialects.array import ArrayAttr
from byocir.dialects.graph import AddOp, ClipOp, DequantizeOp, LeakyReluOp, PreluOp, QuantizeOp
from byocir.dialects.types import dtype_of
from byocir.patterns import Bound, constant, op, wildcard
from byocir.rewrites.driver import NewOps
from byocir.rewrites.grid import (
    LEAST_SCALE,
    Grid,
    constant_array,
    dequantize,
    dequantized,
    grid_at,
    known_grid,
    shown,
)
from byocir.rewrites.integers import ONE_SCALE
from byocir.rewrites.matching import rewrites

_DATA = dequantize(wildcard("x"), "data")
_SLOPE = constant("slope") | dequantize(constant(), "slope")
_ACTIVATION = op("graph.leaky_relu", _DATA) | op("graph.prelu", _DATA, _SLOPE)


@rewrites(_ACTIVATION @ "activation")
def leaky_relu_to_sum(x: Bound, data: Bound, activation: Bound, new: NewOps) -> SSAValue:
    """`leaky_relu(dequantize(x))` becomes a sum of two dequantised tensors."""
    grid, alpha = known_grid(data), _alpha(activation)
    assert alpha is not None
    zero = ArrayAttr.of(grid.zero_point.astype(dtype_of(grid.element)).reshape(()))
    above = new.add(ClipOp.make(x.value, min=zero)).result
    below = new.add(ClipOp.make(x.value, max=zero)).result
    terms = _on_grid(above, grid, 1.0, new), _on_grid(below, grid, alpha, new)
    return new.add(AddOp.make(*terms)).result


def _on_grid(value: SSAValue, grid: Grid, factor: float, new: NewOps) -> SSAValue:
    scale = (grid.scale * np.float32(factor)).astype(np.float32)
    operands = [new.constant(array) for array in (scale, grid.zero_point)]
    return new.add(DequantizeOp.make(value, *operands, axis=1)).result


@leaky_relu_to_sum.where
def result_is_quantised(activation: Bound) -> tuple[bool, str]:
    """Nothing but quantize ops uses the result."""
    users = [use.operation for use in activation.value.uses]
    return all(isinstance(user, QuantizeOp) for user in users), ", ".join(u.name for u in users)


@leaky_relu_to_sum.where(fix=ONE_SCALE)
def input_has_one_scale(data: Bound) -> tuple[bool, object]:
    """The input has 8 bits and one scale."""
    grid = grid_at(data)
    return grid is not None and grid.is_8_bit and grid.per_tensor, shown(grid)


@leaky_relu_to_sum.where(fix="use one slope for all channels that is above 0")
def slope_is_one_number(data: Bound, activation: Bound) -> tuple[bool, object]:
    """The slope is one number above 0."""
    alpha, grid = _alpha(activation), grid_at(data)
    if alpha is None or grid is None:
        return False, "several"
    return bool(np.all(grid.scale * alpha >= LEAST_SCALE)), alpha


def _alpha(activation: Bound) -> float | None:
    """The slope below 0, if it is one number that is known."""
    op = activation.op
    if isinstance(op, LeakyReluOp):
        return float(op.alpha.value.data)
    assert isinstance(op, PreluOp)
    array, found = constant_array(op.slope), dequantized(op.slope)
    if found is not None:
        integers, grid = constant_array(found[0]), found[1]
        if integers is None or not integers.present or integers.size != 1 or not grid.per_tensor:
            return None
        return float(grid.number(int(integers.values().reshape(()))))
    if array is None or not array.present or array.size != 1:
        return None
    return float(array.values().reshape(()))
