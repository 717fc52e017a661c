"""Holds passes that stay on a level, and says how to write more of them.

```python
from byocir.patterns import op, wildcard
from byocir.rewrites import RewritePass, rewrites

@rewrites(op("graph.relu", op("graph.relu", wildcard("x")) @ "inner"))
def drop_second_relu(inner):
    return inner

class DropRelus(RewritePass):
    name = "drop-relus"
    rewrites = (drop_second_relu,)
```

Nothing is imported before it is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from byocir.rewrites.byoc.markers import mark_ops
    from byocir.rewrites.driver import NewOps, rewrite_module
    from byocir.rewrites.matching import MatchedRewrite, rewrites
    from byocir.rewrites.pipeline import run_passes
    from byocir.rewrites.rewrite_pass import RewritePass, passes_in

_HOMES = {
    "MatchedRewrite": "byocir.rewrites.matching",
    "NewOps": "byocir.rewrites.driver",
    "RewritePass": "byocir.rewrites.rewrite_pass",
    "mark_ops": "byocir.rewrites.byoc.markers",
    "passes_in": "byocir.rewrites.rewrite_pass",
    "rewrite_module": "byocir.rewrites.driver",
    "rewrites": "byocir.rewrites.matching",
    "run_passes": "byocir.rewrites.pipeline",
}
"""Maps each public name to the module that defines it."""

__all__ = [
    "MatchedRewrite",
    "NewOps",
    "RewritePass",
    "mark_ops",
    "passes_in",
    "rewrite_module",
    "rewrites",
    "run_passes",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'byocir.rewrites' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
