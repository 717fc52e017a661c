"""Coordinates of a resized dimension: where the elements of the result lie in the input."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def coordinates(
    how: str,
    size: int,
    made: int,
    scale: float | None = None,
    part: tuple[float, float] = (0.0, 1.0),
    kind: Any = np.float64,
) -> NDArray[Any]:
    """Computes, in arithmetic of a kind, the coordinates among `size` elements of the `made` ones
    that they become. `how` is a coordinate transformation mode of ONNX's Resize; the ratio of sizes
    is the scale, unless one is given; `part` is what `tf_crop_and_resize` takes."""
    places = np.arange(made).astype(kind)
    half, last = kind(0.5), kind(size - 1)
    factor = kind(made / size if scale is None else scale)
    length = kind(made) if scale is None else factor * kind(size)  # it may be no whole number
    if how == "asymmetric":
        return places / factor
    if how == "tf_half_pixel_for_nn":
        return (places + half) / factor
    if how == "align_corners":
        return places * last / (length - 1) if length != 1 else places * 0
    if how == "tf_crop_and_resize":
        begin, end = map(kind, map(np.float32, part))  # as the operator is given them
        if length == 1:
            return places * 0 + (end + begin) * last / 2
        return places * (end - begin) * last / (length - 1) + begin * last
    if how == "pytorch_half_pixel" and made == 1:
        return places
    shift = kind(0)
    if how == "half_pixel_symmetric":
        shift = kind(size) / 2 * (1 - kind(made) / length)
    return shift + (places + half) / factor - half
