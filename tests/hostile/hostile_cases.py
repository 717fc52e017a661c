"""What a hostile input is, and what is demanded of every one."""

from __future__ import annotations

import re
import resource
import signal
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

SECONDS, ROOM = 10, 2**30
"""What an input may take: seconds, and bytes beside those that the process has already."""
MOST = 1024
"""Characters of a message."""

Content = bytes | Callable[[Path], object]
"""Of a file; what is no regular file is made by a function of its path."""


@dataclass(frozen=True)
class Case:
    """Files, and a command that reads them. `command` is a line whose words may hold `@`, the
    folder of the files; `words` are more of it, as they are. How it ends is in `messages.txt`, or,
    where that is a matter of luck, `code` is a pattern of the codes that it may end with."""

    name: str
    command: str
    files: Mapping[str, Content] = field(default_factory=dict[str, Content])
    words: tuple[str, ...] = ()
    code: str = ""

    def write(self, folder: Path) -> list[str]:
        """Makes the files; gives the command."""
        for name, content in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, bytes):
                path.write_bytes(content)
            else:
                content(path)
        return [word.replace("@", str(folder)) for word in (*self.command.split(), *self.words)]


class TooLong(BaseException):
    """An input took more than `SECONDS`."""


@contextmanager
def bounded() -> Generator[None]:
    """Time and memory for one input."""

    def stop(*_: object) -> None:
        raise TooLong

    limits = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    before = signal.signal(signal.SIGALRM, stop)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + ROOM, limits[1]))
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        resource.setrlimit(resource.RLIMIT_AS, limits)


def ending(exit_code: int, err: str) -> str:
    """How a command ended, as `messages.txt` has it: exit code, code, and what was expected, in our
    words; what was found is often in those of others."""
    if exit_code == 2:
        return "2 usage"
    found = re.search(r"^error\[(\w+)\]: (.*?)(, found.*)?$", err, re.M)
    return f"{exit_code} {found[1]} {found[2][:100]}" if found else str(exit_code)


def problems(case: Case, exit_code: int, out: str, err: str) -> list[str]:
    """What is wrong with how a command ended, whatever it was given."""
    told = err[err.find("error") :] if exit_code else ""
    codes = re.findall(r"^error\[(\w+)\]", err, re.M)
    wrong = {
        f"exit code {exit_code}": exit_code not in (0, 1, 2, 3),
        f"codes {codes}": len(codes) != (exit_code in (1, 3)),
        f"code {codes}": bool(case.code) and not re.fullmatch(case.code, "".join(codes)),
        "an internal error": "internal error" in err or "this is a bug" in err or "B232" in codes,
        "a traceback": "Traceback" in err,
        f"{len(told)} characters": len(told) > MOST,
        "control characters": any(not line.isprintable() for line in f"{out}\n{err}".split("\n")),
    }
    return [problem for problem, holds in wrong.items() if holds]
