"""What graph ops compute, said by others than their definitions: by numpy rules, or by onnx's
reference evaluator.

Sums are added one element after another, as blocks add them; floats of 16 bits as f32.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import cast

import numpy as np
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region

from byocir.dialects.graph import (
    BatchNormOp,
    ErfOp,
    GatherElementsOp,
    GatherNdOp,
    GeluOp,
    GlobalAveragePoolOp,
    GlobalMaxPoolOp,
    GraphOp,
    GroupNormOp,
    HardSwishOp,
    InstanceNormOp,
    LayerNormOp,
    LeakyReluOp,
    LogSoftmaxOp,
    LpNormOp,
    LrnOp,
    OneHotOp,
    PadOp,
    PreluOp,
    ReduceL1Op,
    ReduceL2Op,
    ReduceLogSumExpOp,
    ReduceLogSumOp,
    ReduceMeanOp,
    ReduceOp,
    ReduceSumOp,
    ReduceSumSquareOp,
    RmsNormOp,
    SoftmaxOp,
    SoftsignOp,
)
from byocir.dialects.graph.base import int_tuple
from byocir.dialects.types import shape_of
from byocir.evaluate.numpy_rules import NUMPY_RULES, Rule
from byocir.evaluate.scalar import error_function
from byocir.frontend.onnx.exporter import export_onnx
from byocir.frontend.onnx.reference import Reference

Terms = Callable[[np.ndarray], np.ndarray]


def _wide(x: np.ndarray) -> np.ndarray:
    """Floats in the type in which they are summed."""
    return x.astype(np.promote_types(x.dtype, np.float32))


def _sum(x: np.ndarray, axes: Sequence[int]) -> np.ndarray:
    """The sums of floats along axes, which stay with size 1."""
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    rest = [1 if axis in axes else size for axis, size in enumerate(x.shape)]
    rows = x.transpose(*kept, *sorted(axes)).reshape(
        *(x.shape[axis] for axis in kept), _count(x, axes)
    )
    begun = np.concatenate([np.zeros((*rows.shape[:-1], 1), x.dtype), rows], axis=-1)
    return np.add.accumulate(begun, axis=-1)[..., -1].reshape(rest)


def _count(x: np.ndarray, axes: Sequence[int]) -> int:
    return math.prod(x.shape[axis] for axis in axes)


def _mean(x: np.ndarray, axes: Sequence[int]) -> np.ndarray:
    """The mean of nothing is 0, as in ONNX Runtime: ONNX leaves it open."""
    return _sum(x, axes) / x.dtype.type(max(_count(x, axes), 1))


# -- reductions


def _reduction(terms: Terms, finish: Terms = lambda total: total) -> Rule:
    """`finish` of the sum of the terms of floats; of integers, which wrap around, too."""

    def rule(op: ReduceOp, operands: Sequence[np.ndarray]) -> np.ndarray:
        (x,), axes, shape = operands, int_tuple(op.axes), shape_of(op.result.type)
        if x.dtype.kind in "iu":
            total = np.sum(terms(x), axis=axes, dtype=x.dtype, keepdims=True)
        else:
            total = _sum(terms(_wide(x)), axes)
        with np.errstate(divide="ignore"):  # the logarithm of nothing
            return finish(total).astype(x.dtype).reshape(shape)

    return rule


def _reduce_mean(op: ReduceMeanOp, operands: Sequence[np.ndarray]) -> np.ndarray:
    (x,) = operands
    return _mean(_wide(x), int_tuple(op.axes)).astype(x.dtype).reshape(shape_of(op.result.type))


def _global_average_pool(op: GlobalAveragePoolOp, operands: Sequence[np.ndarray]) -> np.ndarray:
    (x,) = operands
    return _mean(_wide(x), range(2, x.ndim)).astype(x.dtype)


def _most(x: np.ndarray, axes: Sequence[int]) -> np.ndarray:
    """The greatest value along axes, -infinity of nothing."""
    return np.max(x, axis=tuple(axes), keepdims=True, initial=-np.inf)


def _most_and_powers(x: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """The greatest value along an axis, and `e^(x - greatest)`, which does not overflow."""
    most = _most(x, [axis])
    with np.errstate(invalid="ignore"):
        return most, np.exp(x - most)


def _reduce_log_sum_exp(op: ReduceLogSumExpOp, operands: Sequence[np.ndarray]) -> np.ndarray:
    """The greatest value is subtracted first, but not if it is infinite: `inf - inf` is NaN."""
    (x,), axes = operands, int_tuple(op.axes)
    wide = _wide(x)
    most = _most(wide, axes)
    shift = np.where(np.isinf(most), wide.dtype.type(0), most)
    with np.errstate(divide="ignore"):
        logs = np.log(_sum(np.exp(wide - shift), axes)) + shift
    return logs.astype(x.dtype).reshape(shape_of(op.result.type))


# -- along one axis


def _softmax(op: SoftmaxOp, operands: Sequence[np.ndarray]) -> np.ndarray:
    (x,), axis = operands, op.axis.value.data
    _, powers = _most_and_powers(_wide(x), axis)
    return (powers / _sum(powers, [axis])).astype(x.dtype)


def _log_softmax(op: LogSoftmaxOp, operands: Sequence[np.ndarray]) -> np.ndarray:
    (x,), axis = operands, op.axis.value.data
    wide = _wide(x)
    most, powers = _most_and_powers(wide, axis)
    with np.errstate(invalid="ignore"):
        return ((wide - most) - np.log(_sum(powers, [axis]))).astype(x.dtype)


def _lp_norm(op: LpNormOp, operands: Sequence[np.ndarray]) -> np.ndarray:
    (x,), axis = operands, op.axis.value.data
    wide = _wide(x)
    if op.p.value.data == 1:
        norm = _sum(np.abs(wide), [axis])
    else:
        norm = np.sqrt(_sum(wide * wide, [axis]))
    with np.errstate(invalid="ignore"):
        return np.where(norm == 0, norm, wide / norm).astype(x.dtype)


# -- normalisations


def _normalised(
    x: np.ndarray, mean: np.ndarray, variance: np.ndarray, epsilon: float, *given: np.ndarray
) -> np.ndarray:
    """`(x - mean) / sqrt(variance + epsilon)`, times scale and plus bias if there is one."""
    with np.errstate(invalid="ignore", divide="ignore"):
        y = (x - mean) / np.sqrt(variance + x.dtype.type(epsilon)) * given[0]
    return y + given[1] if len(given) > 1 else y


def _moments(x: np.ndarray, axes: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """The mean along axes and that of the squared distances to it."""
    mean = _mean(x, axes)
    distances = x - mean
    return mean, _mean(distances * distances, axes)


def _columns(values: Sequence[np.ndarray], rank: int) -> list[np.ndarray]:
    """A number for each channel, wide."""
    return [_wide(value).reshape(-1, *(1 for _ in range(rank - 2))) for value in values]


def _batch_norm(op: BatchNormOp, operands: Sequence[np.ndarray]) -> np.ndarray:
    x, *rest = operands
    scale, bias, mean, variance = _columns(rest, x.ndim)
    epsilon = op.epsilon.value.data
    return _normalised(_wide(x), mean, variance, epsilon, scale, bias).astype(x.dtype)


def _group_norm(op: InstanceNormOp | GroupNormOp, operands: Sequence[np.ndarray]) -> np.ndarray:
    """An instance norm is a group norm with one channel in each group."""
    x, *rest = operands
    groups = op.num_groups.value.data if isinstance(op, GroupNormOp) else x.shape[1]
    if x.size == 0:
        return x
    rows = _wide(x).reshape(x.shape[0], groups, -1)
    spread = (np.repeat(m, x.shape[1] // groups, 1) for m in _moments(rows, [2]))
    mean, variance = (m.reshape(*x.shape[:2], *(1 for _ in x.shape[2:])) for m in spread)
    epsilon, given = op.epsilon.value.data, _columns(rest, x.ndim)
    return _normalised(_wide(x), mean, variance, epsilon, *given).astype(x.dtype)


def _layer_norm(op: LayerNormOp, operands: Sequence[np.ndarray]) -> np.ndarray:
    x, *given = operands
    wide, axes = _wide(x), range(op.axis.value.data, x.ndim)
    moments = _moments(wide, axes)
    return _normalised(wide, *moments, op.epsilon.value.data, *map(_wide, given)).astype(x.dtype)


def _rms_norm(op: RmsNormOp, operands: Sequence[np.ndarray]) -> np.ndarray:
    x, scale = operands
    wide, axes = _wide(x), range(op.axis.value.data, x.ndim)
    squares = _mean(wide * wide, axes)
    with np.errstate(invalid="ignore", divide="ignore"):
        scaled = wide / np.sqrt(squares + wide.dtype.type(op.epsilon.value.data))
    return (scaled * _wide(scale)).astype(x.dtype)


def _lrn(op: LrnOp, operands: Sequence[np.ndarray]) -> np.ndarray:
    (x,) = operands
    wide, size, channels = _wide(x), op.size.value.data, x.shape[1]
    squares, total = wide * wide, np.zeros_like(wide)
    for offset in range(-((size - 1) // 2), size // 2 + 1):
        low, high = max(-offset, 0), min(channels - offset, channels)
        if low < high:
            total[:, low:high] += squares[:, low + offset : high + offset]
    alpha, beta, bias = (value.value.data for value in (op.alpha, op.beta, op.bias))
    return (wide / (bias + alpha / size * total) ** beta).astype(x.dtype)


# -- element by element, and moves


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


def _pad(op: PadOp, operands: Sequence[np.ndarray]) -> np.ndarray:
    x, pads, rank = operands[0], int_tuple(op.pads), operands[0].ndim
    begins, ends = pads[:rank], pads[rank:]
    kept: np.ndarray = x[
        tuple(
            slice(max(-begin, 0), size - max(-end, 0))
            for begin, end, size in zip(begins, ends, x.shape, strict=True)
        )
    ]
    width = [(max(begin, 0), max(end, 0)) for begin, end in zip(begins, ends, strict=True)]
    if not width:
        return kept
    pad = cast(Callable[..., np.ndarray], np.pad)  # numpy's types know modes as literals only
    if op.mode.data == "constant":
        fill = op.value.data.values() if op.value is not None else 0
        return pad(kept, width, constant_values=fill)
    return pad(kept, width, mode=op.mode.data)


def _gather_elements(op: GatherElementsOp, operands: Sequence[np.ndarray]) -> np.ndarray:
    x, indices = operands
    places = list[np.ndarray](np.indices(indices.shape))
    places[op.axis.value.data] = indices
    return x[tuple(places)]


def _gather_nd(op: GatherNdOp, operands: Sequence[np.ndarray]) -> np.ndarray:
    x, indices = operands
    batch = op.batch_dims.value.data
    along = np.indices(indices.shape[:-1], sparse=True)[:batch]
    return x[(*along, *np.moveaxis(indices, -1, 0))]


def _one_hot(op: OneHotOp, operands: Sequence[np.ndarray]) -> np.ndarray:
    indices, values = operands
    axis, depth = op.axis.value.data, op.depth.value.data
    at = np.expand_dims(indices, axis)
    places = np.arange(depth).reshape(-1, *(1 for _ in range(indices.ndim - axis)))
    hit = (at == places) | (at == places - depth)
    return values[hit.astype(np.intp)]


def _global_max_pool(op: GlobalMaxPoolOp, operands: Sequence[np.ndarray]) -> np.ndarray:
    (x,) = operands
    return np.max(x, axis=tuple(range(2, x.ndim)), keepdims=True)


SUMS: Mapping[type[Operation], Rule] = {
    BatchNormOp: _batch_norm,
    GlobalAveragePoolOp: _global_average_pool,
    GroupNormOp: _group_norm,
    InstanceNormOp: _group_norm,
    LayerNormOp: _layer_norm,
    LogSoftmaxOp: _log_softmax,
    LpNormOp: _lp_norm,
    LrnOp: _lrn,
    ReduceL1Op: _reduction(np.abs),
    ReduceL2Op: _reduction(lambda x: x * x, np.sqrt),
    ReduceLogSumExpOp: _reduce_log_sum_exp,
    ReduceLogSumOp: _reduction(lambda x: x, np.log),
    ReduceMeanOp: _reduce_mean,
    ReduceSumOp: _reduction(lambda x: x),
    ReduceSumSquareOp: _reduction(lambda x: x * x),
    RmsNormOp: _rms_norm,
    SoftmaxOp: _softmax,
}
"""Of the ops that add floats, all in one order."""

ORACLE: Mapping[type[Operation], Rule] = {
    **SUMS,
    ErfOp: _erf,
    GatherElementsOp: _gather_elements,
    GatherNdOp: _gather_nd,
    GeluOp: _gelu,
    GlobalMaxPoolOp: _global_max_pool,
    HardSwishOp: _hard_swish,
    LeakyReluOp: _leaky_relu,
    OneHotOp: _one_hot,
    PadOp: _pad,
    PreluOp: _prelu,
    SoftsignOp: _softsign,
}
"""By op class."""


def by_oracle(op: GraphOp, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The results of an op, which no definition computes."""
    rule = ORACLE.get(type(op)) or NUMPY_RULES.get(type(op))
    if rule is not None:
        with np.errstate(all="ignore"):
            made = rule(op, operands)
        return [np.asarray(each) for each in (made if isinstance(made, list | tuple) else [made])]
    types, results = list(op.operand_types), list(op.result_types)
    block = Block(arg_types=types)
    only = type(op).create(operands=block.args, result_types=results, properties=op.properties)
    block.add_ops([only, ReturnOp(*only.results)])
    reference = Reference(export_onnx(FuncOp("op", (types, results), Region(block))))
    with np.errstate(all="ignore"):
        return list(reference.run(dict(zip(reference.inputs, operands, strict=True))))
