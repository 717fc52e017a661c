"""fuse: makes one loop of two nested loops.

```
tir.for %i = 0 to 4 serial {       tir.for %f = 0 to 32 serial {
  tir.for %j = 0 to 8 serial {  →    … %f floordiv 8 … %f mod 8 …
    … %i … %j …
```
"""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, i64

from byocir.dialects.locations import fuse as fuse_locations
from byocir.dialects.tir import ForOp, LoopKind, LoopKindAttr
from byocir.dialects.uses import erase, set_operand
from byocir.rewrites.schedule.blocks import body_of
from byocir.rewrites.schedule.hoist_indices import hoist_indices
from byocir.rewrites.schedule.index import IndexBuilder
from byocir.rewrites.schedule.reorder import nest_of
from byocir.rewrites.schedule.requests import refused


def fuse(outer: ForOp, inner: ForOp) -> ForOp:
    """Makes one loop, which is the op of the outer one; the inner one is erased. Loops of different
    kinds become a serial one. Raises ByocirError B254 unless `inner` is directly inside `outer`,
    with nothing beside it.
    """
    if nest_of([outer, inner])[0] is not outer:
        raise refused("B254", "expected the outer loop first, found the inner one", inner)
    times, body = inner.extent.value.data, outer.body.block
    indices = IndexBuilder(body_of(outer), outer.location)
    outer_uses, inner_uses = list(outer.index.uses), list(inner.index.uses)
    for op in list(inner.body.block.ops):
        op.detach()
        body.insert_op_before(op, inner)
    first = body.first_op
    assert first is not None
    by = indices.number(times)
    quotient, remainder = arith.DivUIOp(outer.index, by), arith.RemUIOp(outer.index, by)
    for op, uses in ((quotient, outer_uses), (remainder, inner_uses)):
        op.location = outer.location
        body.insert_op_before(op, first)
        for use in uses:
            set_operand(use.operation, use.index, op.result)
    erase(inner)
    outer.properties["extent"] = IntegerAttr(outer.extent.value.data * times, i64)
    if outer.kind.data is not inner.kind.data:
        outer.properties["kind"] = LoopKindAttr(LoopKind.SERIAL)
    outer.location = fuse_locations(outer, inner)
    hoist_indices(body_of(outer))
    return outer
