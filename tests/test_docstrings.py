"""The first line of a docstring is a sentence with a subject and a verb."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCES = Path(__file__).resolve().parents[1] / "src" / "byocir"

# "Of the inputs those that …", "Whether it fits.", "In which order …": no subject, or no verb.
FRAGMENT = re.compile(
    "(What|Whether|Which|Whatever|Where|When|How|Why|Of|In|For|By|At|As|With|Without|On|From|To"
    "|Into|Within|Towards|Between|Before|After|Behind|Beside|Beyond|Up|Under|Over|Around|Through"
    r"|Per|Something|Along|Like|Those|That)\b"
)
# "The bytes of …": a function does something, "Gives …".
NOUN = re.compile(r"(The|A|An|All|Each|One|Base|Raised|Decorator)\b")
# Classes and properties do something, too: "Describes a machine …", "Counts the rows …".
VERB = re.compile(r"[A-Z][a-z]+s\b")
PROPERTY = ("@property", "@cached_property", "@abstractmethod", "@override")
# What is decorated otherwise is a pattern or a rule: named as a thing, or it states what holds, as
# verdicts do.
STATES = re.compile(r"-> (bool|tuple\[bool, .*\])$")
HEAD = r"\n *(?:async )?(?P<kind>def|class) (?P<name>\w+)"
HEAD_OR_OPENING = re.compile(HEAD + r'|:\n +"""(?P<first>.*)')


def wrong_in(text: str) -> Iterator[str]:
    if FRAGMENT.match(text, 3):
        yield text[: text.index("\n")]
    head: re.Match[str] | None = None
    for found in HEAD_OR_OPENING.finditer(text):
        if found["kind"]:
            head = found
        elif head:
            signature = text[head.end() : found.start()]
            before = text[text.rfind("\n", 0, head.start()) + 1 : head.start()].strip()
            if '"""' not in signature and is_wrong(head["kind"], before, signature, found["first"]):
                yield f"{head['name']}: {found['first']}"


def is_wrong(kind: str, before: str, signature: str, first: str) -> bool:
    if kind == "class" or before in PROPERTY:
        return not VERB.match(first)
    states = before.startswith(("@", ")")) or STATES.search(signature)
    return not states and bool(FRAGMENT.match(first) or NOUN.match(first))


def test_docstrings_begin_with_sentences():
    assert not [
        f"{path.relative_to(SOURCES)}: {each}"
        for path in SOURCES.rglob("*.py")
        for each in wrong_in(path.read_text())
    ]


def test_a_fragment_is_told():
    text = 'def f(x: int) -> int:\n    """{} the bytes."""\n'
    assert list(wrong_in("\n" + text.format("Of"))) == ['f: Of the bytes."""']
    assert not list(wrong_in("\n" + text.format("Gives")))
    assert list(wrong_in('"""Of all bytes."""\n')) == ['"""Of all bytes."""']


@pytest.mark.parametrize("head", ["class C:", "@property\ndef p(self) -> int:"])
def test_classes_and_properties_do_something(head: str):
    text = f'\n@dataclass\n{head}\n    """{{}} the bytes."""\n'
    assert not list(wrong_in(text.format("Counts")))
    assert len(list(wrong_in(text.format("Base of")))) == 1
    assert len(list(wrong_in(text.format("The number of")))) == 1
