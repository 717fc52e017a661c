"""Defines ops as xDSL does, but parses the formats of their text only when they are first needed.

xDSL parses each format when its class is made. That would take a fifteenth of the time of `byocir
targets`, and most programs have few of all ops.
"""

from __future__ import annotations

from functools import cache
from typing import TypeVar

from xdsl.ir import Operation
from xdsl.irdl import IRDLOperation, OpDef, OptOperandDef
from xdsl.irdl import irdl_op_definition as define_op
from xdsl.irdl.declarative_assembly_format import FormatProgram
from xdsl.parser import Parser
from xdsl.printer import Printer

from byocir.dialects.new_ops import new_op

_OpT = TypeVar("_OpT", bound=IRDLOperation)


def irdl_op_definition(kind: type[_OpT]) -> type[_OpT]:
    """Makes a class the definition of an op. Its assembly format is parsed when the first such op
    is read or printed. A class that has neither a format nor a printer of its own gets the format
    of a function: `$a, $b {attributes} : (types) -> types`. Its ops are made as `new_op` makes
    them.
    """
    text, kind.assembly_format = kind.assembly_format, None
    define_op(kind)
    definition = kind.get_irdl_definition()
    _expect_nothing_of_its_own(kind, definition)
    setattr(kind, "create", classmethod(new_op))  # noqa: B010
    if text is None and kind.print is not Operation.print:
        return kind
    text = text or _as_function(definition)
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


def _expect_nothing_of_its_own(kind: type[IRDLOperation], definition: OpDef) -> None:
    """Raises TypeError for a class whose ops `new_op` would not make as xDSL does: it sets no
    defaults of attributes, and calls nothing that a class does besides.
    """
    own = kind.__post_init__ is not IRDLOperation.__post_init__ or "create" in vars(kind)
    defaults = any(each.default_value is not None for each in definition.attributes.values())
    if own or defaults:
        told = "expected an op without create, __post_init__ and defaults of attributes"
        raise TypeError(f"{told}, found {kind.__name__}")


def _as_function(definition: OpDef) -> str:
    """Gives the assembly format of an op that is written as a function of its operands."""
    optional = {name for name, operand in definition.operands if isinstance(operand, OptOperandDef)}
    first, *others = (name for name, _ in definition.operands)
    more = "".join(f" (`,` ${n}^)?" if n in optional else f" `,` ${n}" for n in others)
    return f"${first}{more} attr-dict `:` functional-type(operands, results)"
