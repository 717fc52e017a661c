"""Converts attributes of ops to typed JSON, and back.

| `type` | `value` |
| --- | --- |
| `i64`, `i1`, … | an integer, or a boolean for `i1` |
| `f32`, … | a number, or `"inf"`, `"-inf"`, `"nan"` |
| `i64[]`, `f32[]` | a list of such |
| `string` | a text |
| `element` | an element type, such as `"i8"` |
| `constant` | the digest of an array in the file of constants |
| `rounding` | `{"kind": "float_half_even"}` or `{"kind": "fixed", "shift": 2, "ties": "half_up"}` |

JSON has no number for infinity and NaN; as strings they survive every parser.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, cast

from xdsl.dialects.builtin import (
    DenseArrayBase,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
)
from xdsl.ir import Attribute

from byocir.dialects.array import Array, ArrayAttr
from byocir.dialects.graph import FixedAttr, FloatHalfEvenAttr
from byocir.dialects.types import has_element, i1, is_float, is_integer, named_elements

Json = Any
"""Plain data: what `json.dumps` takes."""


def attribute_to_json(attribute: Attribute, constants: dict[str, Array]) -> dict[str, Json]:
    """Converts an attribute to typed JSON; arrays are put in `constants` under their digest. Raises
    TypeError for an attribute that has no form.
    """
    match attribute:
        case IntegerAttr():
            value = bool(attribute.value.data) if attribute.type == i1 else attribute.value.data
            return _typed(str(attribute.type), value)
        case FloatAttr():
            return _typed(str(attribute.type), _number(attribute.value.data))
        case DenseArrayBase():
            values = cast("DenseArrayBase[Any]", attribute).get_values()
            return _typed(f"{attribute.elt_type}[]", [_number(value) for value in values])
        case StringAttr():
            return _typed("string", attribute.data)
        case ArrayAttr():
            constants[attribute.data.digest] = attribute.data
            return _typed("constant", attribute.data.digest)
        case FixedAttr():
            shift, ties = attribute.shift.data, attribute.ties.data
            return _typed("rounding", {"kind": "fixed", "shift": shift, "ties": ties})
        case FloatHalfEvenAttr():
            return _typed("rounding", {"kind": "float_half_even"})
        case _ if has_element(attribute):
            return _typed("element", str(attribute))
        case _:
            raise TypeError(f"{attribute.name} {attribute}")


def attribute_from_json(data: Mapping[str, Json], constants: Mapping[str, Array]) -> Attribute:
    """Converts typed JSON to an attribute. Raises ValueError, KeyError or TypeError for JSON that
    stands for none.
    """
    kind, value = data["type"], data["value"]
    match kind:
        case "string":
            return StringAttr(value)
        case "constant":
            return ArrayAttr(constants[value])
        case "element":
            return named_elements()[value]
        case "rounding" if value["kind"] == "fixed":
            return FixedAttr.of(value["shift"], value["ties"])
        case "rounding" if value["kind"] == "float_half_even":
            return FloatHalfEvenAttr()
        case str() if kind.endswith("[]"):
            element: Any = named_elements()[kind.removesuffix("[]")]
            numbers: list[Any] = [_parsed(number) for number in value]
            return DenseArrayBase.from_list(element, numbers)
        case _:
            return _number_attribute(named_elements()[kind], value)


def python_value(data: Mapping[str, Json], constants: Mapping[str, Array]) -> Any:
    """Reads typed JSON for a kernel: as a number, a text, a tuple of numbers, a read-only array, or
    the dictionary of a rounding.
    """
    kind, value = data["type"], data["value"]
    if kind == "constant":
        return constants[value].values()
    if kind == "rounding":
        return dict(value)
    if kind in ("string", "element"):
        return value
    return (
        tuple(map(_parsed, cast("list[Any]", value))) if isinstance(value, list) else _parsed(value)
    )


def _typed(kind: str, value: Json) -> dict[str, Json]:
    return {"type": kind, "value": value}


def _number(value: float) -> int | float | str:
    """Converts a number to one that JSON can hold: NaN and infinities become text."""
    return value if math.isfinite(value) else str(value)


def _parsed(value: float | str) -> int | float:
    """Converts a number back that `_number` gave."""
    return float(value) if isinstance(value, str) else value


def _number_attribute(element: Attribute, value: float | str) -> Attribute:
    number = _parsed(value)
    if is_float(element):
        return FloatAttr(number, cast(Any, element))
    if not is_integer(element) or number != int(number):
        raise ValueError(f"expected an integer, found {value!r}")
    return IntegerAttr(int(number), cast(IntegerType, element))
