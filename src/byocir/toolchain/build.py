"""Shared libraries from C sources, kept in the user's cache folder by all that decides their bytes.

The folder is `$BYOCIR_CACHE`, else `$XDG_CACHE_HOME/byocir`, else `~/.cache/byocir`. A library is
written beside its place and renamed, so processes may build the same one at once. Where nothing can
be written, libraries go to a temporary folder that lives as long as this process.
"""

from __future__ import annotations

import atexit
import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from byocir.errors import ByocirError
from byocir.toolchain.compiler import Compiler, find_compiler

SUFFIX = {"darwin": ".dylib", "win32": ".dll"}.get(sys.platform, ".so")
FORMAT = "1"  # part of every key: raised when this module builds in another way
ERROR_LINES = 6
SECONDS = 600  # a compiler that takes longer hangs


def build_shared(name: str, files: Mapping[str, str | bytes], flags: Sequence[str] = ()) -> Path:
    """The path of a shared library made from C files, compiled now or before.

    `files` maps file names, without folders, to contents: each `.c` is compiled, headers are found
    by `#include "..."`. `flags` follow the sources, so libraries (`-lm`) may be among them.
    `name` starts the library's file name. Raises ByocirError B401 to B403.
    """
    contents = {file: _bytes(files[file]) for file in sorted(files)}
    compiler = find_compiler()
    library = f"{name}-{_key(compiler, contents, flags)}{SUFFIX}"
    for folder in (cache_folder(), _own_folder()):
        place = folder / library
        if _is_file(place):
            return place
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            scratch = Path(tempfile.mkdtemp(prefix=".build-", dir=folder))
        except OSError:
            continue
        try:
            os.replace(_compile(compiler, scratch, contents, flags), place)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        return place
    raise AssertionError(f"expected {_own_folder()} to be writable")


def takes(flags: Sequence[str]) -> bool:
    """Whether the compiler builds anything with these flags: it may not know a processor, or have
    no OpenMP. Raises ByocirError B401, B402."""
    try:
        build_shared("probe", {"probe.c": _PROBE}, flags)
    except ByocirError as error:
        if error.code != "B403":
            raise
        return False
    return True


_PROBE = """int probe(int n)
{
    int sum = 0;
#ifdef _OPENMP
#pragma omp parallel for reduction(+ : sum)
#endif
    for (int i = 0; i < n; i++) sum += i;
    return sum;
}
"""


def load_shared(path: Path) -> ctypes.CDLL:
    """A library that was built, ready to be called. Raises ByocirError B404 if it cannot be loaded,
    as from a file system that forbids execution."""
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise ByocirError(
            "B404",
            f"expected a library that can be loaded, found {error}",
            where=str(path),
            help="set BYOCIR_CACHE to a folder from which programs may run",
        ) from None


def cache_folder() -> Path:
    """Where built libraries are kept; it may not exist yet."""
    chosen = os.environ.get("BYOCIR_CACHE")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification asks to ignore relative paths.
    if os.path.isabs(base):
        return Path(base) / "byocir"
    return Path(os.path.expanduser("~")) / ".cache" / "byocir"


@cache
def _own_folder() -> Path:
    """A folder of this process, readable by this user only; removed at exit."""
    folder = Path(tempfile.mkdtemp(prefix="byocir-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a folder on the way that may not be entered
        return False


def _bytes(content: str | bytes) -> bytes:
    return content.encode() if isinstance(content, str) else content


def _key(compiler: Compiler, contents: Mapping[str, bytes], flags: Sequence[str]) -> str:
    """A digest of all that decides what the compiler writes."""
    native = any(flag.endswith("=native") for flag in flags)
    digest = hashlib.sha256()
    for part in (
        *(FORMAT, compiler.identity, *compiler.command),
        *("flags", *flags, "cpu", _cpu() if native else "any"),
        *(part for pair in contents.items() for part in pair),
    ):
        data = _bytes(part)
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()[:32]


@cache
def _cpu() -> str:
    """This machine's processor: what `-march=native` looks at, where the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    telling = ("model name", "cpu family", "model\t", "stepping", "flags", "Features", "CPU part")
    return "\n".join([platform.machine(), *sorted({x for x in lines if x.startswith(telling)})])


def _compile(
    compiler: Compiler, folder: Path, contents: Mapping[str, bytes], flags: Sequence[str]
) -> Path:
    """Compile in ``folder``; messages name the files as the caller did."""
    for file, content in contents.items():
        (folder / file).write_bytes(content)
    sources = [file for file in contents if file.endswith(".c")]
    built = folder / f"out{SUFFIX}"
    command = [*compiler.command, "-shared", "-fPIC", "-o", built.name, *sources, *flags]
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _failed(compiler, sources, str(error)) from None
    if done.returncode:
        lines = done.stdout.decode(errors="replace").strip().splitlines()
        told = "\n".join(f"    {line}" for line in _telling(lines)) or "    no message"
        raise _failed(compiler, sources, f"exit code {done.returncode}:\n{told}")
    if not built.is_file():
        raise _failed(compiler, sources, "exit code 0 and no library")
    return built


def _telling(lines: list[str]) -> list[str]:
    """The first lines from the first error on: compilers put warnings and context before it."""
    first = next((i for i, line in enumerate(lines) if "error" in line.lower()), 0)
    return lines[first : first + ERROR_LINES]


def _failed(compiler: Compiler, sources: Sequence[str], found: str) -> ByocirError:
    return ByocirError(
        "B403",
        f"expected the C compiler to build {', '.join(sources)}, found {found}",
        where=str(compiler),
        help="set CC to another compiler, or run: pip install 'byocir[zig]'",
    )
