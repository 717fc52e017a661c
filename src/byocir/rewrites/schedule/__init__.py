"""Schedules blocks in buffer form: small rewrites change how they run, and keep what they compute.

```python
s = Schedule(function)
gemm = s.block("gemm")
m, n, k = s.tile(gemm, m=16, n=16, k=32)
s.reorder(n, m)
s.parallel(n)
```

Handles are the ops themselves. Each primitive is a function of a module of this package, whose
docstring shows before and after. A request that a primitive cannot grant is a ByocirError that
changes nothing and says what was wrong.
"""

from byocir.rewrites.schedule.handles import Schedule

__all__ = ["Schedule"]
