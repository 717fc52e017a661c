"""Tools for the tests of a target: random programs and mutations of them, onnx's own tests.

`matching(composite)` and `near_miss(composite)` make programs that a target takes and just misses;
`unflipped(composite)` lists the rules that nothing was found to break. `check_rewrite(rewrite)`
checks that a rewrite changes what it must and no meaning.

`python -m byocir.testing.fuzz` compares random ONNX graphs with what others make of them.

Strategies need Hypothesis (the extra `byocir[test]`), which is imported when one is made. Every
generator also works without it, from a seed: it draws integers from a `Choose`.
"""

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
    "find_match",
    "find_near_miss",
    "matching",
    "near_miss",
    "unflipped",
]
