"""Handles zero points of contractions on their way to integers: a part of qdq-to-integer.

With the weights w known, `sum (x - z) * w` is `sum x * w - z * sum w`. What is taken off is a
number for each output, which joins the bias. A convolution reads z where it is padded, for that is
what stands for 0 there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from byocir.dialects.array import ArrayAttr, known_values
from byocir.dialects.graph import ConvOp, ConvTransposeOp, FixedAttr, PadOp, RequantizeOp
from byocir.dialects.graph.base import int_tuple
from byocir.dialects.types import dtype_of, element_type_of, i32
from byocir.patterns import Match
from byocir.rewrites.driver import NewOps
from byocir.rewrites.grid import grid_at, known_grid


def output_axis(m: Match) -> int | None:
    """Gives the axis of a weight that counts outputs; None for a vector, which has one output."""
    if "conv" in m:
        return 1 if isinstance(m["conv"].op, ConvTransposeOp) else 0
    rank = m["w"].type.rank
    return rank - 1 if rank > 1 else None


def summed_axes(m: Match) -> tuple[int, ...]:
    """Gives the axes of a weight over which a contraction sums."""
    rank = m["w"].type.rank
    if "conv" not in m:
        return (max(rank - 2, 0),)
    return tuple(axis for axis in range(rank) if axis != output_axis(m))


def shifted_weight(m: Match) -> np.ndarray | None:
    """Computes a weight less its zero points: in its own type, else as int8, else as int16, where
    some need nine bits. None where it is no constant or its values were not supplied.
    """
    grid, values = grid_at(m["weight"]), known_values(m["w"].value)
    if grid is None or values is None:
        return None
    if grid.symmetric:
        return values
    zero = grid.zero_point.astype(np.int32)
    if grid.axis is not None:
        zero = zero.reshape([-1 if axis == grid.axis else 1 for axis in range(values.ndim)])
    shifted = values.astype(np.int32) - zero
    least, greatest = shifted.min(initial=0), shifted.max(initial=0)
    fits = np.iinfo(np.int8).min <= least and greatest <= np.iinfo(np.int8).max
    return shifted.astype(np.int8 if fits else np.int16)


def integer_weight(m: Match, new: NewOps) -> SSAValue:
    """Gives the weight without its zero points, as a constant where they are not 0."""
    if known_grid(m["weight"]).symmetric:
        return m["w"].value
    shifted = shifted_weight(m)
    assert shifted is not None
    return new.constant(shifted)


def folded_bias(m: Match, new: NewOps) -> SSAValue | None:
    """Makes the bias without what the input's zero point brings into the sums; None for zeros."""
    zero, has_bias = int(known_grid(m["data"]).zero_point), "b" in m
    if zero == 0:
        return m["b"].value if has_bias else None
    weight = shifted_weight(m)
    assert weight is not None
    rows = "conv" not in m and m["x"].type.rank > 1 and weight.ndim > 2
    excess = zero * weight.astype(np.int64).sum(axis=summed_axes(m), keepdims=rows)
    own = m["b"].numbers.astype(np.int64) if has_bias else 0
    return new.constant((own - excess).astype(np.int32))


def padded(m: Match, new: NewOps) -> tuple[SSAValue, dict[str, Any]]:
    """Surrounds the input of a convolution by its zero point where it is padded; gives it, and the
    properties with which the convolution then slides.
    """
    zero, x, conv = known_grid(m["data"]).zero_point, m["x"], m["conv"].op
    assert isinstance(conv, ConvOp)
    pads, window = int_tuple(conv.pads), dict[str, Any](conv.properties)
    if not zero.any() or not any(pads):
        return x.value, window
    return surrounded(x.value, pads, zero, new), {**window, "pads": [0] * len(pads)}


def surrounded(x: SSAValue, pads: Sequence[int], number: np.ndarray, new: NewOps) -> SSAValue:
    """Surrounds the spatial dimensions of an array [N, C, …] by a number."""
    spatial = len(pads) // 2
    around = [0, 0, *pads[:spatial], 0, 0, *pads[spatial:]]
    fill = ArrayAttr.of(number.astype(dtype_of(element_type_of(x.type))))
    return new.add(PadOp.make(x, pads=around, mode="constant", value=fill)).result


def without_zero_point(value: SSAValue, zero: int, new: NewOps) -> SSAValue:
    """Takes the zero point off 8-bit integers, which become i32."""
    one, exact = new.constant(np.array(1, np.int32)), FixedAttr.of(0)
    op = RequantizeOp.make(value, one, rounding=exact, to=i32, zero_point=-zero)
    return new.add(op).result
