"""Finds the C compiler to run: `$CC`, `cc`, `gcc`, `clang`, else the one in the `ziglang` wheel."""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from byocir.errors import ByocirError

NAMES = ("cc", "gcc", "clang")
WHEEL = "ziglang"


@dataclass(frozen=True)
class Compiler:
    """Describes a C compiler with the command line of gcc.

    `command` starts it, flags follow. `identity` changes when another program, or another version
    of it, answers to the same command.
    """

    command: tuple[str, ...]
    identity: str

    def __str__(self) -> str:
        return shlex.join(self.command)

    def spelled(self, flags: Sequence[str]) -> list[str]:
        """Spells gcc's flags as this compiler takes them: zig's names of processors have no
        hyphens.
        """
        if not {"zig", WHEEL} & {Path(word).stem for word in self.command}:
            return list(flags)
        return [x.replace("x86-64-", "x86_64_") if x.startswith("-march=") else x for x in flags]


def find_compiler() -> Compiler:
    """Finds the first C compiler that the machine has; `$CC` may hold a program and flags, such as
    `ccache gcc`.

    Raises ByocirError B401 if there is none, and B402 if `$CC` is set and names no program: who
    chose a compiler does not want another one.
    """
    chosen = _from_environment()
    if chosen is not None:
        return chosen
    for name in NAMES:
        program = shutil.which(name)
        if program is not None:
            return Compiler((program,), _fingerprint(program))
    spec = importlib.util.find_spec(WHEEL)
    if spec is not None and spec.origin is not None:
        return Compiler((sys.executable, "-m", WHEEL, "cc"), _fingerprint(_zig(spec.origin)))
    tried = ", ".join((*NAMES, f"the {WHEEL} wheel"))
    raise ByocirError(
        "B401",
        f"expected a C compiler, found none of $CC, {tried}",
        help="install gcc or clang, or run: pip install 'byocir[zig]'",
    )


def _from_environment() -> Compiler | None:
    value = os.environ.get("CC", "").strip()
    if not value:
        return None
    try:
        words = shlex.split(value)
    except ValueError as error:
        raise _unknown(f"{value!r} ({error})") from None
    program = shutil.which(words[0])
    if program is None:
        raise _unknown(f"no program {words[0]!r}")
    program = os.path.abspath(program)  # absolute, because the compiler runs in another folder
    found = [shutil.which(word) for word in words[1:]]
    programs = [program, *(path for path in found if path is not None)]
    return Compiler((program, *words[1:]), "; ".join(_fingerprint(path) for path in programs))


def _unknown(found: str) -> ByocirError:
    return ByocirError(
        "B402",
        f"expected $CC to name a C compiler, found {found}",
        help="correct CC, or unset it to use the compiler on PATH",
    )


def _fingerprint(program: str) -> str:
    """Identifies a program by path, size and time of change: that tells as much as its version, and
    starts no process.
    """
    path = Path(program).resolve()
    status = path.stat()
    return f"{path} {status.st_size} {status.st_mtime_ns}"


def _zig(module: str) -> str:
    """Gives the compiler's executable beside the wheel's `__init__.py`."""
    executable = Path(module).with_name("zig")
    return str(executable if executable.exists() else module)
