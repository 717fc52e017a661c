"""iterations: makes each iteration of a loop a loop of its own, with numbers as indices.

```
tir.for %i = 0 to 2 serial {                          tir.for %i = 0 to 1 unroll {
  tir.block [m: 16] at(%i * 16) …                       tir.block [m: 16] at(0) …
}                                                →    }
                                                      tir.for %i = 0 to 1 unroll {
                                                        tir.block [m: 16] at(16) …
                                                      }
```

So iterations can differ: buffers live in one of them, and where a guard decides, each has a program
of its own.
"""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, i64

from byocir.dialects.tir import ForOp, LoopKind, LoopKindAttr
from byocir.dialects.uses import replace_uses
from byocir.rewrites.schedule.blocks import body_of
from byocir.rewrites.schedule.hoist_indices import hoist_indices
from byocir.rewrites.schedule.index import IndexBuilder, is_index_arithmetic, sum_of
from byocir.rewrites.schedule.requests import check_loop


def iterations(loop: ForOp) -> list[ForOp]:
    """Makes a loop of one iteration for each iteration of a loop, in order. The first is the op
    that was given, and the handles of what is inside it stay valid.
    """
    check_loop(loop)
    count, home = loop.extent.value.data, loop.parent
    assert home is not None
    loop.properties["extent"] = IntegerAttr(1, i64)
    loop.properties["kind"] = LoopKindAttr(LoopKind.UNROLL)
    found = [loop, *(loop.clone() for _ in range(count - 1))]
    home.insert_ops_after(found[1:], loop)
    numbers = IndexBuilder(body_of(loop), loop.location)
    for i, each in enumerate(found):
        replace_uses(each.index, numbers.number(i))
        for op in each.walk():
            if is_index_arithmetic(op) and not (known := sum_of(op.results[0])).terms:
                replace_uses(op.results[0], numbers.number(known.constant))
    hoist_indices(body_of(loop))
    return found
