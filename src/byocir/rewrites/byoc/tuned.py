"""Keeps schedules that were tried and found best, as a table in JSON: what `byocir tune` chose.

```json
{"schema_version": 1, "byocir": "0.1.0", "tuned": [
  {"target": "#byoc.target<\"npu\", {}>", "composite": "npu.gemm",
   "ops": ["tir.block {…} (tensor<16x24xi8>, tensor<24x8xi8>) -> tensor<16x8xi32>"],
   "schedule": "m, n = tile(gemm, m=8, n=4)", "cost": 812, "default": 905, "unit": "cycles"}]}
```

An entry is for a target with its options and for what a composite is, as `op_text` writes it after
the hand-off, so that names and places do not matter. `schedule` is empty where the target's own
choice is best. `default` is what that costs, `cost` what the schedule does, each together with the
composites before and behind it.

| code | what is wrong |
| --- | --- |
| B264 | a table of tuned schedules does not have that form, or is for nothing in the model |
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from sys import float_info
from typing import Any, cast

from byocir.dialects.byoc import CompositeOp, TargetAttr
from byocir.errors import ByocirError
from byocir.files import read_whole, write_whole
from byocir.rewrites.byoc.costs import work_of
from byocir.rewrites.byoc.table_form import TableForm, Work

SCHEMA_VERSION = 1

Key = tuple[str, Work]
"""A target with its options, and what a composite is."""


@dataclass(frozen=True)
class Tuned:
    """Records a schedule that was chosen, its cost, and the cost of the target's own choice."""

    schedule: str
    cost: float
    default: float
    unit: str


@dataclass(frozen=True)
class TunedTable:
    """Lists the chosen schedules, by target and by what composites compute; `byocir` is the version
    that chose.
    """

    entries: Mapping[Key, Tuned] = field(default_factory=dict[Key, Tuned])
    byocir: str = field(default_factory=lambda: version("byocir"))

    def to_json(self) -> str:
        """Writes the table as text, as `read_tuned` reads it; the same table gives the same
        text.
        """
        rows = [
            {"target": target, "composite": work[0], "ops": [*work[1]], **vars(tuned)}
            for (target, work), tuned in sorted(self.entries.items(), key=lambda each: each[0])
        ]
        data = {"schema_version": SCHEMA_VERSION, "byocir": self.byocir, "tuned": rows}
        return json.dumps(data, indent=1) + "\n"

    def save(self, path: str | Path) -> None:
        """Writes the table to a file; raises OSError."""
        write_whole(path, self.to_json().encode())


def key_of(composite: CompositeOp, target: TargetAttr) -> Key:
    """Makes the key under which a composite of a partitioned module has its entry."""
    inner = [op for op in composite.body.block.ops if op.next_op is not None]
    return str(target), work_of(composite.pattern.data, inner)


def load_tuned(path: str | Path) -> TunedTable:
    """Reads the table of a file; raises ByocirError B101 or B264."""
    try:
        return read_tuned(read_whole(path).decode(), str(path))
    except (OSError, UnicodeDecodeError) as error:
        found = error.strerror if isinstance(error, OSError) else "no text"
        raise ByocirError(
            "B101", f"expected a file that byocir tune wrote, found: {found}", where=str(path)
        ) from None


def read_tuned(text: str, where: str = "") -> TunedTable:
    """Reads a table from text; raises ByocirError B264, with the entry, for another form."""
    data = _FORM.read(text, where)
    made = data.get("byocir")
    _FORM.expect(isinstance(made, str), "byocir as the version that tuned", made, where)
    entries: dict[Key, Tuned] = {}
    for row, work, place in _FORM.entries(data, where):
        key = str(row.get("target")), work
        _FORM.expect(key not in entries, "each composite on the same ops once", work[0], place)
        entries[key] = _tuned_in(row, place)
    return TunedTable(entries, cast("str", made))


_FORM = TableForm("B264", "tuned schedules", SCHEMA_VERSION, "tuned", "tune")


def _tuned_in(row: dict[str, Any], where: str) -> Tuned:
    for name in ("target", "schedule", "unit"):
        _FORM.expect(isinstance(row.get(name), str), f"{name} as a string", row.get(name), where)
    for name in ("cost", "default"):
        fits = type(row.get(name)) in (int, float) and 0 <= row[name] <= float_info.max
        _FORM.expect(fits, f"{name} as a number of at least 0", row.get(name), where)
    return Tuned(row["schedule"], row["cost"], row["default"], row["unit"])
