"""Brings what layers add as floats to the grid of their sums: a part of fix-point.

Many exporters leave the biases of quantised layers in float, or on a grid of their own, and batch
norms behind them. A bias is rounded to i32 on the grid of the sums, whose scale is that of the
input times that of the weight. A batch norm becomes a scale of the weight for each output channel,
and a bias. So layers get the form that qdq-to-integer knows, and its rewrites do the rest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.ir import SSAValue

from byocir.dialects.array import column, known_values
from byocir.dialects.graph import ClipOp, DequantizeOp, QuantizeOp, ReluOp
from byocir.dialects.graph.fixed_point import INT32_MAX
from byocir.dialects.intervals import integer_range
from byocir.patterns import Bound, Match, constant, either, op, optional_operand, present
from byocir.rewrites.driver import NewOps
from byocir.rewrites.fold_batch_norm import Affine, batch_norm
from byocir.rewrites.grid import LEAST_SCALE, grid_at, grid_of, is_plain, known_grid
from byocir.rewrites.matching import rewrites
from byocir.rewrites.qdq_to_integer import (
    BIAS,
    DATA,
    PRODUCT,
    WEIGHT,
    bias_is_on_the_grid_of_the_sums,
    scale_of_sums,
)

_ANY_BIAS = constant("b", where=present()) | BIAS


_CONVS = (op(kind, DATA, WEIGHT, _ANY_BIAS) for kind in ("graph.conv", "graph.conv_transpose"))


@rewrites(either(*_CONVS) @ "conv")
def bias_of_conv_on_grid(
    m: Match, data: Bound, weight: Bound, conv: Bound, new: NewOps
) -> SSAValue:
    """A bias of a convolution is one of i32 on the grid of the sums."""
    return new.again(conv, data, weight, _on_grid_of_sums(m, 0, new))


@rewrites(op("graph.add", PRODUCT, _ANY_BIAS) @ "total")
def bias_of_product_on_grid(
    m: Match, product: Bound, b: Bound, total: Bound, new: NewOps
) -> SSAValue:
    """A constant that is added to a product is one of i32 on the grid of the sums."""
    return new.again(total, product, _on_grid_of_sums(m, b.type.rank - 1, new))


def _on_grid_of_sums(m: Match, axis: int, new: NewOps) -> SSAValue:
    scale = scale_of_sums(m)
    assert scale is not None
    integers = np.rint(_numbers(m) / scale).astype(np.int32)
    zero = new.constant(np.zeros(scale.shape, np.int32))
    operands = new.constant(integers), new.constant(scale), zero
    return new.add(DequantizeOp.make(*operands, axis=axis if scale.ndim else 1)).result


def _numbers(m: Match) -> np.ndarray:
    """Computes the numbers of a bias in f64, 0 where there is none."""
    if "b" not in m:
        return np.zeros(())
    numbers = m["b"].numbers.astype(np.float64)
    if "bias" not in m:
        return numbers
    grid = known_grid(m["bias"])
    return grid.less_zero(numbers) * grid.along(grid.scale.astype(np.float64), numbers.ndim)


@bias_of_conv_on_grid.where
@bias_of_product_on_grid.where
def it_is_another_grid(m: Match, b: Bound) -> tuple[bool, object]:
    """The bias has another grid than the sums, or none."""
    if "bias" not in m:
        return True, "floats"
    grid = grid_at(m["bias"])
    return grid is not None and not bias_is_on_the_grid_of_the_sums(m, b, m["bias"])[0], grid


@bias_of_conv_on_grid.where
@bias_of_product_on_grid.where
def it_fits(m: Match, b: Bound) -> tuple[bool, object]:
    """The sums have a grid, on which the bias fits in i32, for each output where scales are."""
    scale = scale_of_sums(m)
    if scale is None or not (is_plain(grid_at(m["data"])) and known_grid(m["weight"]).is_8_bit):
        return False, "no grid"
    if scale.ndim and b.type.shape[-1:] != scale.shape:
        return False, b.type.shape
    steps = np.abs(_numbers(m) / scale)
    return bool(np.all(steps < INT32_MAX)), steps.max(initial=0)


@bias_of_conv_on_grid.where
@bias_of_product_on_grid.where
def its_steps_are_finer_than_those_of_the_result(m: Match) -> tuple[bool, object]:
    """Only quantize ops use the result, behind relus and clips, on no finer grid than the sums."""
    results = _quantized_as(m.root.results[0])
    scale = scale_of_sums(m)
    if not results or scale is None:
        return False, "floats"
    grids = [grid_of(each) for each in results]
    finest = min((float(g.scale.min()) for g in grids if g is not None), default=0.0)
    return None not in grids and bool(scale.max() <= finest), finest


def _quantized_as(value: SSAValue) -> list[QuantizeOp]:
    """Lists the quantize ops that use a value, behind relus and clips; none where another op
    does."""
    found: list[QuantizeOp] = []
    for user in (use.operation for use in value.uses):
        if isinstance(user, QuantizeOp):
            found.append(user)
            continue
        behind = _quantized_as(user.result) if isinstance(user, ReluOp | ClipOp) else []
        if not behind:
            return []
        found += behind
    return found


_CONV = op("graph.conv", DATA, WEIGHT, optional_operand(_ANY_BIAS)) @ "conv"


@rewrites(batch_norm(_CONV), one_use=True)
def batch_norm_in_scales(
    m: Match, data: Bound, weight: Bound, conv: Bound, new: NewOps
) -> SSAValue:
    """`batch_norm(conv(dequantize(x), dequantize(w), b))` is a conv with other scales of the
    weight, and a bias in float."""
    affine, scaled = Affine.of(m), _Scaled.of(m)
    zero = np.broadcast_to(known_grid(weight).zero_point, scaled.scale.shape)
    operands = (new.constant(each) for each in (scaled.values, scaled.scale, zero))
    changed = new.add(DequantizeOp.make(*operands, axis=0)).result
    bias = _numbers(m) * affine.factor + affine.shift
    return new.again(conv, data, changed, new.constant(bias.astype(np.float32)))


@batch_norm_in_scales.where
def factors_are_scales(m: Match) -> tuple[bool, object]:
    """The weight has 8 bits, also with another sign where factors are negative, and its new
    scales are of f32."""
    grid = grid_at(m["weight"])
    if grid is None or not grid.is_8_bit or grid.axis not in (None, 0):
        return False, grid
    if known_values(m["w"].value) is None or ("bias" in m and grid_at(m["bias"]) is None):
        return False, grid
    made, (low, high) = _Scaled.of(m), integer_range(grid.element)
    fits = low <= made.wide.min(initial=0) and made.wide.max(initial=0) <= high
    return bool(
        fits and np.all((made.scale >= LEAST_SCALE) & (made.scale <= 1 / LEAST_SCALE))
    ), grid


@dataclass(frozen=True)
class _Scaled:
    """Describes a weight times a factor for each output channel: its integers, and its scales."""

    wide: np.ndarray
    scale: np.ndarray
    dtype: np.dtype

    @property
    def values(self) -> np.ndarray:
        return self.wide.astype(self.dtype)

    @staticmethod
    def of(m: Match) -> _Scaled:
        """Gives a batch norm's factors to a weight: signs to its integers, sizes to its scales."""
        grid, factor, values = known_grid(m["weight"]), Affine.of(m).factor, m["w"].numbers
        wide, sign = values.astype(np.float64), column(np.sign(factor), values.ndim)
        wide += grid.less_zero(wide) * (sign - 1)
        scale = grid.scale * np.where(factor == 0, 1, np.abs(factor))
        return _Scaled(wide, scale.astype(np.float32), values.dtype)


TO_GRID = (batch_norm_in_scales, bias_of_conv_on_grid, bias_of_product_on_grid)
