"""What a user sees when something is wrong: one message with a stable code.

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

from collections.abc import Sequence


class ByocirError(Exception):
    """A user error: one message, never a traceback.

    `code` is stable (tests and scripts may rely on it); `message` is lower-case and says what was
    expected and what was found; `where` names the file, node or op; `help` says what to do.
    """

    def __init__(self, code: str, message: str, *, where: str = "", help: str = "") -> None:
        self.code = code
        self.message = message
        self.where = where
        self.help = help
        super().__init__(self.render())

    def render(self) -> str:
        """The message as the command line prints it, without a trailing newline."""
        lines = [f"error[{self.code}]: {self.message}"]
        if self.where:
            lines.append(f"  at    {self.where}")
        if self.help:
            lines.append(f"  help  {self.help}")
        return "\n".join(lines)


class CheckFailed(ByocirError):
    """What was computed is not what it must be: exit code 3 instead of 1."""


SHOWN = 12
"""Choices that a help line lists at most."""


def did_you_mean(name: str, choices: Sequence[str]) -> str:
    """A help line for a mistyped name: the nearest choice, those that hold it, one it
    begins with, or the first few."""
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
