"""Casts: floats become integers towards zero and saturate, NaN is 0; integers keep low bits."""

from __future__ import annotations

import numpy as np
from xdsl.ir import Attribute, SSAValue

from byocir.dialects.graph import CastOp
from byocir.dialects.intervals import integer_range
from byocir.dialects.tir.emit import Emitter
from byocir.dialects.tir.scalar import Emitted
from byocir.dialects.types import (
    dtype_of,
    element_type_of,
    i1,
    i64,
    is_float,
    is_integer,
    shape_of,
    ui64,
)
from byocir.lowering.graph_to_tir.operands import accumulator_of
from byocir.lowering.graph_to_tir.registry import lowers


@lowers(CastOp)
def _cast(emit: Emitter, op: CastOp) -> SSAValue:
    source, target = element_type_of(op.input.type), op.to

    def body(x: Emitted) -> Emitted:
        if target == i1 and source != i1:
            return x.compare("ne", x.constant(0))
        if is_float(source) and is_integer(target):
            return to_integer(x.to(accumulator_of(source)), target)
        return x.to(target)

    return emit.elementwise(shape_of(op.result.type), target, [op.input], body)


def to_integer(x: Emitted, target: Attribute) -> Emitted:
    """Towards zero, saturating, by way of i64, for bodies know no unsigned ones. What is clamped is
    a float that fits."""
    if target == ui64:
        return x.to(ui64)  # which saturates, NaN to 0
    low, high = integer_range(target)
    dtype = dtype_of(x.type)
    ceiling = dtype.type(high)
    if int(ceiling) > high:  # rounded to the power of two above
        ceiling = np.nextafter(ceiling, dtype.type(0))
    number = x.compare("eq", x).select(x, 0)
    fits = number.clamp(float(low), float(ceiling)).to(i64)
    if int(ceiling) != high:
        fits = number.compare("gt", float(ceiling)).select(fits.constant(high), fits)
    return fits.to(target)
