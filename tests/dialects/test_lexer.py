"""The quick lexer against xDSL's, which it stands for."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from xdsl.utils.exceptions import ParseError
from xdsl.utils.lexer import Input
from xdsl.utils.mlir_lexer import MLIRLexer, MLIRTokenKind

from byocir.dialects.text import QuickLexer

PIECES = [
    *(
        "%0",
        "%x#1",
        "#-}",
        "{-#",
        "{-",
        "#a-b",
        "^bb0",
        "!t.u",
        "@f",
        '@"g"',
        "loc(",
        '"a\\22b"',
        '"a b"',
        '""',
    ),
    *("0x1F", "0xi32", "4x4xf32", "0", "007", "1.5e-3", "12.", "3e5", "-1", "->", "--", "...", "."),
    *("_a$.b", "tir.block", "é", "/", "//c\n", "// c", " ", "\n", "\t", "\v", "*", "|", "?", "+"),
    *("(", ")", "[", "]", "<", ">", "=", ":", ",", "}", "#", "%", "^", "!", "@", '"', "\\"),
]


def tokens(lexer: MLIRLexer) -> list[tuple[object, ...]]:
    """Kind and place of each token, and the error at the end if there is one."""
    found: list[tuple[object, ...]] = []
    while not found or found[-1][0] is not MLIRTokenKind.EOF:
        try:
            token = lexer.lex()
        except ParseError as error:
            return [*found, (error.msg, error.span.start, error.span.end)]
        found.append((token.kind, token.span.start, token.span.end))
    return found


@pytest.mark.hypothesis
@example("".join(PIECES))
@example(" ".join(PIECES))
@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_tokens_are_those_of_xdsl(text):
    source = Input(text, "input")
    assert tokens(QuickLexer(source)) == tokens(MLIRLexer(source))


def test_most_tokens_take_one_step(monkeypatch):
    def slow(lexer):
        raise AssertionError(lexer.input.content[lexer.pos :])

    monkeypatch.setattr(MLIRLexer, "lex", slow)
    text = '%y:2 = tir.block "t.é" [m: 4 | k: 16] ins(%a[m, k] : tensor<4x16xi8>) { ^bb0(): } loc('
    lexer = QuickLexer(Input(text, "input"))
    while lexer.pos < len(text):
        lexer.lex()
