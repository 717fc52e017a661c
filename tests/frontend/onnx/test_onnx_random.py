"""Random small models: import, evaluation and export against ONNX Runtime."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st
from onnx import helper
from onnx_models import check, make_model, one_node

seeds = st.integers(0, 2**32 - 1)


def floats(seed: int, *shape: int, low: float = -2.0, high: float = 2.0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(low, high, shape).astype(np.float32)


def bytes_(seed: int, *shape: int, dtype: Any = np.int8) -> np.ndarray:
    info = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(info.min, info.max + 1, shape).astype(dtype)


@st.composite
def windows(draw: st.DrawFn, rank: int) -> tuple[list[int], dict[str, Any]]:
    """A kernel shape and the attributes around it. With SAME no dilations, which ONNX
    Runtime refuses in Conv and takes otherwise than onnx's shape inference in pools, and no strides
    beyond the kernel, for which it computes negative pads."""
    kernel = draw(st.lists(st.integers(1, 3), min_size=rank, max_size=rank))
    attributes: dict[str, Any] = {}
    auto_pad = draw(st.sampled_from(["NOTSET", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"]))
    if auto_pad != "NOTSET":
        attributes["auto_pad"] = auto_pad
    elif draw(st.booleans()):
        # A pad must be smaller than the kernel in pools.
        attributes["pads"] = [draw(st.integers(0, size - 1)) for size in kernel * 2]
    if draw(st.booleans()):
        most = kernel if auto_pad.startswith("SAME") else [3] * rank
        attributes["strides"] = [draw(st.integers(1, limit)) for limit in most]
    if draw(st.booleans()) and not auto_pad.startswith("SAME"):
        attributes["dilations"] = draw(st.lists(st.integers(1, 2), min_size=rank, max_size=rank))
    return kernel, attributes


spatial = st.lists(st.integers(5, 8), min_size=1, max_size=2)


@given(st.data(), spatial, seeds, st.integers(1, 2), st.integers(1, 2), st.integers(1, 3))
def test_conv(
    data: st.DataObject, sizes: list[int], seed: int, batch: int, per_group: int, group: int
) -> None:
    kernel, attributes = data.draw(windows(len(sizes)))
    weight = floats(seed, 2 * group, per_group, *kernel)
    weights = {"w": weight, "b": floats(seed + 1, 2 * group)}
    if data.draw(st.booleans()):
        del weights["b"]
    if data.draw(st.booleans()):
        attributes["kernel_shape"] = kernel
    x = {"x": floats(seed + 2, batch, per_group * group, *sizes)}
    check(one_node("Conv", x, weights, group=group, **attributes), x)


@given(st.data(), seeds, st.integers(1, 2), st.integers(1, 3), st.booleans())
def test_conv_integer(
    data: st.DataObject, seed: int, per_group: int, group: int, unsigned: bool
) -> None:
    kernel, attributes = data.draw(windows(2))
    x = {"x": bytes_(seed, 1, per_group * group, 6, 7, dtype=np.uint8 if unsigned else np.int8)}
    weights = {"w": bytes_(seed + 1, 2 * group, per_group, *kernel)}
    check(one_node("ConvInteger", x, weights, group=group, **attributes), x)


@given(st.data(), spatial, seeds, st.booleans(), st.booleans())
def test_max_pool(
    data: st.DataObject, sizes: list[int], seed: int, integers: bool, negative: bool
) -> None:
    """With all-negative inputs a zero from the padding would win."""
    kernel, attributes = data.draw(windows(len(sizes)))
    x = bytes_(seed, 2, 3, *sizes) if integers else floats(seed, 2, 3, *sizes)
    if negative:
        x = np.minimum(x, x.dtype.type(-1))
    ceil = data.draw(st.integers(0, 1))
    model = one_node("MaxPool", {"x": x}, kernel_shape=kernel, ceil_mode=ceil, **attributes)
    check(model, {"x": x}, exact=True)


@given(st.data(), spatial, seeds, st.integers(0, 1), st.integers(0, 1))
def test_average_pool(
    data: st.DataObject, sizes: list[int], seed: int, ceil: int, include_pad: int
) -> None:
    kernel, attributes = data.draw(windows(len(sizes)))
    x = {"x": floats(seed, 2, 3, *sizes)}
    model = one_node(
        "AveragePool",
        x,
        kernel_shape=kernel,
        ceil_mode=ceil,
        count_include_pad=include_pad,
        **attributes,
    )
    check(model, x)


@given(seeds, st.sampled_from(["2x3 3x4", "5x2x3 3x4", "2x1x2x3 5x3x4", "3 3x4", "2x3 3", "3 3"]))
def test_matmul(seed: int, shapes: str) -> None:
    left, right = ([int(size) for size in shape.split("x")] for shape in shapes.split())
    x, w = {"x": floats(seed, *left)}, {"w": floats(seed + 1, *right)}
    check(one_node("MatMul", x, w), x)
    xi, wi = {"x": bytes_(seed, *left)}, {"w": bytes_(seed + 1, *right)}
    check(one_node("MatMulInteger", xi, wi), xi)


@given(st.data(), seeds, st.booleans(), st.booleans())
def test_gemm(data: st.DataObject, seed: int, computed: bool, trans_b: bool) -> None:
    rows, depth, columns = 2, 3, 4
    attributes: dict[str, Any] = {"transB": int(trans_b)}
    if data.draw(st.booleans()):
        attributes["transA"] = 1
    for name in ("alpha", "beta"):
        attributes[name] = data.draw(st.sampled_from([1.0, 0.5, 0.0]))
    a = floats(seed, depth, rows) if attributes.get("transA") else floats(seed, rows, depth)
    b = floats(seed + 1, columns, depth) if trans_b else floats(seed + 1, depth, columns)
    operands = {"x": a, "w": b}
    bias = data.draw(st.sampled_from([None, (), (columns,), (rows, 1), (rows, columns)]))
    if bias is not None:
        operands["c"] = floats(seed + 2, *bias)
    feeds = operands if computed else {"x": a}
    weights = {name: array for name, array in operands.items() if name not in feeds}
    check(one_node("Gemm", feeds, weights, **attributes), feeds)


@given(
    seeds,
    st.sampled_from(["Add", "Sub", "Mul", "Div"]),
    st.sampled_from(["2x3 2x3", "2x3 3", "2x1x3 4x1", "1 5", "scalar 2x2"]),
    st.sampled_from([np.float32, np.int32]),
)
def test_arithmetic(seed: int, op_type: str, shapes: str, dtype: Any) -> None:
    texts = (shape.replace("scalar", "") for shape in shapes.split())
    left, right = ([int(size) for size in text.split("x") if size] for text in texts)
    rng = np.random.default_rng(seed)
    a = rng.integers(-(2**31), 2**31, left) if dtype is np.int32 else rng.uniform(-2, 2, left)
    b = rng.integers(1, 2**31, right) if dtype is np.int32 else rng.uniform(0.5, 2, right)
    feeds = {"a": np.asarray(a, dtype), "b": np.asarray(b, dtype)}
    check(one_node(op_type, feeds), feeds, exact=True)


@given(seeds, st.sampled_from([np.float32, np.int8, np.int32]), st.booleans(), st.booleans())
def test_clip_and_relu(seed: int, dtype: Any, has_min: bool, has_max: bool) -> None:
    x = np.asarray(floats(seed, 3, 4, low=-100, high=100), dtype)
    weights: dict[str, np.ndarray] = {}
    names = ["x"]
    for present, name, value in ((has_min, "lo", -3), (has_max, "hi", 40)):
        names.append(name if present else "")
        if present:
            weights[name] = np.array(value, dtype)
    nodes = [
        helper.make_node("Clip", names, ["c"]),
        helper.make_node("Relu", ["c"], ["y"]),
    ]
    check(make_model(nodes, {"x": x}, weights, outputs=["y", "c"]), {"x": x}, exact=True)


@given(st.data(), seeds)
def test_along_dimensions(data: st.DataObject, seed: int) -> None:
    x = {"x": floats(seed, 2, 3, 4, low=-50, high=50)}
    axis = data.draw(st.integers(-3, 2))
    check(one_node("Softmax", x, axis=axis), x)
    axes = data.draw(st.sets(st.sampled_from([0, 1, -1]), max_size=3))
    weights = {"axes": np.array(sorted(axes), np.int64)}
    keepdims, keeps_all = data.draw(st.integers(0, 1)), data.draw(st.integers(0, 1))
    model = one_node("ReduceMean", x, weights, keepdims=keepdims, noop_with_empty_axes=keeps_all)
    check(model, x)
    image = {"x": floats(seed, 2, 3, 4, 5)}
    check(one_node("GlobalAveragePool", image), image)


@given(st.data(), seeds, st.permutations(range(3)))
def test_shapes(data: st.DataObject, seed: int, perm: list[int]) -> None:
    x = {"x": floats(seed, 2, 1, 6)}
    check(one_node("Transpose", x, perm=perm), x, exact=True)
    check(one_node("Transpose", x), x, exact=True)
    check(one_node("Flatten", x, axis=data.draw(st.integers(-3, 3))), x, exact=True)
    shape = data.draw(st.sampled_from([[-1], [0, -1], [0, 0, 2, 3], [3, 4], [12, 1, 1]]))
    check(one_node("Reshape", x, {"s": np.array(shape, np.int64)}), x, exact=True)
    axes = {"axes": np.array(data.draw(st.sampled_from([[1], [-2]])), np.int64)}
    check(one_node("Squeeze", x, axes), x, exact=True)
    check(one_node("Squeeze", x), x, exact=True)
    axes = {"axes": np.array(data.draw(st.sampled_from([[0], [-1, 1], [3, 0]])), np.int64)}
    check(one_node("Unsqueeze", x, axes), x, exact=True)


@given(seeds, st.integers(-3, 2), st.integers(1, 3))
def test_concat(seed: int, axis: int, count: int) -> None:
    feeds: dict[str, np.ndarray] = {}
    for index in range(count):
        shape = [2, 3, 4]
        shape[axis] = index + 1
        feeds[f"x{index}"] = floats(seed + index, *shape)
    check(one_node("Concat", feeds, axis=axis), feeds, exact=True)


@given(
    st.data(),
    seeds,
    st.sampled_from([np.int8, np.uint8, np.int16, np.uint16]),
    st.sampled_from(["tensor", "one element", "channel"]),
)
def test_quantisation(data: st.DataObject, seed: int, dtype: Any, kind: str) -> None:
    """Values far outside saturate; halves round to even."""
    shape, axis = (2, 3, 4), data.draw(st.sampled_from([0, 1, 2, -1, -2]))
    extent = {"tensor": (), "one element": (1,), "channel": (shape[axis],)}[kind]
    rng = np.random.default_rng(seed)
    scale = rng.choice([0.5, 0.25, 0.013, 3.0], extent).astype(np.float32)
    x = rng.choice([-1e6, 1e6, -0.25, 0.125, 0.375, 0.75, 1.3, -2.6], shape).astype(np.float32)
    weights = {"s": scale}
    if dtype is np.uint8 and data.draw(st.booleans()):
        names = ["s"]
    else:
        names = ["s", "z"]
        weights["z"] = np.asarray(rng.integers(0, 100, extent), dtype)
    nodes = [
        helper.make_node("QuantizeLinear", ["x", *names], ["q"], axis=axis),
        helper.make_node("DequantizeLinear", ["q", *names], ["y"], axis=axis),
    ]
    feeds = {"x": x}
    check(make_model(nodes, feeds, weights, outputs=["q", "y"]), feeds, exact=True)


@given(seeds, st.booleans(), st.sampled_from([1, 0]))
def test_dequantise_accumulators(seed: int, per_channel: bool, axis: int) -> None:
    shape = (3, 4)
    extent = (shape[axis],) if per_channel else ()
    x = np.random.default_rng(seed).integers(-(2**31), 2**31, shape).astype(np.int32)
    weights = {"s": np.asarray(floats(seed, *extent, low=1e-4, high=1e-2), np.float32)}
    check(one_node("DequantizeLinear", {"x": x}, weights, axis=axis), {"x": x}, exact=True)


@given(seeds, st.integers(1, 4), st.integers(1, 4))
def test_constant_products(seed: int, rows: int, columns: int) -> None:
    """A reshape to a computed shape: Shape, Gather, Concat are arithmetic on constants."""
    x = {"x": floats(seed, rows, columns, 2, 3)}
    assume(math.prod(x["x"].shape) > 0)
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "zero"], ["first"]),
        helper.make_node("Unsqueeze", ["first", "zero1"], ["first1"]),
        helper.make_node("Concat", ["first1", "rest"], ["target"], axis=0),
        helper.make_node("Reshape", ["x", "target"], ["y"]),
    ]
    weights = {
        "zero": np.array(0, np.int64),
        "zero1": np.array([0], np.int64),
        "rest": np.array([-1], np.int64),
    }
    check(make_model(nodes, x, weights), x, exact=True)
