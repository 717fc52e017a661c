"""Rewrites by the pattern language: the patterns that targets use, with what replaces a match.

```python
@rewrites(op("graph.relu", op("graph.relu", wildcard("x")) @ "inner"))
def drop_second_relu(m, new):
    return [m["inner"].value]
```

The function gets the match and the ops it may add; it gives the values that replace the root's
results, or None to leave the match alone. The driver does the rest: locations, dead ops, an end to
rewrites that never end. Inner ops that others use stay, so a value used outside is no obstacle.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from xdsl.ir import Operation, SSAValue

from byocir.dialects.graph import Graph
from byocir.patterns import Match, Pattern
from byocir.patterns.dataflow import Producer
from byocir.patterns.match import Progress, State
from byocir.rewrites.driver import NewOps
from byocir.rewrites.driver import Pattern as RewritePattern

Replace = Callable[[Match, NewOps], Sequence[SSAValue] | None]


class MatchedRewrite(RewritePattern):
    """A rewrite of what a pattern matches, the first way that `replace` accepts."""

    def __init__(self, pattern: Pattern, replace: Replace) -> None:
        self.pattern = pattern
        self.replace = replace
        self.roots = tuple(_op_classes()[name] for name in sorted(pattern.root_names()))

    @property
    def name(self) -> str:
        return self.replace.__name__

    def rewrite(self, op: Operation, new: NewOps) -> Sequence[SSAValue] | None:
        start = State(op.parent)
        for state in self.pattern.match(op.results[0], Producer(op), start, Progress()):
            made = self.replace(Match(state, op), new)
            if made is not None:
                return made
        return None


@cache
def _op_classes() -> dict[str, type[Operation]]:
    return {kind.name: kind for kind in Graph.operations}


def rewrites(pattern: Pattern) -> Callable[[Replace], MatchedRewrite]:
    """Decorator: rewrites what a pattern of graph ops matches. Raises KeyError for a root that is
    none."""
    return lambda replace: MatchedRewrite(pattern, replace)
