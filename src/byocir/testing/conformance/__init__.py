"""Tells whether a target is right: compiles programs made from its patterns, runs them and
compares.

```python
from byocir.targets.resolve_targets import the_target
from byocir.testing import conform

def test_npu_conforms():
    score = conform(Npu(), seconds=20)
    assert not score.wrong, score.text()
```

For each pattern, with each setting of the target's options, programs that it takes, programs that
it just misses and small nets of these are compiled, run and compared with the evaluator: integers
to the bit, floats within a tolerance. What differs is made small.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from byocir.targets.base import Target
from byocir.targets.resolve_targets import the_target
from byocir.testing.conformance.score import Failure, Score
from byocir.testing.conformance.session import Progress, Session

__all__ = ["Failure", "Progress", "Score", "Session", "conform"]


def conform(
    target: str | Target,
    *,
    seconds: float = 60.0,
    rounds: int | None = None,
    seed: int = 0,
    patterns: Sequence[str] = (),
    folder: str | Path | None = None,
    first: bool = False,
) -> Score:
    """Tests a target, given as in `byocir.compile`, for some seconds. With `rounds` it tests so
    many programs of each pattern and kind instead, and so always the same. `patterns` are names of
    composites: all by default. With `first` it stops at the first problem. Programs that show a
    problem are written into `folder`. Raises ByocirError B210 to B217 for what is no target, B388
    for no pattern.
    """
    session = Session(the_target(target), seed, patterns, Path(folder) if folder else None)
    return session.run(seconds, rounds, first=first)
