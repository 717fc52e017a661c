"""Bytes that are only moved become those of the other sign without a change of any bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rewrite_nets import Net, assert_same_bits, evaluate, located, op_names, run_passes

from byocir.dialects import graph as g
from byocir.dialects.array import ArrayAttr
from byocir.dialects.types import element_type_of, i8, ui8
from byocir.rewrites.signed_bytes import SignedBytesPass, UnsignedBytesPass

X = np.random.default_rng(3).normal(0, 9, (1, 4, 4, 6)).astype(np.float32)
NEAREST = {
    "sizes": [1, 4, 8, 12],
    "mode": "nearest",
    "nearest_mode": "floor",
    "coordinate_transformation_mode": "asymmetric",
    "cubic_coeff_a": -0.75,
    "extrapolation_value": 0.0,
    "exclude_outside": 0,
    "antialias": 0,
}
PADS = {"pads": [0, 0, 1, 2, 0, 0, -1, 1]}
WINDOW = {"kernel_shape": [2, 2], "strides": [2, 2], "pads": [1, 1, 1, 1], "dilations": [1, 1]}

DTYPES = {ui8: np.uint8, i8: np.int8}

MOVES = {
    "pad with a number": lambda net, x: g.PadOp.make(
        x,
        mode="constant",
        value=ArrayAttr.of(np.array(70, DTYPES[element_type_of(x.type)])),
        **PADS,
    ),
    "pad with nothing": lambda net, x: g.PadOp.make(x, mode="constant", **PADS),
    "pad with the edge": lambda net, x: g.PadOp.make(x, mode="edge", **PADS),
    "resize": lambda net, x: g.ResizeOp.make(x, **NEAREST),
    "slice": lambda net, x: g.SliceOp.make(
        x, starts=[0, 3, 0, 1], sizes=[1, 2, 4, 3], steps=[1, -2, 1, 2]
    ),
    "gather": lambda net, x: g.GatherOp.make(x, net.constant([2, 0, -1], np.int64), axis=1),
    "split": lambda net, x: g.SplitOp.make(x, axis=1, split=[1, 3]),
    "expand": lambda net, x: g.ExpandOp.make(x, shape=[3, 4, 4, 6]),
    "tile": lambda net, x: g.TileOp.make(x, repeats=[1, 2, 1, 1]),
    "depth to space": lambda net, x: g.DepthToSpaceOp.make(x, blocksize=2, mode="DCR"),
    "space to depth": lambda net, x: g.SpaceToDepthOp.make(x, blocksize=2),
    "max pool": lambda net, x: g.MaxPoolOp.make(x, ceil_mode=1, **WINDOW),
}


def around(move, to=np.uint8, zero=100) -> tuple[Net, list]:
    """What moves bytes between a quantize op and dequantize ops."""
    net = Net(X)
    op = move(net, net.quantize(net.arguments[0], 0.1, zero, to=to))
    net.add(op)
    return net, [net.dequantize(value, 0.1, zero, of=to) for value in op.results]


@pytest.mark.parametrize("name", MOVES)
def test_what_moves_bytes_moves_signed_ones(name):
    net, results = around(MOVES[name])
    module = net.returning(*results)
    signed = run_passes(module, SignedBytesPass())
    assert_same_bits(evaluate(signed, X), evaluate(module, X))
    assert located(signed) == located(module)
    assert "requantize" not in op_names(signed)
    values = [value for op in signed.walk() for value in op.results]
    assert all(element_type_of(value.type) != ui8 for value in values)


@pytest.mark.parametrize("name", MOVES)
def test_what_moves_signed_bytes_without_negative_numbers_moves_unsigned_ones(name):
    net, results = around(MOVES[name], np.int8, -128)
    module = net.returning(*results)
    unsigned = run_passes(module, UnsignedBytesPass())
    assert_same_bits(evaluate(unsigned, X), evaluate(module, X))
    assert located(unsigned) == located(module)
    assert "requantize" not in op_names(unsigned)
    values = [value for op in unsigned.walk() for value in op.results]
    assert all(element_type_of(value.type) != i8 for value in values)


@pytest.mark.parametrize("zero", [-127, 0])
def test_signed_bytes_that_would_have_a_zero_point_stay(zero):
    net, results = around(MOVES["max pool"], np.int8, zero)
    module = net.returning(*results)
    assert str(run_passes(module.clone(), UnsignedBytesPass())) == str(module)


def test_what_computes_with_signed_bytes_keeps_them():
    """No change of sign would be worth it between what is quantised and what computes."""
    linear = {**NEAREST, "mode": "linear"}
    net, results = around(lambda net, x: g.ResizeOp.make(x, **linear), np.int8, -128)
    module = net.returning(*results)
    assert str(run_passes(module.clone(), UnsignedBytesPass())) == str(module)


def test_what_computes_with_bytes_gets_unsigned_ones():
    net, results = around(lambda net, x: g.ResizeOp.make(x, **{**NEAREST, "mode": "linear"}))
    module = net.returning(*results)
    signed = run_passes(module, SignedBytesPass())
    assert_same_bits(evaluate(signed, X), evaluate(module, X))
    assert op_names(signed).count("requantize") == 2


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(["conv", "groups", (6, 3), (2, 6, 3), (6,)]),
    st.sampled_from([np.int8, np.uint8, np.int16]),
)
def test_products_summed_as_integers_are_of_signed_bytes(seed, kind, dtype):
    random = np.random.default_rng(seed)
    shape = (1, 4, 5, 4) if isinstance(kind, str) else (2, 3, 6)
    x = random.integers(0, 256, shape).astype(np.uint8)
    weights = {"conv": (3, 4, 3, 2), "groups": (4, 1, 3, 2)}.get(kind, kind)
    info, net = np.iinfo(dtype), Net(x)
    w = net.constant(random.integers(info.min // 64, info.max // 64 + 2, weights), dtype)
    if isinstance(kind, str):
        window = {"strides": [2, 1], "pads": [1, 0, 2, 1], "dilations": [1, 1]}
        group = 4 if kind == "groups" else 1
        made = g.ConvOp.make(net.arguments[0], w, group=group, **window)
    else:
        made = g.MatmulOp.make(net.arguments[0], w)
    module = net.returning(net.add(made))
    signed = run_passes(module, SignedBytesPass())
    (product,) = [op for op in signed.walk() if isinstance(op, g.ConvOp | g.MatmulOp)]
    assert element_type_of(product.operands[0].type) == i8
    assert located(signed) == located(module)
    assert_same_bits(evaluate(signed, x), evaluate(module, x))
