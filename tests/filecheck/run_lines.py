"""Runs the `// RUN:` lines of a file in this process, as lit would in a shell.

Known: pipes of `byocir-opt` and `filecheck`, `not` before a command that must fail, `2>&1`, `%s`
for the file, `%S` for its folder, `%t` for a path of its own for temporary files, and lines
continued by a backslash.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path
from unittest import mock

from filecheck.finput import FInput
from filecheck.matcher import Matcher
from filecheck.options import parse_argv_options
from filecheck.parser import Parser

from byocir.cli.opt import run_opt


class RunFailure(AssertionError):
    """A RUN line that failed: the line and all that was printed."""


def run_lines(path: Path) -> list[str]:
    """The RUN lines of a file, continued lines joined."""
    lines = re.findall(r"^\s*// RUN:[ \t]*(.*?)\s*$", path.read_text(encoding="utf-8"), re.M)
    joined = re.sub(r"\\\n", " ", "\n".join(lines))
    return joined.splitlines()


def run_file(path: Path, scratch: Path) -> None:
    """Runs all RUN lines of a file; raises RunFailure."""
    lines = run_lines(path)
    if not lines:
        raise RunFailure(f"{path} has no RUN line")
    for line in lines:
        _run_line(line, path, scratch)


def _run_line(line: str, path: Path, scratch: Path) -> None:
    def replaced(text: str) -> str:
        for mark, name in (("%s", path), ("%S", path.parent), ("%t", scratch / "t")):
            text = text.replace(mark, str(name))
        return text

    lexer = shlex.shlex(line, posix=True, punctuation_chars="|")
    lexer.whitespace_split = True
    words = [replaced(word) for word in lexer]
    data = ""
    for command in _split(words):
        data, errors, failed = _run(command, data)
        if failed:
            raise RunFailure(f"{replaced(line)}\n\n{' '.join(command)} failed\n{errors}\n{data}")


def _split(words: list[str]) -> list[list[str]]:
    commands: list[list[str]] = [[]]
    for word in words:
        if word == "|":
            commands.append([])
        else:
            commands[-1].append(word)
    return commands


def _run(command: list[str], stdin: str) -> tuple[str, str, bool]:
    """What a command prints, its errors, and whether it did other than expected."""
    inverted = command[0] == "not"
    name, *args = command[1:] if inverted else command
    merged = "2>&1" in args
    args = [arg for arg in args if arg != "2>&1"]
    out = io.StringIO()
    err = out if merged else io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        if name == "byocir-opt":
            code = _byocir_opt(args, stdin)
        elif name == "filecheck":
            code = _filecheck(args, stdin)
        else:
            raise RunFailure(f"cannot run '{name}', only byocir-opt and filecheck")
    printed = out.getvalue()
    if name == "filecheck":  # what it was given matters more than that it has nothing to say
        return "", f"{err.getvalue()}{printed}\n--- input ---\n{stdin}", (code != 0) != inverted
    return printed, "" if merged else err.getvalue(), (code != 0) != inverted


def _byocir_opt(args: list[str], stdin: str) -> int:
    source = io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8")
    with mock.patch("sys.stdin", source):
        try:
            return run_opt(args)
        except SystemExit as stop:
            return int(stop.code or 0)


def _filecheck(args: list[str], stdin: str) -> int:
    options = parse_argv_options(["filecheck", *args])
    return Matcher(options, FInput("stdin", stdin), Parser.from_opts(options)).run()
