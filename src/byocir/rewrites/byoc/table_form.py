"""Reads tables in JSON with entries about composites: costs, and tuned schedules."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

from byocir.errors import ByocirError

Work = tuple[str, tuple[str, ...]]
"""A composite by name, and what it is matched on."""


@dataclass(frozen=True)
class TableForm:
    """Describes the form of one kind of table: its version, the name of its list of entries, the
    tool that writes it, and the error for a text of another form.
    """

    code: str
    table: str
    version: int
    rows: str
    tool: str

    def read(self, text: str, where: str) -> dict[str, Any]:
        """Reads the object of a text, which has a list of entries."""
        try:
            data: Any = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise self._wrong("JSON", str(error), where) from None
        fits = isinstance(data, dict)
        self.expect(fits, f"an object with schema_version and {self.rows}", data, where)
        version, rows = data.get("schema_version"), data.get(self.rows)
        self.expect(version == self.version, f"schema_version {self.version}", version, where)
        self.expect(isinstance(rows, list), f"{self.rows} as a list", rows, where)
        return data

    def entries(self, data: dict[str, Any], where: str) -> Iterator[tuple[Any, Work, str]]:
        """Yields each entry with the work that it is for, and its place in the text."""
        for i, row in enumerate(data[self.rows]):
            place = f"{where}: {self.rows}[{i}]" if where else f"{self.rows}[{i}]"
            self.expect(isinstance(row, dict), "an object", row, place)
            name, ops = row.get("composite"), row.get("ops")
            self.expect(isinstance(name, str), "composite as a string", name, place)
            texts: list[Any] = cast("list[Any]", ops) if isinstance(ops, list) else [None]
            fits = all(isinstance(op, str) for op in texts)
            self.expect(fits, "ops as a list of strings", texts, place)
            yield row, (name, tuple(sorted(texts))), place

    def expect(self, holds: bool, expected: str, found: object, where: str) -> None:
        """Raises ByocirError unless something holds."""
        if not holds:
            shown = json.dumps(found, ensure_ascii=False, default=str)
            raise self._wrong(expected, shown, where)

    def _wrong(self, expected: str, found: str, where: str) -> ByocirError:
        return ByocirError(
            self.code,
            f"expected {expected} in a table of {self.table}, found {found}",
            where=where,
            help=f"`byocir {self.tool}` writes such tables",
        )
