"""Operators that read and write at indices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onnx_fuzz.draft import Draft, Unfit, kind_of
from onnx_fuzz.rules.registry import rule


def indices(
    d: Draft, name: str, shape: Sequence[int], size: int, negative: bool = True
) -> np.ndarray:
    """Gives indices into a dimension, of either sign."""
    if not size and np.prod(shape):
        raise Unfit
    kind = d.bind(name)
    return d.put(name, d.draws.array(kind, shape, -size if negative else 0, max(size - 1, 0)), 0.5)


@rule("Gather")
def gather(d: Draft) -> None:
    x = d.take("data", rank=(1, 4))
    axis = d.axis(x.ndim)
    indices(d, "indices", d.draws.shape(0, 2, 12), x.shape[axis], d.schema.since_version >= 11)


@rule("GatherElements")
def gather_elements(d: Draft) -> None:
    x = d.take("data", rank=(1, 4))
    axis = d.axis(x.ndim)
    shape = [n if i != axis else d.draws.upto(4) for i, n in enumerate(x.shape)]
    shape = [
        n if i == axis or d.maybe(0.7) else d.draws.upto(max(n, 1)) for i, n in enumerate(shape)
    ]
    if any(n > x.shape[i] for i, n in enumerate(shape) if i != axis):
        raise Unfit
    indices(d, "indices", shape, x.shape[axis])


@rule("GatherND")
def gather_nd(d: Draft) -> None:
    x = d.take("data", rank=(1, 4))
    batch = d.attr("batch_dims", d.draws.upto(x.ndim - 1, 0), 0)
    d.put(
        "indices", positions(d, x.shape[batch:], [*x.shape[:batch], *d.draws.shape(0, 2, 6)]), 0.5
    )


def positions(
    d: Draft, sizes: Sequence[int], shape: Sequence[int], repeats: bool = True
) -> np.ndarray:
    """Gives index tuples of some length into an array of these sizes, of either sign."""
    depth = d.draws.upto(len(sizes))
    if 0 in sizes[:depth]:
        raise Unfit
    count = int(np.prod(shape))
    if repeats:
        parts = [d.draws.rng.integers(-n, n, count) for n in sizes[:depth]]
    else:
        whole = int(np.prod(sizes[:depth]))
        if count > whole:
            raise Unfit
        flat = d.draws.rng.permutation(whole)[:count]
        parts = list(np.unravel_index(flat, sizes[:depth]))
        parts = [
            np.where(d.draws.rng.random(count) < 0.3, p - n, p)
            for p, n in zip(parts, sizes, strict=False)
        ]
    return np.stack(parts, -1).reshape(*shape, depth).astype(np.int64)


def reductions(d: Draft) -> list[str]:
    since = d.schema.since_version
    return (
        ["none"] if since < 16 else ["none", "add", "mul"] + (["max", "min"] if since >= 18 else [])
    )


@rule("ScatterElements", "Scatter")
def scatter_elements(d: Draft) -> None:
    x = d.take("data", rank=(1, 4))
    axis = d.axis(x.ndim)
    how = d.attr("reduction", d.draws.one(reductions(d)), "none")
    if how != "none" and kind_of(x.dtype) in "sbc":
        raise Unfit
    shape = [d.draws.upto(max(n, 1)) for n in x.shape]
    if any(n > m for n, m in zip(shape, x.shape, strict=True)):
        raise Unfit
    d.take("updates", shape=shape)
    kind = d.bind("indices")
    if how == "none" or d.maybe():  # no index twice: the order is not said
        drawn = np.argsort(
            d.draws.rng.random((*shape[:axis], x.shape[axis], *shape[axis + 1 :])), axis
        )
        drawn = np.take(drawn, range(shape[axis]), axis)
        if d.schema.since_version >= 11:
            drawn = np.where(d.draws.rng.random(shape) < 0.3, drawn - x.shape[axis], drawn)
        d.put("indices", drawn.astype(kind), 0.5)
    else:
        indices(d, "indices", shape, x.shape[axis])


@rule("ScatterND")
def scatter_nd(d: Draft) -> None:
    x = d.take("data", rank=(1, 4))
    how = d.attr("reduction", d.draws.one(reductions(d)), "none")
    if how != "none" and kind_of(x.dtype) in "sbc":
        raise Unfit
    given = positions(d, x.shape, d.draws.shape(0, 2, 6), repeats=how != "none")
    d.put("indices", given, 0.5)
    d.take("updates", shape=[*given.shape[:-1], *x.shape[given.shape[-1] :]])


@rule("TensorScatter")
def tensor_scatter(d: Draft) -> None:
    x = d.take(
        "past_cache", shape=[d.draws.upto(2), d.draws.upto(3), d.draws.upto(5), d.draws.upto(3)]
    )
    axis = d.axis(x.ndim)
    if axis == 0:
        raise Unfit
    mode = d.attr("mode", d.draws.one(["linear", "circular"]), "linear")
    length = d.draws.upto(x.shape[axis])
    d.take("update", shape=[n if i != axis else length for i, n in enumerate(x.shape)])
    if d.maybe():
        most = x.shape[axis] - (length if mode == "linear" else 1)
        d.put("write_indices", d.draws.array(np.dtype(np.int64), (x.shape[0],), 0, most))


@rule("NonMaxSuppression")
def suppression(d: Draft) -> None:
    batch, classes, count = d.draws.upto(2), d.draws.upto(2), d.draws.upto(6)
    corners = d.draws.rng.uniform(0, 1, (batch, count, 4)).astype(np.float32)
    d.put("boxes", corners, 0.2)
    d.put(
        "scores",
        d.draws.rng.permutation(batch * classes * count)
        .reshape(batch, classes, count)
        .astype(np.float32)
        / 50,
        0.2,
    )
    d.attr("center_point_box", d.draws.upto(1, 0), 0)
    if d.maybe(0.8):
        d.put("max_output_boxes_per_class", np.array([d.draws.upto(4, 0)], np.int64), 0.9)
        if d.maybe(0.8):
            d.put("iou_threshold", np.array([d.draws.one([0.0, 0.3, 0.5, 1.0])], np.float32), 0.9)
            if d.maybe():
                d.put("score_threshold", np.array([d.draws.one([0.0, 0.1, 0.35])], np.float32), 0.9)


@rule("ai.onnx.ml.ArrayFeatureExtractor")
def feature_extractor(d: Draft) -> None:
    x = d.take("X", rank=(1, 3))
    if not x.shape[-1]:
        raise Unfit
    d.put("Y", d.draws.array(np.dtype(np.int64), (d.draws.upto(3),), 0, x.shape[-1] - 1))
