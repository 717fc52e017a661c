"""Compares values with the types that they are to have."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import MemRefType, TensorType, UnrankedTensorType
from xdsl.ir import Attribute

from byocir.dialects.graph.values import StringType
from byocir.dialects.types import DYNAMIC, Shape, dtype_of
from byocir.evaluate.region_results import text_of


def mismatch(value: object, type_: Attribute) -> str:
    """Describes a value that is not of a type; empty if it is, as far as the type is known."""
    if not isinstance(type_, TensorType | UnrankedTensorType | MemRefType):
        return ""
    element = cast("TensorType", type_).element_type
    if not isinstance(value, np.ndarray):
        return type(value).__name__
    array = cast("np.ndarray[Any, Any]", value)
    found = text_of(array.shape, array.dtype)
    is_text = array.dtype.kind in "OUS"
    if isinstance(element, StringType) != is_text or (
        not is_text and array.dtype != dtype_of(element)
    ):
        return found
    shape: Shape | None = None
    if isinstance(type_, TensorType | MemRefType):
        shape = cast("TensorType", type_).get_shape()
    return "" if fits(array.shape, shape) else found


def fits(found: Shape, shape: Shape | None) -> bool:
    """Tells if a shape is one that this type has; None is any shape."""
    if shape is None:
        return True
    return len(found) == len(shape) and all(
        size in (DYNAMIC, given) for size, given in zip(shape, found, strict=True)
    )
