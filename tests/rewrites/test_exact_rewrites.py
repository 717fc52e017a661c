"""normalize-qdq, clean-up and fold-constants change no bit, on random nets of 8-bit layers."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from random_qdq_nets import nets
from rewrite_nets import Net, assert_same_bits, evaluate, located, op_names, run_passes

from byocir.dialects.graph import (
    AddOp,
    ConcatOp,
    ConvOp,
    DequantizeOp,
    MaxPoolOp,
    MulOp,
    ReduceMeanOp,
    ReluOp,
    ReshapeOp,
    TransposeOp,
)
from byocir.rewrites.clean_up import CleanUpPass
from byocir.rewrites.fold_constants import FoldConstantsPass
from byocir.rewrites.normalize_qdq import NormalizeQdqPass

few = settings(max_examples=settings.default.max_examples // 2)

EXACT_PASSES = [NormalizeQdqPass(), CleanUpPass(), FoldConstantsPass()]


@given(nets(), st.lists(st.sampled_from(EXACT_PASSES), min_size=1, max_size=3))
def test_no_bit_changes(net, passes):
    rewritten = run_passes(net.module, *passes)
    assert_same_bits(evaluate(rewritten, *net.inputs), evaluate(net.module, *net.inputs))


@few
@given(nets())
def test_every_dequantize_has_one_use_after_normalize_qdq(net):
    module = run_passes(net.module, NormalizeQdqPass())
    dequantizes = [op for op in module.walk() if isinstance(op, DequantizeOp)]
    assert all(op.result.has_one_use() for op in dequantizes)


@few
@given(nets(), st.sampled_from(EXACT_PASSES))
def test_passes_are_idempotent(net, pass_):
    once = run_passes(net.module, pass_)
    assert str(run_passes(once, pass_)) == str(once)


@few
@given(nets(), st.sampled_from(EXACT_PASSES))
def test_no_location_is_lost(net, pass_):
    used = run_passes(net.module, CleanUpPass())
    assert located(run_passes(used, pass_)) == located(used)


X = np.random.default_rng(7).normal(0, 20, (1, 2, 4, 4)).astype(np.float32)
WINDOW = {
    "kernel_shape": [3, 3],
    "strides": [2, 2],
    "pads": [1, 1, 1, 1],
    "dilations": [1, 1],
    "ceil_mode": 0,
}


def normalized(net: Net, *values) -> tuple[list[str], list[np.ndarray]]:
    """Names of the ops after normalize-qdq, which changes no bit, and the results."""
    module = net.returning(*values)
    rewritten = run_passes(module, NormalizeQdqPass())
    found, expected = evaluate(rewritten, X), evaluate(module, X)
    assert_same_bits(found, expected)
    return op_names(rewritten), found


def test_what_onnxruntime_writes_behind_a_conv():
    """`Conv, Q, DQ, Relu, Q, DQ, MaxPool, Q` on one grid: the first pair goes, the pool is int8."""
    net = Net(X)
    weight = net.constant(np.ones((2, 2, 1, 1)), np.float32)
    value = net.add(
        ConvOp.make(
            net.arguments[0], weight, strides=[1, 1], pads=[0] * 4, dilations=[1, 1], group=1
        )
    )
    value = net.add(ReluOp.make(net.requantized(value, 0.3)))
    value = net.add(MaxPoolOp.make(net.requantized(value, 0.3), **WINDOW))
    names, _ = normalized(net, net.quantize(value, 0.3))
    assert names == ["conv", "relu", "quantize", "max_pool"]


def test_a_residual_fork_keeps_the_integers_of_its_stem():
    """A quantize that feeds a relu and a shortcut must not let the relu bypass it."""
    net = Net(X)
    stem = net.quantize(net.arguments[0], 0.3)
    left = net.requantized(net.add(ReluOp.make(net.dequantize(stem, 0.3))), 0.3)
    value = net.add(AddOp.make(left, net.dequantize(stem, 0.3)))
    names, _ = normalized(net, net.quantize(value, 0.5))
    assert names.count("quantize") == 3
    assert names.index("quantize") < names.index("relu")


def test_asymmetric_relu_merges_too():
    net = Net(X)
    value = net.add(ReluOp.make(net.requantized(net.arguments[0], 0.3, -100)))
    names, _ = normalized(net, net.quantize(value, 0.3, -100))
    assert names == ["relu", "quantize"]


def test_a_concat_of_three_grids():
    net = Net(X)
    parts = [net.requantized(net.arguments[0], scale) for scale in (0.3, 0.5, 0.3)]
    value = net.add(ConcatOp.make(*parts, axis=1))
    names, _ = normalized(net, net.quantize(value, 0.3))
    assert names == ["quantize", "quantize", "dequantize", "quantize", "quantize", "concat"]


def test_mean_without_keepdims_is_a_pool_and_a_reshape_of_integers():
    net = Net(X)
    value = net.requantized(net.arguments[0], 0.3)
    value = net.add(ReduceMeanOp.make(value, axes=[2, 3], keepdims=0))
    names, _ = normalized(net, net.quantize(value, 0.1))
    assert names == ["quantize", "dequantize", "global_average_pool", "quantize", "reshape"]


def test_per_channel_quantize_goes_before_a_transpose():
    net = Net(X)
    value = net.add(TransposeOp.make(net.arguments[0], perm=[0, 2, 3, 1]))
    names, _ = normalized(net, net.quantize(value, [0.3, 0.5], axis=3))
    assert names == ["quantize", "transpose"]


def test_the_returned_names_stay():
    net = Net(X)
    module = net.returning(net.add(ReshapeOp.make(net.arguments[0], shape=X.shape)))
    (function,) = module.body.block.ops
    rewritten = run_passes(module, CleanUpPass())
    assert op_names(rewritten) == []
    assert rewritten.body.block.first_op.properties == function.properties


def test_folding_keeps_where_constants_come_from():
    net = Net(X)
    product = net.add(MulOp.make(net.constant([2.0], np.float32), net.constant([3.0], np.float32)))
    module = net.returning(net.add(MulOp.make(net.arguments[0], product)))
    rewritten = run_passes(module, FoldConstantsPass())
    assert op_names(rewritten) == ["mul"]
    assert located(rewritten) == {"op0", "op1"}
