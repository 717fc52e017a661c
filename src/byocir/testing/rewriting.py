"""Tests rewrites, on programs made from their patterns.

```python
from byocir.testing import check_rewrite

def test_drop_second_relu():
    check_rewrite(drop_second_relu)
```
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from byocir.dialects.verify import verify_module
from byocir.errors import ByocirError
from byocir.evaluate.module import evaluate, random_feeds
from byocir.rewrites.driver import NewOps, rewrite_module
from byocir.rewrites.matching import MatchedRewrite
from byocir.testing.matches import Example, find_match, first_miss, misses_of, required

Outputs = Mapping[str, Any]


def check_rewrite(
    rewrite: MatchedRewrite, *, examples: int = 10, rtol: float = 0.0, atol: float = 0.0
) -> None:
    """Checks a rewrite on programs made from its pattern, the same each time.

    On `examples` programs that its pattern and rules take, with random inputs, the program must be
    valid afterwards and compute the same: bit for bit, or within `rtol` and `atol` as
    `numpy.allclose` reads them. On programs that miss by one test of the pattern, one rule, or one
    edge, each that can be found, it must do nothing. Raises AssertionError with the program
    otherwise, also where it leaves every match alone; ByocirError B365 where no program is found.
    """
    changed = 0
    for seed in range(examples):
        example = required(rewrite.composite, find_match(rewrite.composite, seed), "takes")
        changed += _is_same(rewrite, example, seed, rtol, atol)
    if not changed:
        raise AssertionError(f"rewrite {rewrite.name} left all of {examples} matches alone")
    for example in near_misses(rewrite):
        if _is_rewritten(rewrite, example.root):
            raise AssertionError(f"rewrite {rewrite.name} changed a near miss\n{example}")


def near_misses(rewrite: MatchedRewrite) -> Iterator[Example]:
    """Yields programs that a rewrite's pattern or rules just miss, one for each reason that can be
    found, always the same.
    """
    for miss in misses_of(rewrite.composite):
        example = first_miss(rewrite.composite, miss)
        if example is not None:
            yield example


def _is_rewritten(rewrite: MatchedRewrite, root: Operation) -> bool:
    """Tells if a rewrite fits at an op; other matches in the program do not count."""
    new = NewOps()
    fits = rewrite.rewrite(root, new) is not None
    for op in reversed(new.ops):
        op.erase()
    return fits


def _is_same(
    rewrite: MatchedRewrite, example: Example, seed: int, rtol: float, atol: float
) -> bool:
    """Tells if a rewrite changed a program, where that can be run. Raises AssertionError where it
    changed the program's meaning.
    """
    module = example.module.clone()
    with np.errstate(all="ignore"):
        if not rewrite_module(module, [rewrite]):
            return False
        try:
            verify_module(module)
        except ByocirError as error:
            told = f"made an invalid program: {error.message}"
            raise _changed(rewrite, told, example, module) from error
        feeds = random_feeds(module, seed)
        expected = _computed(example.module, feeds)
        if expected is None:
            return False
        found = evaluate(module, feeds)
    for name, value in expected.items():
        if not _close(value, found[name], rtol, atol):
            told = f"changed {name} from\n{value}\nto\n{found[name]}"
            raise _changed(rewrite, told, example, module)
    return True


def _computed(module: ModuleOp, feeds: Outputs) -> Outputs | None:
    """Runs a program; None where it cannot be run on these values, because an index of a gather may
    be drawn outside of its array.
    """
    try:
        return evaluate(module, feeds)
    except ByocirError as error:
        if error.code != "B312":
            raise
        return None


def _close(expected: Any, found: Any, rtol: float, atol: float) -> bool:
    if rtol == atol == 0:
        return np.array_equal(expected, found, equal_nan=np.asarray(expected).dtype.kind == "f")
    wide = (np.asarray(each, np.float64) for each in (found, expected))
    return np.allclose(*wide, rtol=rtol, atol=atol, equal_nan=True)


def _changed(
    rewrite: MatchedRewrite, told: str, example: Example, module: ModuleOp
) -> AssertionError:
    programs = f"before:\n{example.module}\nafter:\n{module}"
    return AssertionError(f"rewrite {rewrite.name} {told}\n{programs}")
