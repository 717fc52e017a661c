"""Tests targets with random programs made from their patterns, and with mutations of these.

`conform(target)` tells whether a target is right; `byocir conform` and pytest's fixture `conforms`
call it. `matching(composite)` and `near_miss(composite)` make programs that a target takes and just
misses; `unflipped(composite)` lists the rules that nothing was found to break.
`check_rewrite(rewrite)` checks that a rewrite changes what it must and no meaning.

Strategies need Hypothesis (the extra `byocir[test]`), which is imported when one is made. Every
generator also works without it, from a seed: it draws integers from a `Choose`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from byocir.lazy import exports

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

# pytest's plugin is in this package, too, and imports nothing of it.
__getattr__, __dir__ = exports(
    __name__,
    conformance="conform",
    matches="Example find_match find_near_miss matching near_miss unflipped",
    rewriting="check_rewrite",
)
