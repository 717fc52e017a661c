"""Defines types and attributes of ONNX for which MLIR's builtin dialect has no form."""

from __future__ import annotations

import math
from typing import NamedTuple

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, Data, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from byocir.dialects.array import ArrayAttr
from byocir.dialects.checks import expect
from byocir.dialects.types import Shape


@irdl_attr_definition
class StringType(ParametrizedAttribute, TypeAttribute):
    """Describes the element type of tensors of strings, e.g. `tensor<2x!graph.string>`."""

    name = "graph.string"


@irdl_attr_definition
class UnknownType(ParametrizedAttribute, TypeAttribute):
    """Describes a value whose type nothing tells, such as a result of an operator without a
    schema."""

    name = "graph.unknown"


@irdl_attr_definition
class SequenceType(ParametrizedAttribute, TypeAttribute):
    """Describes a list of values of one type, e.g. `!graph.sequence<tensor<?xf32>>`."""

    name = "graph.sequence"

    element: Attribute


@irdl_attr_definition
class OptionalType(ParametrizedAttribute, TypeAttribute):
    """Describes a value that may be absent, e.g. `!graph.optional<tensor<2xf32>>`."""

    name = "graph.optional"

    element: Attribute


@irdl_attr_definition
class MapType(ParametrizedAttribute, TypeAttribute):
    """Describes a dictionary with keys of an integer or string type, e.g. `!graph.map<i64,
    tensor<f32>>`."""

    name = "graph.map"

    key: Attribute
    value: Attribute


@irdl_attr_definition
class SparseTensorType(ParametrizedAttribute, TypeAttribute):
    """Describes a tensor of which only some elements are kept, e.g.
    `!graph.sparse<tensor<4x4xf32>>`."""

    name = "graph.sparse"

    tensor: Attribute


@irdl_attr_definition
class FloatsAttr(ParametrizedAttribute):
    """Holds a list of f32 numbers that is no tensor, e.g. `#graph.floats<#graph.array<[0.5] :
    tensor<1xf32>>>`."""

    name = "graph.floats"

    values: ArrayAttr

    def verify(self) -> None:
        array = self.values.data
        if array.dtype.name != "float32" or len(array.shape) != 1:
            raise VerifyException(f"expected a list of f32, found {array.type}")


class Strings(NamedTuple):
    """Holds a tensor of strings: its shape, and its elements in row-major order."""

    shape: Shape
    elements: tuple[str, ...]


@irdl_attr_definition
class StringsAttr(Data[Strings]):
    """Holds a constant tensor of strings, e.g. `#graph.strings<[2], ["yes", "no"]>`."""

    name = "graph.strings"

    def verify(self) -> None:
        count = math.prod(self.data.shape)
        found = len(self.data.elements)
        expect(found == count, f"expected {count} strings, found {found}")

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Strings:
        square = parser.Delimiter.SQUARE
        with parser.in_angle_brackets():
            shape = parser.parse_comma_separated_list(square, parser.parse_integer)
            parser.parse_punctuation(",")
            elements = parser.parse_comma_separated_list(square, parser.parse_str_literal)
        return Strings(tuple(shape), tuple(elements))

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(f"[{', '.join(map(str, self.data.shape))}], [")
            printer.print_list(
                self.data.elements, lambda text: printer.print_attribute(StringAttr(text))
            )
            printer.print_string("]")


TYPES = (MapType, OptionalType, SequenceType, SparseTensorType, StringType, UnknownType)
ATTRIBUTES = (FloatsAttr, StringsAttr)
