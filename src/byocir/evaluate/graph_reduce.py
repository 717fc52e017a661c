"""Numpy rules of ops that sum floats, and of what is normalised by such sums.

Sums are added one element after another and the steps around them are those of blocks, so that both
levels compute the same bits: in pairs, as numpy adds, sums round elsewhere, and what is quantised
next may be another integer. Floats of 16 bits are summed as f32.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from xdsl.ir import Operation

from byocir.dialects.graph import (
    BatchNormOp,
    GlobalAveragePoolOp,
    GroupNormOp,
    InstanceNormOp,
    LayerNormOp,
    LogSoftmaxOp,
    LpNormOp,
    LrnOp,
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
)
from byocir.dialects.graph.base import int_tuple
from byocir.dialects.types import shape_of
from byocir.evaluate.rule import Rule

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


REDUCE_RULES: Mapping[type[Operation], Rule] = {
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
"""By op class."""
