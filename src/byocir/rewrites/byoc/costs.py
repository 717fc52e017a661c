"""Reads measured costs of composites, which count before what targets estimate.

A table in JSON (`costs.schema.json`) has an entry for each composite on certain ops:

```json
{"schema_version": 2, "costs": [
  {"composite": "npu.dense",
   "ops": ["graph.flatten {axis = 1 : i64} (tensor<1x64x1x1xf32>) -> tensor<1x64xf32>",
           "graph.matmul (tensor<1x64xf32>, tensor<64x10xf32>) -> tensor<1x10xf32>"],
   "latency": 1.2e-05}]}
```

`ops` are the matched ops, constants aside, sorted, as `op_text` writes what their time depends on:
what a composite leaves out where it can tells its forms apart, too. Of an entry each objective is
used that it has: "latency" in seconds, "energy" in joules, "bytes". A module carries its table, so
it compiles alike when it was saved.

| code | what is wrong |
| --- | --- |
| B249 | a table of costs does not have that form, or there is no objective to use it for |
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from sys import float_info
from typing import Any

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation

from byocir.dialects.byoc import COSTS, OBJECTIVE
from byocir.dialects.traits import is_constant
from byocir.errors import ByocirError
from byocir.patterns.targets import OBJECTIVES
from byocir.rewrites.byoc.op_text import text_of
from byocir.rewrites.byoc.table_form import TableForm, Work

SCHEMA_VERSION = 2


@dataclass(frozen=True)
class CostTable:
    """Holds measured costs by objective, of composites with certain ops."""

    entries: Mapping[Work, Mapping[str, float]] = field(
        default_factory=dict[Work, Mapping[str, float]]
    )

    def of(self, composite: str, ops: Iterable[Operation]) -> Mapping[str, float]:
        """Looks up the measured costs of a match; empty where nothing was measured."""
        return self.entries.get(work_of(composite, ops), {}) if self.entries else {}

    def to_json(self) -> str:
        """Writes the table as text, as `read_costs` reads it; the same table gives the same
        text.
        """
        rows = [
            {"composite": composite, "ops": [*ops], **dict(sorted(costs.items()))}
            for (composite, ops), costs in sorted(self.entries.items())
        ]
        return json.dumps({"schema_version": SCHEMA_VERSION, "costs": rows}, indent=1) + "\n"


NONE = CostTable()
"""Nothing was measured."""


def work_of(composite: str, ops: Iterable[Operation]) -> Work:
    """Identifies a match by the composite's name and its ops as text."""
    return composite, tuple(sorted(text_of(op) for op in ops if not is_constant(op)))


def read_costs(text: str, where: str = "") -> CostTable:
    """Reads a table from text; raises ByocirError B249, with the entry, for one that does not have
    the form.
    """
    entries: dict[Work, Mapping[str, float]] = {}
    for row, work, place in _FORM.entries(_FORM.read(text, where), where):
        _FORM.expect(work not in entries, "each composite on the same ops once", work[0], place)
        entries[work] = _costs_in(row, place)
    return CostTable(entries)


_FORM = TableForm("B249", "costs", SCHEMA_VERSION, "costs", "measure")


def _costs_in(row: dict[str, Any], where: str) -> dict[str, float]:
    costs = {key: value for key, value in row.items() if key not in ("composite", "ops")}
    unknown = [key for key in costs if key not in OBJECTIVES]
    fits = not unknown and costs != {}
    _FORM.expect(fits, f"one or more of {', '.join(OBJECTIVES)}", unknown, where)
    for key, value in costs.items():
        number = isinstance(value, int | float) and not isinstance(value, bool)
        fits = number and 0 <= value <= float_info.max
        _FORM.expect(fits, f"{key} as a number of at least 0", value, where)
    return costs


def set_costs(module: ModuleOp, table: CostTable) -> None:
    """Puts a table into a module that names an objective; raises ByocirError B249 for another."""
    if OBJECTIVE not in module.attributes:
        raise ByocirError(
            "B249",
            "expected an objective that costs are used for, found none",
            help="--objective latency, energy or bytes",
        )
    module.attributes[COSTS] = StringAttr(table.to_json())


def costs_of(module: ModuleOp) -> CostTable:
    """Reads the table that a module carries; raises ByocirError B249 for one without the form."""
    attribute = module.attributes.get(COSTS)
    return read_costs(attribute.data) if isinstance(attribute, StringAttr) else NONE
