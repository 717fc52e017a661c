"""Operators that slide windows: convolutions and pools."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onnx_fuzz.draft import Draft, Unfit, kind_of
from onnx_fuzz.rules.registry import rule

PADS = ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")


def image(d: Draft, name: str, least: int = 3) -> np.ndarray:
    """Gives an operand [N, C, spatial…]."""
    if d.maybe(0.6):
        rank = d.draws.one([least, least, 4, 4, 4, 5])
        sizes = [d.draws.one([1, 2, 3, 5, 6, 7, 8, 11, 17]) for _ in range(max(rank, least) - 2)]
        while np.prod(sizes) > 150:
            sizes[int(np.argmax(sizes))] = 3
        return d.take(name, shape=[d.draws.upto(2), d.draws.one([1, 2, 3, 4, 4, 6, 8]), *sizes])
    return d.take(name, rank=(least, 5))


def kernel_for(d: Draft, sizes: Sequence[int]) -> list[int]:
    return [d.draws.upto(min(max(size, 1), 4)) for size in sizes]


def window(d: Draft, sizes: Sequence[int], kernel: Sequence[int]) -> None:
    """Strides, dilations and pads of a window, of which at least one fits."""
    rank = len(kernel)
    strides = d.attr("strides", [d.draws.upto(3) for _ in kernel], [1] * rank)
    dilations = d.attr("dilations", [d.draws.one([1, 1, 2, 3]) for _ in kernel], [1] * rank)
    extents = [(k - 1) * e + 1 for k, e in zip(kernel, dilations, strict=True)]
    how = d.attr("auto_pad", d.draws.one(PADS), "NOTSET")
    pads = [0] * (2 * rank)
    if how == "NOTSET":
        pads = [d.draws.upto(max(kernel[i % rank] - 1, 0), 0) for i in range(2 * rank)]
        pads = d.attr("pads", pads, [0] * (2 * rank))
    else:
        d.left_out.add("pads")
    if how in ("NOTSET", "VALID"):
        whole = [size + pads[i] + pads[i + rank] for i, size in enumerate(sizes)]
        if any(extent > size for extent, size in zip(extents, whole, strict=True)):
            raise Unfit
    d.attr("ceil_mode", d.draws.upto(1, 0), 0)
    del strides


@rule("Conv", "ConvInteger")
def conv(d: Draft) -> None:
    names = [each.name for each in d.schema.inputs]
    x = image(d, names[0])
    channels = x.shape[1]
    divisors = [n for n in range(1, channels + 1) if channels % n == 0]
    if not divisors:
        raise Unfit
    group = d.attr("group", d.draws.one(divisors), 1)
    outputs = group * d.draws.one([1, 1, 2, 3, 8 if group == 1 else 2])
    kernel = kernel_for(d, x.shape[2:])
    d.take(names[1], shape=[outputs, channels // group, *kernel])
    d.attr("kernel_shape", kernel, kernel)
    window(d, x.shape[2:], kernel)
    if "B" in names and d.maybe():
        d.take("B", shape=[outputs])
    if "x_zero_point" in names and d.maybe(0.7):
        d.put("x_zero_point", d.draws.array(x.dtype, ()), 0.9)
        if d.maybe(0.7):
            shape = () if d.maybe() else (outputs,)
            d.put("w_zero_point", d.draws.array(d.bind("w"), shape), 0.9)


@rule("QLinearConv")
def qlinear_conv(d: Draft) -> None:
    x = image(d, "x")
    channels = x.shape[1]
    divisors = [n for n in range(1, channels + 1) if channels % n == 0] or [1]
    group = d.attr("group", d.draws.one(divisors), 1)
    outputs = group * d.draws.upto(3)
    kernel = kernel_for(d, x.shape[2:])
    w = d.take("w", shape=[outputs, channels // group, *kernel], fresh=True)
    d.attr("kernel_shape", kernel, kernel)
    window(d, x.shape[2:], kernel)
    each = () if d.maybe() else (outputs,)
    scale(d, "x_scale", ())
    scale(d, "w_scale", each)
    scale(d, "y_scale", (), 0.2, 4)
    d.put("x_zero_point", d.draws.array(x.dtype, ()), 0.9)
    d.put("w_zero_point", zero_points(d, w.dtype, each), 0.9)
    d.put("y_zero_point", d.draws.array(d.bind("y_zero_point"), ()), 0.9)
    if d.maybe():
        d.take("B", shape=[outputs], low=-200, high=200)


def zero_points(d: Draft, dtype: np.dtype, shape: Sequence[int]) -> np.ndarray:
    """Zero points of weights: signed ones by channel have none but 0 in practice."""
    if kind_of(dtype) == "i" and d.maybe():
        return np.zeros(tuple(shape), dtype)
    return np.full(tuple(shape), d.draws.array(dtype, ()), dtype)


def scale(d: Draft, name: str, shape: Sequence[int], low: float = 0.01, high: float = 0.2) -> None:
    d.put(name, d.draws.array(d.bind(name), shape, low, high), 0.9)


@rule("ConvTranspose")
def conv_transpose(d: Draft) -> None:
    x = image(d, "X")
    channels, rank = x.shape[1], x.ndim - 2
    divisors = [n for n in range(1, channels + 1) if channels % n == 0] or [1]
    group = d.attr("group", d.draws.one(divisors), 1)
    per_group = d.draws.upto(3)
    kernel = [d.draws.upto(3) for _ in range(rank)]
    d.take("W", shape=[channels, per_group, *kernel])
    d.attr("kernel_shape", kernel, kernel)
    strides = d.attr("strides", [d.draws.upto(3) for _ in kernel], [1] * rank)
    dilations = d.attr("dilations", [d.draws.upto(2) for _ in kernel], [1] * rank)
    most = [max(s, e) - 1 for s, e in zip(strides, dilations, strict=True)]
    extra = d.attr("output_padding", [d.draws.upto(m, 0) for m in most], [0] * rank)
    full = [
        (size - 1) * s + extra[i] + (kernel[i] - 1) * dilations[i] + 1
        for i, (size, s) in enumerate(zip(x.shape[2:], strides, strict=True))
    ]
    how = d.attr("auto_pad", d.draws.one(PADS), "NOTSET")
    if how == "NOTSET":
        pads = [d.draws.upto(1, 0) for _ in range(2 * rank)]
        if any(f - pads[i] - pads[i + rank] < 1 for i, f in enumerate(full)):
            raise Unfit
        d.attr("pads", pads, [0] * (2 * rank))
    else:
        d.left_out.add("pads")
    if how != "VALID" and d.maybe(0.2):
        shape = [max(f - d.draws.upto(2, 0), 1) for f in full]
        d.attributes["output_shape"] = shape
        d.attributes.pop("pads", None)
    d.left_out |= {"output_shape", "pads"}
    if d.maybe():
        d.take("B", shape=[per_group * group])


@rule("DeformConv")
def deform_conv(d: Draft) -> None:
    sizes = [d.draws.upto(6, 3) for _ in range(2)]
    channels = d.draws.one([2, 4])
    x = d.take("X", shape=[d.draws.upto(2), channels, *sizes])
    kernel = [d.draws.upto(2) for _ in sizes]
    group = d.attr("group", d.draws.one([1, 2]), 1)
    per = d.attr("offset_group", d.draws.one([1, 2]), 1)
    outputs = group * d.draws.upto(2)
    d.take("W", shape=[outputs, channels // group, *kernel])
    strides = d.attr("strides", [d.draws.upto(2) for _ in kernel], [1, 1])
    dilations = d.attr("dilations", [1, 1], [1, 1])
    pads = d.attr("pads", [d.draws.upto(1, 0) for _ in range(4)], [0] * 4)
    d.attr("kernel_shape", kernel, kernel)
    made = [
        (n + pads[i] + pads[i + 2] - (kernel[i] - 1) * dilations[i] - 1) // strides[i] + 1
        for i, n in enumerate(sizes)
    ]
    if min(made) < 1:
        raise Unfit
    taps = int(np.prod(kernel))
    d.take("offset", shape=[x.shape[0], per * taps * 2, *made], low=-1.3, high=1.4)
    if d.maybe():
        d.take("B", shape=[outputs])
        if d.maybe():
            d.take("mask", shape=[x.shape[0], per * taps, *made])


@rule("MaxPool", "AveragePool", "LpPool")
def pool(d: Draft) -> None:
    x = image(d, "X")
    kernel = kernel_for(d, x.shape[2:])
    d.attributes["kernel_shape"] = kernel
    window(d, x.shape[2:], kernel)
    if d.schema.max_output > 1:
        d.outputs = d.draws.upto(2)
    if d.has("p"):
        d.attr("p", d.draws.upto(3), 2)


@rule("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def global_pool(d: Draft) -> None:
    image(d, "X")
    if d.has("p"):
        d.attr("p", d.draws.upto(3), 2)


@rule("MaxUnpool")
def max_unpool(d: Draft) -> None:
    """Draws a MaxUnpool of indices as a pool of the same window gives them."""
    shape = [1, d.draws.upto(2), d.draws.upto(3), d.draws.upto(3)]
    x = d.take("X", shape=shape)
    kernel = [d.draws.upto(3, 2)] * 2
    d.attributes["kernel_shape"] = kernel
    strides = d.attr("strides", kernel, [1, 1])
    d.attr("pads", [0, 0, 0, 0], [0, 0, 0, 0])
    sizes = [(n - 1) * s + k for n, s, k in zip(x.shape[2:], strides, kernel, strict=True)]
    count = int(np.prod([*shape[:2], *sizes]))
    indices = d.draws.rng.permutation(count)[: x.size].reshape(x.shape)
    d.put("I", indices.astype(np.int64))
    if d.maybe(0.3):
        d.put("output_shape", np.array([*shape[:2], *sizes], np.int64), 1.0)


@rule("MaxRoiPool")
def max_roi_pool(d: Draft) -> None:
    x = d.take(
        "X", shape=[d.draws.upto(2), d.draws.upto(2), d.draws.upto(7, 3), d.draws.upto(7, 3)]
    )
    count = d.draws.upto(3)
    rows = [
        [
            d.draws.upto(x.shape[0] - 1, 0),
            0,
            d.draws.upto(1, 0),
            d.draws.upto(x.shape[3] - 1, 1),
            d.draws.upto(x.shape[2] - 1, 1),
        ]
        for _ in range(count)
    ]
    d.put("rois", np.array(rows, x.dtype))
    d.attr("pooled_shape", [d.draws.upto(2), d.draws.upto(2)])
    d.attr("spatial_scale", 0.5, 1.0)


@rule("RoiAlign")
def roi_align(d: Draft) -> None:
    x = d.take(
        "X", shape=[d.draws.upto(2), d.draws.upto(2), d.draws.upto(7, 3), d.draws.upto(7, 3)]
    )
    count = d.draws.upto(3)
    rows = d.draws.rng.uniform(0, 3, (count, 4))
    rows[:, 2:] += rows[:, :2] + 0.5
    d.put("rois", rows.astype(x.dtype))
    d.put("batch_indices", d.draws.array(np.dtype(np.int64), (count,), 0, x.shape[0] - 1))
    d.attr("output_height", d.draws.upto(3), 1)
    d.attr("output_width", d.draws.upto(3), 1)
    d.attr("sampling_ratio", d.draws.upto(3, 0), 0)
    d.attr("spatial_scale", d.draws.one([0.5, 1.0, 0.8]), 1.0)
    d.attr("mode", d.draws.one(["avg", "max"]), "avg")
    d.attr(
        "coordinate_transformation_mode",
        d.draws.one(["half_pixel", "output_half_pixel"]),
        "half_pixel",
    )


@rule("LRN")
def lrn(d: Draft) -> None:
    image(d, "X")
    d.attributes["size"] = d.draws.one([1, 2, 3, 5])
    d.attr("alpha", d.draws.one([0.001, 0.5, 1.0]), 0.0001)
    d.attr("beta", d.draws.one([0.5, 0.75, 1.0]), 0.75)
    d.attr("bias", d.draws.one([1.0, 2.0]), 1.0)


@rule("Col2Im")
def col2im(d: Draft) -> None:
    sizes = [d.draws.upto(6, 2) for _ in range(2)]
    block = [d.draws.upto(min(n, 3)) for n in sizes]
    strides = d.attr("strides", [d.draws.upto(2) for _ in sizes], [1, 1])
    dilations = d.attr("dilations", [1, d.draws.upto(2)], [1, 1])
    pads = d.attr("pads", [d.draws.upto(1, 0) for _ in range(4)], [0] * 4)
    counts = [
        (n + pads[i] + pads[i + 2] - dilations[i] * (block[i] - 1) - 1) // strides[i] + 1
        for i, n in enumerate(sizes)
    ]
    if min(counts) < 1:
        raise Unfit
    d.take(
        "input",
        shape=[d.draws.upto(2), d.draws.upto(2) * int(np.prod(block)), int(np.prod(counts))],
    )
    d.say("image_shape", sizes)
    d.say("block_shape", block)


@rule("CausalConvWithState")
def causal_conv(d: Draft) -> None:
    batch, channels, length, taps = (d.draws.upto(4) for _ in range(4))
    d.take("input", shape=[batch, channels, length])
    d.take("weight", shape=[channels, 1, taps])
    if d.maybe():
        d.take("bias", shape=[channels])
    if d.maybe() and taps > 1:
        d.take("past_state", shape=[batch, channels, taps - 1])
    d.attr("activation", d.draws.one(["none", "silu", "swish"]), "none")
    d.outputs = 2
