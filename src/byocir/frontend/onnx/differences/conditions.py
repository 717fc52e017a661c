"""Tests a node and its values for the conditions of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from byocir.dialects.graph.resize import coordinates
from byocir.frontend.onnx.differences.call import OperatorCall

Condition = Callable[[OperatorCall], bool]

SMALLEST_OF_BEYOND = 2.0**31
"""The least float that has no integer of 32 bits, like all greater ones."""


def always(call: OperatorCall) -> bool:
    """Holds for every node of the operator."""
    return True


def both(first: Condition, second: Condition) -> Condition:
    """Holds where two conditions hold."""
    return lambda call: first(call) and second(call)


def _floats(call: OperatorCall) -> list[NDArray[np.float64]]:
    """Lists all inputs that hold floats."""
    kinds = [array for array in call.arrays if is_floating(array)]
    return [array.astype(np.float64) for array in kinds]


def is_floating(array: np.ndarray) -> bool:
    """Tells if an array holds floats, of numpy's types or of others such as bf16."""
    return array.dtype.kind == "f" or "float" in array.dtype.name


def has_nan(call: OperatorCall) -> bool:
    """An input holds a NaN."""
    return any(bool(np.isnan(array).any()) for array in _floats(call))


def is_infinite(call: OperatorCall) -> bool:
    """An input holds an infinity."""
    return any(bool(np.isinf(array).any()) for array in _floats(call))


def is_not_finite(call: OperatorCall) -> bool:
    """An input holds a NaN or an infinity."""
    return any(not np.isfinite(array).all() for array in _floats(call))


# -- windows


def is_same_dilated(call: OperatorCall) -> bool:
    """Windows have holes, and SAME pads."""
    return call.is_same_padded and any(axis.dilation > 1 for axis in call.axes())


def is_same_lower_odd(call: OperatorCall) -> bool:
    """SAME pads are odd along one dimension, with one more in front than behind."""
    axes = call.axes() if call.attribute("auto_pad") == "SAME_LOWER" else []
    return len(axes) == 1 and axes[0].before > axes[0].after


def is_same_sparse(call: OperatorCall) -> bool:
    """SAME pads are asked for where windows leave elements out, so that pads would be negative."""
    if not call.is_same_padded:
        return False
    return any(
        (-(-axis.size // axis.stride) - 1) * axis.stride + axis.extent < axis.size
        for axis in call.axes()
    )


def is_same_short(call: OperatorCall) -> bool:
    """SAME pads are asked for in a transposed convolution that gives less than a stride for each
    element.
    """
    axes = call.axes()
    extra = call.attribute("output_padding", [0] * len(axes))
    return call.is_same_padded and any(
        axis.extent + more < axis.stride for axis, more in zip(axes, extra, strict=False)
    )


def is_valid_dilated(call: OperatorCall) -> bool:
    """Windows have holes, and `auto_pad` asks for no pads."""
    is_valid = call.attribute("auto_pad") == "VALID"
    return is_valid and any(each > 1 for each in call.attribute("dilations", []))


def is_no_image(call: OperatorCall) -> bool:
    """The number of spatial dimensions is not two."""
    x = call.array(0)
    return x is not None and x.ndim != 4


def has_window_of_padding(call: OperatorCall) -> bool:
    """A window lies in padding alone."""
    return any(
        not any(0 <= start + tap * axis.dilation < axis.size for tap in range(axis.kernel))
        for axis in call.axes()
        for start in call.starts(axis)
    )


def counts_no_pads(call: OperatorCall) -> bool:
    """Pads are not counted in the mean."""
    return not call.attribute("count_include_pad", 0)


def counts_pads(call: OperatorCall) -> bool:
    """Pads are counted in the mean."""
    return not counts_no_pads(call)


def has_window_of_least(call: OperatorCall) -> bool:
    """A window may hold -infinity only."""
    x = call.array(0)
    return x is not None and is_floating(x) and bool(np.isneginf(x.astype(np.float64)).any())


def rounds_up(call: OperatorCall) -> bool:
    """The last window ends outside of the padded input."""
    return any(
        start + axis.extent > axis.size + axis.after
        for axis in call.axes()
        for start in call.starts(axis)
    )


def is_grouped(call: OperatorCall) -> bool:
    """There is more than one group."""
    return call.attribute("group", 1) > 1


def has_more_channels_than_images(call: OperatorCall) -> bool:
    """C is greater than N in an input `[N,C,…]`."""
    x = call.array(0)
    return x is not None and x.ndim > 1 and x.shape[1] > x.shape[0]


def has_signs_to_drop(call: OperatorCall) -> bool:
    """Numbers below zero have a 1-norm taken."""
    x = call.array(0)
    return call.attribute("p", 2) == 1 and x is not None and bool((x < 0).any())


def has_holes_not_finite(call: OperatorCall) -> bool:
    """Windows have holes, and the inputs hold a NaN or an infinity."""
    return any(each > 1 for each in call.attribute("dilations", [])) and is_not_finite(call)


# -- movement


def ends_at_greatest(call: OperatorCall) -> bool:
    """A slice goes backwards, and one of its ends is the greatest integer of its type."""
    ends, steps = call.numbers("ends", 2), call.numbers("steps", 4)
    greatest = (2**31 - 1, 2**63 - 1)
    return any(
        end in greatest and step < 0 for end, step in zip(ends or [], steps or [], strict=False)
    )


def starts_before_all(call: OperatorCall) -> bool:
    """A slice that goes backwards starts in front of the first element."""
    x, starts, steps = call.array(0), call.numbers("starts", 1), call.numbers("steps", 4)
    if x is None or not starts or not steps:
        return False
    axes = call.numbers("axes", 3) or range(len(starts))
    return any(
        step < 0 and start < -x.shape[axis]
        for start, axis, step in zip(starts, axes, steps, strict=False)
    )


def interpolates_integers(call: OperatorCall) -> bool:
    """Integers are interpolated."""
    x = call.array(0)
    return x is not None and x.dtype.kind in "iu" and interpolates(call)


def interpolates(call: OperatorCall) -> bool:
    """Elements of the result lie between those of the input."""
    return call.attribute("mode", "nearest") != "nearest"


def is_cubic(call: OperatorCall) -> bool:
    """Four elements are weighed along each dimension."""
    return call.attribute("mode") == "cubic"


def interpolates_not_finite(call: OperatorCall) -> bool:
    """A NaN or an infinity is among elements that are interpolated, not just copied."""
    return interpolates(call) and is_not_finite(call)


def copies_not_finite(call: OperatorCall) -> bool:
    """A NaN or an infinity is among elements of which the nearest is taken."""
    return not interpolates(call) and is_not_finite(call)


def crops_what_keeps_its_size(call: OperatorCall) -> bool:
    """A dimension is cropped, and has the same size in the result."""
    x = call.array(0)
    if x is None:
        return False
    parts = zip(_scaled(call, x), _parts(call, x.ndim), strict=False)
    return any(
        (scale == 1 or size == made) and part != (0, 1) for (size, made, scale), part in parts
    )


def is_old_and_shrinks(call: OperatorCall) -> bool:
    """A dimension becomes smaller, at the opset that does not say which element is the nearest."""
    x = call.array(0)
    is_old = call.node.op_type == "Resize" and call.opset < 11 and not interpolates(call)
    return is_old and x is not None and any(scale < 1 for _, _, scale in _scaled(call, x))


def has_corners_between(call: OperatorCall) -> bool:
    """Corners are aligned, and a scale gives a size that is not a whole number."""
    x, scales = call.array(0), call.array(2)
    if call.attribute("coordinate_transformation_mode") != "align_corners":
        return False
    if x is None or scales is None or call.attribute("axes") or scales.size != x.ndim:
        return scales is not None and scales.size > 0
    sizes = np.array(x.shape) * scales.astype(np.float64)
    return bool((np.abs(sizes - np.round(sizes)) > 0).any())


def is_given(index: int) -> Condition:
    """Holds where this input is present."""
    return lambda call: call.array(index) is not None


def takes_extremes(call: OperatorCall) -> bool:
    """Updates of the same element are joined by `max` or `min`."""
    return call.attribute("reduction") in ("max", "min")


def is_unsorted(call: OperatorCall) -> bool:
    """The elements may come in any order."""
    return call.attribute("sorted", 1) == 0


def is_unsorted_along(call: OperatorCall) -> bool:
    """The elements may come in any order, along an axis that is given."""
    return is_unsorted(call) and call.attribute("axis") is not None


def shows_masked_scores(call: OperatorCall) -> bool:
    """One output of an Attention is its scores after the mask."""
    is_wanted = len(call.node.output) > 3 and bool(call.node.output[3])
    return is_wanted and call.attribute("qk_matmul_output_mode", 0) == 2


def has_nothing(call: OperatorCall) -> bool:
    """The input has no elements."""
    x = call.array(0)
    return x is not None and x.size == 0


# -- numbers


def has_open_bound(call: OperatorCall) -> bool:
    """Clip has one bound or none."""
    return call.array(1) is None or call.array(2) is None


_WIDTHS = {
    onnx_type: np.iinfo(dtype)
    for onnx_type, dtype in {
        2: np.uint8,
        3: np.int8,
        4: np.uint16,
        5: np.int16,
        6: np.int32,
        7: np.int64,
        12: np.uint32,
        13: np.uint64,
    }.items()
}
"""Limits by the number that ONNX gives the type."""


def _fits(values: NDArray[np.float64], limits: np.iinfo) -> bool:
    low, high = float(limits.min), float(limits.max)
    whole = np.trunc(values)
    return bool(((whole >= low) & (whole <= high) & (whole < 2.0**limits.bits)).all())


def casts_beyond(call: OperatorCall) -> bool:
    """Floats are cast to integers whose type cannot hold them."""
    x, like = call.array(0), call.array(1)
    if x is None or not is_floating(x):
        return False
    limits = _WIDTHS.get(call.attribute("to"))
    if like is not None and like.dtype.kind in "iu":
        limits = np.iinfo(like.dtype)
    return limits is not None and not _fits(x.astype(np.float64), limits)


def raises_beyond(call: OperatorCall) -> bool:
    """An integer is raised to a power that its type does not hold, or to a negative one."""
    base, exponent = call.array(0), call.array(1)
    if base is None or exponent is None or base.dtype.kind not in "iu":
        return False
    if exponent.dtype.kind in "iu" and (exponent < 0).any():
        return True
    with np.errstate(all="ignore"):
        power = np.power(base.astype(np.float64), exponent.astype(np.float64))
    limits = np.iinfo(base.dtype)
    return not _fits(power, limits) or bool((np.abs(power) > 2.0**53).any())


def quantises_beyond(call: OperatorCall) -> bool:
    """A quotient that 32 bits do not hold is quantised."""
    x, scale = call.array(0), call.array(1)
    if x is None or scale is None or not is_floating(scale):
        return False
    least = float(np.abs(scale.astype(np.float64)).min(initial=np.inf))
    greatest = float(np.nan_to_num(np.abs(x.astype(np.float64)), nan=np.inf).max(initial=0.0))
    return is_not_finite(call) or greatest >= SMALLEST_OF_BEYOND * least


def is_double(call: OperatorCall) -> bool:
    """The first input holds floats of 64 bits."""
    x = call.array(0)
    return x is not None and x.dtype == np.float64


def divides_halves(call: OperatorCall) -> bool:
    """Floats of 16 bits are quantised, at an opset that does not say in which arithmetic."""
    x = call.array(0)
    return call.opset < 23 and x is not None and is_floating(x) and x.dtype.itemsize == 2


def has_no_dimensions(call: OperatorCall) -> bool:
    """The input is a scalar."""
    x = call.array(0)
    return x is not None and x.ndim == 0


def names_no_axes(call: OperatorCall) -> bool:
    """The axes are given as an empty list."""
    axes = call.array(1)
    return axes is not None and axes.size == 0


def has_shorter_sequences(call: OperatorCall) -> bool:
    """Some sequences of the batch end before the others."""
    x, lengths = call.array(0), call.array(4)
    if x is None or lengths is None:
        return False
    longest = x.shape[1 if call.attribute("layout", 0) else 0]
    return bool((lengths < longest).any())


def keeps_aspect_of_axes_from_behind(call: OperatorCall) -> bool:
    """The aspect ratio is kept, of axes that are counted from the last."""
    axes: list[int] = call.attribute("axes") or []
    return (
        call.attribute("keep_aspect_ratio_policy", "stretch") != "stretch" and min([0, *axes]) < 0
    )


def is_nearest_by_a_step(call: OperatorCall) -> bool:
    """Another element is the nearest if the coordinate is computed in 32 bits."""
    if call.attribute("mode", "nearest") != "nearest":
        return False
    narrow, wide = (_coordinates(call, kind) for kind in (np.float32, np.float64))
    return any(
        (_nearest(call, a) != _nearest(call, b)).any() for a, b in zip(narrow, wide, strict=True)
    )


def lies_just_behind(call: OperatorCall) -> bool:
    """A coordinate lies by less than 2^-40 behind that of an element."""
    return any(((x > np.floor(x)) & (x - np.floor(x) < 2.0**-40)).any() for x in _coordinates(call))


def crops_by_halves(call: OperatorCall) -> bool:
    """The part to be cropped is given in floats of 16 bits."""
    roi = call.array(1)
    is_cropped = call.attribute("coordinate_transformation_mode") == "tf_crop_and_resize"
    return is_cropped and roi is not None and roi.dtype.itemsize == 2


def _parts(call: OperatorCall, rank: int) -> list[tuple[float, float]]:
    """Lists, for each dimension that is resized, the begin and the end of the part that is
    taken.
    """
    roi = call.array(1)
    if roi is None or call.attribute("coordinate_transformation_mode") != "tf_crop_and_resize":
        return [(0.0, 1.0)] * rank
    count = roi.size // 2
    return [(float(a), float(b)) for a, b in zip(roi[:count], roi[count:], strict=True)]


def _scaled(call: OperatorCall, x: np.ndarray) -> list[tuple[int, int, float]]:
    """Lists, for each dimension that is resized, its size, its new size and the scale."""
    index = 1 if call.opset < 11 or call.node.op_type == "Upsample" else 2
    scales, sizes = call.array(index), call.array(3)
    axes: list[int] = call.attribute("axes") or list(range(x.ndim))
    if scales is not None and scales.size:
        factors = [float(each) for each in scales]
        return [
            (n, int(n * f), f) for n, f in zip((x.shape[a] for a in axes), factors, strict=True)
        ]
    if sizes is None:
        return []
    pairs = zip((x.shape[a] for a in axes), map(int, sizes), strict=True)
    return [(n, made, made / n) for n, made in pairs if n]


def _coordinates(call: OperatorCall, kind: type = np.float64) -> list[NDArray[Any]]:
    """Lists, for each dimension that is resized, the coordinates, computed in this float type."""
    x = call.array(0)
    if x is None:
        return []
    how = call.attribute("coordinate_transformation_mode", "half_pixel")
    how = "asymmetric" if call.opset < 11 else how
    pairs = zip(_scaled(call, x), _parts(call, x.ndim), strict=False)
    return [coordinates(how, *sizes, part, kind) for sizes, part in pairs]


def _nearest(call: OperatorCall, x: NDArray[Any]) -> NDArray[np.int64]:
    """Finds the indices of the elements nearest to some coordinates."""
    mode, half = call.attribute("nearest_mode", "round_prefer_floor"), x.dtype.type(0.5)
    if mode == "floor" or call.opset < 11:
        return np.floor(x).astype(np.int64)
    if mode == "ceil":
        return np.ceil(x).astype(np.int64)
    rounded = np.ceil(x - half) if mode == "round_prefer_floor" else np.floor(x + half)
    return rounded.astype(np.int64)


def has_flat_channel(call: OperatorCall) -> bool:
    """A channel hardly varies around its mean."""
    x = call.array(0)
    return x is not None and x.ndim >= 3 and _is_flat_along(x, range(2, x.ndim))


def has_flat_part(call: OperatorCall) -> bool:
    """Elements along the axes that are normalised hardly vary around their mean."""
    x = call.array(0)
    return x is not None and _is_flat_along(x, call.attribute("axes", [0, 2, 3]))


def _is_flat_along(x: np.ndarray, axes: Sequence[int]) -> bool:
    wide, along = x.astype(np.float64), tuple(axes)
    if not wide.size:
        return False
    return bool((wide.var(axis=along) <= 1e-2 * wide.mean(axis=along) ** 2).any())


def has_zero_points_of_rows(call: OperatorCall) -> bool:
    """The first operand has a zero point for each row."""
    rows = call.array(2)
    return rows is not None and rows.size > 1


def reduces_beyond(call: OperatorCall) -> bool:
    """Integers are added or multiplied to a result that their type may not hold."""
    x = call.array(0)
    if x is None or x.dtype.kind not in "iu" or not x.size:
        return False
    size = np.abs(x.astype(np.float64))
    if call.node.op_type == "ReduceProd":
        most = float(np.maximum(size, 1).prod())
    else:
        most = float((size**2 if call.node.op_type == "ReduceSumSquare" else size).sum())
    return most > np.iinfo(x.dtype).max


def widens_squares(call: OperatorCall) -> bool:
    """The squares of integers change their type as numpy adds them."""
    x = call.array(0)
    return x is not None and x.dtype.name in ("int32", "uint32")


def has_nan_halves(call: OperatorCall) -> bool:
    """Floats of 16 bits hold a NaN."""
    x = call.array(0)
    return has_nan(call) and x is not None and x.dtype.itemsize == 2


def leaves_one_of_several(call: OperatorCall) -> bool:
    """A dimension shrinks to one element, where coordinates are those of `pytorch_half_pixel`."""
    x = call.array(0)
    how = call.attribute("coordinate_transformation_mode", "half_pixel")
    if x is None or how != "pytorch_half_pixel":
        return False
    return any(size > 1 and made == 1 for size, made, _ in _scaled(call, x))


def shows_an_old_mask(call: OperatorCall) -> bool:
    """The mask of a Dropout is an output, at an opset that does not say what it is."""
    return call.opset < 12 and len(call.node.output) > 1 and bool(call.node.output[1])


def has_zero_points_of_channels(call: OperatorCall) -> bool:
    """The weights have a zero point for each channel, and their rank is not two."""
    x, channels = call.array(0), call.array(3)
    return x is not None and x.ndim != 4 and channels is not None and channels.size > 1


def is_wide(call: OperatorCall) -> bool:
    """Floats of 64 bits do not hold the integers exactly."""
    return any(float(np.abs(x.astype(np.float64)).max()) > 2.0**53 for x in _integers(call))


def multiplies_wide(call: OperatorCall) -> bool:
    """Products of integers add up to more than their type, or floats of 64 bits, hold."""
    integers = _integers(call)
    most = min([2.0**53, *(float(np.iinfo(x.dtype).max) for x in integers)])
    count = 1.0
    for x in integers:
        count *= max(float(np.abs(x.astype(np.float64)).sum()), 1.0)
    return count > most


def is_unsigned(call: OperatorCall) -> bool:
    """The first input holds unsigned integers of 32 or 64 bits."""
    x = call.array(0)
    return x is not None and x.dtype.name in ("uint32", "uint64")


def _integers(call: OperatorCall) -> list[np.ndarray]:
    """Lists all inputs that hold integers and are not empty."""
    return [x for x in call.arrays if x.dtype.kind in "iu" and x.size]


def transposes_not_finite(call: OperatorCall) -> bool:
    """The weights hold a NaN or an infinity."""
    weights = call.array(1)
    return weights is not None and not np.isfinite(weights.astype(np.float64)).all()


def crops_an_odd_number(call: OperatorCall) -> bool:
    """The shape of the result is given, and an odd number of elements is cut off."""
    given: list[int] = call.attribute("output_shape") or []
    extra = call.attribute("output_padding", [0] * len(given))
    return call.attribute("auto_pad", "NOTSET") != "SAME_UPPER" and any(
        ((axis.size - 1) * axis.stride + axis.extent + more - made) % 2
        for axis, made, more in zip(call.axes(), given[-len(extra) :], extra, strict=False)
    )


def collects_scalars(call: OperatorCall) -> bool:
    """A loop collects scalars, or values whose shape its body does not declare."""
    collected = call.attribute("body").output[len(call.node.input) - 1 :]
    return any(not each.type.tensor_type.shape.dim for each in collected)


def updates_what_it_reads(call: OperatorCall) -> bool:
    """The running mean, or variance, of a training step is another of its inputs, too."""
    names = list(call.node.input)
    return bool(call.attribute("training_mode", 0)) and len(set(names)) < len(names)


def sums_nothing(call: OperatorCall) -> bool:
    """An input has no elements, so that there is nothing to sum."""
    return any(not x.size for x in call.arrays)


def has_zeros_alone(call: OperatorCall) -> bool:
    """All elements are zero."""
    x = call.array(0)
    return x is not None and x.size > 0 and not x.any()


def has_no_condition(call: OperatorCall) -> bool:
    """A loop is given no initial condition."""
    return len(call.node.input) < 2 or not call.node.input[1]


def scales_zero_by_no_number(call: OperatorCall) -> bool:
    """A slope is NaN or infinite where the input is 0."""
    return transposes_not_finite(call) and not all(x.all() for x in call.arrays[:1])


def is_half(call: OperatorCall) -> bool:
    """The first input holds floats of 16 bits."""
    x = call.array(0)
    return x is not None and is_floating(x) and x.dtype.itemsize == 2


def is_half_with_factors(call: OperatorCall) -> bool:
    """Floats of 16 bits are used with activations that have parameters."""
    return is_half(call) and call.attribute("activation_alpha") is not None


def shows_capped_scores(call: OperatorCall) -> bool:
    """The scores of an Attention are an output, and are capped."""
    return len(call.node.output) > 3 and bool(call.attribute("softcap", 0))


def ends_before_the_first(call: OperatorCall) -> bool:
    """The end, counted from the last dimension, lies before the first."""
    x = call.array(0)
    return x is not None and call.attribute("end", 0) < -x.ndim


def sums_wide(call: OperatorCall) -> bool:
    """Integers have 64 bits, and floats do not hold the sum of their squares or exponents."""
    return any(float((x.astype(np.float64) ** 2).sum()) > 2.0**53 for x in _integers(call))


def shows_statistics(call: OperatorCall) -> bool:
    """The mean or the deviation is an output, and floats are not of 32 bits."""
    x = call.array(0)
    return len(call.node.output) > 1 and x is not None and x.dtype != np.float32


def sums_many_halves(call: OperatorCall) -> bool:
    """The number of bfloat16 that are added exceeds what their eight digits count."""
    x = call.array(0)
    return x is not None and x.dtype.name == "bfloat16" and x.size > 64


def requantises_no_number(call: OperatorCall) -> bool:
    """A scale is NaN or 0."""
    return has_nan(call) or any(not x.all() for x in call.arrays if is_floating(x))


def has_scales_of_halves(call: OperatorCall) -> bool:
    """The scales are floats of 16 bits."""
    return any(is_floating(x) and x.dtype.itemsize == 2 for x in call.arrays)


def has_scales_of_channels(call: OperatorCall) -> bool:
    """The weights have a scale for each channel, and their rank is not two."""
    x, scales = call.array(0), call.array(4)
    return x is not None and x.ndim != 4 and scales is not None and scales.size > 1


def joins_dimensions(call: OperatorCall) -> bool:
    """The operator treats all dimensions from `axis` on as one, and there are several."""
    x, along = call.array(0), call.attribute("axis", -1)
    begin = call.attribute("axis", 1)  # 1 was the default at these opsets
    return call.opset < 13 and x is not None and int(np.prod(x.shape[begin:])) != x.shape[along]


def has_doubles_below(call: OperatorCall) -> bool:
    """Floats of 64 bits are below zero."""
    return is_double(call) and any(bool((x < 0).any()) for x in call.arrays[:1])


def is_double_with(attribute: str) -> Condition:
    """Holds for floats of 64 bits where an attribute is not 0."""
    return lambda call: is_double(call) and bool(call.attribute(attribute, 0))
