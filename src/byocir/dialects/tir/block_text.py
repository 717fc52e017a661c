"""Writes and parses the text of `tir.block`: iterators, accesses, guards."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.parser import Parser
from xdsl.printer import Printer

from byocir.dialects.tir.affine import format_expr, parse_expr
from byocir.dialects.tir.iterators import IteratorAttr, IteratorKind
from byocir.dialects.types import shape_of

Access = tuple[SSAValue, AffineMap, Attribute | None]
"""An operand, its index map and its pad."""


def format_iterators(iterators: Sequence[IteratorAttr]) -> str:
    """Writes iterators: `m: 4, n: 8 | k: 16`. A reduction in front of a parallel iterator is marked
    `k: 16 reduction` instead, because the order of iterators is part of the block.
    """
    last_parallel = max((i for i, it in enumerate(iterators) if not it.is_reduction), default=-1)
    text = ""
    for i, iterator in enumerate(iterators):
        opens_tail = iterator.is_reduction and i == last_parallel + 1
        text += (" | " if text else "| ") if opens_tail else (", " if i else "")
        text += f"{iterator.iterator_name.data}: {iterator.extent.data}"
        if iterator.is_reduction and i < last_parallel:
            text += " reduction"
    return text


def parse_iterators(parser: Parser) -> list[IteratorAttr]:
    """Parses the text that `format_iterators` prints, in brackets."""
    iterators: list[IteratorAttr] = []
    kind = IteratorKind.PARALLEL
    parser.parse_punctuation("[")
    while parser.parse_optional_punctuation("]") is None:
        if parser.parse_optional_punctuation("|") is not None:
            kind = IteratorKind.REDUCTION
        elif iterators:
            parser.parse_punctuation(",")
        name = parser.parse_identifier()
        parser.parse_punctuation(":")
        extent = parser.parse_integer(allow_boolean=False)
        marked = parser.parse_optional_keyword("reduction") is not None
        iterators.append(IteratorAttr.of(name, IteratorKind.REDUCTION if marked else kind, extent))
    return iterators


def print_access(
    printer: Printer,
    value: SSAValue,
    map_: AffineMap,
    names: Sequence[str],
    pad: Attribute | None,
    *,
    first: bool,
) -> None:
    """Prints `%a[m, k] pad 0 : tensor<…>`, after a comma unless it is the first; an array that is
    given whole has no index.
    """
    printer.print_string("" if first else ", ")
    printer.print_ssa_value(value)
    if map_.results or not shape_of(value.type):
        printer.print_string(f"[{', '.join(format_expr(e, names) for e in map_.results)}]")
    if pad is not None:
        printer.print_string(" pad ")
        printer.print_attribute(pad)
    printer.print_string(" : ")
    printer.print_attribute(value.type)


def parse_accesses(parser: Parser, names: Sequence[str]) -> list[Access]:
    """Parses values and where they are accessed: `(%a[m, k] : tensor<…>, %b[k, n] pad 0 :
    tensor<…>)`.
    """
    return parser.parse_comma_separated_list(
        parser.Delimiter.PAREN, lambda: _parse_access(parser, names)
    )


def _parse_access(parser: Parser, names: Sequence[str]) -> Access:
    unresolved = parser.parse_unresolved_operand()
    exprs = parser.parse_optional_comma_separated_list(
        parser.Delimiter.SQUARE, lambda: parse_expr(parser, names)
    )
    pad = parser.parse_attribute() if parser.parse_optional_keyword("pad") is not None else None
    parser.parse_punctuation(":")
    value = parser.resolve_operand(unresolved, parser.parse_type())
    return value, AffineMap(len(names), 0, tuple(exprs or ())), pad


def parse_guard(parser: Parser, names: Sequence[str]) -> AffineExpr:
    """Parses what must hold for an iteration to run: `i + j - 3 >= 0`."""
    expr = parse_expr(parser, names)
    parser.parse_punctuation(">")
    parser.parse_punctuation("=")
    parser.parse_characters("0")
    return expr
