"""Imports and exports Resize."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from byocir.dialects.graph import GraphOp, ResizeOp
from byocir.dialects.graph.base import PropertyValue, int_tuple
from byocir.dialects.graph.resize import numbers
from byocir.frontend.onnx import properties as p
from byocir.frontend.onnx.reader import NodeReader, Value
from byocir.frontend.onnx.tensors import Unsupported
from byocir.frontend.onnx.writer import GraphWriter

_TEXTS = {
    "mode": "nearest",
    "coordinate_transformation_mode": "half_pixel",
    "nearest_mode": "round_prefer_floor",
}
_NUMBERS = {"cubic_coeff_a": -0.75, "extrapolation_value": 0.0}
_FLAGS = ("antialias", "exclude_outside")


def read_resize(node: NodeReader) -> Value:
    x = node.shape(0)
    axes = [p.from_front(axis, len(x)) for axis in node.integers("axes", range(len(x)))]
    policy = node.text("keep_aspect_ratio_policy", "stretch")
    if policy != "stretch":
        raise Unsupported(f"expected keep_aspect_ratio_policy stretch, found {policy}")
    properties: dict[str, PropertyValue] = {
        **{name: node.text(name, default) for name, default in _TEXTS.items()},
        **{name: node.number(name, default) for name, default in _NUMBERS.items()},
        **{name: node.integer(name, 0) for name in _FLAGS},
    }
    crop = _given(node, 1)
    if properties["coordinate_transformation_mode"] == "tf_crop_and_resize":
        properties["roi"] = numbers(_roi(crop, axes, len(x)))
        if _given(node, 2):
            raise Unsupported("expected sizes for tf_crop_and_resize, found scales")
    return node.emit(ResizeOp, node.operand(0), **properties, **_sizes(node, axes))


def _given(node: NodeReader, index: int) -> list[float]:
    """Reads the numbers of an input that must be a constant; an empty one counts as absent."""
    values = node.known(index)
    return [] if values is None else values.reshape(-1).tolist()


def _sizes(node: NodeReader, axes: Sequence[int]) -> Mapping[str, PropertyValue]:
    """Computes the property `sizes` and, if the node gives scales, `scales`."""
    x = node.shape(0)
    given_scales, given_sizes = _given(node, 2), _given(node, 3)
    wanted = given_scales or given_sizes
    if len(wanted) != len(axes):
        raise Unsupported(f"expected {len(axes)} scales or sizes, found {len(wanted)}")
    if not given_scales:
        by_axis = dict(zip(axes, map(int, given_sizes), strict=True))
        return {"sizes": [by_axis.get(axis, size) for axis, size in enumerate(x)]}
    scales = [1.0] * len(x)
    for axis, scale in zip(axes, given_scales, strict=True):
        scales[axis] = scale
    sizes = [math.floor(size * scale) for size, scale in zip(x, scales, strict=True)]
    return {"sizes": sizes, "scales": numbers(scales)}


def _roi(given: Sequence[float], axes: Sequence[int], rank: int) -> list[float]:
    if len(given) != 2 * len(axes):
        raise Unsupported(f"expected a roi of {2 * len(axes)} numbers, found {len(given)}")
    roi = [0.0] * rank + [1.0] * rank
    for place, axis in enumerate(axes):
        roi[axis], roi[rank + axis] = given[place], given[len(axes) + place]
    return roi


def write_resize(op: GraphOp, graph: GraphWriter) -> str:
    assert isinstance(op, ResizeOp)
    inputs = [graph.name(op.input), "", "", ""]
    if op.roi is not None:
        inputs[1] = graph.array(np.array(op.roi.get_values(), np.float32))
    if op.scales is not None:
        inputs[2] = graph.array(np.array(op.scales.get_values(), np.float32))
    else:
        inputs[3] = graph.array(np.array(int_tuple(op.sizes), np.int64))
    return graph.node(
        "Resize",
        inputs,
        mode=op.mode.data,
        coordinate_transformation_mode=op.coordinate_transformation_mode.data,
        nearest_mode=op.nearest_mode.data,
        cubic_coeff_a=op.cubic_coeff_a.value.data,
        extrapolation_value=op.extrapolation_value.value.data,
        antialias=op.antialias.value.data,
        exclude_outside=op.exclude_outside.value.data,
    )
