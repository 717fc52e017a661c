"""Builds shared libraries from C sources, and keeps them in the user's cache folder by a digest of
all that decides their bytes.

The folder is `$BYOCIR_CACHE`, else `$XDG_CACHE_HOME/byocir`, else `~/.cache/byocir`. Libraries are
built in a temporary folder that lives as long as this process, copied beside their place and
renamed, so processes may build the same one at once. Where nothing can be written they stay in the
temporary folder. One that was cut off since is built again, and so is one that cannot be loaded.

Beside what is built with a vendor's library lies a list of the headers that it includes: where they
were changed since, it is built again.
"""

from __future__ import annotations

import atexit
import ctypes
import hashlib
import os
import platform
import re
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from threading import get_ident

from byocir.errors import ByocirError, Lines
from byocir.toolchain.compiler import Compiler, find_compiler

SUFFIX = {"darwin": ".dylib", "win32": ".dll"}.get(sys.platform, ".so")
FORMAT = "1"  # part of every key; raise it when this module builds in another way
ERROR_LINES = 6
FLAGS_VARIABLE = "BYOCIR_CFLAGS"
SECONDS = 600  # a compiler that takes longer is taken to hang

ELF = b"\x7fELF\x02\x01"
"""The first bytes of files of 64 bits, little-endian."""
ELF_HEADER = struct.Struct("<40xQ10xHH2x")
"""The place of the table of sections, the size of an entry and their number, in a file's header.
https://refspecs.linuxfoundation.org/elf/gabi4+/ch4.eheader.html"""


def build_shared(name: str, files: Mapping[str, str | bytes], flags: Sequence[str] = ()) -> Path:
    """Gives the path of a shared library made from C files, compiled now or before.

    `files` maps file names, without folders, to contents: each `.c` is compiled, headers are found
    by `#include "..."`. `flags` follow the sources, so libraries (`-lm`) may be among them; those
    of `$BYOCIR_CFLAGS` come last. `name` starts the library's file name. Raises ByocirError B401 to
    B403, and B406 where not even a temporary file can be written.
    """
    contents = {file: _bytes(files[file]) for file in sorted(files)}
    flags = (*flags, *_users_flags())
    compiler = find_compiler()
    stem = f"{name}-{_key(compiler, contents, flags)}"
    kept = _kept(cache_folder(), stem)
    if is_whole(kept):
        return kept
    try:
        own = _kept(_own_folder(), stem)
        if is_whole(own):
            return own
        scratch = Path(tempfile.mkdtemp(prefix="build-", dir=own.parent))
        try:
            built = _compile(compiler, scratch, contents, flags)
            listed = _listed(compiler, scratch, contents, flags)
            is_listed = listed is None or _keep(listed, _list(cache_folder(), stem))
            if is_listed and _keep(built, kept := _kept(cache_folder(), stem)):
                return kept
            if listed is not None:
                os.replace(listed, _list(own.parent, stem))
            own = _kept(own.parent, stem)
            os.replace(built, own)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    except OSError as error:
        raise ByocirError(
            "B406",
            f"expected room for temporary files, found: {error.strerror}",
            where=tempfile.gettempdir(),
            help="make room there, or set TMPDIR to another folder",
        ) from error
    return own


def _users_flags() -> list[str]:
    """Reads the flags that a user adds to all builds. Raises ByocirError B402."""
    value = os.environ.get(FLAGS_VARIABLE, "")
    try:
        return shlex.split(value)
    except ValueError as error:
        raise ByocirError(
            "B402",
            f"expected ${FLAGS_VARIABLE} to be flags as in a shell, found {value!r} ({error})",
            help="close its quotes",
        ) from None


def _list(folder: Path, stem: str) -> Path:
    """Gives the path of the file that lists which headers a library was built from."""
    return folder / f"{stem}.headers"


def _kept(folder: Path, stem: str) -> Path:
    """Gives the path of a library in a folder. Where headers from outside are listed for it, its
    name has a digest of what they hold now, so that a changed header leads to another file: the
    loader takes two files of one path for the same.
    """
    try:
        paths = _list(folder, stem).read_text().splitlines()
    except (OSError, ValueError):
        return folder / f"{stem}{SUFFIX}"
    digest = hashlib.sha256()
    for path in paths:
        try:
            content = Path(path).read_bytes()
        except OSError:
            content = b""
        digest.update(f"{path} {len(content)} ".encode() + content)
    return folder / f"{stem}-{digest.hexdigest()[:16]}{SUFFIX}"


def _keep(built: Path, place: Path) -> bool:
    """Copies a library into the cache, in one step that other processes see whole or not at all;
    tells if that could be done.
    """
    scratch = place.with_name(f".{place.name}-{os.getpid()}-{get_ident()}")
    try:
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        shutil.copy(built, scratch)
        os.replace(scratch, place)
    except OSError:  # no such folder, no permission, no space, a folder in its place
        with suppress(OSError):
            scratch.unlink(missing_ok=True)
        return False
    return True


def built_and_loaded(
    name: str, files: Mapping[str, str | bytes], flags: Sequence[str] = ()
) -> ctypes.CDLL:
    """Gives the library that `build_shared` gives, ready to be called. One that was damaged since
    it was built is built anew. Raises as `build_shared` and `load_shared` do.
    """
    path = build_shared(name, files, flags)
    try:
        return load_shared(path)
    except ByocirError:
        with suppress(OSError):
            path.unlink()
    return load_shared(build_shared(name, files, flags))


def takes(flags: Sequence[str], includes: str = "") -> bool:
    """Tells if the compiler builds a small program with these flags, below these lines that include
    headers. It may not know a processor, have no OpenMP, or not find a library. Raises ByocirError
    B401, B402.
    """
    try:
        build_shared("probe", {"probe.c": includes + _PROBE}, flags)
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
    """Loads a library that was built, ready to be called. Raises ByocirError B404 if it cannot be
    loaded, as from a file system that forbids execution."""
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        missing = "undefined symbol" in str(error)
        raise ByocirError(
            "B404",
            f"expected a library that can be loaded, found {error}",
            where=str(path),
            help="define it, or name the library that has it"
            if missing
            else "set BYOCIR_CACHE to a folder from which programs may run",
        ) from None


def cache_folder() -> Path:
    """Finds the folder of built libraries; it may not exist yet."""
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
    """Gives a folder of this process, readable by this user only; removed at exit."""
    folder = Path(tempfile.mkdtemp(prefix="byocir-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def is_whole(path: Path) -> bool:
    """Tells if a file is there and complete. In ELF's format the table of sections comes last, so
    that its presence tells; loading part of such a file may end the process.
    """
    try:
        with path.open("rb") as file:
            head = file.read(ELF_HEADER.size)
            size = file.seek(0, os.SEEK_END)
    except OSError:  # no such file, a folder, or a path through a folder without permission
        return False
    if not head.startswith(ELF):
        return True
    if len(head) < ELF_HEADER.size:
        return False
    sections, each, count = ELF_HEADER.unpack(head)
    return size >= sections + each * count


def _listed(
    compiler: Compiler, folder: Path, contents: Mapping[str, bytes], flags: Sequence[str]
) -> Path | None:
    """Gives a file that lists the headers from outside of `folder` which its C files include; None
    where these are C's own headers alone, which come with the compiler.
    """
    if not _links_others(flags):
        return None
    sources = [file for file in contents if file.endswith(".c")]
    command = [*compiler.command, "-M", *sources, *compiler.spelled(flags)]
    code, output = _run(command, folder)
    if code:
        return None
    words = re.split(r"(?<!\\)\s+", output.decode(errors="replace").replace("\\\n", " "))
    paths = {os.path.normpath(w.replace("\\ ", " ")) for w in words if os.path.isabs(w)}
    made = folder / "headers"
    made.write_text("".join(f"{path}\n" for path in sorted(paths)))
    return made


def _links_others(flags: Sequence[str]) -> bool:
    """Tells if flags make the compiler use headers or libraries other than its own."""
    return any(flag.startswith(("-I", "-isystem", "-l")) and flag != "-lm" for flag in flags)


def _bytes(content: str | bytes) -> bytes:
    return content.encode() if isinstance(content, str) else content


def _key(compiler: Compiler, contents: Mapping[str, bytes], flags: Sequence[str]) -> str:
    """Gives a digest of all that decides what the compiler writes."""
    native = any(flag.endswith("=native") for flag in flags)
    digest = hashlib.sha256()
    for part in (
        *(FORMAT, compiler.identity, *compiler.command),
        *("flags", *flags, "cpu", processor_text() if native else "any"),
        *(("headers listed",) if _links_others(flags) else ()),
        *(part for pair in contents.items() for part in pair),
    ):
        data = _bytes(part)
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()[:32]


@cache
def processor_text() -> str:
    """Describes this machine's processor, as far as the system tells: what `-march=native` looks
    at.
    """
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    telling = ("model name", "cpu family", "model\t", "stepping", "flags", "Features", "CPU part")
    return "\n".join([platform.machine(), *sorted({x for x in lines if x.startswith(telling)})])


def _compile(
    compiler: Compiler, folder: Path, contents: Mapping[str, bytes], flags: Sequence[str]
) -> Path:
    """Compiles in ``folder``; messages name the files as the caller did."""
    for file, content in contents.items():
        (folder / file).write_bytes(content)
    sources = [file for file in contents if file.endswith(".c")]
    built = folder / f"out{SUFFIX}"
    command = [*compiler.command, "-shared", "-fPIC", "-o", built.name, *sources]
    command += compiler.spelled(flags)
    try:
        code, output = _run(command, folder)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _failed(compiler, sources, str(error)) from None
    if code:
        lines = output.decode(errors="replace").strip().splitlines()
        told = _telling(lines) or ["no message"]
        raise _failed(compiler, sources, f"exit code {code}:", *told)
    if not built.is_file():
        raise _failed(compiler, sources, "exit code 0 and no library")
    return built


def _run(command: Sequence[str], folder: Path) -> tuple[int, bytes]:
    """Runs a compiler; gives its exit code and output. It runs in a session of its own, all of
    which is ended if it takes too long or this process is interrupted, for compilers start
    processes that do the work.
    """
    process = subprocess.Popen(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    with process:
        try:
            output, _ = process.communicate(timeout=SECONDS)
        except BaseException:
            _end(process)
            raise
    return process.returncode, output


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends a process and those that it started."""
    if hasattr(os, "killpg"):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.wait()  # an interrupt may have skipped this wait


def _telling(lines: list[str]) -> list[str]:
    """Gives the lines of a compiler's output from the first error on, a few at most: warnings and
    context come before it.
    """
    first = next((i for i, line in enumerate(lines) if "error" in line.lower()), 0)
    return lines[first : first + ERROR_LINES]


def _failed(compiler: Compiler, sources: Sequence[str], found: str, *told: str) -> ByocirError:
    expected = f"expected the C compiler to build {', '.join(sources)}"
    return ByocirError(
        "B403",
        Lines.of([f"{expected}, found {found}", *told], 4),
        where=str(compiler),
        help="set CC to another compiler, or run: pip install 'byocir[zig]'",
    )
