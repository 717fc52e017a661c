"""Evaluates with numpy those graph ops whose definitions would run slowly as blocks: contractions,
windows, quantisation, recurrences, resizes, and moves that are views.

What they compute is what the definitions compute: integers bit for bit, floats but for the order in
which contractions and windows are summed. `tests/lowering/test_graph_to_tir.py` holds one against
the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, cast

import numpy as np
from xdsl.ir import Operation

from byocir.dialects import graph as g
from byocir.dialects.array import column
from byocir.dialects.graph.base import int_tuple
from byocir.dialects.graph.fixed_point import Rounding, rescale
from byocir.dialects.graph.nn import BYTES
from byocir.dialects.graph.pool import window_counts
from byocir.dialects.graph.resize import Taps, taps_along
from byocir.dialects.graph.shape import InOrderOp
from byocir.dialects.types import Shape, dtype_of, element_type_of, shape_of
from byocir.evaluate.scalar import saturate

Rule = Callable[[Any, Sequence[np.ndarray]], np.ndarray | Sequence[np.ndarray]]
"""Computes the results of an op, or its only one, from its operands."""


States = tuple[np.ndarray, ...]
"""States that a step hands to the next, each [batch,H]; the first is the output."""

Step = Callable[[np.ndarray, States], States]
"""One step: the inputs' products with the weights [batch,gates*H], and states, to states."""


# -- recurrent ops, which onnx's reference knows without sequence lengths, in one direction only


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return np.exp(-np.logaddexp(0, -x))


def _run(
    op: g.RecurrentOp,
    operands: Sequence[np.ndarray],
    starts: Sequence[np.ndarray],
    step_of: Callable[[int], Step],
) -> list[np.ndarray]:
    """Runs a recurrent op, direction by direction: gives the states of all steps, and the last ones
    [directions,batch,H].
    """
    x, w, lengths = operands[0], operands[1], operands[4]
    states = np.zeros((x.shape[0], w.shape[0], x.shape[1], operands[2].shape[2]), x.dtype)
    lasts = [np.array(start) for start in starts]
    for direction in range(w.shape[0]):
        backwards = direction == 1 or op.direction.data == "reverse"
        products, step = x @ w[direction].T, step_of(direction)
        current = tuple(start[direction] for start in starts)
        for time in range(x.shape[0])[:: -1 if backwards else 1]:
            inside = (time < lengths)[:, None]  # backwards, too: the end of a sequence is its start
            found = step(products[time], current)
            pairs = zip(found, current, strict=True)
            current = tuple(np.where(inside, new, old).astype(x.dtype) for new, old in pairs)
            states[time, direction] = np.where(inside, current[0], 0)
        for last, value in zip(lasts, current, strict=True):
            last[direction] = value
    return [states, *lasts]


def _biases(bias: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Splits a bias into that of the input and that of the recurrence."""
    half = len(bias) // 2
    return bias[:half], bias[half:]


def _rnn(op: g.RnnOp, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
    def step_of(direction: int) -> Step:
        recurrence, bias = operands[2][direction], sum(_biases(operands[3][direction]))
        return lambda x, states: (np.tanh(x + states[0] @ recurrence.T + bias),)

    return _run(op, operands, [operands[5]], step_of)


def _gru(op: g.GruOp, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
    hidden, linear = operands[2].shape[2], op.linear_before_reset.value.data == 1

    def step_of(direction: int) -> Step:
        recurrence = operands[2][direction]
        on_input, on_state = _biases(operands[3][direction])
        gates, last = slice(2 * hidden), slice(2 * hidden, None)

        def step(x: np.ndarray, states: States) -> States:
            (h,) = states
            x = x + on_input
            opened = _sigmoid(x[:, gates] + h @ recurrence[gates].T + on_state[gates])
            update, reset = opened[:, :hidden], opened[:, hidden:]
            if linear:
                product = reset * (h @ recurrence[last].T + on_state[last])
            else:
                product = (reset * h) @ recurrence[last].T + on_state[last]
            return ((1 - update) * np.tanh(x[:, last] + product) + update * h,)

        return step

    return _run(op, operands, [operands[5]], step_of)


def _lstm(op: g.LstmOp, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
    def step_of(direction: int) -> Step:
        recurrence, bias = operands[2][direction], sum(_biases(operands[3][direction]))
        peep_in, peep_out, peep_forget = np.split(operands[7][direction], 3)

        def step(x: np.ndarray, states: States) -> States:
            h, c = states
            entry, exit_, forget, cell = np.split(x + h @ recurrence.T + bias, 4, axis=1)
            kept = _sigmoid(forget + peep_forget * c) * c
            new = kept + _sigmoid(entry + peep_in * c) * np.tanh(cell)
            return _sigmoid(exit_ + peep_out * new) * np.tanh(new), new

        return step

    return _run(op, operands, [operands[5], operands[6]], step_of)


RECURRENT_RULES: Mapping[type[Operation], Rule] = {g.GruOp: _gru, g.LstmOp: _lstm, g.RnnOp: _rnn}
"""The rule of each op class."""


# -- resize: along one dimension after the other, sums of weighted elements
#
# An element of the result lies somewhere between two of the input, where `coordinates` says, and is
# made of those around: its taps. onnx's reference finds these again after it has moved the
# coordinate by a whole number, which rounds: what lies just behind an element is made of those
# before it.


def _resize(op: g.ResizeOp, operands: Sequence[np.ndarray]) -> np.ndarray:
    """Resizes an array: the nearest elements keep their bits, others are sums of doubles. Integers
    are rounded at the end, ties to even, and saturate.
    """
    (made,) = operands
    taps = {axis: found for axis in range(made.ndim) if (found := taps_along(op, axis)) is not None}
    for axis, along in taps.items():
        is_copied = op.mode.data == "nearest"
        made = np.take(made, along.indices[:, 0], axis) if is_copied else _sums(made, along, axis)
    made = _as(operands[0].dtype, made, np.rint)
    number = _as(made.dtype, np.array(op.extrapolation_value.value.data), np.trunc)
    for axis, along in taps.items():
        if along.beyond.any():
            made = np.where(column(along.beyond, made.ndim - axis), number, made)
    return made


def _sums(x: np.ndarray, along: Taps, axis: int) -> np.ndarray:
    """Sums weighted taps along a dimension, as doubles."""
    wide, rank = x.astype(np.float64, copy=False), x.ndim - axis
    total = np.take(wide, along.indices[:, 0], axis) * column(along.weights[:, 0], rank)
    for tap in range(1, along.weights.shape[1]):
        part = np.take(wide, along.indices[:, tap], axis)
        total += part * column(along.weights[:, tap], rank)
    return total


def _as(
    dtype: np.dtype, values: np.ndarray, rounded: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """Converts doubles to another type, rounding them by `rounded` if that has integers; values of
    that type already stay as they are.
    """
    if values.dtype == dtype:
        return values
    if dtype == np.bool_:
        return saturate(rounded(values), np.dtype(np.uint8)).astype(dtype)
    return saturate(rounded(values), dtype) if dtype.kind in "iu" else values.astype(dtype)


# -- windows


def _slices(
    x: np.ndarray, out: Shape, op: g.PoolOp | g.ConvOp, kernel: Sequence[int], fill: Any
) -> Iterator[tuple[tuple[int, ...], np.ndarray]]:
    """Yields each position in the kernel, in order, with the elements of `x` [N,C,spatial…] that
    all windows have there [N,C,out…]; outside of `x` these are `fill`.
    """
    strides, dilations = int_tuple(op.strides), int_tuple(op.dilations)
    begins = int_tuple(op.pads)[: len(kernel)]
    reach = [
        (count - 1) * stride + (extent - 1) * dilation + 1
        for count, stride, extent, dilation in zip(out, strides, kernel, dilations, strict=True)
    ]
    ends = [max(r - b - d, 0) for r, b, d in zip(reach, begins, x.shape[2:], strict=True)]
    padding = [(0, 0), (0, 0), *zip(begins, ends, strict=True)]
    op.ask_for([n + sum(pad) for n, pad in zip(x.shape, padding, strict=True)], x.dtype)
    padded = np.pad(x, padding, constant_values=fill)
    for position in product(*map(range, kernel)):
        starts = [p * d for p, d in zip(position, dilations, strict=True)]
        window = (
            slice(start, start + (count - 1) * stride + 1, stride)
            for start, count, stride in zip(starts, out, strides, strict=True)
        )
        yield position, padded[(slice(None), slice(None), *window)]


def _pool_slices(op: g.PoolOp, x: np.ndarray, fill: Any) -> Iterator[np.ndarray]:
    out = shape_of(op.result.type)[2:]
    return (part for _, part in _slices(x, out, op, int_tuple(op.kernel_shape), fill))


def _max_pool(op: g.MaxPoolOp, operands: Sequence[np.ndarray]) -> np.ndarray:
    x = operands[0]
    least = np.iinfo(x.dtype).min if x.dtype.kind in "iu" else -np.inf
    result = np.full(shape_of(op.result.type), least, x.dtype)
    for part in _pool_slices(op, x, least):
        np.maximum(result, part, out=result)
    return result


def _average_pool(op: g.AveragePoolOp, operands: Sequence[np.ndarray]) -> np.ndarray:
    x = operands[0]
    wide = np.promote_types(x.dtype, np.float32)
    total = np.zeros(shape_of(op.result.type), wide)
    for part in _pool_slices(op, x.astype(wide), 0):
        total += part
    counts = window_counts(op, bool(op.count_include_pad.value.data))
    return (total / counts.astype(wide)).astype(x.dtype)


def _lp_pool(op: g.LpPoolOp, operands: Sequence[np.ndarray]) -> np.ndarray:
    """Computes an LpPool. Onnx's reference scales windows that lie partly beyond the pads, as an
    average would be.
    """
    x, p = operands[0], op.p.value.data
    wide = np.promote_types(x.dtype, np.float32)
    total = np.zeros(shape_of(op.result.type), wide)
    for part in _pool_slices(op, np.abs(x.astype(wide)), 0):
        total += part if p == 1 else part * part if p == 2 else part ** wide.type(p)
    root = total if p == 1 else np.sqrt(total) if p == 2 else total ** wide.type(1 / p)
    return root.astype(x.dtype)


def _sum_pool(op: g.SumPoolOp, operands: Sequence[np.ndarray]) -> np.ndarray:
    total = np.zeros(shape_of(op.result.type), np.int32)
    for part in _pool_slices(op, operands[0], 0):
        total += part
    return total


# -- contractions


def _conv(op: g.ConvOp, operands: Sequence[np.ndarray]) -> np.ndarray:
    """Computes a convolution as one matrix product for each kernel position: on integers exactly,
    for products of bytes summed in float64 stay far below 2^53. Onnx's reference multiplies what
    lies between the taps of a dilated kernel by zeros, so that a NaN there spreads.
    """
    x, w = operands[0], operands[1]
    group, out = op.group.value.data, shape_of(op.result.type)
    whole = element_type_of(op.input.type) in BYTES
    wide = np.dtype(np.float64) if whole else np.promote_types(x.dtype, np.float32)
    op.ask_for(out, wide)
    # Kernel positions first, so that each is a contiguous matrix: numpy has no BLAS for others.
    weights = np.moveaxis(w, (0, 1), (-2, -1)).astype(wide, order="C")
    weights = weights.reshape(*w.shape[2:], group, w.shape[0] // group, w.shape[1])
    total = np.zeros((x.shape[0], group, w.shape[0] // group, math.prod(out[2:])), wide)
    for position, part in _slices(x.astype(wide), out[2:], op, w.shape[2:], 0):
        columns = part.reshape(x.shape[0], group, w.shape[1], math.prod(out[2:]))
        total += weights[position] @ columns
    result = (total.astype(np.int64) if whole else total).reshape(out)
    if len(operands) > 2:
        result += column(operands[2], len(out) - 1)
    return result.astype(np.int32 if whole else x.dtype)


def _matmul(op: g.MatmulOp, operands: Sequence[np.ndarray]) -> np.ndarray:
    lhs, rhs = operands
    if element_type_of(op.lhs.type) not in BYTES:
        wide = np.promote_types(lhs.dtype, np.float32) if lhs.dtype.kind == "f" else lhs.dtype
        return np.asarray(lhs.astype(wide) @ rhs.astype(wide)).astype(lhs.dtype)
    total = np.asarray(lhs.astype(np.float64) @ rhs.astype(np.float64))
    return total.astype(np.int64).astype(np.int32)


def _around(op: g.ConvTransposeOp, sizes: Sequence[int]) -> list[tuple[int, int]]:
    """Counts, for each spatial dimension, by how many elements kernels reach past the first and
    past the last element of the input.
    """
    rows = zip(
        sizes,
        int_tuple(op.strides),
        int_tuple(op.dilations),
        shape_of(op.weight.type)[2:],
        int_tuple(op.pads),
        shape_of(op.result.type)[2:],
        strict=False,
    )
    reach = [((k - 1) * d - b, b + o - 1, n, s) for n, s, d, k, b, o in rows]
    return [(max(before // s, 0), max(last // s - (n - 1), 0)) for before, last, n, s in reach]


def _conv_transpose(op: g.ConvTransposeOp, operands: Sequence[np.ndarray]) -> np.ndarray:
    """Computes a transposed convolution: adds the products with each kernel position to every
    `strides`-th element. As in blocks there are zeros around the input, of which weights that are
    not finite make NaN.
    """
    x, w, group = operands[0], operands[1], op.group.value.data
    strides, dilations = int_tuple(op.strides), int_tuple(op.dilations)
    begins, out = int_tuple(op.pads)[: x.ndim - 2], shape_of(op.result.type)
    if not np.isfinite(w).all():
        around = _around(op, x.shape[2:])
        x = np.pad(x, [(0, 0), (0, 0), *around])
        begins = [b + s * pads[0] for b, s, pads in zip(begins, strides, around, strict=True)]
    kernel, sizes, outputs = w.shape[2:], x.shape[2:], w.shape[1]
    reach = [
        max((n - 1) * s + (k - 1) * d + 1, b + o)
        for n, s, k, d, b, o in zip(sizes, strides, kernel, dilations, begins, out[2:], strict=True)
    ]
    wide = np.promote_types(x.dtype, np.float32)
    op.ask_for((x.shape[0], w.shape[1] * group, *reach), wide)
    total = np.zeros((x.shape[0], group, outputs, *reach), wide)
    # No -1, which would be ambiguous for an empty batch.
    flat = (x.shape[0], group, x.shape[1] // group, math.prod(sizes))
    columns = x.reshape(flat).astype(wide)
    weights = w.reshape(group, w.shape[0] // group, outputs, *kernel).astype(wide)
    for position in product(*map(range, kernel)):
        part = np.swapaxes(weights[(..., *position)], 1, 2) @ columns
        places = (
            slice(p * d, p * d + (n - 1) * s + 1, s)
            for p, d, n, s in zip(position, dilations, sizes, strides, strict=True)
        )
        total[(..., *places)] += part.reshape(*part.shape[:3], *sizes)
    cut = (slice(b, b + o) for b, o in zip(begins, out[2:], strict=True))
    result = total[(..., *cut)].reshape(out)
    if len(operands) > 2:
        result = result + column(operands[2], 1 + len(sizes))
    return result.astype(x.dtype)


# -- quantisation


def _quantize(op: g.QuantizeOp, operands: Sequence[np.ndarray]) -> np.ndarray:
    x, scale, zero_point = operands
    scale, zero_point = (column(each, x.ndim - op.axis.value.data) for each in (scale, zero_point))
    wide = np.promote_types(x.dtype, np.float32)
    with np.errstate(over="ignore"):  # ONNX divides in the type of the scale
        rounded = np.rint((x / scale).astype(wide))
    return saturate(rounded + zero_point.astype(wide), zero_point.dtype)


def _requantize(op: g.RequantizeOp, operands: Sequence[np.ndarray]) -> np.ndarray:
    dtype = dtype_of(op.to)
    if isinstance(op.rounding, g.FixedAttr):
        x, multiplier = (array.astype(np.int64) for array in operands)
        ties = cast("Rounding", op.rounding.ties.data)
        rounded = rescale(x, multiplier, op.rounding.shift.data, ties)
    else:
        x, scale, *after = operands
        scaled = x.astype(np.float32) * scale
        rounded = np.rint(scaled / after[0] if after else scaled)
    return saturate(rounded + op.zero_point.value.data, dtype)


def _constant(op: g.ConstantOp, operands: Sequence[np.ndarray]) -> np.ndarray:
    return op.value.data.values()


# -- conversions


def _cast(op: g.CastOp, operands: Sequence[np.ndarray]) -> np.ndarray:
    x, dtype = operands[0], dtype_of(op.to)
    if x.dtype.kind in "iub" or dtype.kind not in "iu":
        return x.astype(dtype)
    wide = x.astype(np.promote_types(x.dtype, np.float32))
    return saturate(np.where(np.isnan(wide), 0, wide).astype(wide.dtype), dtype)


def _pow(op: g.PowOp, operands: Sequence[np.ndarray]) -> np.ndarray:
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


# -- moves: views, where numpy has them


def _in_order(op: InOrderOp, operands: Sequence[np.ndarray]) -> np.ndarray:
    return operands[0].reshape(shape_of(op.result.type))


def _tile(op: g.TileOp, operands: Sequence[np.ndarray]) -> np.ndarray:
    return np.tile(operands[0], int_tuple(op.repeats))


def _slice(op: g.SliceOp, operands: Sequence[np.ndarray]) -> np.ndarray:
    rows = zip(*map(int_tuple, (op.starts, op.sizes, op.steps)), strict=True)
    chosen = [range(start, start + size * step, step) for start, size, step in rows]
    ends = [each.stop if each.stop >= 0 else None for each in chosen]
    return operands[0][
        tuple(
            slice(each.start, end if len(each) else each.start, each.step)
            for each, end in zip(chosen, ends, strict=True)
        )
    ]


def _cum_sum(op: g.CumSumOp, operands: Sequence[np.ndarray]) -> np.ndarray:
    """Computes running sums, adding in order, as the definition does; that takes a time quadratic
    in the size.
    """
    (x,), axis, back = operands, op.axis.value.data, bool(op.reverse.value.data)
    kind = x.dtype if x.dtype.kind in "iu" else np.promote_types(x.dtype, np.float32)
    rows = np.moveaxis(np.flip(x, axis) if back else x, axis, -1).astype(kind)
    zeros = np.zeros((*rows.shape[:-1], 1), kind)
    sums = np.add.accumulate(np.concatenate([zeros, rows], axis=-1), axis=-1, dtype=kind)
    sums = np.moveaxis(sums[..., :-1] if op.exclusive.value.data else sums[..., 1:], -1, axis)
    return (np.flip(sums, axis) if back else sums).astype(x.dtype)


NUMPY_RULES: Mapping[type[Operation], Rule] = {
    **RECURRENT_RULES,
    g.AveragePoolOp: _average_pool,
    g.CastOp: _cast,
    g.ConstantOp: _constant,
    g.ConvOp: _conv,
    g.ConvTransposeOp: _conv_transpose,
    g.CumSumOp: _cum_sum,
    g.FlattenOp: _in_order,
    g.LpPoolOp: _lp_pool,
    g.MatmulOp: _matmul,
    g.MaxPoolOp: _max_pool,
    g.PowOp: _pow,
    g.QuantizeOp: _quantize,
    g.RequantizeOp: _requantize,
    g.ReshapeOp: _in_order,
    g.ResizeOp: _resize,
    g.SliceOp: _slice,
    g.SqueezeOp: _in_order,
    g.SumPoolOp: _sum_pool,
    g.TileOp: _tile,
    g.UnsqueezeOp: _in_order,
}
"""Our own rules, by op class. Every other graph op is evaluated by its definition."""
