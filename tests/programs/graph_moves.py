"""Random cases of the graph ops that move or choose elements."""

from __future__ import annotations

import numpy as np
from graph_ops import Case, array, sizes
from hypothesis import strategies as st

from byocir.dialects import graph as g
from byocir.dialects.array import ArrayAttr
from byocir.dialects.graph.resize import numbers
from byocir.dialects.types import (
    dtype_of,
    f16,
    f32,
    f64,
    i8,
    i16,
    i32,
    i64,
    ui8,
    ui16,
    ui32,
    ui64,
)


def shape_up_to(draw, rank, least=0):
    return sizes(draw, draw(st.integers(least, rank)))


def broadcasting(draw, shape):
    """A shape that broadcasts to this one."""
    own = [draw(st.sampled_from([size, 1])) for size in shape]
    return own[draw(st.integers(0, len(own))) :]


REARRANGEMENTS = [
    *(g.ExpandOp, g.TileOp, g.SliceOp, g.SplitOp, g.TriluOp),
    *(g.DepthToSpaceOp, g.SpaceToDepthOp),
]


@st.composite
def rearrangement(draw):
    element = draw(st.sampled_from([f32, i8, ui8, i64]))
    kind = draw(st.sampled_from(REARRANGEMENTS))
    if kind in (g.DepthToSpaceOp, g.SpaceToDepthOp):
        block = draw(st.integers(1, 3))
        n, c, h, w = sizes(draw, 4, 2)
        if kind is g.SpaceToDepthOp:
            x = array(draw, element, [n, c, h * block, w * block])
            return Case(kind, [x], blocksize=block)
        x = array(draw, element, [n, c * block**2, h, w])
        return Case(kind, [x], blocksize=block, mode=draw(st.sampled_from(["DCR", "CRD"])))
    shape = shape_up_to(draw, 4, 2 if kind is g.TriluOp else 1 if kind is g.SplitOp else 0)
    x = array(draw, element, shape)
    if kind is g.ExpandOp:
        own = broadcasting(draw, shape)
        return Case(kind, [array(draw, element, own)], shape=shape)
    if kind is g.TileOp:
        return Case(kind, [x], repeats=[draw(st.integers(1, 3)) for _ in shape])
    if kind is g.TriluOp:
        return Case(kind, [x], k=draw(st.integers(-3, 3)), upper=draw(st.integers(0, 1)))
    if kind is g.SplitOp:
        axis = draw(st.integers(0, len(shape) - 1))
        cut = draw(st.integers(0, shape[axis]))
        return Case(kind, [x], axis=axis, split=[cut, shape[axis] - cut])
    rows = [_slice_of(draw, size) for size in shape]
    names = ("starts", "sizes", "steps")
    return Case(kind, [x], **{name: [row[i] for row in rows] for i, name in enumerate(names)})


def _slice_of(draw, size):
    start, step = draw(st.integers(0, size - 1)), draw(st.sampled_from([-2, -1, 1, 2]))
    most = (start if step < 0 else size - 1 - start) // abs(step) + 1
    return start, draw(st.integers(1, most)), step


@st.composite
def padding(draw):
    element = draw(st.sampled_from([f32, i8, ui8, i64]))
    shape = shape_up_to(draw, 3)
    x = array(draw, element, shape)
    mode = draw(st.sampled_from(["constant", "reflect", "edge", "wrap"]))
    pads = [[0, 0] for _ in shape]
    for pair, size in zip(pads, shape, strict=True):
        most = {"reflect": size - 1, "wrap": size}.get(mode, 11)
        pair[:] = (min(draw(st.sampled_from([-1, 0, 1, 2, 3, 11])), most) for _ in range(2))
        if size + min(pair[0], 0) + min(pair[1], 0) < 1:
            pair[:] = (max(pair[0], 0), max(pair[1], 0))
    properties = {"pads": [*(p[0] for p in pads), *(p[1] for p in pads)], "mode": mode}
    if mode == "constant" and draw(st.booleans()):
        properties["value"] = ArrayAttr.of(array(draw, element, ()))
    return Case(g.PadOp, [x], **properties)


@st.composite
def constant_gather(draw):
    """Indices are a constant of the module."""
    shape = shape_up_to(draw, 3, 1)
    axis = draw(st.integers(0, len(shape) - 1))
    size = shape[axis]
    own = draw(st.sampled_from([(), (1,), (3,), (2, 2)]))
    seed = draw(st.integers(0, 99))
    indices = np.random.default_rng(seed).integers(-size, size, own)
    x = array(draw, draw(st.sampled_from([f32, i8])), shape)
    return Case(g.GatherOp, [x, np.asarray(indices)], constants=(1,), axis=axis)


NUMBERS = [f32, f64, f16, i8, ui8, i16, ui16, i32, ui32, i64, ui64]


@st.composite
def top_k(draw):
    """With equal elements and, among floats, with NaN and both zeros."""
    shape = shape_up_to(draw, 3, 1)
    shape[draw(st.integers(0, len(shape) - 1))] += draw(st.integers(0, 9))
    axis = draw(st.integers(0, len(shape) - 1))
    x = array(draw, draw(st.sampled_from(NUMBERS)), shape)
    if draw(st.booleans()):
        x = (x % 3).astype(x.dtype)
        if x.dtype.kind == "f":
            x = np.where(x > 2, np.nan, np.rint(x) * -1).astype(x.dtype)
    flags = {"largest": draw(st.integers(0, 1)), "sorted": 1}
    return Case(g.TopKOp, [x], axis=axis, k=draw(st.integers(0, shape[axis])), **flags)


@st.composite
def scatter(draw):
    """What is written twice is combined: `none` has no place twice."""
    kind = draw(st.sampled_from([g.ScatterElementsOp, g.ScatterNdOp]))
    how = draw(st.sampled_from(["none", "add", "mul", "min", "max"]))
    shape = shape_up_to(draw, 3, 1)
    element = draw(st.sampled_from(NUMBERS))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    index = dtype_of(draw(st.sampled_from([i32, i64])))
    if kind is g.ScatterElementsOp:
        axis = draw(st.integers(0, len(shape) - 1))
        size, own = shape[axis], [draw(st.integers(1, n)) for n in shape]
        if how == "none":  # a permutation along the axis
            order = rng.permuted(np.broadcast_to(np.arange(size), [*own[:axis], size]), axis=-1)
            indices = np.broadcast_to(
                order[(..., slice(own[axis]), *[None] * (len(shape) - axis - 1))], own
            )
        else:
            indices = rng.integers(0, size, own)
        indices = np.where(rng.random(own) < 0.3, indices - size, indices)
        arrays = [array(draw, element, shape), indices.astype(index), array(draw, element, own)]
        return Case(kind, arrays, axis=axis, reduction=how)
    depth = draw(st.integers(1, len(shape)))
    places = list(np.ndindex(*shape[:depth]))
    count = draw(st.integers(1, len(places)))
    chosen = (
        rng.permutation(len(places))[:count]
        if how == "none"
        else rng.integers(0, len(places), count)
    )
    indices = np.array([places[i] for i in chosen]).reshape(count, depth)
    indices = indices - np.where(rng.random(indices.shape) < 0.3, shape[:depth], 0)
    arrays = [array(draw, element, shape), indices.astype(index)]
    return Case(kind, [*arrays, array(draw, element, [count, *shape[depth:]])], reduction=how)


@st.composite
def look_up(draw):
    """Indices are inputs, also negative ones."""
    kind = draw(
        st.sampled_from([g.GatherOp, g.GatherElementsOp, g.GatherNdOp, g.ReverseSequenceOp])
    )
    shape = shape_up_to(draw, 3, 2 if kind is g.ReverseSequenceOp else 1)
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    x = array(draw, draw(st.sampled_from(NUMBERS)), shape)
    index = dtype_of(draw(st.sampled_from([i32, i64])))
    if kind is g.ReverseSequenceOp:
        time = draw(st.integers(0, 1))
        lengths = rng.integers(1, shape[time] + 1, shape[1 - time])
        return Case(kind, [x, lengths], batch_axis=1 - time, time_axis=time)
    if kind is g.GatherNdOp:
        batch = draw(st.integers(0, len(shape) - 1))
        depth = draw(st.integers(1, len(shape) - batch))
        sizes_ = np.array(shape[batch : batch + depth])
        own = [*shape[:batch], *shape_up_to(draw, 2), depth]
        indices = rng.integers(-sizes_, sizes_, own)
        return Case(kind, [x, indices.astype(index)], batch_dims=batch)
    axis = draw(st.integers(0, len(shape) - 1))
    own = [draw(st.integers(1, size)) for size in shape]
    own[axis] = draw(st.integers(1, 4))
    own = shape_up_to(draw, 2) if kind is g.GatherOp else own
    indices = rng.integers(-shape[axis], shape[axis], own)
    return Case(kind, [x, np.asarray(indices, index)], axis=axis)


RESIZES = [
    *("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric"),
    "tf_crop_and_resize",
]


@st.composite
def resize(draw):
    """By sizes or scales; a part of the input, also beyond its ends, where a mode crops."""
    shape = sizes(draw, draw(st.integers(1, 3)), 5)
    mode = draw(st.sampled_from(["nearest", "linear", "cubic"]))
    how = draw(st.sampled_from(RESIZES))
    properties = {
        "mode": mode,
        "coordinate_transformation_mode": how,
        "nearest_mode": draw(st.sampled_from(NEAREST)),
        "cubic_coeff_a": draw(st.sampled_from([-0.75, -0.5])),
        "exclude_outside": draw(st.integers(0, 1)) if mode == "cubic" else 0,
        "extrapolation_value": 0.0,
        "antialias": draw(st.integers(0, 1)) if mode != "nearest" else 0,
    }
    wanted = [draw(st.sampled_from([n, 2 * n, 3 * n, n + 1, max(n - 1, 1)])) for n in shape]
    if how == "tf_crop_and_resize":
        ends = [draw(st.sampled_from([(0, 1), (0.25, 0.75), (-0.5, 1), (0, 1.5)])) for _ in shape]
        properties["roi"] = numbers([*(e[0] for e in ends), *(e[1] for e in ends)])
        properties["extrapolation_value"] = draw(st.sampled_from([0.0, -2.5]))
    elif draw(st.booleans()):
        scales = [draw(st.sampled_from([1.0, 2.0, 1.5, 0.75])) for _ in shape]
        scales = [scale if int(n * scale) else 1.0 for n, scale in zip(shape, scales, strict=True)]
        wanted = [int(n * scale) for n, scale in zip(shape, scales, strict=True)]
        properties["scales"] = numbers(scales)
    elements = [f32, f64, f16, i8, ui8, i32]
    element = draw(st.sampled_from(elements))
    if element == ui8:  # holds no number below 0
        properties["extrapolation_value"] = abs(properties["extrapolation_value"])
    x = array(draw, element, shape)
    return Case(g.ResizeOp, [x], sizes=wanted, **properties)


NEAREST = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]


@st.composite
def nearest_resize(draw):
    shape = sizes(draw, draw(st.integers(1, 3)), 5)
    wanted = [draw(st.sampled_from([n, 2 * n, 3 * n, n + 1, max(n - 1, 1)])) for n in shape]
    modes = ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"]
    properties = {
        "sizes": wanted,
        "mode": "nearest",
        "coordinate_transformation_mode": draw(st.sampled_from(modes)),
        "nearest_mode": draw(st.sampled_from(NEAREST)),
        "cubic_coeff_a": -0.75,
        "exclude_outside": 0,
        "extrapolation_value": 0.0,
        "antialias": 0,
    }
    return Case(g.ResizeOp, [array(draw, f32, shape)], **properties)
