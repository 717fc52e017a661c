"""Writes the results of jobs to a file as they come: an interrupted run goes on from there."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from byocir.errors import ByocirError

Made = TypeVar("Made", bound=NamedTuple)


class Journal(Generic[Made]):
    """Keeps a file of results of jobs, tuples of plain data, by the jobs' digests. `read` makes a
    result from its fields by name, and raises KeyError, TypeError or ValueError where they do not
    fit. Without a path all is kept in memory alone. Raises ByocirError B112 for a file that cannot
    be written.
    """

    def __init__(self, read: Callable[[Any], Made], path: Path | None = None) -> None:
        self._read, self._path = read, path
        self._known: dict[str, Made] = {}
        if path is not None and path.is_file():
            for line in path.read_bytes().splitlines():
                # A line may be cut off where a process was ended.
                with suppress(ValueError, TypeError, KeyError):
                    row: Any = json.loads(line)
                    self._known[str(row["job"])] = read(row)
        self.found = len(self._known)
        """The number of jobs that an earlier run did."""

    def get(self, digest: str) -> Made | None:
        """Gives the result of a job, if it is known."""
        return self._known.get(digest)

    def add(self, digest: str, made: Made) -> None:
        """Keeps the result of a job."""
        self._known[digest] = made
        if self._path is None:
            return
        text = json.dumps({"job": digest, **made._asdict()})
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(f"\n{text}")  # on a line of its own, whatever was cut off before
        except OSError as error:
            raise ByocirError(
                "B112", f"expected a file to write, found: {error.strerror}", where=str(self._path)
            ) from None

    def remove(self) -> None:
        """Removes the file, once all is done."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)
