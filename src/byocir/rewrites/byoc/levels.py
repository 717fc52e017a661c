"""Keeps in a module the levels at which it is still to be matched.

`byoc.levels` is set where targets are named, and each level leaves it as `match-composites` runs.
So a module that was saved on the way says what is left to do, and one that is done says `[]`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.ir import Attribute

from byocir.dialects.byoc import LEVELS, LEVELS_LEFT


def set_levels(module: ModuleOp, levels: Sequence[str] = LEVELS) -> None:
    """Writes into a module at which levels work is to be handed over."""
    module.attributes[LEVELS_LEFT] = ArrayAttr([StringAttr(level) for level in levels])


def levels_left(module: ModuleOp) -> list[str] | None:
    """Reads the levels at which a module is still to be matched; None where it does not say."""
    attribute = module.attributes.get(LEVELS_LEFT)
    if not isinstance(attribute, ArrayAttr):
        return None
    names = cast("ArrayAttr[Attribute]", attribute)
    found = [level.data for level in names if isinstance(level, StringAttr)]
    return [level for level in LEVELS if level in found]


def leave_level(module: ModuleOp, level: str) -> None:
    """Notes that a level was matched."""
    left = levels_left(module)
    if left is not None:
        set_levels(module, [each for each in left if each != level])
