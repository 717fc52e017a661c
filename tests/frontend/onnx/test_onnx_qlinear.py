"""Operators on quantised tensors against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper
from onnx_models import Arrays, check, make_model, one_node, run_byocir, run_ort
from processor import on_vnni
from xdsl.ir import Attribute

from byocir.dialects.graph import DequantizeOp, ForeignOp, MatmulOp, QuantizeOp
from byocir.dialects.types import element_type_of, i8, ui8
from byocir.frontend.onnx import export_onnx, import_onnx

seeds = st.integers(0, 2**32 - 1)
dtypes = st.sampled_from([np.int8, np.uint8])
some = settings(max_examples=max(settings.default.max_examples // 4, 1))


def integers(seed: int, dtype: Any, *shape: int) -> np.ndarray:
    info = np.iinfo(dtype)
    rng = np.random.default_rng(seed)
    return rng.integers(info.min, info.max, shape, endpoint=True).astype(dtype)


def scalar(value: Any, dtype: Any = np.float32) -> np.ndarray:
    return np.array(value, dtype)


def model_of(
    operator: str, names: list[str], feeds: Arrays, weights: Arrays, shape: Any, **attributes: Any
) -> onnx.ModelProto:
    """A model of one node of ONNX Runtime's domain, whose operators onnx knows no types of."""
    dtype = next(iter(feeds.values())).dtype
    ports = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for name, a in feeds.items()
    ]
    result = helper.make_tensor_value_info("y", helper.np_dtype_to_tensor_dtype(dtype), shape)
    node = helper.make_node(operator, names, ["y"], domain="com.microsoft", **attributes)
    constants = [onnx.numpy_helper.from_array(a, name) for name, a in weights.items()]
    graph = helper.make_graph([node], "test", ports, [result], constants)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def check_near(model: onnx.ModelProto, feeds: Arrays, steps: int = 1) -> None:
    """Within a step of ONNX Runtime, which rounds in single steps of its own; our own export, which
    says what we mean, is the same but for float sums."""
    module = import_onnx(model)
    module.verify()
    kinds = {type(op) for op in module.walk()}
    assert {DequantizeOp, QuantizeOp} <= kinds
    (found,), (expected,) = run_byocir(module, feeds), run_ort(model, feeds)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    assert np.abs(found.astype(int) - expected.astype(int)).max(initial=0) <= steps
    (again,) = run_ort(export_onnx(module), feeds)
    assert np.abs(found.astype(int) - again.astype(int)).max(initial=0) <= 1


GRID = {"xs": scalar(0.03), "ys": scalar(0.05)}


@on_vnni
@some
@given(seeds, dtypes, st.integers(1, 2), st.booleans(), st.booleans())
def test_conv(seed: int, dtype: Any, group: int, per_channel: bool, biased: bool) -> None:
    feeds = {"x": integers(seed, dtype, 1, 2 * group, 5, 5)}
    many = (2 * group,) if per_channel else ()
    weights = {
        "xs": scalar(0.03),
        "xz": scalar(3, dtype),
        "w": integers(seed + 1, np.int8, 2 * group, 2, 3, 3),
        "ws": np.random.default_rng(seed).uniform(0.01, 0.02, many).astype(np.float32),
        "wz": np.zeros(many, np.int8),
        "ys": scalar(0.4),
        "yz": scalar(7, dtype),
    }
    if biased:
        weights["b"] = integers(seed + 2, np.int16, 2 * group).astype(np.int32)
    model = one_node("QLinearConv", feeds, weights, group=group, auto_pad="SAME_UPPER")
    check_near(model, feeds)


@on_vnni
@some
@given(seeds, dtypes, st.booleans())
def test_matmul(seed: int, dtype: Any, per_column: bool) -> None:
    feeds = {"x": integers(seed, dtype, 3, 4)}
    many = (5,) if per_column else ()
    weights = {
        "xs": scalar(0.03),
        "xz": scalar(3, dtype),
        "w": integers(seed + 1, np.int8, 4, 5),
        "ws": np.full(many, 0.02, np.float32),
        "wz": np.full(many, 2, np.int8),
        "ys": scalar(0.1),
        "yz": scalar(7, dtype),
    }
    check_near(one_node("QLinearMatMul", feeds, weights), feeds)


@on_vnni
@some
@given(seeds, dtypes, st.booleans(), st.booleans(), st.sampled_from([1.0, 0.3]))
def test_gemm(seed: int, dtype: Any, transposed: bool, biased: bool, alpha: float) -> None:
    feeds = {"x": integers(seed, dtype, 3, 4)}
    weights = {
        "xs": scalar(0.03),
        "xz": scalar(3, dtype),
        "w": integers(seed + 1, np.int8, *((5, 4) if transposed else (4, 5))),
        "ws": scalar(0.02),
        "wz": scalar(0, np.int8),
        "b": integers(seed + 2, np.int16, 5).astype(np.int32),
        "ys": scalar(0.1),
        "yz": scalar(7, dtype),
    }
    names = ["x", *weights]
    if not biased:
        names[names.index("b")] = ""
    attributes = {"transB": int(transposed), "alpha": alpha}
    check_near(model_of("QGemm", names, feeds, weights, (3, 5), **attributes), feeds)


@some
@given(seeds, dtypes, st.sampled_from(["QLinearAdd", "QLinearMul"]))
def test_two_tensors(seed: int, dtype: Any, operator: str) -> None:
    feeds = {"x": integers(seed, dtype, 2, 3), "w": integers(seed + 1, dtype, 3)}
    weights = {**GRID, "ws": scalar(0.02), "z": scalar(3, dtype)}
    names = ["x", "xs", "z", "w", "ws", "z", "ys", "z"]
    check_near(model_of(operator, names, feeds, weights, (2, 3)), feeds)


ONE_TENSOR: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "QLinearAveragePool": ((1, 2, 3, 3), {"kernel_shape": [2, 2], "strides": [1, 1]}),
    "QLinearGlobalAveragePool": ((1, 2, 1, 1), {"channels_last": 0}),
    "QLinearLeakyRelu": ((1, 2, 4, 4), {"alpha": 0.25}),
    "QLinearSigmoid": ((1, 2, 4, 4), {}),
}


@pytest.mark.parametrize("operator", ONE_TENSOR)
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_one_tensor(operator: str, dtype: Any) -> None:
    shape, attributes = ONE_TENSOR[operator]
    feeds = {"x": integers(7, dtype, 1, 2, 4, 4)}
    weights = {**GRID, "z": scalar(3, dtype)}
    names = ["x", "xs", "z", "ys", "z"]
    check_near(model_of(operator, names, feeds, weights, shape, **attributes), feeds)


@pytest.mark.parametrize(("axis", "opset"), [(-1, 13), (1, 13), (1, 11), (2, 11)])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_softmax(axis: int, opset: int, dtype: Any) -> None:
    feeds = {"x": integers(3, dtype, 2, 3, 4)}
    least = np.iinfo(dtype).min
    weights = {"xs": scalar(0.05), "z": scalar(3, dtype), "ys": scalar(1 / 256)}
    weights["yz"] = scalar(least, dtype)
    names = ["x", "xs", "z", "ys", "yz"]
    model = model_of("QLinearSoftmax", names, feeds, weights, (2, 3, 4), axis=axis, opset=opset)
    check_near(model, feeds)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_where(dtype: Any) -> None:
    chosen = np.array([[True, False, True], [False, False, True]])
    feeds = {"x": integers(1, dtype, 2, 3), "c": chosen, "w": integers(2, dtype, 3)}
    weights = {**GRID, "ws": scalar(0.02), "z": scalar(3, dtype)}
    names = ["c", "x", "xs", "z", "w", "ws", "z", "ys", "z"]
    check_near(model_of("QLinearWhere", names, feeds, weights, (2, 3)), feeds)


@pytest.mark.parametrize("dtype", [np.int8, np.uint16])
def test_quantisers_of_onnxruntime(dtype: Any) -> None:
    """They came before those of ONNX knew these types, and are still written."""
    feeds = {"x": integers(1, dtype, 2, 3)}
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "xs", "z"], ["f"], domain="com.microsoft"),
        helper.make_node("QuantizeLinear", ["f", "ys", "z"], ["y"], domain="com.microsoft"),
    ]
    model = model_of("QuantizeLinear", [], feeds, {**GRID, "z": scalar(3, dtype)}, (2, 3))
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    check_near(model, feeds, steps=0)


def test_concat() -> None:
    feeds = {"x": integers(1, np.uint8, 2, 3), "w": integers(2, np.uint8, 2, 4)}
    weights = {**GRID, "ws": scalar(0.02), "z": scalar(3, np.uint8)}
    names = ["ys", "z", "x", "xs", "z", "w", "ws", "z"]
    check_near(model_of("QLinearConcat", names, feeds, weights, (2, 7), axis=1), feeds)


@on_vnni
@some
@given(seeds, dtypes, st.sampled_from([(), (3,)]), st.sampled_from([(), (5,)]))
def test_matmul_integer(
    seed: int, dtype: Any, rows: tuple[int, ...], columns: tuple[int, ...]
) -> None:
    feeds = {"x": integers(seed, np.uint8, 3, 4), "w": integers(seed + 1, dtype, 4, 5)}
    weights = {"xz": integers(seed, np.uint8, *rows), "wz": integers(seed + 1, dtype, *columns)}
    if rows:  # ONNX Runtime has one zero point for all rows only
        expected = (feeds["x"].astype(int) - weights["xz"].astype(int)[:, None]) @ (
            feeds["w"].astype(int) - weights["wz"].astype(int)
        )
        module = import_onnx(one_node("MatMulInteger", feeds, weights))
        np.testing.assert_array_equal(run_byocir(module, feeds)[0], expected)
    else:
        check(one_node("MatMulInteger", feeds, weights), feeds, exact=True)


@on_vnni
@some
@given(seeds, dtypes, st.integers(1, 2), st.booleans(), st.sampled_from([0, 3]))
def test_conv_integer(seed: int, dtype: Any, group: int, computed: bool, w_point: int) -> None:
    feeds = {"x": integers(seed, np.uint8, 1, 2 * group, 5, 4)}
    w = integers(seed + 1, dtype, 2 * group, 2, 3, 2)
    z, wz = integers(seed, np.uint8), scalar(w_point, dtype)
    attributes = {"pads": [1, 0, 1, 1], "strides": [2, 1], "group": group}
    model = integer_model("ConvInteger", feeds, {"w": w}, {"z": z, "wz": wz}, computed, attributes)
    check(model, feeds, exact=True)


RANKS = [
    ((3, 4), (4, 5)),
    ((2, 3, 4), (4, 5)),
    ((2, 3, 4), (2, 4, 5)),
    ((4,), (4, 5)),
    ((3, 4), (4,)),
]


@on_vnni
@some
@given(seeds, dtypes, st.sampled_from(RANKS), st.booleans(), st.booleans())
def test_matmul_integer_with_computed_zero_points(
    seed: int, dtype: Any, shapes: Any, weighted: bool, computed: bool
) -> None:
    """As the dynamic quantiser writes it; both factors are computed, or one is a constant."""
    feeds, weights = {"x": integers(seed, np.uint8, *shapes[0])}, {}
    (weights if weighted else feeds)["w"] = integers(seed + 1, dtype, *shapes[1])
    points = {"z": integers(seed, np.uint8), "wz": integers(seed + 2, dtype)}
    model = integer_model("MatMulInteger", feeds, weights, points, computed, {})
    check(model, feeds, exact=True)


def integer_model(
    operator: str, feeds: Arrays, weights: Arrays, points: Arrays, computed: bool, attributes: Any
) -> onnx.ModelProto:
    """A node of two factors and their zero points, which are constants or further inputs."""
    (feeds if computed else weights).update(points)
    node = helper.make_node(operator, ["x", "w", "z", "wz"], ["y"], **attributes)
    return make_model([node], feeds, weights, outputs=["y"])


@some
@given(seeds, st.sampled_from([(), (3,), (2, 3)]), st.floats(-3, 3))
def test_dynamic_quantize(seed: int, shape: tuple[int, ...], shift: float) -> None:
    values = np.random.default_rng(seed).uniform(-2, 2, shape) + shift
    feeds = {"x": np.asarray(values, np.float32)}
    node = helper.make_node("DynamicQuantizeLinear", ["x"], ["y", "s", "z"])
    check(make_model([node], feeds, outputs=["y", "s", "z"]), feeds)


@pytest.mark.parametrize(("point", "element"), [(128, i8), (3, ui8)])
def test_known_zero_points_of_weights_are_taken_off(point: int, element: Attribute) -> None:
    """Where bytes remain: others would need nine bits."""
    w, x = np.array([[0, 255], [128, 1]], np.uint8), np.array([[1, 2], [3, 4]], np.uint8)
    points = {"z": scalar(7, np.uint8), "wz": scalar(point, np.uint8)}
    module = import_onnx(integer_model("MatMulInteger", {"x": x}, {"w": w}, points, False, {}))
    (product,) = [op for op in module.walk() if isinstance(op, MatmulOp)]
    assert element_type_of(product.rhs.type) == element
    expected = (x.astype(int) - 7) @ (w.astype(int) - point)
    np.testing.assert_array_equal(run_byocir(module, {"x": x})[0], expected)


@pytest.mark.parametrize("points", [(0, 5), (200, 128)])
def test_known_zero_points_of_kernels_are_taken_off(points: tuple[int, int]) -> None:
    x, w = integers(0, np.uint8, 1, 2, 4, 4), integers(1, np.uint8, 3, 2, 2, 2)
    given = dict(zip(("z", "wz"), (scalar(point, np.uint8) for point in points), strict=True))
    module = import_onnx(
        integer_model("ConvInteger", {"x": x}, {"w": w}, given, False, {"pads": [1, 0, 0, 1]})
    )
    shifted = x.astype(int) - points[0]
    padded = np.pad(shifted, [(0, 0), (0, 0), (1, 0), (0, 1)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, (2, 2), (2, 3))
    expected = np.einsum("nchwrs,ocrs->nohw", windows, w.astype(int) - points[1])
    np.testing.assert_array_equal(run_byocir(module, {"x": x})[0], expected)


@pytest.mark.parametrize("bits", ["int4", "uint4"])
@pytest.mark.parametrize("per_channel", [False, True])
def test_weights_of_four_bits_are_bytes(bits: str, per_channel: bool) -> None:
    dtype, random = np.dtype(bits), np.random.default_rng(0)
    low, high = (-8, 8) if bits == "int4" else (0, 16)
    w = random.integers(low, high, (4, 3)).astype(dtype)
    s = random.uniform(0.1, 1, (3,) if per_channel else ()).astype(np.float32)
    z = np.full(s.shape, 3).astype(dtype)
    dequantize = helper.make_node("DequantizeLinear", ["w", "s", "z"], ["d"], axis=1)
    feeds = {"x": random.normal(size=(2, 4)).astype(np.float32)}
    nodes = [dequantize, helper.make_node("MatMul", ["x", "d"], ["y"])]
    model = make_model(nodes, feeds, {"w": w, "s": s, "z": z}, outputs=["y"])
    (made,) = [op for op in import_onnx(model).walk() if isinstance(op, DequantizeOp)]
    assert element_type_of(made.input.type) == (i8 if bits == "int4" else ui8)
    check(model, feeds)


@pytest.mark.parametrize("operator", ["MatMulIntegerToFloat", "DynamicQuantizeMatMul"])
@pytest.mark.parametrize("computed", [False, True])
@pytest.mark.parametrize("per_column", [False, True])
def test_products_of_bytes_as_floats(operator: str, computed: bool, per_column: bool) -> None:
    random = np.random.default_rng(1)
    columns = (3,) if per_column else ()
    weights = {
        "w": random.integers(-60, 60, (8, 3)).astype(np.int8),
        "ws": random.uniform(0.1, 1, columns).astype(np.float32),
        "wz": np.zeros(columns, np.int8),
        "b": random.normal(size=3).astype(np.float32),
    }
    feeds: Arrays = {"x": random.normal(size=(2, 4, 8)).astype(np.float32)}
    names = ["x", "w", "ws", "wz", "b"]
    if operator == "MatMulIntegerToFloat":
        feeds, names = {"x": integers(2, np.uint8, 4, 8)}, ["x", "w", "xs", "ws", "xz", "wz", "b"]
        grid = {"xs": scalar(0.1), "xz": scalar(9, np.uint8)}
        (feeds if computed else weights).update(grid)
    model = model_of(operator, names, feeds, weights, None)
    model.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    module = import_onnx(model)
    assert not [op for op in module.walk() if isinstance(op, ForeignOp)]
    (found,), (expected,) = run_byocir(module, feeds), run_ort(model, feeds)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shapes", [((3,), ()), ((1,), (3,))])
@pytest.mark.parametrize("computed", [False, True])
def test_scales_and_zero_points_of_different_shapes(
    shapes: tuple[tuple[int, ...], tuple[int, ...]], computed: bool
) -> None:
    random, (scales, points) = np.random.default_rng(1), shapes
    weights: Arrays = {
        "w": random.integers(-60, 60, (8, 3)).astype(np.int8),
        "xs": scalar(0.1),
        "ws": random.uniform(0.1, 1, scales).astype(np.float32),
        "xz": scalar(9, np.uint8),
    }
    feeds: Arrays = {"x": integers(2, np.uint8, 4, 8)}
    (feeds if computed else weights)["wz"] = np.full(points, 2, np.int8)
    names = ["x", "w", "xs", "ws", "xz", "wz"]
    model = model_of("MatMulIntegerToFloat", names, feeds, weights, None)
    model.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    (found,), (expected,) = run_byocir(import_onnx(model), feeds), run_ort(model, feeds)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("bits", "inputs"), [(4, 48), (4, 40), (8, 48)])
@pytest.mark.parametrize("pointed", [False, True])
def test_products_with_blocks_of_packed_weights(bits: int, inputs: int, pointed: bool) -> None:
    """Where blocks of 16 hold more than the inputs, the last block has some of no meaning."""
    random, outputs, blocks = np.random.default_rng(bits), 3, 3
    weights = {
        "w": random.integers(0, 256, (outputs, blocks, 16 * bits // 8)).astype(np.uint8),
        "s": random.uniform(0.1, 1, outputs * blocks).astype(np.float32),
    }
    if pointed:
        size = outputs * -(-blocks * bits // 8)
        weights["z"] = random.integers(0, 256, size).astype(np.uint8)
    feeds: Arrays = {"x": random.normal(size=(2, inputs)).astype(np.float32)}
    sizes = {"K": inputs, "N": outputs, "bits": bits, "block_size": 16}
    model = model_of("MatMulNBits", ["x", *weights], feeds, weights, None, **sizes)
    module = import_onnx(model)
    assert not [op for op in module.walk() if isinstance(op, ForeignOp)]
    (found,), (expected,) = run_byocir(module, feeds), run_ort(model, feeds)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
