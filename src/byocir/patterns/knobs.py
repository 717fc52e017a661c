"""Describes knobs: numbers and words that a target leaves open, and the values they can have.

A script has holes for them, `m, = tile(gemm, m={tile_m})`, which are filled in. Where a target has
no script, what was chosen is text, too, `unroll = 4; order = 'mn'`, which `knobs_of` reads.

| code | what is wrong |
| --- | --- |
| B265 | a hole of a script has no values, or knobs are no names with numbers and words |
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any, cast

from xdsl.dialects.builtin import StringAttr

from byocir.dialects.byoc import CompositeOp
from byocir.errors import ByocirError, did_you_mean
from byocir.vendor.hooks import ask

_HOLE = re.compile(r"\{(\w+)\}")

Value = int | str
"""The value of a knob."""


@dataclass(frozen=True)
class KnobChoices:
    """Lists all ways to fill the holes of a script or, where there is no script, to set a target's
    knobs.
    """

    script: str
    knobs: Mapping[str, Sequence[Value]]

    @property
    def size(self) -> int:
        """Counts the ways."""
        return prod(len(values) for values in self.knobs.values())

    def text(self, chosen: Mapping[str, Value]) -> str:
        """Spells one of the ways: the script with its holes filled, or the knobs as assignments."""
        if not self.script:
            return knobs_text(chosen)
        return _HOLE.sub(lambda hole: str(chosen[hole[1]]), self.script)

    @property
    def default(self) -> str:
        """Gives the way that has the first value of each knob."""
        return self.text({name: values[0] for name, values in self.knobs.items()})

    def all(self) -> Iterator[str]:
        """Gives all ways, those with the first values first."""
        for values in product(*self.knobs.values()):
            yield self.text(dict(zip(self.knobs, values, strict=True)))


def space_of(target: Any, composite: CompositeOp, script: str | None) -> KnobChoices:
    """Asks a target for the knobs of a composite, and gives the ways to set them, or to fill the
    holes of the script that it gave. Raises ByocirError B265.
    """
    given: Any = ask(target, "knobs", composite)
    if not isinstance(given, Mapping):
        raise _wrong(target, "a mapping of names to values", type(given).__name__)
    knobs = {str(name): values for name, values in cast("Mapping[Any, Any]", given).items()}
    for name, values in knobs.items():
        if not name.isidentifier():
            raise _wrong(target, "names", f"{name!r}")
        listed = cast("Sequence[Any]", values) if isinstance(values, (list, tuple, range)) else ()
        if not listed or not all(type(value) in (int, str) for value in listed):
            raise _wrong(target, f"a list of numbers and words for {name}", f"{values!r}")
    holes = list(dict.fromkeys(_HOLE.findall(script or "")))
    missing = [hole for hole in holes if hole not in knobs]
    if missing:
        help = did_you_mean(missing[0], list(knobs)) if knobs else "define knobs beside schedule"
        raise _wrong(target, f"values for the hole {{{missing[0]}}}", "none", help)
    used = holes if script else list(knobs)
    return KnobChoices(script or "", {name: tuple(knobs[name]) for name in used})


def knobs_text(chosen: Mapping[str, Value]) -> str:
    """Spells knobs as a text of assignments."""
    return "; ".join(f"{name} = {value!r}" for name, value in chosen.items())


def knobs_of(composite: CompositeOp) -> dict[str, Value]:
    """Gives the knobs that were chosen for a composite, by name; empty where it has a script
    instead.
    """
    return read_knobs(composite.schedule) or {}


def read_knobs(schedule: StringAttr | None) -> dict[str, Value] | None:
    """Reads the knobs of a text of assignments; None for a script, which calls primitives."""
    found: dict[str, Value] = {}
    try:
        statements = ast.parse(schedule.data if schedule is not None else "").body
    except (SyntaxError, ValueError):
        return None
    for each in statements:
        if not isinstance(each, ast.Assign) or not isinstance(each.value, ast.Constant):
            return None
        (name, *more), value = each.targets, each.value.value
        if more or not isinstance(name, ast.Name) or not isinstance(value, int | str):
            return None
        found[name.id] = value
    return found


def _wrong(target: Any, expected: str, found: str, help: str = "") -> ByocirError:
    message = f"expected knobs of target '{target.name}' to give {expected}, found {found}"
    return ByocirError("B265", message, help=help)
