"""fold-batch-norm: a normalisation by constants behind a convolution or matrix product is no op.

Does: scales the weight of a conv, conv_transpose or matmul whose only use is a batch_norm, by
`scale / sqrt(variance + epsilon)` for each output channel, and takes what remains into the bias.

Requires: constants for the weight, the bias and all parameters, of which the values are at hand.
Best after fold-constants and clean-up.

Guarantees: results differ by float rounding only; new constants are computed in f64, the same on
every machine. The op that remains has the locations of both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from byocir.dialects.graph import AddOp, BatchNormOp, ConvOp, ConvTransposeOp, MatmulOp
from byocir.dialects.graph.base import number_of
from byocir.dialects.types import shape_of
from byocir.rewrites.driver import NewOps, Pattern, rewrite_module
from byocir.rewrites.grid import constant_array


@dataclass(frozen=True)
class FoldBatchNormPass(ModulePass):
    """Takes batch norms into the weights and biases of what comes before them."""

    name = "fold-batch-norm"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite_module(op, [FoldBatchNormIntoConv(), FoldBatchNormIntoMatmul()])


@dataclass(frozen=True)
class _Affine:
    """`x * factor + shift` for each channel, in f64."""

    factor: np.ndarray
    shift: np.ndarray

    def bias(self, old: np.ndarray | None, dtype: np.dtype) -> np.ndarray:
        """The bias behind it, in this dtype, for one of `old` before it."""
        before = np.zeros_like(self.shift) if old is None else old.astype(np.float64)
        return (before * self.factor + self.shift).astype(dtype)


def _affine(op: BatchNormOp) -> _Affine | None:
    """What a batch norm by constants does; None if they are not at hand."""
    found = [_values(value) for value in (op.scale, op.bias, op.mean, op.variance)]
    present = [values.astype(np.float64) for values in found if values is not None]
    if len(present) < len(found):
        return None
    scale, bias, mean, variance = present
    factor = scale / np.sqrt(variance + number_of(op.epsilon))
    return _Affine(factor, bias - mean * factor)


def _values(value: SSAValue) -> np.ndarray | None:
    array = constant_array(value)
    return array.values() if array is not None and array.present else None


class FoldBatchNormIntoConv(Pattern):
    """`batch_norm(conv(x, w, b))` is a conv with another weight and bias."""

    roots = (BatchNormOp,)

    def rewrite(self, op: Operation, new: NewOps) -> Sequence[SSAValue] | None:
        assert isinstance(op, BatchNormOp)
        conv = op.input.owner
        if not isinstance(conv, ConvOp | ConvTransposeOp) or not conv.result.has_one_use():
            return None
        affine, weight = _affine(op), _values(conv.weight)
        bias = None if conv.bias is None else _values(conv.bias)
        if affine is None or weight is None or (bias is None) != (conv.bias is None):
            return None
        scaled = weight.astype(np.float64) * _along_outputs(conv, affine.factor)
        dtype = weight.dtype
        operands = new.constant(scaled.astype(dtype)), new.constant(affine.bias(bias, dtype))
        return [new.again(conv, conv.input, *operands)]


def _along_outputs(conv: ConvOp | ConvTransposeOp, factor: np.ndarray) -> np.ndarray:
    """A factor for each output channel, in a shape that broadcasts to the weight's."""
    spatial = [1] * (len(shape_of(conv.weight.type)) - 2)
    if isinstance(conv, ConvOp):
        return factor.reshape(-1, 1, *spatial)
    inputs, outputs = shape_of(conv.weight.type)[:2]  # outputs of one group
    groups = factor.reshape(-1, 1, outputs)
    rows = np.broadcast_to(groups, (len(groups), inputs // len(groups), outputs))
    return rows.reshape(inputs, outputs, *spatial)


class FoldBatchNormIntoMatmul(Pattern):
    """`batch_norm(matmul(x, w) + b)` of matrices is a matmul with another weight, and an add."""

    roots = (BatchNormOp,)

    def rewrite(self, op: Operation, new: NewOps) -> Sequence[SSAValue] | None:
        assert isinstance(op, BatchNormOp)
        before, bias = _without_bias(op.input)
        matmul = before.owner
        if not isinstance(matmul, MatmulOp) or not before.has_one_use():
            return None
        affine, weight = _affine(op), _values(matmul.rhs)
        if affine is None or weight is None or weight.ndim != 2 or len(_shape(before)) != 2:
            return None
        scaled = (weight.astype(np.float64) * affine.factor).astype(weight.dtype)
        product = new.again(matmul, matmul.lhs, new.constant(scaled))
        shift = new.constant(affine.bias(bias, weight.dtype))
        return [new.add(AddOp.make(product, shift)).result]


def _without_bias(value: SSAValue) -> tuple[SSAValue, np.ndarray | None]:
    """What a constant for each column is added to, and this constant; else the value itself."""
    add = value.owner
    if not isinstance(add, AddOp) or not value.has_one_use():
        return value, None
    for product, other in ((add.lhs, add.rhs), (add.rhs, add.lhs)):
        bias = _values(other)
        if bias is not None and bias.shape in ((), (1,), _shape(value)[-1:]):
            return product, bias
    return value, None


def _shape(value: SSAValue) -> tuple[int, ...]:
    return shape_of(value.type)
