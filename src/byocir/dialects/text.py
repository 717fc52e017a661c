"""Prints modules with the locations that are known, and reads them with errors that point at the
place.

Printing and reading back loses nothing but the bytes of large arrays, which travel beside the text
(`byocir.dialects.weights`).

| code | what is wrong |
| --- | --- |
| B120 | the text cannot be read |
| B121 | the text can be read, but an op in it breaks a rule |
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from io import StringIO
from typing import Any, TypeVar

from xdsl.context import Context
from xdsl.dialects.builtin import (
    UNKNOWN_LOC,
    FusedLoc,
    LocationAttr,
    MemRefType,
    ModuleOp,
    TensorType,
)
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue, TypeAttribute
from xdsl.parser import Parser, ParserState
from xdsl.printer import Printer
from xdsl.utils.exceptions import DiagnosticException, ParseError
from xdsl.utils.lexer import Input, Span, Token
from xdsl.utils.mlir_lexer import (
    KIND_BY_PUNCTUATION_SPELLING,
    MLIRLexer,
    MLIRToken,
    MLIRTokenKind,
    StringLiteral,
)
from xdsl.utils.scoped_dict import ScopedDict

from byocir.dialects.array import ArrayStore, ByocirContext
from byocir.dialects.body_facts import BodyFacts
from byocir.dialects.context import load_context
from byocir.dialects.dominance import InvalidOp, describe
from byocir.dialects.gc_pause import gc_paused
from byocir.dialects.locations import named
from byocir.dialects.tir import BlockOp
from byocir.dialects.verify import verify_module
from byocir.dialects.weights import parts_of
from byocir.errors import ByocirError, Lines, did_you_mean
from byocir.vendor.user_code import IN_A_FILE

T = TypeVar("T")
_WIDTH = 96
"""The number of characters of a long source line that a message shows."""


def _escaped(byte: int) -> str:
    if byte == ord("\\"):
        return "\\\\"
    return chr(byte) if 0x20 <= byte < 0x7F and byte != ord('"') else f"\\{byte:02X}"


_LITERAL = [_escaped(byte) for byte in range(256)]
"""The text of each byte inside a literal, as MLIR escapes it."""


@dataclass(eq=False, repr=False)
class ModulePrinter(Printer):
    """Prints as xDSL does, but leaves out locations that are unknown."""

    debuginfo: bool = True
    """Asks for the locations that are known."""

    _texts: dict[int, tuple[Attribute, str]] = field(
        default_factory=dict[int, tuple[Attribute, str]]
    )
    """The fused locations and the types of arrays that were printed, by identity, and their text,
    of locations that inside `loc(…)`: ops and values share them."""

    _bodies: defaultdict[int, BodyFacts[_BodyText | None]] = field(
        default_factory=lambda: defaultdict(BodyFacts)
    )
    """The texts of the bodies of blocks, by how far they are indented."""

    def print_string(self, text: str, *, indent: int | None = None) -> None:
        """Prints text; most of it is part of a line, which xDSL prints in three times the time."""
        if self.stream is None or "\n" in text:
            super().print_string(text, indent=indent)
            return
        self._current_column += len(text)
        self.stream.write(text)

    def print_attribute(self, attribute: Attribute) -> None:
        is_location = isinstance(attribute, FusedLoc)
        if not is_location and type(attribute) not in (TensorType, MemRefType):
            super().print_attribute(attribute)
            return
        if id(attribute) not in self._texts:
            out = StringIO()
            Printer(stream=out, printing_location=is_location).print_attribute(attribute)
            self._texts[id(attribute)] = attribute, out.getvalue()
        text = self._texts[id(attribute)][1]
        self.print_string(f"loc({text})" if is_location and not self.printing_location else text)

    def print_bytes_literal(self, bytestring: bytes) -> None:
        """Prints bytes in one go, where xDSL prints byte by byte."""
        self.print_string(f'"{"".join([_LITERAL[byte] for byte in bytestring])}"')

    def print_op(self, op: Operation) -> None:
        outer = self._mention(op.location)
        super().print_op(op)
        self.print_debuginfo = outer

    def print_block_argument(self, arg: BlockArgument, print_type: bool = True) -> None:
        outer = self._mention(arg.location)
        super().print_block_argument(arg, print_type)
        self.print_debuginfo = outer

    def print_region(
        self,
        region: Region,
        print_entry_block_args: bool = True,
        print_empty_block: bool = True,
        print_block_terminators: bool = True,
    ) -> None:
        """Prints a region. The bodies of blocks, which are alike in programs of machines, are
        printed once and then repeated, with other numbers for their values.
        """
        text = self._body_text(region)
        if text is None or self.stream is None:
            shown = print_entry_block_args, print_empty_block, print_block_terminators
            super().print_region(region, *shown)
            return
        self.stream.write(text.from_number(self._next_valid_name_id[-1]))
        self._next_valid_name_id[-1] += text.values
        self._current_column = self._indent * self.indent_num_spaces + 1

    def _body_text(self, region: Region) -> _BodyText | None:
        """Gives the text of the body of a block, whose values have numbers; None for another
        region, or values with names."""
        body = region.first_block
        if body is None or type(region.parent) is not BlockOp or self.diagnostic.op_messages:
            return None
        return self._bodies[self._indent].of(body, lambda: self._printed(region, body))

    def _printed(self, region: Region, body: Block) -> _BodyText | None:
        results = [result for op in body.ops for result in op.results]
        values = [*body.args, *results]
        if any(value.name_hint for value in values):
            return None
        out = StringIO()
        printer = replace(self, stream=out)
        printer._indent = self._indent
        for n, value in enumerate(values):
            printer._ssa_values[value] = f"\0{n}\0"
        Printer.print_region(printer, region)
        pieces = out.getvalue().split("\0")
        return _BodyText(pieces, [int(n) for n in pieces[1::2]], len(values))

    def _mention(self, location: LocationAttr) -> bool:
        """Chooses whether the location of what is printed next is shown; gives the previous
        choice.
        """
        outer = self.print_debuginfo
        self.print_debuginfo = self.debuginfo and location != UNKNOWN_LOC
        return outer


@dataclass(frozen=True)
class _BodyText:
    """Holds the text of a body in pieces: every second one is the number of a value, counted from
    the first of the body."""

    pieces: Sequence[str]
    numbers: Sequence[int]
    values: int
    """The number of values that the body defines."""

    def from_number(self, first: int) -> str:
        """Gives the text in which values are numbered from here on."""
        pieces = [*self.pieces]
        pieces[1::2] = [str(first + number) for number in self.numbers]
        return "".join(pieces)


def print_module(module: ModuleOp, *, debuginfo: bool = True) -> str:
    """Prints the text of a module, ending in a newline; `debuginfo=False` omits all locations."""
    out = StringIO()
    ModulePrinter(stream=out, debuginfo=debuginfo).print_op(module)
    return out.getvalue() + "\n"


def parse_module(
    text: str,
    context: Context | None = None,
    arrays: ArrayStore | None = None,
    *,
    file: str = "input",
) -> ModuleOp:
    """Parses a text and gives the verified module.

    `arrays` are where digests find their values; without it, those of the context. Raises
    ByocirError B120 or B121, at a position in `file`.
    """
    context = context or load_context()
    if arrays is not None:
        known = context.clone()
        context = known if isinstance(known, ByocirContext) else load_context()
        context.arrays = arrays
    spans: dict[Operation, Span] = {}
    try:
        with gc_paused():
            module = SourceParser(context, text, file, spans).parse_module()
        verify_module(module)
    except (ParseError, DiagnosticException) as error:
        raise text_error(error, context, spans, file) from error
    return module


def parse_type(text: str, context: Context) -> TypeAttribute:
    """Parses a text that is one type and nothing else. Raises ByocirError B120 or B121."""
    try:
        parser = SourceParser(context, text, "a type", {})
        found = parser.parse_type()
        if parser.pos != len(text):
            parser.raise_error("expected the end of a type")
    except (ParseError, DiagnosticException) as error:
        raise text_error(error, context, {}, "a type") from error
    return found


def text_error(
    error: ParseError | DiagnosticException,
    context: Context,
    spans: Mapping[Operation, Span],
    file: str,
) -> ByocirError:
    """Turns an error in a text into a user error; `spans` says where its ops stand."""
    if isinstance(error, ParseError):
        return ByocirError(
            "B120", _sentence(error.msg), where=_position(error.span), help=_hint(error, context)
        )
    if isinstance(error, InvalidText):
        return ByocirError("B121", _sentence(str(error)), where=_position(error.span))
    where = file
    if isinstance(error, InvalidOp):
        span = spans.get(error.op)
        where = _position(span) if span else f"{describe(error.op)} in {file}"
    return ByocirError("B121", _sentence(str(error)), where=where)


def _sentence(message: str) -> str:
    """Rewords a message of xDSL in our form: lower-case, no full stop."""
    message = message.strip().rstrip(".")
    return message[:1].lower() + message[1:]


def _position(span: Span | Span[bytes]) -> str:
    """Words a place in a text: `file:line:col`, then the line itself with a caret below."""
    text = span.input.content
    assert isinstance(text, str)
    begin = span.input.get_start_of_line(span.start)
    line = text[begin : span.input.get_end_of_line(span.start)].removesuffix("\r")
    column = span.start - begin
    left = max(0, min(column - _WIDTH // 2, len(line) - _WIDTH))
    shown = line[left : left + _WIDTH].replace("\t", " ")
    carets = "^" * max(1, min(span.len, left + len(shown) - column))
    return Lines.of([str(span.get_location()), shown, f"{' ' * (column - left)}{carets}"], 4)


def _hint(error: ParseError, context: Context) -> str:
    """Words the help line for an op that is not known; empty for other errors."""
    if not isinstance(error, UnknownOp):
        return ""
    dialect = error.name.split(".")[0]
    if dialect not in context.registered_dialect_names:
        near = did_you_mean(dialect, list(context.registered_dialect_names))
        given = f"if '{dialect}' is a target's own dialect, the target's file is {IN_A_FILE}"
        return near if near.startswith("did") else f"{near}; {given}"
    ops = [op.name for op in context.loaded_ops if op.name.startswith(f"{dialect}.")]
    return did_you_mean(error.name, ops)


class InvalidText(DiagnosticException):
    """Says that an attribute or type breaks a rule while it is read."""

    def __init__(self, message: str, span: Span) -> None:
        super().__init__(message)
        self.span = span


@dataclass
class UnknownOp(ParseError):
    """Says that no dialect has an op of this name; the position is where it begins."""

    name: str


class SourceParser(Parser):
    """Parses as xDSL does, remembers where each op stands, and fails in two ways only: by
    ParseError for text that cannot be read, by InvalidText for a type or attribute that breaks a
    rule.
    """

    def __init__(
        self,
        context: Context,
        text: str,
        file: str,
        spans: dict[Operation, Span],
        line_offset: int = 0,
    ) -> None:
        """Begins with a text; the places of ops go into `spans`, and `line_offset` counts the lines
        of the file in front of the text.
        """
        _check_strings(Input(text, file), line_offset)
        super().__init__(context, text, file)
        self._parser_state = ParserState(QuickLexer(Input(text, file)))
        self.ssa_values: Any = _Names()
        self.attribute_aliases = _Aliases(self, max(LEAST_PARTS, PARTS * len(text)))
        self._types: dict[str, TypeAttribute] = {}
        self._locations: dict[str, LocationAttr] = {}
        self.spans = spans
        self.line_offset = line_offset

    def parse_operation(self) -> Operation:
        start = self._here()
        try:
            op = super().parse_operation()
        except (InvalidText, UnknownOp):
            raise
        except DiagnosticException as error:
            raise InvalidText(str(error), start) from error
        except ParseError as error:
            unknown = re.fullmatch(r"Operation (\S+) is not registered", error.msg)
            if unknown is None:
                raise
            raise UnknownOp(start, error.msg, unknown[1]) from error
        self.spans[op] = start
        return op

    def parse_module(self, allow_implicit_module: bool = True) -> ModuleOp:
        try:
            return super().parse_module(allow_implicit_module)
        except (ParseError, InvalidText, ByocirError):
            raise
        except DiagnosticException as error:
            raise InvalidText(str(error), self._here()) from error
        except RecursionError as error:
            raise ParseError(self._here(), "expected fewer levels of nesting") from error
        except Exception as error:  # any exception that a text can trigger is an error in the text
            found = f"{type(error).__name__}: {error}"
            raise ParseError(self._here(), f"expected readable text, found {found}") from error

    def parse_optional_region(
        self, arguments: Iterable[Parser.Argument] | None = None
    ) -> Region | None:
        """Parses a region, which opens a scope; xDSL would copy all visible names for each
        region.
        """
        outer = self.ssa_values
        self.ssa_values = _Names(outer)
        try:
            return super().parse_optional_region(arguments)
        finally:
            self.ssa_values = outer

    def parse_optional_type(self) -> TypeAttribute | None:
        """Parses a type. Plain types are read once and remembered: a module has few of them and
        writes them often.
        """
        return self._read_once(_PLAIN_TYPE, self._types, super().parse_optional_type)

    def parse_optional_location(self) -> LocationAttr | None:
        """Parses a location. Those with one name, which most ops have, are read in one go, and
        those with several names once: all ops of a layer have the same.
        """
        name = _NAME.match(self.lexer.input.content, self.pos)
        if name is None:
            return self._read_once(_NAMES, self._locations, super().parse_optional_location)
        self._resume_from(name.end())
        return named(name[1])

    def _read_once(
        self, plain: re.Pattern[str], known: dict[str, T], parse: Callable[[], T | None]
    ) -> T | None:
        """Parses what stands here. If its text is plain, it is remembered, and not parsed again."""
        text = plain.match(self.lexer.input.content, self.pos)
        if text is None:
            return parse()
        if text[0] in known:
            self._resume_from(text.end())
            return known[text[0]]
        found = parse()
        if found is not None:
            known[text[0]] = found
        return found

    def _here(self) -> Span:
        return Span(self.pos, self.pos + 1, self.lexer.input, self.line_offset)


class _Names(ScopedDict[str, tuple[SSAValue, ...]]):
    """Holds the values that a region can name, its own and those around it."""

    def copy(self) -> _Names:
        """Gives this scope itself to xDSL's parser, which wants a copy before it reads a region:
        each region has a scope of its own anyway.
        """
        return self


LEAST_PARTS, PARTS = 2**18, 8
"""Attributes and types that aliases may stand for: at least so many, or so many for each character
of the text. Aliases of aliases double with each line."""


class _Aliases(dict[str, Attribute]):
    """Holds aliases of attributes and types, and counts how much they stand for where they are
    used, so that a short text cannot become huge.
    """

    def __init__(self, parser: SourceParser, most: int) -> None:
        super().__init__()
        self._parser, self._left = parser, most
        self._sizes: dict[str, int] = {}
        self._known: dict[int, int] = {}
        """The sizes of aliases by the identity of what they stand for."""

    def __setitem__(self, name: str, value: Attribute) -> None:
        super().__setitem__(name, value)
        self._sizes[name] = self._known[id(value)] = self._size(value)

    def __getitem__(self, name: str) -> Attribute:
        self._left -= self._sizes[name]
        if self._left < 0:
            self._parser.raise_error("expected fewer attributes and types behind aliases")
        return super().__getitem__(name)

    def _size(self, attribute: Attribute) -> int:
        known = self._known.get(id(attribute))
        return 1 + sum(map(self._size, parts_of(attribute))) if known is None else known


_NAME = re.compile(r'loc\("([ !#-\[\]-~]*)"\)')
"""The location of a name without escapes, as it is printed."""
_NAMES = re.compile(r'loc\(fused\["[ !#-\[\]-~]*"(?:, "[ !#-\[\]-~]*")*+\]\)')
"""The location of several such names, as it is printed."""
_PLAIN_TYPE = re.compile(
    r"""(?: tensor< (?:[0-9]+x)*+ [a-z]+[0-9]+ >
          | memref< (?:[0-9]+x)*+ [a-z]+[0-9]+ (?:,\ "[\w.]*")?+ >
          | (?:[fi]|bf)[0-9]+(?![\w$.]) )""",
    re.ASCII | re.X,
)
"""Types of numbers, and of tensors and memory of static shape; of memory, also the scope."""
_STRINGS = re.compile(
    r"""//[^\n]* | "(?: [^"\\\n\v\f] | \\["nt\\] | \\[0-9A-Fa-f]{2} )*+" | (?P<broken>")""", re.X
)
"""Comments and string literals, else the quote of a string that does not end on its line."""


def _check_strings(source: Input, line_offset: int) -> None:
    """Raises ParseError at a string that does not end: xDSL's lexer would take exponential time on
    it.
    """
    for match in _STRINGS.finditer(source.content):
        if match["broken"]:
            span = Span(match.start(), match.end(), source, line_offset)
            raise ParseError(span, "expected a valid string that ends on its line")


_SUFFIX = r"(?:[0-9]+|[a-zA-Z$._-][a-zA-Z0-9$._-]*+)"
_COMMON = re.compile(
    rf"""
    (?:\s++ | //[^\n]*+\n?)*+
    (?: (?P<BARE_IDENT>[a-zA-Z_][a-zA-Z0-9_$.]*+)
      | (?P<PERCENT_IDENT>%{_SUFFIX})
      | (?P<HASH_IDENT>\#(?!-}}){_SUFFIX})
      | (?P<CARET_IDENT>\^{_SUFFIX})
      | (?P<INTEGER_LIT>(?:[1-9][0-9]*+|0(?![0-9x]))(?!\.))
      | (?P<STRING_LIT>"[^"\\\n\v\f]*+")
      | (?P<punctuation>->|[:,()}}\[\]<>=+/*?|]|\{{(?!-\#)) )
    """,
    re.ASCII | re.VERBOSE,
)
"""Blanks and comments, then one of the tokens that can be told by their text alone."""
_KINDS = {name: MLIRTokenKind[name] for name in _COMMON.groupindex if name.isupper()}


class QuickLexer(MLIRLexer):
    """Reads tokens as xDSL's lexer does, but finds common ones by one regular expression, and takes
    what is UTF-8 for a string, also where it has escapes for characters beyond ASCII, as printed
    text does: xDSL takes that for bytes.
    """

    def lex(self) -> MLIRToken:
        match = _COMMON.match(self.input.content, self.pos)
        if match is None:
            return super().lex()
        group = match.lastgroup
        assert group is not None
        start, self.pos = match.span(group)
        kind = _KINDS.get(group) or KIND_BY_PUNCTUATION_SPELLING[match[group]]
        return Token(kind, Span(start, self.pos, self.input))

    def _lex_string_literal(self, start_pos: int) -> MLIRToken:
        token = super()._lex_string_literal(start_pos)
        if token.kind is not MLIRTokenKind.BYTES_LIT:
            return token
        try:
            StringLiteral.from_span(token.span).bytes_contents.decode()
        except UnicodeDecodeError:
            return token
        return Token(MLIRTokenKind.STRING_LIT, token.span)
