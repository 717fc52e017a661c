"""Bounds of sums beside the sums of the inputs that lead there."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from rewrite_nets import Net, evaluate

from byocir.dialects.array import ArrayAttr
from byocir.dialects.graph import AddOp, ClipOp, ConvOp, FixedAttr, MatmulOp, ReluOp, RequantizeOp
from byocir.dialects.types import i8
from byocir.rewrites.sum_bounds import reach_of

LIMITS = {"bytes": (-128, 127), "relu": (0, 127), "clip": (-9, 60)}


def limited(net: Net, kind: str):
    """The argument of a net, between these limits where it is used."""
    (x,) = net.arguments
    if kind == "clip":
        bounds = {"min": -9, "max": 60}
        given = {name: ArrayAttr.of(np.int8(number)) for name, number in bounds.items()}
        return net.add(ClipOp.make(x, **given))
    if kind == "relu":
        relu, one = net.add(ReluOp.make(x)), net.constant(1, np.int32)
        fixed = FixedAttr.of(0, "half_up")
        return net.add(RequantizeOp.make(relu, one, rounding=fixed, to=i8))
    return x


@given(st.sampled_from(sorted(LIMITS)), st.booleans(), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_the_farthest_sum_of_each_channel_is_its_reach(kind, is_conv, outputs, seed):
    """Each channel's farthest inputs are one example of a batch."""
    random = np.random.default_rng(seed)
    weights = random.integers(-128, 128, (outputs, 3, 2, 2) if is_conv else (12, outputs))
    bias = random.integers(-3000, 3000, outputs).astype(np.int32)
    rows = (weights if is_conv else weights.T).reshape(outputs, 12)
    low, high = LIMITS[kind]
    farthest = [np.where(rows > 0, a, b) for a, b in ((high, low), (low, high))]
    x = np.concatenate(farthest).astype(np.int8).reshape(-1, *((3, 2, 2) if is_conv else (12,)))
    net = Net(x)
    operands = limited(net, kind), net.constant(weights, np.int8)
    if is_conv:
        window = {"strides": [1, 1], "pads": [0] * 4, "dilations": [1, 1], "group": 1}
        sums = net.add(ConvOp.make(*operands, net.constant(bias), **window))
    else:
        sums = net.add(AddOp.make(net.add(MatmulOp.make(*operands)), net.constant(bias)))
    clamped = net.add(ReluOp.make(sums))
    reach = reach_of(clamped)
    assert reach is not None
    (found,) = evaluate(net.returning(sums), x)
    np.testing.assert_array_equal(
        reach.reshape(-1), np.abs(found.astype(np.int64)).reshape(-1, outputs).max(0)
    )


def test_sums_of_computed_arrays_are_not_known():
    x = np.zeros((3, 3), np.int8)
    net = Net(x, x)
    assert reach_of(net.add(MatmulOp.make(*net.arguments))) is None
    assert reach_of(net.arguments[0]) is None
