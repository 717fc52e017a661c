"""fold-batch-norm: folds a normalisation by constants into the convolution or matrix product before
it.

Does: scales the weight of a conv, conv_transpose or matmul whose only use is a batch_norm, by
`scale / sqrt(variance + epsilon)` for each output channel, and takes what remains into the bias.

Requires: constants for the weight, the bias and all parameters, of which the values are at hand.
Best after fold-constants and clean-up.

Guarantees: results differ by float rounding only; new constants are computed in f64, the same on
every machine. The op that remains has the locations of both.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.ir import SSAValue

from byocir.dialects.graph import AddOp, ConvOp, ConvTransposeOp
from byocir.patterns import (
    Bound,
    Match,
    Pattern,
    constant,
    op,
    optional,
    optional_operand,
    present,
    rank,
    wildcard,
)
from byocir.rewrites.driver import NewOps
from byocir.rewrites.matching import rewrites
from byocir.rewrites.rewrite_pass import RewritePass


def _numbers(name: str, dimensions: int | None = None) -> Pattern:
    """Matches a constant whose numbers are at hand."""
    more = () if dimensions is None else (rank(dimensions),)
    return constant(name, where=(present(), *more))


def batch_norm(value: Pattern) -> Pattern:
    """Matches a normalisation of a value by constants."""
    names = ("scale", "shift", "mean", "variance")
    return op("graph.batch_norm", value, *map(_numbers, names)) @ "norm"


@dataclass(frozen=True)
class Affine:
    """Stands for a batch norm as `x * factor + shift` for each channel, in f64."""

    factor: np.ndarray
    shift: np.ndarray

    @staticmethod
    def of(m: Match) -> Affine:
        """Reads a batch norm by constants as a factor and an addend per channel."""
        names = ("scale", "shift", "mean", "variance")
        scale, shift, mean, variance = (m[name].numbers.astype(np.float64) for name in names)
        factor = scale / np.sqrt(variance + m["norm"].attrs["epsilon"])
        return Affine(factor, shift - mean * factor)

    def bias(self, old: Bound | None, dtype: np.dtype) -> np.ndarray:
        """Computes the bias behind the batch norm, in this dtype, from the `old` one before it."""
        before = np.zeros_like(self.shift) if old is None else old.numbers.astype(np.float64)
        return (before * self.factor + self.shift).astype(dtype)


_X, _W, _B = wildcard("x"), _numbers("w"), optional_operand(_numbers("b"))
_CONVS = op("graph.conv", _X, _W, _B) | op("graph.conv_transpose", _X, _W, _B)


@rewrites(batch_norm(_CONVS @ "conv"), one_use=True)
def fold_batch_norm_into_conv(
    m: Match, x: Bound, w: Bound, conv: Bound, new: NewOps, b: Bound | None = None
) -> SSAValue:
    """`batch_norm(conv(x, w, b))` is a conv with another weight and bias."""
    before, affine, dtype = conv.op, Affine.of(m), w.numbers.dtype
    assert isinstance(before, ConvOp | ConvTransposeOp)
    scaled = w.numbers.astype(np.float64) * _along_outputs(before, w.numbers, affine.factor)
    operands = new.constant(scaled.astype(dtype)), new.constant(affine.bias(b, dtype))
    return new.again(conv, x, *operands)


def _along_outputs(
    conv: ConvOp | ConvTransposeOp, weight: np.ndarray, factor: np.ndarray
) -> np.ndarray:
    """Reshapes factors, one for each output channel, so that they broadcast to the weight."""
    spatial = [1] * (weight.ndim - 2)
    if isinstance(conv, ConvOp):
        return factor.reshape(-1, 1, *spatial)
    inputs, outputs = weight.shape[:2]  # this counts the outputs of one group
    groups = factor.reshape(-1, 1, outputs)
    rows = np.broadcast_to(groups, (len(groups), inputs // len(groups), outputs))
    return rows.reshape(inputs, outputs, *spatial)


_PRODUCT = op("graph.matmul", wildcard("x", where=rank(2)), _numbers("w", 2)) @ "product"


@rewrites(
    batch_norm(optional(_PRODUCT, lambda product: op("graph.add", product, _numbers("b")))),
    one_use=True,
)
def fold_batch_norm_into_matmul(
    m: Match, x: Bound, w: Bound, new: NewOps, product: Bound, b: Bound | None = None
) -> SSAValue:
    """`batch_norm(matmul(x, w) + b)` of matrices is a matmul with another weight, and an add."""
    affine, dtype = Affine.of(m), w.numbers.dtype
    scaled = (w.numbers.astype(np.float64) * affine.factor).astype(dtype)
    changed = new.again(product, x, new.constant(scaled))
    return new.add(AddOp.make(changed, new.constant(affine.bias(b, dtype)))).result


@fold_batch_norm_into_matmul.where
def bias_is_one_or_one_per_column(w: Bound, b: Bound | None = None) -> tuple[bool, object]:
    """What is added is one number or one for each column."""
    shape = () if b is None else b.type.shape
    return shape in ((), (1,), w.type.shape[-1:]), shape


@fold_batch_norm_into_conv.where
@fold_batch_norm_into_matmul.where
def there_is_a_spread(variance: Bound, norm: Bound) -> tuple[bool, object]:
    """The variance of each channel, with epsilon, is above 0."""
    least = variance.numbers.min(initial=np.inf) + norm.attrs["epsilon"]
    return bool(least > 0), least


@dataclass(frozen=True)
class FoldBatchNormPass(RewritePass):
    """Folds batch norms into the weights and biases of the ops before them."""

    name = "fold-batch-norm"
    rewrites = (fold_batch_norm_into_conv, fold_batch_norm_into_matmul)
