"""Answers what definitions of graph ops ask about operands, and about the types that they compute
in.
"""

from __future__ import annotations

from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineExpr

from byocir.dialects.tir.emit import Emitter, Read
from byocir.dialects.types import bf16, element_type_of, f16, f32, shape_of


def axis_read(value: SSAValue, axis: int) -> Read:
    """Reads a parameter that is a scalar, or has one value for each index of a dimension."""
    return Read(value, [AffineExpr.dimension(axis)] if shape_of(value.type) else [])


def accumulator_of(element: Attribute) -> Attribute:
    """Gives the type in which elements are summed: f32 for narrower floats, else their own."""
    return f32 if element in (f16, bf16) else element


def narrowed(emit: Emitter, value: SSAValue, element: Attribute) -> SSAValue:
    """Converts a value to this element type."""
    if element_type_of(value.type) == element:
        return value
    return emit.elementwise(shape_of(value.type), element, [value], lambda x: x.to(element))
