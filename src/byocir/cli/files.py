"""Files that the command line writes: refused before long work begins, never with a traceback."""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from byocir.errors import ByocirError


def check_writable(*paths: Path | None) -> None:
    """Raises ByocirError B112 unless a file can be written at each path (None: none is wanted)."""
    for path in paths:
        if path is None:
            continue
        folder = path.parent
        if path.is_dir():
            raise _unwritable(path, "a folder")
        if not folder.is_dir():
            raise _unwritable(path, f"no folder {folder}")
        if not os.access(path if path.exists() else folder, os.W_OK):
            raise _unwritable(path, "no permission to write it")


def make_folder(path: Path) -> None:
    """Makes a folder to write into; raises ByocirError B112 if that cannot be."""
    with _reported(path):
        path.mkdir(parents=True, exist_ok=True)


def write_text(path: Path, text: str) -> None:
    """Writes UTF-8 text; raises ByocirError B112."""
    with _reported(path):
        path.write_text(text, encoding="utf-8", newline="\n")


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Writes arrays by name (.npz); raises ByocirError B112."""
    with _reported(path), path.open("wb") as file:
        np.savez(file, **dict[str, Any](arrays))


@contextmanager
def _reported(path: Path) -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise _unwritable(path, error.strerror or str(error)) from error


def _unwritable(path: Path, found: str) -> ByocirError:
    return ByocirError(
        "B112",
        f"expected a file that can be written, found {found}",
        where=str(path),
        help="choose another place for it",
    )
