"""Tests targets with random programs made from their patterns, and with mutations of these.

`conform(target)` tells whether a target is right; `byocir conform` and pytest's fixture `conforms`
call it. `matching(composite)` and `near_miss(composite)` make programs that a target takes and just
misses; `unflipped(composite)` lists the rules that nothing was found to break.
`check_rewrite(rewrite)` checks that a rewrite changes what it must and no meaning.

Strategies need Hypothesis (the extra `byocir[test]`), which is imported when one is made. Every
generator also works without it, from a seed: it draws integers from a `Choose`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from byocir.testing.conformance import conform
    from byocir.testing.matches import (
        Example,
        find_match,
        find_near_miss,
        matching,
        near_miss,
        unflipped,
    )
    from byocir.testing.rewriting import check_rewrite

__all__ = [
    "Example",
    "check_rewrite",
    "conform",
    "find_match",
    "find_near_miss",
    "matching",
    "near_miss",
    "unflipped",
]

_HOMES = {
    **dict.fromkeys(__all__, "byocir.testing.matches"),
    "check_rewrite": "byocir.testing.rewriting",
    "conform": "byocir.testing.conformance",
}
"""Maps names to the modules that define them: pytest's plugin is here, too, and imports nothing."""


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'byocir.testing' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)
