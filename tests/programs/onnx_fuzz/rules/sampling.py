"""Operators that sample an image at other places."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onnx_fuzz.draft import OPTIONAL, Draft, Unfit
from onnx_fuzz.rules.registry import rule


@rule("Upsample")
def upsample(d: Draft) -> None:
    x = d.take("X", shape=[1, d.draws.upto(3), d.draws.upto(5), d.draws.upto(5)])
    scales = [1.0, 1.0, d.draws.one([1.0, 2.0, 3.0]), d.draws.one([1.0, 2.0])]
    del x
    if d.has_input("scales"):
        d.put("scales", np.array(scales, np.float32), 1.0)
    else:
        d.attr("scales", scales)
    d.attr("mode", d.draws.one(["nearest", "linear"]), "nearest")


@rule("Resize")
def resize(d: Draft) -> None:
    x = d.take(
        "X", shape=d.draws.one([[1, 2, 5, 4], [2, 1, 3, 6], [1, 1, 7, 7], [2, 3, 4], [4, 5]])
    )
    old = not d.has_input("roi")
    mode = d.attr(
        "mode",
        d.draws.one(["nearest", "linear"] if old else ["nearest", "linear", "cubic"]),
        "nearest",
    )
    if x.ndim != 4 and mode == "cubic":
        raise Unfit
    axes = list(range(max(x.ndim - 2, 0), x.ndim))
    how = d.attr("coordinate_transformation_mode", d.draws.one(_transformations(d)), "half_pixel")
    use_axes = d.has("axes") and d.maybe(0.4)
    if use_axes:
        d.attributes["axes"] = [a - x.ndim if d.maybe(0.3) else a for a in axes]
    d.left_out.add("axes")
    named = axes if use_axes else list(range(x.ndim))
    if how == "tf_crop_and_resize":
        starts = [d.draws.one([0.0, 0.1]) if a in axes else 0.0 for a in named]
        ends = [d.draws.one([1.0, 0.8]) if a in axes else 1.0 for a in named]
        d.put("roi", np.array([*starts, *ends], d.bind("roi")), 1.0)
    elif not old and d.schema.inputs[1].option != OPTIONAL:
        d.put("roi", np.zeros(0, d.bind("roi")), 1.0)
    _resize_sizes(d, x.shape, axes, named)
    d.left_out.add("keep_aspect_ratio_policy")
    _resize_details(d, mode)


def _resize_sizes(d: Draft, shape: Sequence[int], axes: list[int], named: list[int]) -> None:
    """Draws scales or sizes: of axes that are resized, and 1 or the same for others that are
    named."""
    old = not d.has_input("roi")
    if old or d.maybe():
        scales = [d.draws.one([0.5, 1.0, 2.0, 1.5, 0.7]) if a in axes else 1.0 for a in named]
        d.put("scales", np.array(scales, np.float32), 1.0)
        return
    if 10 < d.schema.since_version < 13:
        d.put("scales", np.zeros(0, np.float32), 1.0)
    d.say("sizes", [d.draws.upto(9) if a in axes else shape[a] for a in named])
    if "axes" in d.attributes:
        policies = ["stretch", "not_larger", "not_smaller"]
        d.attr("keep_aspect_ratio_policy", d.draws.one(policies), "stretch")


def _transformations(d: Draft) -> list[str]:
    kinds = [
        "half_pixel",
        "align_corners",
        "asymmetric",
        "pytorch_half_pixel",
        "tf_crop_and_resize",
    ]
    if d.schema.since_version < 13:
        return [*kinds, "tf_half_pixel_for_nn"]
    return [*kinds, "half_pixel_symmetric"] if d.schema.since_version >= 19 else kinds


def _resize_details(d: Draft, mode: str) -> None:
    if mode == "nearest":
        kinds = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]
        d.attr("nearest_mode", d.draws.one(kinds), "round_prefer_floor")
    d.left_out.add("nearest_mode")
    if mode == "cubic":
        d.attr("cubic_coeff_a", d.draws.one([-0.5, -0.75]), -0.75)
        d.attr("exclude_outside", d.draws.upto(1, 0), 0)
    d.left_out |= {"cubic_coeff_a", "exclude_outside"}
    d.attr("extrapolation_value", d.draws.one([0.0, 1.5]), 0.0)
    if mode != "nearest":
        d.attr("antialias", d.draws.one([0, 0, 1]), 0)
    d.left_out.add("antialias")


@rule("AffineGrid")
def affine_grid(d: Draft) -> None:
    spatial = d.draws.upto(3, 2)
    batch = d.draws.upto(2)
    d.take("theta", shape=[batch, spatial, spatial + 1])
    d.say("size", [batch, 1, *(d.draws.upto(4) for _ in range(spatial))])
    d.attr("align_corners", d.draws.upto(1, 0), 0)


@rule("GridSample")
def grid_sample(d: Draft) -> None:
    spatial = d.draws.one([2, 2, 3]) if d.schema.since_version >= 20 else 2
    x = d.take(
        "X", shape=[d.draws.upto(2), d.draws.upto(2), *(d.draws.upto(5) for _ in range(spatial))]
    )
    to = [d.draws.upto(4) for _ in range(spatial)]
    d.take("grid", shape=[x.shape[0], *to, spatial], low=-1.2, high=1.2)
    old = d.schema.since_version < 20
    modes = ["bilinear", "nearest", "bicubic"] if old else ["linear", "nearest", "cubic"]
    mode = d.attr("mode", d.draws.one(modes), modes[0])
    if mode in ("cubic", "bicubic") and spatial == 3:
        raise Unfit
    d.attr("padding_mode", d.draws.one(["zeros", "border", "reflection"]), "zeros")
    d.attr("align_corners", d.draws.upto(1, 0), 0)
