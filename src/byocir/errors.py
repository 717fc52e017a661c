"""Defines the one form in which users see that something is wrong: a message with a stable code.

Every error byocir raises for bad input is a `ByocirError`. Its first line says what was expected,
what was found and where; `help` says what to do. Codes never change their meaning:

| codes | subject |
| --- | --- |
| B1xx | files and models (import, packages, feeds) |
| B2xx | targets, patterns and passes |
| B3xx | a stage that cannot express what it was given (lowering, code generation) |
| B4xx | the C toolchain (`byocir.toolchain`) |
| V1xx | VTA streams and configurations (`byocir.vta_sim`) |
| S2xx | hazards of VTA streams (`byocir.vta_sim.HAZARDS`) |
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

MOST = 900
"""The most characters of a message, beside what a list of places has."""
SHARES = (440, 250, 210)
"""The characters that message, place and help keep of a text that would be longer."""
WORD = 200
"""The most characters of a name."""
FAILURES = (Exception, SystemExit)
"""The exceptions by which code of users fails: `sys.exit` there must not end byocir as if all were
well."""


class Lines(str):
    """Holds a text of several lines, such as a list of places, whose line ends byocir wrote itself:
    messages show them as they are.
    """

    @staticmethod
    def of(lines: Iterable[str], indent: int = 8) -> Lines:
        """Joins lines, each made printable and cut to a length that can be shown; all but the first
        are indented.
        """
        return Lines(("\n" + " " * indent).join(shortened(printable(line), MOST) for line in lines))


def printable(text: str) -> str:
    """Gives a text on one line, as messages show it. What a user wrote or a file holds may have
    characters that end lines, move the cursor or turn the direction of writing, and names of any
    length.
    """
    if isinstance(text, Lines):
        return text
    return _with_short_words(escaped(_with_short_words(text)))


def _with_short_words(text: str) -> str:
    if len(text) <= WORD:
        return text
    return " ".join(shortened(word, WORD) for word in text.split(" "))


def escaped(text: str) -> str:
    """Gives a text with an escape for each character that is not printable."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def shortened(text: str, limit: int) -> str:
    """Cuts the middle out of a text that is longer than this: the ends of a file's path or of a
    name tell most.
    """
    if len(text) <= limit:
        return text
    end = limit // 3
    return f"{text[: limit - end - 1]}…{text[-end:]}"


def fitted(*texts: str) -> list[str]:
    """Gives message, place and help as they are shown: each is shortened where all together are
    longer than `MOST`.
    """
    texts = tuple(map(printable, texts))
    if sum(len(text) for text in texts if not isinstance(text, Lines)) <= MOST:
        return [*texts]
    pairs = zip(texts, SHARES, strict=True)
    return [t if isinstance(t, Lines) else shortened(t, share) for t, share in pairs]


class ByocirError(Exception):
    """Tells a user what is wrong: in one message, never by a traceback.

    `code` is stable (tests and scripts may rely on it); `message` is lower-case and says what was
    expected and what was found; `where` names the file, node or op, on `Lines` if there are
    several; `help` says what to do. All are printable and short, whatever they are made from.
    """

    def __init__(self, code: str, message: str, *, where: str = "", help: str = "") -> None:
        self.code = code
        self.message, self.where, self.help = fitted(message, where, help)
        super().__init__(code, message)

    def __str__(self) -> str:
        return self.render()

    def at(self, where: str) -> None:
        """Sets the place of the error, unless it has one already."""
        self.where = self.where or shortened(printable(where), SHARES[1])

    def within(self, what: str) -> None:
        """Adds to the place of the error what that place is a part of: "line 3" → "line 3,
        model.onnx".
        """
        self.where = shortened(printable(f"{self.where}, {what}"), SHARES[1])

    def render(self) -> str:
        """Gives the message as the command line prints it, without a trailing newline."""
        lines = [f"error[{self.code}]: {self.message}"]
        if self.where:
            lines.append(f"  at    {self.where}")
        if self.help:
            lines.append(f"  help  {self.help}")
        return "\n".join(lines)


class CheckFailed(ByocirError):
    """Says that a computed result is not what it must be: the exit code is 3 instead of 1."""


class OwnMistake(ByocirError):
    """Says that byocir's part of a target, or a library that it calls, failed: a mistake of ours,
    so the exit code is 70 instead of 1. Its cause is the error itself.
    """


SHOWN = 12
"""Choices that a help line lists at most."""


def did_you_mean(name: str, choices: Sequence[str]) -> str:
    """Words the help line for a mistyped name: it names the nearest choice, else the choices that
    contain the name, else one that the name begins with, else the first few of all.
    """
    import difflib

    close = difflib.get_close_matches(name, choices, n=1)
    close = close or [choice for choice in choices if name.lower() in choice.lower()][:3]
    close = close or [c for c in sorted(choices, key=len) if len(c) > 2 and name.startswith(c)][-1:]
    if name and close:
        return f"did you mean {' or '.join(repr(choice) for choice in close)}?"
    if not choices:
        return "there are none"
    listed = sorted(choices)
    more = f", … ({len(listed)} in all)" if len(listed) > SHOWN else ""
    return f"choose from {', '.join(listed[:SHOWN])}{more}"
