"""The first line of a docstring is a sentence with a subject and a verb."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[1] / "src" / "byocir"

# "Of the inputs those that …", "Whether it fits.", "In which order …": no subject, or no verb; and
# "The bytes of …", which does for a class or a property; a function does something: "Gives …".
FRAGMENT = (
    "What Whether Which Whatever Where When How Why Of In For By At As With Without On From To"
    " Into Within Towards Between Before After Behind Beside Beyond Up Under Over Around Through"
    " Per Something Along Like Those That"
)
NOUN = "The A An"
OPENING = rf':\n +"""(?P<first>(?P<word>{"|".join(f"{FRAGMENT} {NOUN}".split())})\b.*)'
HEAD = r"\n *(?:async )?(?P<kind>def|class) (?P<name>\w+)"
# What is decorated is a property, a pattern or a rule: named as a thing, or it states what holds,
# as verdicts do.
STATES = re.compile(r"-> (bool|tuple\[bool, .*\])$")
HEAD_OR_OPENING = re.compile(f"{HEAD}|{OPENING}")


def wrong_in(text: str) -> Iterator[str]:
    head: re.Match[str] | None = None
    for found in HEAD_OR_OPENING.finditer(text):
        if found["kind"]:
            head = found
        elif head:
            signature = text[head.end() : found.start()]
            before = text[text.rfind("\n", 0, head.start()) + 1 : head.start()].strip()
            states = before.startswith(("@", ")")) or STATES.search(signature)
            is_noun = head["kind"] == "class" and found["word"] in NOUN.split()
            if not states and not is_noun and '"""' not in signature:
                yield f"{head['name']}: {found['first']}"


def test_docstrings_begin_with_sentences():
    assert not [
        f"{path.relative_to(SOURCES)}: {each}"
        for path in SOURCES.rglob("*.py")
        if "scaffold" not in path.parts
        for each in wrong_in(path.read_text())
    ]


def test_a_fragment_is_told():
    text = 'def f(x: int) -> int:\n    """{} the bytes."""\n'
    assert list(wrong_in("\n" + text.format("Of"))) == ['f: Of the bytes."""']
    assert not list(wrong_in("\n" + text.format("Gives")))
