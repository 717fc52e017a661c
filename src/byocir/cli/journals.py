"""Keeps files beside a command's output from which the same command goes on after an interrupt."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

SUFFIX = ".part"


def journal_beside(output: Path) -> Path:
    """Gives the journal of a command that writes this file."""
    return output.with_name(output.name + SUFFIX)


@contextmanager
def resume_hint(journal: Path | None) -> Generator[None]:
    """Tells a user who interrupts that the work done so far is kept."""
    try:
        yield
    except KeyboardInterrupt:
        if journal is not None and journal.exists():
            print(f"\nthe same command goes on with what is in {journal}", file=sys.stderr)
        raise
