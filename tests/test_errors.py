"""What messages look like, whatever they are made from."""

import pytest

from byocir.errors import ByocirError, Lines
from byocir.vta_sim import VTAError

NAMES = {
    "null": "a\0b",
    "escape": "\x1b[31mred\x1b[0m",
    "line": "a\nerror[B000]: forged",
    "backwards": "a\u202egpj.exe",
    "surrogate": "\udcff\ud800",
    "separators": "a\u2028b\u2029c\x85d\u200be",
    "long": "n" * 8000,
    "long and wide": "\U000e0001" * 5000,
    "words": "word " * 2000,
}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_messages_are_short_and_printable(name):
    found = f"expected a node, found '{name}'"
    for error in (
        ByocirError("B103", found, where=f"node '{name}'", help=f"rename {name}"),
        ByocirError("B103", found, where=Lines.of(["two", "lines"])),
        VTAError("V108", f"no {name}", f"a {name}", where=name),
    ):
        text = str(error)
        assert len(text) <= 1024
        assert all(line.isprintable() for line in text.split("\n"))
        assert sum(line.startswith("error[") for line in text.split("\n")) == 1
        assert text.startswith(f"error[{error.code}]: expected")


def test_both_ends_of_a_long_name_are_told():
    error = ByocirError("B103", f"found '{'first/' + 'x/' * 4000 + 'last'}' here")
    assert "'first/x/x" in error.message
    assert error.message.endswith("x/last' here")


def test_a_message_that_is_raised_again_stays_as_it_is():
    lines = Lines.of(["one", "tw\0o"])
    first = ByocirError("B103", "a\0" + "b" * 500, where=lines, help="c " * 900)
    again = ByocirError(first.code, first.message, where=first.where, help=first.help)
    assert again.render() == first.render()


def test_what_is_added_to_an_error_is_told():
    error = ByocirError("B106", "expected a size")
    error.help = "a size is 1 or more"
    assert str(error).endswith("  help  a size is 1 or more")
