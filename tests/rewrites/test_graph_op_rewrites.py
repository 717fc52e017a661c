"""Folding of batch norms; clean-up and folding of ops that move and compute elements."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from rewrite_nets import Net, assert_same_bits, evaluate, located, op_names, run_passes

from byocir.dialects import graph as g
from byocir.dialects.types import f32, i32
from byocir.rewrites.clean_up import CleanUpPass
from byocir.rewrites.fold_batch_norm import FoldBatchNormPass
from byocir.rewrites.fold_constants import FoldConstantsPass

seeds = st.integers(0, 2**32 - 1)


def batch_norm(net, value, channels, rng):
    parameters = [
        net.constant(rng.uniform(low, 2, channels), np.float32) for low in (-2, -2, -2, 0.1)
    ]
    return net.add(g.BatchNormOp.make(value, *parameters, epsilon=1e-3))


def check_folded(net, result, x, names):
    module = net.returning(result)
    folded = run_passes(module, FoldBatchNormPass(), CleanUpPass())
    assert op_names(folded) == names
    assert located(folded) == located(module)
    (found,), (expected,) = evaluate(folded, x), evaluate(module, x)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@given(seeds, st.sampled_from([1, 2]), st.integers(1, 3), st.booleans(), st.booleans())
def test_batch_norm_behind_a_conv(seed, group, outputs, biased, transposed):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, (2, 2 * group, 5)).astype(np.float32)
    shape = (2 * group, outputs, 3) if transposed else (outputs * group, 2, 3)
    net = Net(x)
    operands = [net.constant(rng.uniform(-1, 1, shape), np.float32)]
    if biased:
        operands.append(net.constant(rng.uniform(-1, 1, outputs * group), np.float32))
    window = {"strides": [2], "pads": [1, 0], "dilations": [1], "group": group}
    kind, name = (g.ConvOp, "conv")
    if transposed:
        kind, name, window = g.ConvTransposeOp, "conv_transpose", window | {"output_padding": [1]}
    conv = net.add(kind.make(net.arguments[0], *operands, **window))
    check_folded(net, batch_norm(net, conv, outputs * group, rng), x, [name])


@given(seeds, st.sampled_from([None, (), (1,), (4,)]), st.booleans())
def test_batch_norm_behind_a_matmul(seed, bias, swapped):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, (3, 5)).astype(np.float32)
    net = Net(x)
    value = net.add(
        g.MatmulOp.make(net.arguments[0], net.constant(rng.uniform(-1, 1, (5, 4)), np.float32))
    )
    if bias is not None:
        operands = [value, net.constant(rng.uniform(-1, 1, bias), np.float32)]
        value = net.add(g.AddOp.make(*(operands[::-1] if swapped else operands)))
    check_folded(net, batch_norm(net, value, 4, rng), x, ["matmul", "add"])


def test_a_bias_for_each_row_stays():
    """It is not one for each channel."""
    x = np.ones((3, 5), np.float32)
    net, rng = Net(x), np.random.default_rng(0)
    product = net.add(g.MatmulOp.make(net.arguments[0], net.constant(np.ones((5, 4)), np.float32)))
    value = net.add(g.AddOp.make(product, net.constant([[1], [2], [3]], np.float32)))
    check_folded(net, batch_norm(net, value, 4, rng), x, ["matmul", "add", "batch_norm"])


def slice_of(draw, x):
    """A slice of some elements of each dimension, forwards or backwards."""
    starts, sizes, steps = [], [], []
    for size in x:
        chosen = range(size)[:: draw(st.sampled_from([1, 1, 1, 2, -1]))]
        chosen = chosen[: draw(st.integers(max(len(chosen) - 1, 1), len(chosen)))]
        starts.append(chosen.start)
        sizes.append(len(chosen))
        steps.append(chosen.step)
    return g.SliceOp, {"starts": starts, "sizes": sizes, "steps": steps}


def move(draw, shape, element):
    """An op that moves or converts elements, often one that does nothing."""
    rank = len(shape)
    kind = draw(st.sampled_from(["slice", "pad", "tile", "expand", "cast", "split", "transpose"]))
    if kind == "slice":
        return slice_of(draw, shape)
    if kind == "pad":
        pads = draw(st.lists(st.sampled_from([0, 0, 0, 1]), min_size=2 * rank, max_size=2 * rank))
        return g.PadOp, {"pads": pads, "mode": draw(st.sampled_from(["constant", "edge"]))}
    if kind == "tile":
        return g.TileOp, {"repeats": [draw(st.sampled_from([1, 1, 2])) for _ in shape]}
    if kind == "expand":
        return g.ExpandOp, {"shape": [*draw(st.sampled_from([[], [1]])), *shape]}
    if kind == "cast":
        return g.CastOp, {"to": draw(st.sampled_from([element, f32, i32]))}
    if kind == "split":
        return g.SplitOp, {"axis": 0, "split": [shape[0]]}
    return g.TransposeOp, {"perm": draw(st.permutations(range(rank)))}


@st.composite
def chains(draw, constant=False):
    """A net of ops that move elements, of an argument or a constant, and the argument."""
    x = np.random.default_rng(draw(seeds)).uniform(-9, 9, (2, 3)).astype(np.float32)
    net = Net(x)
    value = net.constant(x) if constant else net.arguments[0]
    for _ in range(draw(st.integers(1, 5))):
        kind, properties = move(draw, value.type.get_shape(), value.type.element_type)
        value = net.add(kind.make(value, **properties))
    return net.returning(value), x


@given(chains())
def test_clean_up_changes_no_bit(chain):
    module, x = chain
    cleaned = run_passes(module, CleanUpPass())
    assert_same_bits(evaluate(cleaned, x), evaluate(module, x))
    assert str(run_passes(cleaned, CleanUpPass())) == str(cleaned)


@given(chains(constant=True))
def test_folding_changes_no_bit(chain):
    module, x = chain
    folded = run_passes(module, FoldConstantsPass())
    assert op_names(folded) == []
    assert_same_bits(evaluate(folded, x), evaluate(module, x))
