"""Operators between numbers and their quantised form."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onnx_fuzz.cases import element_of
from onnx_fuzz.draft import Draft, Unfit, dtype_of
from onnx_fuzz.rules.registry import rule


def grids(d: Draft, shape: Sequence[int]) -> tuple[int, ...]:
    """Gives the shape of scales: one for all, by axis, or by blocks."""
    if not shape or d.maybe(0.4):
        return () if d.maybe(0.8) or not d.has("axis") else (1,)
    if not d.has("axis"):
        return ()
    axis = d.axis(len(shape))
    if d.has("block_size") and d.maybe(0.3):
        block = d.draws.upto(max(shape[axis], 1))
        d.attributes["block_size"] = block
        return tuple(n if i != axis else -(-n // block) for i, n in enumerate(shape))
    return (shape[axis],)


@rule("QuantizeLinear")
def quantize(d: Draft) -> None:
    x = d.take("x")
    scales = grids(d, x.shape)
    kind = d.bind("y_scale")
    numbers = d.draws.rng.choice([0.5, 0.25, 0.1, 0.031, 1.0, 2.0], scales)
    d.put("y_scale", np.asarray(numbers, kind), 0.9)
    if d.has_input("y_zero_point") and d.maybe(0.8):
        target = d.bind("y_zero_point")
        low, high = (0, 5) if target.kind in "iu" or "int" in target.name else (0, 0)
        d.put("y_zero_point", d.draws.array(target, scales, low, high), 0.9)
        d.left_out.add("output_dtype")
    elif d.has("output_dtype") and d.maybe():
        kinds = [
            k for each in sorted(d.schema.outputs[0].types) if (k := dtype_of(each)) is not None
        ]
        d.attributes["output_dtype"] = element_of(d.draws.dtype(kinds))
    d.left_out |= {"block_size", "output_dtype"}
    d.attr("saturate", d.draws.upto(1, 0), 1)
    d.attr("precision", 1, 0)


@rule("DequantizeLinear")
def dequantize(d: Draft) -> None:
    x = d.take("x")
    scales = grids(d, x.shape)
    kind = d.bind("x_scale")
    if kind.name.startswith("float8"):
        raise Unfit
    d.put("x_scale", np.asarray(d.draws.rng.choice([0.5, 0.25, 0.1, 0.031], scales), kind), 0.9)
    if d.maybe(0.7):
        low, high = (0, 5) if x.dtype.kind in "iu" or "int" in x.dtype.name else (0, 0)
        if x.dtype == np.int32:
            high = 0
        d.put("x_zero_point", d.draws.array(x.dtype, scales, low, high), 0.9)
    if d.has("output_dtype") and d.maybe(0.3):
        d.attributes["output_dtype"] = element_of(kind)
    d.left_out |= {"block_size", "output_dtype"}


@rule("DynamicQuantizeLinear")
def dynamic_quantize(d: Draft) -> None:
    x = d.take("x")
    if not x.size:
        raise Unfit
    d.outputs = 3
