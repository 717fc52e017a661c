"""Writes the table of differences.md from the rows that the tools read.

python docs/difference_table.py     # rewrites the table in place
"""

from __future__ import annotations

import re
from pathlib import Path

from byocir.frontend.onnx.differences import TABLE, Difference

PAGE = Path(__file__).parent / "differences.md"
ROWS = re.compile(r"(?<=<!-- differences -->\n).*?(?=<!-- end of differences -->)", re.DOTALL)
COLUMNS = ("operators", "when", "byocir", "ONNX Runtime", "onnx's reference", "why", "row")


def render(page: str) -> str:
    """The page with every row as it is now, by operator."""
    ordered = sorted(TABLE, key=lambda row: row.operators[0])
    lines = [_line(COLUMNS), _line(["---"] * len(COLUMNS)), *map(row, ordered)]
    return ROWS.sub(lambda _: "\n".join(lines) + "\n", page)


def row(each: Difference) -> str:
    """One row; `=` stands for those who agree with byocir."""
    operators = ", ".join(each.operators)
    others = (each.onnxruntime or "=", each.reference or "=")
    return _line([operators, each.when, each.byocir, *others, each.why, f"`{each.name}`"])


def _line(cells: list[str] | tuple[str, ...]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


if __name__ == "__main__":
    PAGE.write_text(render(PAGE.read_text()))
