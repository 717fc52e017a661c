"""Defines the constant op: an array known by its content."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import LocationAttr, TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import prop_def, result_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import ConstantLike

from byocir.dialects.array import Array, ArrayAttr
from byocir.dialects.byoc import keep_stored
from byocir.dialects.definition import irdl_op_definition
from byocir.dialects.graph.base import GraphOp
from byocir.dialects.tir.emit import Emitter


@irdl_op_definition
class ConstantOp(GraphOp):
    """Gives a constant tensor, e.g. `%w = graph.constant #graph.array<[1, 2] : tensor<2xi8>>`.

    Large arrays print as their digest; see `byocir.dialects.array`.
    """

    name = "graph.constant"

    value = prop_def(ArrayAttr)
    result = result_def(TensorType)
    traits = traits_def(ConstantLike())

    @classmethod
    def parse(cls, parser: Parser) -> ConstantOp:
        # Not declarative: that would drop the attribute's name and repeat its type.
        value = parser.parse_attribute()
        attributes = parser.parse_optional_attr_dict()
        if not isinstance(value, ArrayAttr):
            parser.raise_error("expected an array, #graph.array<...>")
        constant = ConstantOp.make(value=value)
        constant.attributes.update(attributes)
        return constant

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_attribute(self.value)
        printer.print_op_attributes(self.attributes)

    def infer(self) -> Sequence[TensorType]:
        return [self.value.data.type]

    @staticmethod
    def of(values: np.ndarray | Array, location: LocationAttr | None = None) -> ConstantOp:
        """Makes the constant with these values."""
        array = values if isinstance(values, Array) else Array.of(values)
        return ConstantOp.make(value=ArrayAttr(array), location=location)

    def define(self, emit: Emitter) -> SSAValue:
        made = emit.constant(self.value.data)
        assert isinstance(made.owner, Operation)
        keep_stored(self, made.owner)
        return made
