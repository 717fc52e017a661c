"""Keeps judgements by job in a file as they come: an interrupted run goes on from there."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from byocir.errors import ByocirError
from byocir.tuning.judge import Outcome


class Journal:
    """Outcomes by the digest of their job. Without a path they are kept in memory alone. Raises
    ByocirError B112 for a file that cannot be written."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._known: dict[str, Outcome] = {}
        if path is not None and path.is_file():
            for line in path.read_bytes().splitlines():
                self._read(line)
        self.found = len(self._known)
        """The number of outcomes that an earlier run left."""

    def _read(self, line: bytes) -> None:
        with suppress(ValueError, TypeError, KeyError):  # cut off where the process was ended
            row: Any = json.loads(line)
            outcome = Outcome(row["cost"], str(row["unit"]), str(row["refusal"]))
            if type(outcome.cost) in (int, float):
                self._known[str(row["job"])] = outcome

    def get(self, digest: str) -> Outcome | None:
        """The outcome of a job, if it is known."""
        return self._known.get(digest)

    def add(self, digest: str, outcome: Outcome) -> None:
        """Keeps the outcome of a job."""
        self._known[digest] = outcome
        if self._path is None:
            return
        text = json.dumps({"job": digest, **outcome._asdict()})
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(f"\n{text}")  # on a line of its own, whatever was cut off before
        except OSError as error:
            raise ByocirError(
                "B112", f"expected a file to write, found: {error.strerror}", where=str(self._path)
            ) from None

    def remove(self) -> None:
        """Ends the file: all is judged."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)
