"""Prints and parses the arguments of a body with the values that they stand for."""

from __future__ import annotations

from xdsl.ir import SSAValue
from xdsl.parser import Parser
from xdsl.printer import Printer


def print_binding(printer: Printer, argument: SSAValue, value: SSAValue) -> None:
    """Prints `%argument = %value : type`."""
    printer.print_ssa_value(argument)
    printer.print_string(" = ")
    printer.print_ssa_value(value)
    printer.print_string(" : ")
    printer.print_attribute(value.type)


def parse_binding(parser: Parser) -> tuple[Parser.Argument, SSAValue]:
    """Parses what `print_binding` prints."""
    name = parser.parse_argument(expect_type=False)
    parser.parse_punctuation("=")
    value = parser.parse_unresolved_operand()
    parser.parse_punctuation(":")
    type_ = parser.parse_type()
    return name.resolve(type_), parser.resolve_operand(value, type_)
