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

from typing import TYPE_CHECKING

from byocir.lazy import exports

if TYPE_CHECKING:
    from byocir.rewrites.byoc.markers import mark_ops
    from byocir.rewrites.driver import NewOps, rewrite_module
    from byocir.rewrites.matching import MatchedRewrite, rewrites
    from byocir.rewrites.pipeline import run_passes
    from byocir.rewrites.rewrite_pass import RewritePass, passes_in

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


__getattr__, __dir__ = exports(
    __name__,
    driver="NewOps rewrite_module",
    matching="MatchedRewrite rewrites",
    pipeline="run_passes",
    rewrite_pass="RewritePass passes_in",
    **{"byoc.markers": "mark_ops"},
)
