"""Transposed convolutions of bytes as convolutions: the same integers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from pass_checks import run_on
from rewrite_nets import Net, located, op_names, run_passes
from zero_point_layers import zero_point_transposed_convs

from byocir.dialects.graph import ConvOp, ConvTransposeOp
from byocir.evaluate.module import evaluate_function
from byocir.rewrites.fix_point import FixPointPass


@settings(max_examples=max(settings.default.max_examples // 2, 1))
@given(zero_point_transposed_convs())
def test_layers_become_integers(layer):
    (expected,) = evaluate_function(layer.module, "main", [layer.x])
    integers = run_passes(layer.module, FixPointPass("half_even"))
    assert {"quantize", "dequantize", "conv_transpose"}.isdisjoint(op_names(integers))
    assert located(integers) <= located(layer.module)
    (found,) = evaluate_function(integers, "main", [layer.x])
    assert found.dtype == expected.dtype
    difference = np.abs(found.astype(int) - expected.astype(int))
    assert difference.max() <= (0 if layer.exact else 1)


@settings(max_examples=max(settings.default.max_examples // 4, 1))
@given(zero_point_transposed_convs())
def test_blocks_keep_every_bit(layer):
    integers = run_on(layer.module, "fix-point")
    expected = evaluate_function(integers, "main", [layer.x])
    blocks = run_on(integers, "convert-graph-to-tir")
    np.testing.assert_array_equal(evaluate_function(blocks, "main", [layer.x]), expected)


@pytest.mark.parametrize(
    ("kernel", "stride", "pad", "products"),
    [(2, 2, 0, [4]), (4, 2, 1, [4, 4, 4, 4]), (3, 2, 1, [1, 2, 2, 4]), (3, 1, 1, [9])],
)
def test_only_products_that_count_are_made(kernel, stride, pad, products):
    """So many for each element of a phase; phases that read alike are one convolution, and so are
    those of few outputs."""
    assert products_of(17, kernel, stride, pad) == products
    if kernel == 4:
        assert products_of(4, kernel, stride, pad) == [36]


def products_of(outputs: int, kernel: int, stride: int, pad: int) -> list[int]:
    net = Net(np.ones((1, 2, 4, 4), np.int8))
    values = np.ones((2, outputs, kernel, kernel), np.int8)
    weight = net.dequantize(net.constant(values), 0.5)
    window = {"strides": [stride] * 2, "pads": [pad] * 4, "dilations": [1, 1], "group": 1}
    made = net.add(
        ConvTransposeOp.make(
            net.dequantize(net.arguments[0], 0.5, 3), weight, output_padding=[0, 0], **window
        )
    )
    module = run_passes(net.returning(net.quantize(made, 1.0, -7)), FixPointPass())
    convs = [op for op in module.walk() if isinstance(op, ConvOp)]
    shapes = [op.weight.type.get_shape() for op in convs]
    return [made // outputs * rows * columns for made, _, rows, columns in shapes]
