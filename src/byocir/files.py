"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


@contextmanager
def replaced(path: str | Path) -> Generator[BinaryIO]:
    """A file to write, which takes the place of the one at a path when all is written: whatever
    fails before, what was there stays. Places that are no regular files, as pipes, and those in
    folders where no other file can be made are written to as they are. Raises OSError."""
    place = Path(os.path.realpath(path))
    scratch = place.with_name(f".{place.name}.{os.getpid()}")
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


def _opened(scratch: Path) -> BinaryIO | None:
    try:
        return scratch.open("xb")
    except OSError:
        return None


def write_whole(path: str | Path, data: bytes) -> None:
    """Writes a file of these bytes; raises OSError."""
    with replaced(path) as file:
        file.write(data)
