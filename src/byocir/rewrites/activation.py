"""Turns relu and clip between an op and the quantize after it into bounds on the quantised
integers.

Quantising is monotone, so `quantize(clip(x, a, b)) = clip(quantize(x), quantize(a), quantize(b))`
bit for bit, for every x but NaN; relu is the clip at 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from byocir.dialects.array import ArrayAttr
from byocir.dialects.graph import ClipOp, QuantizeOp, ReluOp
from byocir.dialects.intervals import integer_range
from byocir.dialects.types import dtype_of, element_type_of, ui8
from byocir.rewrites.driver import NewOps
from byocir.rewrites.grid import Grid

Bounds = tuple[int, int]


def through_activations(value: SSAValue) -> tuple[list[ReluOp | ClipOp], SSAValue]:
    """Walks back through relu and clip ops: gives those that end in `value`, first to last, and the
    value that they start from.
    """
    ops: list[ReluOp | ClipOp] = []
    while isinstance(value.owner, ReluOp | ClipOp):
        ops.append(value.owner)
        value = value.owner.input
    return ops[::-1], value


def only_quantized(value: SSAValue, ops: list[ReluOp | ClipOp]) -> bool:
    """Tells if `value` is used by nothing but these activations and quantize ops at their end."""
    chain = [value, *(op.result for op in ops)]
    return all(v.has_one_use() for v in chain[:-1]) and all(
        isinstance(use.operation, QuantizeOp) for use in chain[-1].uses
    )


def quantized_bounds(ops: list[ReluOp | ClipOp], grid: Grid) -> Bounds | None:
    """Computes the bounds that these activations set on integers of a per-tensor grid; None if one
    is NaN.
    """
    lo, hi = grid.range
    for op in ops:
        low, high = _float_bounds(op)
        if np.isnan(low) or np.isnan(high):
            return None
        least, most = grid.quantize(low), grid.quantize(high)
        lo, hi = min(max(lo, least), most), min(max(hi, least), most)
    return lo, hi


def _float_bounds(op: ReluOp | ClipOp) -> tuple[float, float]:
    if isinstance(op, ReluOp):
        return 0.0, np.inf
    low = -np.inf if op.min is None else op.min.data.values().item()
    return low, np.inf if op.max is None else op.max.data.values().item()


def is_relu(bounds: Bounds, grid: Grid) -> bool:
    """Tells if bounds on integers of a per-tensor grid are those of a relu, and do bound
    something.
    """
    return bounds == (int(grid.zero_point), grid.range[1]) and bounds != grid.range


def relu_before(value: SSAValue, bounds: Bounds, grid: Grid, new: NewOps) -> SSAValue:
    """Adds a relu to `value`, which is still to be brought to a per-tensor grid, if bounds are
    those of a relu.
    """
    if not is_relu(bounds, grid) or element_type_of(value.type) == ui8:
        return value
    return new.add(ReluOp.make(value)).result


def clip_after(value: SSAValue, bounds: Bounds, grid: Grid, new: NewOps) -> SSAValue:
    """Clips `value`, which is on the grid, to the bounds, unless `relu_before` has set them."""
    return value if is_relu(bounds, grid) else clipped(value, bounds, new)


def clipped(value: SSAValue, bounds: Bounds, new: NewOps) -> SSAValue:
    """Clips integers to the bounds that their type does not set already."""
    element = element_type_of(value.type)
    properties: dict[str, Any] = {
        name: ArrayAttr.of(np.array(bound, dtype_of(element)))
        for name, bound, end in zip(("min", "max"), bounds, integer_range(element), strict=True)
        if bound != end
    }
    return new.add(ClipOp.make(value, **properties)).result if properties else value
