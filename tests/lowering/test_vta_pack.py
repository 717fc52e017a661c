"""vta-pack: the same results, in the layout of VTA's memories."""

from __future__ import annotations

import numpy as np
import pytest
from vta_programs import Net, Scale, apply
from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.dialects.func import FuncOp

from byocir.dialects.byoc import CallOp, composites_in
from byocir.dialects.tir import BlockOp, ConstantOp
from byocir.dialects.types import i8, i64, shape_of, tensor
from byocir.errors import ByocirError
from byocir.lowering.tir_to_vta.composites import vta_functions
from byocir.lowering.tir_to_vta.legalise import VtaLegalisePass
from byocir.lowering.tir_to_vta.pack import VtaPackPass


def constants_of(module: ModuleOp) -> list[np.ndarray]:
    return [
        op.value.data.values()
        for function in vta_functions(module)
        for composite in composites_in(function)
        for op in composite.walk()
        if isinstance(op, ConstantOp)
    ]


def test_convolution_weights() -> None:
    weights = np.arange(20 * 3 * 1 * 2, dtype=np.int16).astype(np.int8).reshape(20, 3, 1, 2)
    scale = Scale(np.full((20, 1, 1), 70_001, np.int32), 23)
    net = Net((1, 3, 4, 4))
    result = net.composite(
        "Conv_0", net.inputs, lambda body, x: body.requantise(body.conv(x, weights), scale)
    )
    module = apply(net.module(result), VtaLegalisePass, VtaPackPass)
    kernel, *per_channel = constants_of(module)
    assert kernel.shape == (2, 1, 1, 2, 16, 16)
    assert kernel[1, 0, 0, 1, 2, 2] == weights[18, 2, 0, 1]
    np.testing.assert_array_equal(kernel[0, 0, :, :, 5, 1], weights[5, 1])
    assert not kernel[1, :, :, :, 4:].any()
    assert not kernel[..., 3:].any()
    for values in per_channel:
        assert values.shape == (2, 16)
        assert not values[1, 4:].any()
    (function,) = vta_functions(module)
    assert list(function.function_type.inputs) == [tensor(i8, (1, 1, 4, 4, 16))]
    assert list(function.function_type.outputs) == [tensor(i8, (1, 2, 4, 3, 16))]


@pytest.mark.parametrize(
    ("bias", "pixels", "is_product"),
    [(241_500, 6, True), (-242_000, 6, True), (250_000, 6, False), (1000, 5, False)],
)
def test_biases_are_products_where_they_fit_and_serve_many_points(
    bias: int, pixels: int, is_product: bool
) -> None:
    weights = np.ones((20, 3, 1, 1), np.int8)
    biases = np.full(20, bias, np.int32)
    biases[7] = -5
    net = Net((1, 3, pixels, pixels))
    result = net.composite(
        "Conv_0",
        net.inputs,
        lambda body, x: body.requantise(
            body.bias(body.conv(x, weights), biases), Scale(np.array(1, np.int32), 9)
        ),
    )
    _, *numbers = constants_of(apply(net.module(result), VtaLegalisePass, VtaPackPass))
    if is_product:
        ones, digits = (each.astype(np.int64) for each in numbers)
        numbers = [digits @ ones]
    (found,) = numbers
    half = 1 << 8
    np.testing.assert_array_equal(found.reshape(-1)[:20], biases + half)


def test_dense_weights_are_transposed() -> None:
    weights = np.random.default_rng(0).integers(-128, 128, (35, 17)).astype(np.int8)
    net = Net((2, 35))
    result = net.composite(
        "Dense_0",
        net.inputs,
        lambda body, x: body.requantise(body.dense(x, weights), Scale(np.array(1, np.int32), 12)),
    )
    (kernel,) = constants_of(apply(net.module(result), VtaLegalisePass, VtaPackPass))
    assert kernel.shape == (2, 3, 16, 16)
    assert kernel[1, 2, 0, 1] == weights[33, 16]


def test_constants_per_position_have_equal_lanes() -> None:
    factors = np.array([[90_000, 70_001], [50_003, 33_333]], np.int32)
    net = Net((1, 3, 3, 3))
    result = net.composite(
        "Pool_0",
        net.inputs,
        lambda body, x: body.requantise(body.pool(x, "sum", (2, 2)), Scale(factors, 20)),
    )
    module = apply(net.module(result), VtaLegalisePass, VtaPackPass)
    (multiplier,) = constants_of(module)
    assert multiplier.shape == (2, 2, 16)
    np.testing.assert_array_equal(multiplier, np.repeat(factors[..., None], 16, axis=-1))


def test_values_stay_packed_between_composites() -> None:
    net = Net((1, 5, 3, 3))
    first = net.composite("Relu_0", net.inputs, lambda body, x: body.relu(x))
    second = net.composite("Clip_1", [first], lambda body, x: body.clip(x, 1, 9))
    module = apply(net.module(second), VtaLegalisePass, VtaPackPass)
    main = next(op for op in module.ops if isinstance(op, FuncOp))
    assert main.sym_name.data == "main"
    assert [type(op).__name__ for op in main.body.block.ops] == [
        "EmptyOp",
        "BlockOp",
        "CallOp",
        "EmptyOp",
        "BlockOp",
        "ReturnOp",
    ]
    pack = next(op for op in main.body.block.ops if isinstance(op, BlockOp))
    assert list(pack.pads) == [IntegerAttr(0, i8)]
    call = next(op for op in main.body.block.ops if isinstance(op, CallOp))
    assert shape_of(call.outputs[0].type) == (1, 1, 3, 3, 16)


def test_whole_blocks_are_packed_without_padding() -> None:
    net = Net((1, 32, 2, 2))
    result = net.composite("Relu_0", net.inputs, lambda body, x: body.relu(x))
    options = {"block": IntegerAttr(32, i64)}
    module = apply(net.module(result, options=options), VtaLegalisePass, VtaPackPass)
    pack = next(op for op in module.walk() if isinstance(op, BlockOp))
    assert pack.pad_values == [None]
    assert shape_of(pack.results[0].type) == (1, 1, 2, 2, 32)


def test_refuses_bodies_that_are_not_legal() -> None:
    net = Net((1, 3))

    module = net.module(net.composite("Node_7", net.inputs, lambda body, x: body.relu(x)))
    (function,) = vta_functions(module)
    (composite,) = composites_in(function)
    block = next(op for op in composite.walk() if isinstance(op, BlockOp))
    block.properties["iterators"] = type(block.iterators)(reversed(block.iterators.data))
    block.properties["maps"] = type(block.maps)(
        type(m)(m.data.from_callable(lambda a, b: (b, a))) for m in block.maps
    )
    with pytest.raises(ByocirError, match="B324") as caught:
        VtaPackPass().apply(None, module)
    assert "node Node_7" in caught.value.where


def test_other_functions_stay() -> None:
    net = Net((1, 3))
    result = net.composite(
        "Relu_0", net.inputs, lambda body, x: body.elementwise([x], lambda a: a.max(0), i8)
    )
    module = net.module(result)
    for function in vta_functions(module):
        function.attributes.pop("byoc.target")
    before = str(module)
    apply(module, VtaLegalisePass, VtaPackPass)
    assert str(module) == before
