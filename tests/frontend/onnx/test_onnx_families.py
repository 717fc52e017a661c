"""Random operators that reduce, normalise, slide windows, move or look up elements: import,
evaluation and export against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from onnx import helper
from onnx_models import check, make_model, one_node

FEW = max(settings.default.max_examples // 10, 1)
"""How many examples for each operator of a family."""

seeds = st.integers(0, 2**32 - 1)
some = settings(max_examples=3 * FEW)


def floats(seed: int, *shape: int, low: float = -2.0, high: float = 2.0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(low, high, shape).astype(np.float32)


def int64(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


# -- along dimensions

REDUCTIONS = ["Sum", "Max", "Min", "Prod", "L1", "L2", "SumSquare", "LogSum", "LogSumExp"]


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reduction(name: str) -> None:
    @settings(max_examples=FEW)
    @given(seeds, st.sets(st.sampled_from([0, 1, -1])), st.integers(0, 1), st.integers(0, 1))
    def run(seed: int, axes: set[int], keepdims: int, keeps_all: int) -> None:
        # ONNX Runtime takes no absolute values, squares or logarithms where nothing is reduced.
        assume(axes or not keeps_all or name in ("Sum", "Max", "Min", "Prod"))
        low = 0.1 if name == "LogSum" else -2.0
        feeds = {"x": floats(seed, 2, 3, 4, low=low)}
        weights = {"axes": int64(*sorted(axes))}
        attributes = {"keepdims": keepdims, "noop_with_empty_axes": keeps_all}
        check(one_node(f"Reduce{name}", feeds, weights, **attributes), feeds)

    run()


@some
@given(seeds, st.sampled_from(["Sum", "Max", "Min", "Prod", "L1", "SumSquare"]))
def test_integer_reduction(seed: int, name: str) -> None:
    feeds = {"x": np.random.default_rng(seed).integers(-9, 9, (3, 4)).astype(np.int32)}
    check(one_node(f"Reduce{name}", feeds, {"axes": int64(1)}), feeds, exact=True)


@some
@given(seeds, st.sampled_from(["ArgMax", "ArgMin"]), st.integers(-3, 2), st.booleans())
def test_arg(seed: int, operator: str, axis: int, last: bool) -> None:
    x = np.random.default_rng(seed).integers(0, 3, (2, 3, 4)).astype(np.float32)
    attributes = {"axis": axis, "keepdims": seed % 2, "select_last_index": int(last)}
    check(one_node(operator, {"x": x}, **attributes), {"x": x}, exact=True)


@some
@given(seeds, st.sampled_from(["LogSoftmax", "Hardmax", "LpNormalization"]), st.integers(-3, 2))
def test_along_an_axis(seed: int, operator: str, axis: int) -> None:
    feeds = {"x": floats(seed, 2, 3, 4, low=-9, high=9)}
    check(one_node(operator, feeds, axis=axis), feeds)


@some
@given(seeds, st.integers(-3, 2), st.sampled_from([np.float32, np.int64]))
def test_cum_sum(seed: int, axis: int, dtype: Any) -> None:
    feeds = {"x": floats(seed, 2, 3, 4, low=-9, high=9).astype(dtype)}
    flags = {"exclusive": seed % 2, "reverse": seed // 2 % 2}
    check(one_node("CumSum", feeds, {"axis": np.array(axis, np.int32)}, **flags), feeds)


# -- normalisations


@some
@given(seeds, st.sampled_from([(3, 4), (2, 4, 5), (1, 4, 3, 2)]))
def test_batch_norm(seed: int, shape: tuple[int, ...]) -> None:
    feeds = {"x": floats(seed, *shape)}
    weights = {name: floats(seed + i, 4, low=0.5) for i, name in enumerate("sbmv")}
    check(one_node("BatchNormalization", feeds, weights, epsilon=1e-3, momentum=0.5), feeds)


@some
@given(seeds, st.sampled_from([(2, 4, 5), (1, 4, 3, 2)]), st.sampled_from([1, 2, 4]))
def test_instance_and_group_norm(seed: int, shape: tuple[int, ...], groups: int) -> None:
    feeds = {"x": floats(seed, *shape)}
    weights = {"s": floats(seed + 1, 4), "b": floats(seed + 2, 4)}
    check(one_node("InstanceNormalization", feeds, weights, epsilon=1e-3), feeds)
    model = one_node("GroupNormalization", feeds, weights, num_groups=groups)
    model.graph.output[0].type.CopyFrom(model.graph.input[0].type)  # onnx does not infer it
    check(model, feeds)


@some
@given(seeds, st.integers(-3, 2), st.booleans())
def test_layer_norm(seed: int, axis: int, biased: bool) -> None:
    feeds = {"x": floats(seed, 2, 3, 4)}
    weights = {name: floats(seed + 1, *(2, 3, 4)[axis:]) for name in ("s", "b")[: 1 + biased]}
    check(one_node("LayerNormalization", feeds, weights, axis=axis), feeds)


@some
@given(seeds, st.sampled_from([1, 3]))
def test_lrn(seed: int, size: int) -> None:
    feeds = {"x": floats(seed, 1, 4, 3, 3)}
    check(one_node("LRN", feeds, size=size, alpha=0.1, bias=2.0), feeds)


# -- windows


@some
@given(st.data(), seeds, st.integers(1, 2), st.integers(1, 2), st.booleans())
def test_conv_transpose(
    data: st.DataObject, seed: int, rank: int, group: int, biased: bool
) -> None:
    def numbers(low: int, high: int, count: int = rank) -> list[int]:
        return data.draw(st.lists(st.integers(low, high), min_size=count, max_size=count))

    kernel, sizes = numbers(1, 3), numbers(3, 5)
    feeds = {"x": floats(seed, 1, 2 * group, *sizes)}
    weights = {"w": floats(seed + 1, 2 * group, 3, *kernel), "b": floats(seed + 2, 3 * group)}
    if not biased:
        del weights["b"]
    attributes: dict[str, Any] = {"group": group, "strides": numbers(2, 3)}
    if data.draw(st.booleans()):
        attributes["dilations"] = numbers(1, 2)
    if data.draw(st.booleans()):
        attributes["pads"] = numbers(0, 1, 2 * rank)
    if data.draw(st.booleans()):
        attributes["output_padding"] = numbers(0, 1)
    check(one_node("ConvTranspose", feeds, weights, **attributes), feeds)


@some
@given(seeds, st.integers(1, 3), st.integers(1, 2), st.integers(1, 3), st.booleans())
def test_lp_pool(seed: int, kernel: int, stride: int, p: int, ceil: bool) -> None:
    feeds = {"x": floats(seed, 1, 2, 6, 5)}
    window = {"kernel_shape": [kernel, 2], "strides": [stride, 1], "pads": [0, 1, kernel - 1, 0]}
    check(one_node("LpPool", feeds, p=p, ceil_mode=int(ceil), **window), feeds)


@some
@given(seeds, st.integers(1, 2), st.integers(1, 3))
def test_global_pools(seed: int, p: int, rank: int) -> None:
    feeds = {"x": floats(seed, 2, 3, *range(4, 4 + rank))}
    check(one_node("GlobalMaxPool", feeds), feeds, exact=True)
    check(one_node("GlobalLpPool", feeds, p=p), feeds)


# -- elements in other places


@some
@given(st.data(), seeds)
def test_slice(data: st.DataObject, seed: int) -> None:
    feeds = {"x": floats(seed, 3, 4, 5)}
    axes = data.draw(st.lists(st.sampled_from([0, -2, 2]), unique=True, min_size=1))
    bound = st.one_of(st.integers(-7, 7), st.sampled_from([2**62, -(2**62)]))
    starts, ends = (data.draw(st.lists(bound, min_size=3, max_size=3)) for _ in range(2))
    steps = data.draw(st.lists(st.sampled_from([1, 2, -1, -3]), min_size=3, max_size=3))
    rows = {"s": starts, "e": ends, "a": axes, "t": steps}
    weights = {name: int64(*row[: len(axes)]) for name, row in rows.items()}
    check(one_node("Slice", feeds, weights), feeds, exact=True)


@some
@given(seeds, st.integers(-2, 1), st.sampled_from([[1, 3], [4], [2, 0, 2]]), st.booleans())
def test_split(seed: int, axis: int, split: list[int], given_sizes: bool) -> None:
    feeds = {"x": floats(seed, 4, 4)}
    outputs = [f"y{index}" for index in range(len(split))]
    if given_sizes or len(split) == 3:  # ONNX Runtime refuses an empty last piece
        weights, inputs, attributes = {"s": int64(*split)}, ["x", "s"], {}
    else:
        weights, inputs, attributes = {}, ["x"], {"num_outputs": len(split)}
    node = helper.make_node("Split", inputs, outputs, axis=axis, **attributes)
    check(make_model([node], feeds, weights, outputs=outputs), feeds, exact=True)


@some
@given(st.data(), seeds, st.sampled_from(["constant", "reflect", "edge", "wrap"]))
def test_pad(data: st.DataObject, seed: int, mode: str) -> None:
    feeds = {"x": floats(seed, 3, 4)}
    least = -1 if mode == "constant" else 0
    pads = data.draw(st.lists(st.integers(least, 2), min_size=4, max_size=4))
    weights: dict[str, np.ndarray] = {"p": int64(*pads)}
    if mode == "constant" and data.draw(st.booleans()):
        weights["v"] = np.array(1.5, np.float32)
    check(one_node("Pad", feeds, weights, mode=mode), feeds, exact=True)


@some
@given(seeds, st.sampled_from([np.float32, np.int64]))
def test_copies(seed: int, dtype: Any) -> None:
    feeds = {"x": floats(seed, 2, 1, 4, low=-9, high=9).astype(dtype)}
    check(one_node("Expand", feeds, {"s": int64(3, 1, 5, 1)}), feeds, exact=True)
    check(one_node("Tile", feeds, {"r": int64(1, seed % 3, 2)}), feeds, exact=True)
    weights = {"k": np.array(seed % 5 - 2, np.int64)}
    check(one_node("Trilu", feeds, weights, upper=seed % 2), feeds, exact=True)


@some
@given(seeds, st.sampled_from(["DCR", "CRD"]))
def test_blocks(seed: int, mode: str) -> None:
    feeds = {"x": floats(seed, 1, 8, 2, 6)}
    check(one_node("DepthToSpace", feeds, blocksize=2, mode=mode), feeds, exact=True)
    check(one_node("SpaceToDepth", feeds, blocksize=2), feeds, exact=True)


# -- indices


@some
@given(seeds, st.integers(-3, 2), st.sampled_from([np.int32, np.int64]))
def test_gather(seed: int, axis: int, dtype: Any) -> None:
    rng, size = np.random.default_rng(seed), (2, 3, 4)[axis]
    feeds = {"x": floats(seed, 2, 3, 4), "i": rng.integers(-size, size, (2, 2)).astype(dtype)}
    check(one_node("Gather", feeds, axis=axis), feeds, exact=True)
    shape = [2, 3, 4]
    shape[axis] = 2
    feeds["i"] = rng.integers(-size, size, shape).astype(dtype)
    check(one_node("GatherElements", feeds, axis=axis), feeds, exact=True)


@some
@given(seeds, st.integers(1, 3), st.integers(0, 1))
def test_gather_nd(seed: int, depth: int, batch: int) -> None:
    assume(depth + batch <= 3)
    rng, shape = np.random.default_rng(seed), (2, 3, 4)
    limits = [shape[batch + place] for place in range(depth)]
    indices = np.stack([rng.integers(-n, n, (2, 2)) for n in limits], -1).astype(np.int64)
    feeds = {"x": floats(seed, *shape), "i": indices}
    check(one_node("GatherND", feeds, batch_dims=batch), feeds, exact=True)


@some
@given(seeds, st.integers(-2, 1), st.sampled_from(["none", "add", "mul", "min", "max"]))
def test_scatter(seed: int, axis: int, reduction: str) -> None:
    rng = np.random.default_rng(seed)
    shape = [3, 4]
    shape[axis] = 2
    order = np.argsort(rng.random((3, 4)), axis=axis)  # no index twice
    indices = order[:2] if axis in (0, -2) else order[:, :2]
    feeds = {"x": floats(seed, 3, 4), "i": indices.astype(np.int64), "u": floats(seed + 1, *shape)}
    check(one_node("ScatterElements", feeds, axis=axis, reduction=reduction), feeds)
    rows = rng.permutation(3)[:2].reshape(2, 1).astype(np.int64)
    feeds = {"x": floats(seed, 3, 4), "i": rows, "u": floats(seed + 1, 2, 4)}
    check(one_node("ScatterND", feeds, reduction=reduction), feeds)


@some
@given(seeds, st.integers(-2, 1))
def test_one_hot(seed: int, axis: int) -> None:
    feeds = {"i": np.random.default_rng(seed).integers(-4, 4, (3,)).astype(np.int64)}
    weights = {"d": np.array(4, np.int64), "v": floats(seed, 2)}
    check(one_node("OneHot", feeds, weights, axis=axis), feeds, exact=True)


@some
@given(seeds, st.integers(-2, 1), st.integers(0, 3), st.integers(0, 1))
def test_top_k(seed: int, axis: int, k: int, largest: int) -> None:
    x = np.random.default_rng(seed).integers(0, 5, (3, 4)).astype(np.float32)
    feeds, outputs = {"x": x}, ["values", "indices"]
    node = helper.make_node("TopK", ["x", "k"], outputs, axis=axis, largest=largest)
    check(make_model([node], feeds, {"k": int64(k)}, outputs=outputs), feeds, exact=True)


@some
@given(seeds, st.integers(0, 1))
def test_reverse_sequence(seed: int, batch: int) -> None:
    lengths = np.random.default_rng(seed).integers(1, 4, 4).astype(np.int64)
    shape = (4, 3, 2) if batch == 0 else (3, 4, 2)
    feeds, axes = {"x": floats(seed, *shape)}, {"batch_axis": batch, "time_axis": 1 - batch}
    check(one_node("ReverseSequence", feeds, {"l": lengths}, **axes), feeds, exact=True)
