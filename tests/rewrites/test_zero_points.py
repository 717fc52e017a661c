"""Zero points on the way from floats to integers: as exact as grids without them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pass_checks import run_on
from rewrite_nets import Net, located, op_names, run_passes
from zero_point_layers import zero_point_convs, zero_point_matmuls

from byocir.dialects.graph import MatmulOp
from byocir.evaluate.module import evaluate_function
from byocir.rewrites.fix_point import FixPointPass
from byocir.rewrites.qdq_to_integer import QdqToIntegerPass


@given(st.one_of(zero_point_convs(), zero_point_matmuls()))
def test_layers_become_integers(layer):
    (expected,) = evaluate_function(layer.module, "main", [layer.x])
    integers = run_passes(layer.module, QdqToIntegerPass())
    assert {"quantize", "dequantize"}.isdisjoint(op_names(integers))
    assert located(integers) <= located(layer.module)
    (found,) = evaluate_function(integers, "main", [layer.x])
    assert found.dtype == expected.dtype
    difference = np.abs(found.astype(int) - expected.astype(int))
    assert difference.max() <= (0 if layer.exact else 1)


@settings(max_examples=settings.default.max_examples // 2)
@given(st.one_of(zero_point_convs(), zero_point_matmuls()))
def test_blocks_keep_every_bit(layer):
    integers = run_on(layer.module, "qdq-to-integer")
    expected = evaluate_function(integers, "main", [layer.x])
    blocks = run_on(integers, "convert-graph-to-tir,fold-pads,assign-layouts")
    np.testing.assert_array_equal(evaluate_function(blocks, "main", [layer.x]), expected)


def product(weight, w_zero=0, x_zero=3) -> list[str]:
    """Names of the ops of a product with a constant weight, or a computed one for None."""
    x = np.ones((2, 2), np.int8)
    net = Net(x, x)
    right = net.arguments[1] if weight is None else net.constant(np.array(weight, np.int8))
    lhs, rhs = net.dequantize(net.arguments[0], 0.5, x_zero), net.dequantize(right, 0.5, w_zero)
    total = net.add(MatmulOp.make(lhs, rhs))
    return op_names(run_passes(net.returning(net.quantize(total, 1.0, -7)), QdqToIntegerPass()))


def test_the_bias_takes_off_what_the_zero_point_brings():
    assert product([[1, 2], [3, 4]]) == ["matmul", "add", "requantize"]
    assert product([[1, 2], [3, 4]], w_zero=-7) == ["matmul", "add", "requantize"]


@pytest.mark.parametrize(
    ("weight", "zeros"),
    [(None, {}), (None, {"x_zero": 0, "w_zero": 1}), ([[127, 0], [0, 0]], {"w_zero": -1})],
    ids=["computed", "computed with a zero point", "of nine bits"],
)
def test_what_does_not_fit_stays_in_float(weight, zeros):
    names = product(weight, **zeros)
    assert "matmul" in names
    assert "requantize" not in names


@settings(max_examples=settings.default.max_examples // 4)
@given(
    st.lists(st.sampled_from([np.int8, np.uint8]), min_size=2, max_size=2),
    st.lists(st.integers(0, 127), min_size=2, max_size=2),
    st.integers(0, 2**32 - 1),
)
def test_products_of_two_arrays_in_fixed_point(kinds, zeros, seed):
    """Of bytes of either sign, with any zero points."""
    random = np.random.default_rng(seed)
    arrays = [
        random.integers(np.iinfo(kind).min, np.iinfo(kind).max, shape, kind, endpoint=True)
        for kind, shape in zip(kinds, ((2, 3, 9), (2, 9, 4)), strict=True)
    ]
    net = Net(*arrays)
    factors = [
        net.dequantize(value, 0.25, zero, of=kind)
        for value, zero, kind in zip(net.arguments, zeros, kinds, strict=True)
    ]
    module = net.returning(net.quantize(net.add(MatmulOp.make(*factors)), 16.0, 5))
    fixed = run_passes(module, FixPointPass("half_even"))
    assert {"quantize", "dequantize"}.isdisjoint(op_names(fixed))
    expected = evaluate_function(module, "main", arrays)
    np.testing.assert_array_equal(evaluate_function(fixed, "main", arrays), expected)
