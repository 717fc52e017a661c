"""Reads C files that ship with byocir, as parts of the one source of a model."""

from __future__ import annotations

import re
from functools import cache

from byocir.evaluate.routines import FOLDER

_INCLUDE = re.compile(r'^#include "(.*)"\n+', re.MULTILINE)


@cache
def with_includes(name: str) -> dict[str, str]:
    """Reads a C file and those of byocir that it includes, by name, each behind what it includes
    itself.
    """
    text = (FOLDER / name).read_text(encoding="utf-8")
    files: dict[str, str] = {}
    for included in _INCLUDE.findall(text):
        files |= with_includes(included)
    return {**files, name: _INCLUDE.sub("", text)}


HALF = {"!": with_includes("half.h")["half.h"]}
"""The functions for floats of 16 bits, as a definition that comes before all others."""
