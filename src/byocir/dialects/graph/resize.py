"""The resize op."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.dialects.builtin import DenseArrayBase, Float32Type, StringAttr
from xdsl.irdl import irdl_op_definition, opt_prop_def, prop_def

from byocir.dialects.checks import expect
from byocir.dialects.graph.base import FLOAT, INT, INTS, dims, expect_flag, int_tuple
from byocir.dialects.graph.shape import ShapeOp
from byocir.dialects.types import Shape, f32

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
    """The attribute `array<f32: …>`."""
    return DenseArrayBase.from_list(f32, list(values))


@irdl_op_definition
class ResizeOp(ShapeOp):
    """Resampled to `sizes`, with names and meanings as in ONNX's Resize, e.g. `graph.resize %x
    {sizes = array<i64: 1, 4, 16, 16>, mode = "nearest", coordinate_transformation_mode =
    "asymmetric", nearest_mode = "floor", cubic_coeff_a = -0.75 : f32, exclude_outside = 0 : i64,
    extrapolation_value = 0.0 : f32, antialias = 0 : i64} : (tensor<1x4x8x8xf32>) ->
    tensor<1x4x16x16xf32>`. The ratio of sizes is the scale, unless `scales` says it. `roi`, first
    all begins, then all ends, is the part that `tf_crop_and_resize` takes."""

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
