"""Writes files whole or not at all, and reads them only if there is room in memory."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import get_ident
from typing import IO, BinaryIO

from byocir.errors import ByocirError
from byocir.memory import expect_memory

CHUNK = 2**24
"""Bytes that are read at once of what does not tell its size."""


def expect_file(path: Path) -> None:
    """Raises ByocirError B101 unless there is a file at a path."""
    if not path.is_file():
        found = "a folder" if path.is_dir() else "none"
        raise ByocirError("B101", f"expected a file, found {found}", where=str(path))


@contextmanager
def replaced(path: str | Path) -> Generator[BinaryIO]:
    """Opens a file for writing that takes the place of the one at a path once all is written:
    whatever fails before that, the old file stays. Places that are no regular files, such as pipes,
    and places in folders where no other file can be made are written directly. Raises OSError.
    """
    place = Path(os.path.realpath(path))
    scratch = place.with_name(f".{place.name}.{os.getpid()}.{get_ident()}")
    opened = _opened(scratch) if place.is_file() or not place.exists() else None
    if opened is None:
        with place.open("wb") as file:
            yield file
        return
    try:
        with opened as file:
            yield file
        if place.exists():
            shutil.copymode(place, scratch)
        os.replace(scratch, place)
    except BaseException:
        with suppress(OSError):
            scratch.unlink()
        raise


@contextmanager
def new_folder(path: str | Path) -> Generator[Path]:
    """Makes a folder and has it hold in the end either all that is written into it, or nothing. An
    empty folder that is there already is emptied again where something fails; any other only takes
    its place when all is written. Raises OSError.
    """
    place = Path(os.path.realpath(path))
    is_there = place.exists()
    scratch = place
    if not is_there:
        place.parent.mkdir(parents=True, exist_ok=True)
        scratch = place.with_name(f".{place.name}.{os.getpid()}.{get_ident()}")
        scratch.mkdir()
    try:
        yield scratch
        if not is_there:
            scratch.rename(place)
    except BaseException:
        _empty(scratch)
        if not is_there:
            scratch.rmdir()
        raise


def _empty(folder: Path) -> None:
    for each in folder.iterdir():
        if each.is_dir() and not each.is_symlink():
            shutil.rmtree(each, ignore_errors=True)
        else:
            each.unlink(missing_ok=True)


def _opened(scratch: Path) -> BinaryIO | None:
    try:
        return scratch.open("xb")
    except OSError:
        return None


def read_whole(path: str | Path) -> bytes:
    """Reads the bytes of a file. Raises OSError; raises ByocirError B140 before more is read than
    the limit on memory allows, even from a device that has no end.
    """
    with open(path, "rb") as file:
        return read_all(file, str(path))


def read_all(file: IO[bytes], where: str) -> bytes:
    """Reads the bytes of a file or pipe that is open, as `read_whole`."""
    if _is_regular(file):
        expect_memory(os.fstat(file.fileno()).st_size, "a file", where)
        return file.read()
    parts: list[bytes] = []
    total = 0
    while part := file.read(CHUNK):
        total += len(part)
        expect_memory(total, "what is read", where)
        parts.append(part)
    return b"".join(parts)


def _is_regular(file: IO[bytes]) -> bool:
    try:
        return stat.S_ISREG(os.fstat(file.fileno()).st_mode)
    except OSError:  # the descriptor belongs to no file
        return False


def write_whole(path: str | Path, data: bytes) -> None:
    """Writes a file of these bytes; raises OSError."""
    with replaced(path) as file:
        file.write(data)
