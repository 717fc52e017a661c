"""Writes types and numbers in C. Floats of 16 bits are computed with as floats and stored as their
bits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import cast

import numpy as np
from xdsl.dialects.builtin import FloatAttr, IndexType, IntegerAttr
from xdsl.ir import Attribute

from byocir.dialects.array import Array
from byocir.dialects.types import (
    bf16,
    dtype_of,
    element_type_of,
    f16,
    has_element,
    i1,
    is_float,
    width_of,
)
from byocir.evaluate.scalar import number

_CTYPES = {
    "bool": "uint8_t",
    **{f"int{width}": f"int{width}_t" for width in (8, 16, 32, 64)},
    **{f"uint{width}": f"uint{width}_t" for width in (8, 16, 32, 64)},
    "float16": "float",
    "bfloat16": "float",
    "float32": "float",
    "float64": "double",
}

HALVES: dict[Attribute, str] = {f16: "f16", bf16: "bf16"}
"""The names of floats of 16 bits in functions of half.h."""


class NoC(Exception):
    """Says that an op has no form in C here: it runs elsewhere."""


@cache
def c_type(type_: Attribute) -> str:
    """Gives the C type that values of a scalar type are computed with; raises NoC if there is
    none."""
    if isinstance(type_, IndexType):
        return "int64_t"
    name = dtype_of(type_).name if has_element(type_) else str(type_)
    if name not in _CTYPES:
        raise NoC(name)
    return _CTYPES[name]


def stored_type(type_: Attribute) -> str:
    """Gives the C type of an array's elements; bytes for those that C cannot compute with."""
    if type_ in HALVES:
        return "uint16_t"
    try:
        return c_type(type_)
    except NoC:
        return "unsigned char"


def loaded(type_: Attribute, element: str) -> str:
    """Writes the value of an element of an array."""
    return f"{HALVES[type_]}_to_float({element})" if type_ in HALVES else element


def stored(type_: Attribute, value: str) -> str:
    """Writes a value in the form in which an array holds it."""
    return f"float_to_{HALVES[type_]}({value})" if type_ in HALVES else value


def stored_literal(attribute: Attribute) -> str:
    """Writes a number attribute as a C constant, in the form in which an array holds it."""
    if getattr(attribute, "type", None) in HALVES:
        return str(int(number(attribute).view("uint16")))
    return literal(attribute)


def unsigned_type(type_: Attribute) -> str:
    """Gives the unsigned C type of the same width."""
    name = c_type(type_)
    return name if name.startswith("u") else f"u{name}"


def literal(attribute: Attribute) -> str:
    """Writes a number attribute as a C constant expression of its type, exactly."""
    if isinstance(attribute, FloatAttr):
        number = cast(FloatAttr, attribute)
        return float_literal(number.value.data, number.type)
    assert isinstance(attribute, IntegerAttr)
    number = cast(IntegerAttr, attribute)
    return integer_literal(number.value.data, number.type)


def integer_literal(value: int, type_: Attribute) -> str:
    """Writes an integer, wrapped around, as a constant of its type."""
    if type_ == i1:
        return str(value & 1)
    width = 64 if isinstance(type_, IndexType) else width_of(type_)
    wrapped = value % 2**width
    if not c_type(type_).startswith("u") and wrapped >= 2 ** (width - 1):
        wrapped -= 2**width
    if wrapped == -(2 ** (width - 1)) and width >= 32:
        return f"INT{width}_MIN"
    suffix = f"INT64_C({wrapped})" if width == 64 else str(wrapped)
    if c_type(type_).startswith("u") and width >= 32:
        return f"UINT{width}_C({wrapped})"
    return f"({suffix})" if wrapped < 0 else suffix


def float_literal(value: float, type_: Attribute) -> str:
    """Writes a float, rounded to its type, as a hexadecimal constant."""
    kind = c_type(type_)
    if math.isnan(value):
        return "NAN"
    if math.isinf(value):
        return "INFINITY" if value > 0 else "(-INFINITY)"
    suffix = "f" if kind == "float" else ""
    text = f"{float(dtype_of(type_).type(value)).hex()}{suffix}"
    return f"({text})" if text.startswith("-") else text


def defined_array(name: str, type_: Attribute, array: Array) -> str:
    """Writes the definition of a constant array."""
    element, values = element_type_of(type_), array.values().reshape(-1)
    if element in HALVES:
        texts = [str(n) for n in values.view(np.uint16).tolist()]
    elif is_float(element):
        texts = [float_literal(x, element) for x in values.tolist()]
    else:
        texts = [integer_literal(int(n), element) for n in values.tolist()]
    rows = initialiser(texts or ["0"], 16)  # no array of C is empty
    return f"static const {stored_type(element)} {name}[] = {rows};\n"


def initialiser(texts: Sequence[str], width: int) -> str:
    """Writes the initialiser of an array, so many elements on a line."""
    lines = [", ".join(texts[i : i + width]) for i in range(0, len(texts), width)]
    return "{\n    " + ",\n    ".join(lines) + "\n}"
