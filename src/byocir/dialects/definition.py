"""Defines ops as xDSL does, but looks at the formats of their text when they are first needed.

xDSL parses each format where its class is made: a fifteenth of the time of `byocir targets`, and
most programs have few of all ops.
"""

from __future__ import annotations

from functools import cache
from typing import TypeVar

from xdsl.irdl import IRDLOperation
from xdsl.irdl import irdl_op_definition as define_op
from xdsl.irdl.declarative_assembly_format import FormatProgram
from xdsl.parser import Parser
from xdsl.printer import Printer

_OpT = TypeVar("_OpT", bound=IRDLOperation)


def irdl_op_definition(kind: type[_OpT]) -> type[_OpT]:
    """Makes a class the definition of an op. Its format is parsed with the first op that is read or
    printed."""
    text = kind.assembly_format
    if text is None:
        return define_op(kind)
    kind.assembly_format = None
    define_op(kind)
    definition = kind.get_irdl_definition()
    kind.assembly_format = definition.assembly_format = text

    @cache
    def program() -> FormatProgram:
        return FormatProgram.from_str(text, definition)

    def parse(cls: type[_OpT], parser: Parser) -> _OpT:
        return program().parse(parser, cls)

    def print_op(self: _OpT, printer: Printer) -> None:
        program().print(printer, self)

    setattr(kind, "parse", classmethod(parse))  # noqa: B010
    setattr(kind, "print", print_op)  # noqa: B010
    return kind
