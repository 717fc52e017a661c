"""qdq-to-integer: turns float ops between dequantize and quantize into integer ops and requantize.

Does: conv, matmul (with or without an added bias) and plain changes of grid, each with any relu and
clip behind it, become ops on 8-bit integers that accumulate in i32, then `graph.requantize` with
`#graph.float_half_even`. A relu stays before the requantize; clip bounds become integers after it.
Residual adds and average pools stay in float: ONNX adds floats and rounds once, which no integers
do (see fix-point).

A zero point z of the input stays in the sums, which have z times the sum of the weights too much:
the bias takes that off, and a convolution is padded with z first. A weight's zero point is taken
off the weight, one of the result is added by the requantize.

Requires: normalize-qdq has run, else shape ops and max_pool between dequantize and quantize hide
what is behind them. What does not fit keeps its float form: zero points of an input whose weight is
no constant, weights that do not fit in 8 bits without their zero point, scales that are no
constants, per-channel inputs, a bias in float, or whose scale is not the product of the other two
within 1e-6 (see fix-point), sums that might not fit in i32, a value that something besides quantize
ops uses.

Guarantees: no value is more than one step off. The float form rounds each product and each partial
sum to f32, the integer form only the final sum, so a value whose exact result is a tie, half-way
between two steps, may land on the other side, and hardly any other does. How many that are depends
on the scales: where those of the operands divided by that of the result are 1/100 (0.1 x 0.05 /
0.5), one sum in a hundred is a tie, and about 45 values in 10,000 move; with scales as calibration
finds them, next to none. Where all scales are powers of two and sums stay below 2^24, nothing
changes. Locations are kept.

What stays in float is told why, in the module's trail.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from byocir.dialects.array import column, known_values
from byocir.dialects.graph import AddOp, ConvOp, ConvTransposeOp, MatmulOp
from byocir.dialects.types import element_type_of, i8, i32, ui8
from byocir.patterns import Bound, Match, constant, op, optional, optional_operand, wildcard
from byocir.rewrites.driver import NewOps, rewrite_module
from byocir.rewrites.grid import dequantize, grid_at, integer_range, known_grid, shown
from byocir.rewrites.integers import (
    FEWER_PRODUCTS,
    ONE,
    ONE_SCALE,
    Integers,
    folded_bias,
    integer_weight,
    one_scale,
    output_axis,
    padded,
    requantized,
    shifted_weight,
    summed_axes,
    to_integers,
    without_zero_point,
)
from byocir.rewrites.left_in_float import tell_left_in_float, tell_scales_are_computed

BIAS_SCALE_TOLERANCE = 1e-6
"""Bounds the distance, relatively, of a bias scale from input scale times weight scale."""

SIGNED_WEIGHT = (
    "quantise weights to QInt8 with WeightSymmetric, with one scale or one for each output channel"
)
SYMMETRIC_INPUT = "quantise the input with zero point 0, or make the weight an initializer"
SCALED_BIAS = (
    "quantise the bias to int32 with the scale of the input times that of the weight, as "
    "onnxruntime.quantization.quantize_static does"
)


DATA = dequantize(wildcard("x"), "data")
WEIGHT = dequantize(wildcard("w"), "weight")
BIAS = dequantize(constant("b"), "bias")


@to_integers(op("graph.conv", DATA, WEIGHT, optional_operand(BIAS)) @ "conv")
def quantized_conv(
    m: Match, x: Bound, w: Bound, conv: Bound, quantize: Bound, new: NewOps, b: Bound | None = None
) -> SSAValue:
    """`quantize(conv(dequantize(x), dequantize(w), dequantize(b)))` becomes a conv of integers."""
    image, window = padded(m, new)
    sums = new.add(ConvOp.make(image, integer_weight(m, new), folded_bias(m, new), **window)).result
    scale = scale_of_sums(m)
    assert scale is not None
    return requantized(quantize, Integers(sums, column(scale, x.type.rank - 1), ONE), new)


PRODUCT = op("graph.matmul", DATA, WEIGHT) @ "product"


@to_integers(optional(PRODUCT, lambda product: op("graph.add", product, BIAS)))
def quantized_matmul(
    m: Match,
    x: Bound,
    w: Bound,
    quantize: Bound,
    new: NewOps,
    b: Bound | None = None,
) -> SSAValue:
    """`quantize(matmul(dequantize(x), dequantize(w)) + dequantize(b))` becomes a matmul of integers
    and an add."""
    sums = new.add(MatmulOp.make(x.value, integer_weight(m, new))).result
    bias = folded_bias(m, new)
    if bias is not None:
        sums = new.add(AddOp.make(sums, bias)).result
    scale = scale_of_sums(m)
    assert scale is not None
    return requantized(quantize, Integers(sums, scale, ONE), new)


@to_integers(DATA)
def changed_grid(x: Bound, data: Bound, quantize: Bound, new: NewOps) -> SSAValue:
    """`quantize(dequantize(x))` is a change of grid."""
    grid, value = known_grid(data), x.value
    if not grid.symmetric:
        value = without_zero_point(value, int(grid.zero_point), new)
    return requantized(quantize, Integers(value, grid.scale, ONE), new)


@changed_grid.where(fix=ONE_SCALE)
def _input_has_one_scale(data: Bound) -> tuple[bool, object]:
    """The input has 8 bits and one scale, or is i32 with one scale and zero point 0."""
    grid = grid_at(data)
    if grid is None or not (grid.is_8_bit or (grid.element == i32 and grid.symmetric)):
        return False, shown(grid)
    return grid.per_tensor, shown(grid)


# --- rules of contractions ----------------------------------------------------------------------


for contraction in (quantized_conv, quantized_matmul):
    contraction.where(fix=ONE_SCALE)(one_scale("data", "The input"))


@quantized_conv.where(fix=SIGNED_WEIGHT)
@quantized_matmul.where(fix=SIGNED_WEIGHT)
def weight_has_8_bits(m: Match, weight: Bound) -> tuple[bool, object]:
    """The weight has 8 bits, with its zero point and without it, and one scale or one for each
    output channel."""
    grid = grid_at(weight)
    if grid is None or not grid.is_8_bit:
        return False, shown(grid)
    shifted = shifted_weight(m)
    fits = grid.symmetric or (shifted is not None and shifted.dtype != np.int16)
    return fits and grid.axis in (None, output_axis(m)), shown(grid)


@quantized_conv.where(fix=SYMMETRIC_INPUT)
@quantized_matmul.where(fix=SYMMETRIC_INPUT)
def zero_points_are_folded(m: Match, data: Bound) -> tuple[bool, object]:
    """The input has zero point 0, or the weight is a constant."""
    grid, known = grid_at(data), known_values(m["w"].value) is not None
    return known or grid is None or grid.symmetric, shown(grid)


@quantized_matmul.where(fix="use the sum with the bias alone, a number for each output")
def _product_is_not_used(product: Bound, b: Bound | None = None) -> tuple[bool, object]:
    """Nothing but the add of the bias uses the product, and the bias does not broadcast it."""
    if b is None:
        return True, "no bias"
    users = [use.operation for use in product.value.uses]
    fits = len(users) == 1 and users[0].results[0].type == product.value.type
    return fits, ", ".join(user.name for user in users)


@quantized_conv.where(fix=SCALED_BIAS)
@quantized_matmul.where(fix=SCALED_BIAS)
def bias_is_on_the_grid_of_the_sums(
    m: Match, b: Bound | None = None, bias: Bound | None = None
) -> tuple[bool, object]:
    """The bias is i32 with zero point 0, and its scale that of the input times that of the
    weight."""
    expected = scale_of_sums(m)
    if b is None or bias is None or expected is None:
        return True, "no bias"
    grid = grid_at(bias)
    if grid is None or grid.element != i32 or not grid.symmetric:
        return False, shown(grid)
    along = grid.per_tensor or grid.axis == b.type.rank - 1
    close = np.isclose(grid.scale, expected, rtol=BIAS_SCALE_TOLERANCE, atol=0.0)
    return along and bool(np.all(close)), f"{grid} for {_range(expected)}"


def _range(scales: np.ndarray) -> str:
    return f"{scales.min():.6g} to {scales.max():.6g}" if scales.ndim else f"{scales:.6g}"


@quantized_conv.where(fix=FEWER_PRODUCTS)
@quantized_matmul.where(fix=FEWER_PRODUCTS)
def sums_fit(m: Match, x: Bound, w: Bound, b: Bound | None = None) -> tuple[bool, int]:
    """No sum of products can leave i32."""
    if not all(_is_byte(each) for each in (x, w)):
        return True, 0
    grid = grid_at(m["data"])
    farthest = _farthest(x.value) + (0 if grid is None else int(np.abs(grid.zero_point).max()))
    products = farthest * _columns(m)
    bias = np.abs((np.zeros(1) if b is None else b.numbers).astype(np.int64))
    if bias.shape not in ((), (1,), products.shape[-1:]):  # of other channels than the weights'
        bias = bias.max(initial=0)
    worst = int((products + bias).max(initial=0))
    return worst < 2**31, worst


def _is_byte(bound: Bound) -> bool:
    return bound.type.element in (i8, ui8)


def scale_of_sums(m: Match) -> np.ndarray | None:
    """Computes the scale of the sums of a contraction, a scalar or one for each output; None where
    the grids of its operands do not give one.
    """
    data, weight = grid_at(m["data"]), grid_at(m["weight"])
    if data is None or weight is None or not data.per_tensor:
        return None
    if weight.axis not in (None, output_axis(m)):
        return None
    scale = np.multiply(data.scale, weight.scale, dtype=np.float32)
    conv = m["conv"].op if "conv" in m else None
    if isinstance(conv, ConvTransposeOp) and scale.ndim:
        # Its weights have scales for the outputs of one group only.
        return np.tile(scale, conv.group.value.data)
    return scale


def _columns(m: Match) -> np.ndarray:
    """Computes the sums of magnitudes of weights that a contraction adds up, for each of its
    outputs; one upper bound where the weight is no constant or its values were not supplied.
    """
    weight, inner, shifted = m["w"], summed_axes(m), shifted_weight(m)
    if shifted is None:
        points = math.prod(weight.type.shape[axis] for axis in inner)
        return np.array(_farthest(weight.value) * points)
    return np.abs(shifted.astype(np.int64)).sum(axis=inner)


def _farthest(value: SSAValue) -> int:
    return max(abs(end) for end in integer_range(element_type_of(value.type)))


# --- the pass -----------------------------------------------------------------------------------

REWRITES = (quantized_conv, quantized_matmul, changed_grid)


@dataclass(frozen=True)
class QdqToIntegerPass(ModulePass):
    """Turns float ops between dequantize and quantize into integer ops and requantize."""

    name = "qdq-to-integer"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite_module(op, REWRITES)
        tell_left_in_float(op, self.name, REWRITES)
        tell_scales_are_computed(op, self.name)
