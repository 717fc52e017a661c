"""xDSL's lexer, several times as fast on what modules mostly consist of."""

from __future__ import annotations

import re

from xdsl.utils.lexer import Span, Token
from xdsl.utils.mlir_lexer import (
    KIND_BY_PUNCTUATION_SPELLING,
    MLIRLexer,
    MLIRToken,
    MLIRTokenKind,
    StringLiteral,
)

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
    """xDSL's lexer, but it finds common tokens by one regular expression, and what is UTF-8 is a
    string, also with escapes for what is not ASCII, as they are printed: xDSL takes it for
    bytes."""

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
