"""Defines the resize op, and where the elements of its result lie in its input."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import DenseArrayBase, Float32Type, StringAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import opt_prop_def, prop_def

from byocir.dialects.checks import expect
from byocir.dialects.definition import irdl_op_definition
from byocir.dialects.graph.base import FLOAT, INT, INTS, ByBatch, dims, expect_flag, int_tuple
from byocir.dialects.graph.elementwise import to_integer
from byocir.dialects.graph.lookup import looked_up, weighted
from byocir.dialects.graph.operands import accumulator_of, narrowed
from byocir.dialects.graph.shape import ShapeOp
from byocir.dialects.tir.emit import Emitter, Read, Space
from byocir.dialects.tir.scalar import Emitted
from byocir.dialects.types import Shape, dtype_of, element_type_of, f32, f64, is_float, shape_of

MODES = ("nearest", "linear", "cubic")
NEAREST_MODES = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
COORDINATES = (
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "tf_crop_and_resize",
)

FLOATS = DenseArrayBase.constr(f32)
"""A property that holds numbers, e.g. `scales = array<f32: 1.0, 2.0>`."""


def numbers(values: Sequence[float]) -> DenseArrayBase[Float32Type]:
    """Makes the attribute `array<f32: …>`."""
    return DenseArrayBase.from_list(f32, list(values))


@irdl_op_definition
class ResizeOp(ByBatch, ShapeOp):
    """Resamples to `sizes`, with names and meanings as in ONNX's Resize, e.g. `graph.resize %x
    {sizes = array<i64: 1, 4, 16, 16>, mode = "nearest", coordinate_transformation_mode =
    "asymmetric", nearest_mode = "floor", cubic_coeff_a = -0.75 : f32, exclude_outside = 0 : i64,
    extrapolation_value = 0.0 : f32, antialias = 0 : i64} : (tensor<1x4x8x8xf32>) ->
    tensor<1x4x16x16xf32>`. The ratio of sizes is the scale, unless `scales` says it. `roi`, first
    all begins, then all ends, is the part that `tf_crop_and_resize` takes.
    """

    name = "graph.resize"

    sizes = prop_def(INTS)
    scales = opt_prop_def(FLOATS)
    roi = opt_prop_def(FLOATS)
    mode = prop_def(StringAttr)
    coordinate_transformation_mode = prop_def(StringAttr)
    nearest_mode = prop_def(StringAttr)
    cubic_coeff_a = prop_def(FLOAT)
    exclude_outside = prop_def(INT)
    extrapolation_value = prop_def(FLOAT)
    antialias = prop_def(INT)

    def shape(self, x: Shape) -> Sequence[int]:
        sizes = int_tuple(self.sizes)
        expect(len(sizes) == len(x), f"expected {len(x)} sizes, found {len(sizes)}")
        expect(min(sizes, default=1) >= 1, f"expected sizes >= 1, found {dims(sizes)}")
        expect(math.prod(x) > 0, f"expected elements to resample, found {dims(x)}")
        self._check_names()
        if self.scales is not None:
            self._check_scales(x, sizes, self.scales.get_values())
        crops = self.coordinate_transformation_mode.data == "tf_crop_and_resize"
        found = 0 if self.roi is None else len(self.roi.get_values())
        expected = 2 * len(x) if crops else 0
        expect(found == expected, f"expected a roi of {expected} numbers, found {found}")
        return sizes

    def _check_names(self) -> None:
        for name, value, allowed in (
            ("mode", self.mode, MODES),
            ("nearest_mode", self.nearest_mode, NEAREST_MODES),
            ("coordinate_transformation_mode", self.coordinate_transformation_mode, COORDINATES),
        ):
            found = value.data
            expect(found in allowed, f"expected {name} {', '.join(allowed)}, found {found}")
        expect_flag("exclude_outside", self.exclude_outside)
        expect_flag("antialias", self.antialias)
        expect(
            self.mode.data != "nearest" or not self.antialias.value.data,
            "expected mode linear, cubic for antialias, found nearest",
        )

    def _check_scales(self, x: Shape, sizes: Shape, scales: Sequence[float]) -> None:
        expect(len(scales) == len(x), f"expected {len(x)} scales, found {len(scales)}")
        expect(min(scales, default=1) > 0, f"expected scales > 0, found {list(scales)}")
        crops = self.coordinate_transformation_mode.data == "tf_crop_and_resize"
        wanted = tuple(math.floor(n * scale) for n, scale in zip(x, scales, strict=True))
        expect(
            crops or wanted == sizes,
            f"expected sizes {dims(wanted)} for these scales, found {dims(sizes)}",
        )

    def define(self, emit: Emitter) -> SSAValue:
        """Emits blocks that interpolate, and at the end round integers to even and saturate
        them.
        """
        element = element_type_of(self.input.type)
        along = _along_nearest if self.mode.data == "nearest" else _interpolated
        value = self.input
        for axis in range(len(shape_of(self.input.type))):
            value = along(emit, self, value, axis)
        value = _in_type(emit, value, element)
        if self.roi is not None:
            return _extrapolated(emit, self, value)
        if value is not self.input:
            return value
        return emit.elementwise(shape_of(self.result.type), element, [value], lambda x: x)


def _along_nearest(emit: Emitter, op: ResizeOp, value: SSAValue, axis: int) -> SSAValue:
    found = taps_along(op, axis)
    table = [] if found is None else [int(i) for i in found.indices[:, 0]]
    stays = found is None or table == [*range(shape_of(value.type)[axis])]
    return value if stays else looked_up(emit, value, axis, table)


def _interpolated(emit: Emitter, op: ResizeOp, value: SSAValue, axis: int) -> SSAValue:
    """Computes each element as the weighted sum of its taps."""
    found, size = taps_along(op, axis), shape_of(value.type)[axis]
    if found is None:
        return value
    indices, weights = found.indices, found.weights
    if np.array_equal(indices, np.arange(size)[:, None]) and np.all(weights == 1):
        return value
    element = element_type_of(op.input.type)
    wide = dtype_of(accumulator_of(element) if is_float(element) else f64)
    return weighted(emit, value, axis, indices, weights.astype(wide))


def _in_type(emit: Emitter, value: SSAValue, element: Attribute) -> SSAValue:
    if is_float(element) or element_type_of(value.type) == element:
        return narrowed(emit, value, element)
    shape = shape_of(value.type)
    return emit.elementwise(shape, element, [value], lambda x: to_integer(x.roundeven(), element))


def _extrapolated(emit: Emitter, op: ResizeOp, value: SSAValue) -> SSAValue:
    """Puts a number where a coordinate along any dimension is outside of the input."""
    shape, element = shape_of(value.type), element_type_of(value.type)
    number = op.extrapolation_value.value.data
    at, reads = Space.over(shape).parallel, [Read(value, Space.over(shape).parallel)]
    for axis in range(len(shape)):
        found = taps_along(op, axis)
        if found is not None and found.beyond.any():
            reads.append(Read(emit.constant(found.beyond), [at[axis]]))

    def body(x: Emitted, *outside: Emitted) -> Emitted:
        for flag in outside:
            x = flag.select(x.constant(number), x)
        return x

    return emit.elementwise(shape, element, reads, body)


class Taps(NamedTuple):
    """Lists the elements of one dimension from which each element of the result is made, with their
    weights.
    """

    indices: NDArray[np.int64]
    """[results, taps], all inside of the input."""
    weights: NDArray[np.float64]
    """[results, taps]."""
    beyond: NDArray[np.bool_]
    """[results]: marks those outside of the input, which are extrapolated."""


def taps_along(op: ResizeOp, axis: int) -> Taps | None:
    """Gives the taps of a dimension; None for a dimension that stays as it is."""
    size, made = shape_of(op.input.type)[axis], int_tuple(op.sizes)[axis]
    scale = None if op.scales is None else float(op.scales.get_values()[axis])
    part = (0.0, 1.0)
    if op.roi is not None:
        part = (op.roi.get_values()[axis], op.roi.get_values()[axis - len(int_tuple(op.sizes))])
    if size == made and scale in (None, 1.0) and part == (0.0, 1.0):
        return None
    at = coordinates(op.coordinate_transformation_mode.data, size, made, scale, part)
    beyond = (at < 0) | (at > size - 1) if op.roi is not None else np.zeros(made, np.bool_)
    before = np.ceil(at) - 1
    after = at - before  # above 0, and at most 1: the element before is never the one here
    offsets, weights = _taps(op, after, made / size if scale is None else scale)
    indices = before.astype(np.int64)[:, None] + offsets
    if op.exclude_outside.value.data and op.mode.data != "nearest":
        weights = np.where((indices < 0) | (indices >= size), 0.0, weights)
        weights = weights / weights.sum(axis=1, keepdims=True)
    # A tap that weighs nothing anywhere is left out: 0 times an infinity would be NaN.
    counts = weights.any(axis=0) | (made == 0)
    return Taps(np.clip(indices, 0, size - 1)[:, counts], weights[:, counts], beyond)


def _taps(
    op: ResizeOp, after: NDArray[np.float64], scale: float
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Finds the taps, counted from the input element just before a coordinate, [taps] or [results,
    taps], and their weights [results, taps]. `after` is the distance of the coordinate from that
    element.
    """
    if op.mode.data == "nearest":
        return _nearest(op.nearest_mode.data, after)[:, None], np.ones((len(after), 1))
    is_linear, is_smooth = op.mode.data == "linear", bool(op.antialias.value.data)
    support, shrunk = 1 if is_linear else 2, min(scale, 1.0) if is_smooth else 1.0
    first = int(np.floor(-support / shrunk)) + 1
    op.ask_for((len(after), 2 - 2 * first), np.dtype(np.float64))
    offsets = np.arange(first, 2 - first)
    distances = np.abs(offsets - after[:, None]) * shrunk
    if is_linear:
        weights = np.clip(1 - distances, 0, 1)
    else:
        weights = _cubic(distances, op.cubic_coeff_a.value.data)
    return offsets, weights / weights.sum(axis=1, keepdims=True) if is_smooth else weights


def _nearest(mode: str, after: NDArray[np.float64]) -> NDArray[np.int64]:
    """Tells which element is the nearest: 0 is the one before, 1 the one behind."""
    least = {"round_prefer_floor": np.nextafter(0.5, 1), "round_prefer_ceil": 0.5, "ceil": 0.0}
    return (after >= least.get(mode, 1.0)).astype(np.int64)


def _cubic(x: NDArray[np.float64], a: float) -> NDArray[np.float64]:
    """Computes the cubic convolution kernel at some distances."""
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0.0))


def coordinates(
    how: str,
    size: int,
    made: int,
    scale: float | None = None,
    part: tuple[float, float] = (0.0, 1.0),
    kind: Any = np.float64,
) -> NDArray[Any]:
    """Computes, for each of the `made` elements of a resized dimension, its coordinate among the
    `size` elements of the input, in arithmetic of a kind. `how` is a coordinate transformation mode
    of ONNX's Resize; the ratio of sizes is the scale, unless one is given; `part` is what
    `tf_crop_and_resize` takes.
    """
    places = np.arange(made).astype(kind)
    half, last = kind(0.5), kind(size - 1)
    factor = kind(made / size if scale is None else scale)
    # The length need not be a whole number.
    length = kind(made) if scale is None else factor * kind(size)
    if how == "asymmetric":
        return places / factor
    if how == "tf_half_pixel_for_nn":
        return (places + half) / factor
    if how == "align_corners":
        return places * last / (length - 1) if length != 1 else places * 0
    if how == "tf_crop_and_resize":
        # In the precision in which the operator gets them.
        begin, end = map(kind, map(np.float32, part))
        if length == 1:
            return places * 0 + (end + begin) * last / 2
        return places * (end - begin) * last / (length - 1) + begin * last
    if how == "pytorch_half_pixel" and made == 1:
        return places
    shift = kind(0)
    if how == "half_pixel_symmetric":
        shift = kind(size) / 2 * (1 - kind(made) / length)
    return shift + (places + half) / factor - half
