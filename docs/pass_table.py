"""Writes the table of passes.md from the passes themselves.

    python docs/pass_table.py           # rewrites the table in place

Names and their order are the registry's; options and words are those of the classes.
"""

from __future__ import annotations

import re
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any

from xdsl.passes import ModulePass

from byocir.rewrites.registry import PASSES, all_passes

PAGE = Path(__file__).parent / "passes.md"
TABLE = re.compile(r"(?<=<!-- passes -->\n).*?(?=<!-- end of passes -->)", re.DOTALL)


def render(page: str) -> str:
    """The page with every registered pass as it is now, in the order of the registry."""
    rows = [row(name, load()) for name, load in all_passes().items()]
    table = "\n".join(["| pass | options | what it does | defined in |", "| --- " * 4 + "|", *rows])
    return TABLE.sub(lambda _: table + "\n", page)


def row(name: str, pass_: type[ModulePass]) -> str:
    """What is said about one pass."""
    options = ", ".join(f"`{option(field)}`" for field in fields(pass_))
    module = PASSES[name].partition(":")[0]
    path = f"src/{module.replace('.', '/')}.py"
    if not (PAGE.parents[1] / path).exists():
        path = f"src/{module.replace('.', '/')}/__init__.py"
    place = f"[{module.removeprefix('byocir.')}](../{path})"
    cells = [f"`{name}`", options, first_sentence(pass_), place]
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def option(field: Field[Any]) -> str:
    """An option with its type, and its default if it has one."""
    kind = field.type if isinstance(field.type, str) else field.type.__name__
    default = "" if field.default is MISSING else f" = {field.default!r}"
    return f"{field.name}: {kind}{default}".replace("'", '"')


def first_sentence(pass_: type[ModulePass]) -> str:
    """Up to the first full stop that ends a sentence, not one of an abbreviation."""
    text = " ".join((vars(pass_).get("__doc__") or "").split())
    return re.split(r"(?<=\.) (?=[A-Z])", text)[0]


if __name__ == "__main__":
    PAGE.write_text(render(PAGE.read_text()))
