"""reorder: puts nested loops into another order.

```
tir.for %i = 0 to 4 serial {       tir.for %j = 0 to 8 serial {
  tir.for %j = 0 to 8 serial {  →    tir.for %i = 0 to 4 serial {
    …                                  …
```
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from xdsl.ir import Operation
from xdsl.rewriter import InsertPoint, Rewriter

from byocir.dialects.tir import ForOp
from byocir.rewrites.schedule.access import accesses_in
from byocir.rewrites.schedule.blocks import body_of
from byocir.rewrites.schedule.dependence import Conflict, conflicts, described
from byocir.rewrites.schedule.hoist_indices import hoist_indices
from byocir.rewrites.schedule.index import is_index_arithmetic
from byocir.rewrites.schedule.reductions import only_accumulates
from byocir.rewrites.schedule.requests import check_loop, refused


def reorder(*loops: ForOp) -> None:
    """Puts loops that are directly inside each other into this order, outermost first. Raises
    ByocirError B254 where they are not, B253 for an order in which loops whose iterations depend
    on each other change places. Those of a reduction that gives the same in any order do not."""
    nest = nest_of(loops)
    binding = {loop: _binding(loop, nest) for loop in nest}
    moved = [loop for loop in loops if binding[loop] is not None]
    kept = [loop for loop in nest if loop in moved]
    late = next((a for a, b in zip(kept, moved, strict=True) if a is not b), None)
    if late is not None:
        found = binding[late]
        assert found is not None
        raise refused(
            "B253",
            f"expected loops that depend on each other to keep their order, found {described(late)}"
            f" moved; its iterations share a buffer that {described(found.op)} writes",
            late,
        )
    _rebuild(nest, loops)
    hoist_indices(body_of(loops[0]))


def _binding(loop: ForOp, nest: Sequence[ForOp]) -> Conflict | None:
    """Finds a conflict that keeps a loop in its place in a nest; None if it may move."""
    accesses = accesses_in(nest[-1].body.block)
    found = conflicts(loop, nest)
    return next((c for c in found if not only_accumulates(c.buffer, accesses)), None)


def nest_of(loops: Sequence[ForOp]) -> list[ForOp]:
    """Sorts these loops from the outermost on, if each holds nothing but the next and index
    arithmetic. Raises ByocirError B254.
    """
    for loop in loops:
        check_loop(loop)
    if not loops or len(set(loops)) != len(loops):
        raise refused("B254", f"expected one or more loops, each once, found {len(loops)}")
    nest = [next((loop for loop in loops if loop.parent_op() not in loops), loops[0])]
    while len(nest) < len(loops):
        inside = [op for op in nest[-1].body.block.ops if not is_index_arithmetic(op)]
        inner = inside[0] if len(inside) == 1 else None
        if not isinstance(inner, ForOp) or inner not in loops:
            raise refused(
                "B254",
                f"expected loops directly inside each other, found "
                f"{', '.join(op.name for op in inside)} in {described(nest[-1])}",
                nest[-1],
                help="name all loops of the nest, with nothing else between them",
            )
        nest.append(inner)
    return nest


def _rebuild(nest: Sequence[ForOp], order: Sequence[ForOp]) -> None:
    """Nests the loops anew; index arithmetic between them moves to the innermost body."""
    outside, after = nest[0].parent, nest[0].next_op
    assert outside is not None
    arithmetic: list[Operation] = []
    for loop in nest[:-1]:
        arithmetic += [op for op in loop.body.block.ops if op not in nest]
    content = [*arithmetic, *nest[-1].body.block.ops]
    for op in [*nest, *content]:
        op.detach()
    Rewriter.insert_op(order[0], InsertPoint(outside, after))
    for outer, inner in pairwise(order):
        outer.body.block.add_op(inner)
    order[-1].body.block.add_ops(content)
