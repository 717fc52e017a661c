"""split: makes two loops of one, the inner one over so many iterations.

```
tir.for %i = 0 to 12 serial {      tir.for %o = 0 to 3 serial {
  … %i …                       →     tir.for %n = 0 to 4 serial {
}                                      … %o * 4 + %n …
```
"""

from __future__ import annotations

from dataclasses import replace

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineExpr

from byocir.dialects.tir import AllocOp, BlockOp, ForOp, LoopKind, LoopKindAttr
from byocir.dialects.tir.linear import Linear
from byocir.dialects.uses import set_operand
from byocir.rewrites.schedule.blocks import Parts, body_of
from byocir.rewrites.schedule.hoist_indices import hoist_indices
from byocir.rewrites.schedule.index import IndexBuilder, base_sums, is_index_arithmetic
from byocir.rewrites.schedule.requests import check_loop, refused

_Guards = dict[BlockOp, tuple[int, Linear[SSAValue]]]
"""Maps each block to the iterator that tells the iteration, and its last value."""


def split(loop: ForOp, factor: int, *, guard: bool = False) -> tuple[ForOp, ForOp]:
    """Makes an outer and an inner loop of the same kind (lanes of vectors stay inside) of a loop,
    which becomes the outer one; gives both. With `guard` a factor need not divide: a `where` of
    each block leaves out the iterations past the end. Raises ByocirError B252 for a factor that
    does not fit, and where what is inside cannot be guarded.
    """
    check_loop(loop)
    extent = loop.extent.value.data
    if not 1 <= factor <= extent:
        raise refused("B252", f"expected a factor from 1 to {extent}, found {factor}", loop)
    if extent % factor and not guard:
        raise refused(
            "B252",
            f"expected a factor that divides {extent}, found {factor}",
            loop,
            help="guard=True leaves out what is past the end",
        )
    guards = _guards(loop) if extent % factor else {}
    inner = _split(loop, factor)
    for block, (i, last) in guards.items():
        guard_end(block, i, last)
    hoist_indices(body_of(loop))
    return loop, inner


def _split(loop: ForOp, factor: int) -> ForOp:
    """Moves the body into an inner loop and gives that."""
    outside, index = loop.body.block, loop.index
    inner = ForOp.of(factor, loop.kind.data, loop.location)
    inner.index.name_hint = index.name_hint
    for op in list(outside.ops):
        op.detach()
        inner.body.block.add_op(op)
    outside.add_op(inner)
    if loop.kind.data is LoopKind.VECTORIZE:
        loop.properties["kind"] = LoopKindAttr(LoopKind.SERIAL)
    loop.properties["extent"] = IntegerAttr(-(-loop.extent.value.data // factor), i64)
    uses = list(index.uses)
    first, body = inner.body.block.first_op, inner.body.block
    whole = Linear(((index, factor), (inner.index, 1)))
    value = IndexBuilder(body_of(loop), loop.location).value(whole, body, first)
    for use in uses:
        set_operand(use.operation, use.index, value)
    return inner


def _guards(loop: ForOp) -> _Guards:
    """Finds for each block in a loop the guard that keeps it from running past the end."""
    found: _Guards = {}
    for op in loop.body.walk():
        if isinstance(op, ForOp | AllocOp) or is_index_arithmetic(op) or _is_in_block(op):
            continue
        told = _iterator_of_loop(op, loop) if isinstance(op, BlockOp) else None
        if told is None or not isinstance(op, BlockOp):
            raise refused(
                "B252",
                f"expected a factor that divides {loop.extent.value.data}: {op.name} runs in every "
                "iteration and cannot be guarded",
                op,
            )
        found[op] = told
    return found


def _is_in_block(op: Operation) -> bool:
    return isinstance(op.parent_op(), BlockOp)


def _iterator_of_loop(block: BlockOp, loop: ForOp) -> tuple[int, Linear[SSAValue]] | None:
    """Finds the iterator of a block whose value tells the iteration of a loop, and the last value
    that it may have; None if there is none.
    """
    extent = loop.extent.value.data
    for i, base in enumerate(base_sums(block.bases, len(block.extents))):
        step = base.coefficient(loop.index)
        if step >= block.extents[i] > 0:
            return i, base.without(loop.index) + (step * extent - 1)
    return None


def guard_end(block: BlockOp, i: int, last: Linear[SSAValue]) -> None:
    """Leaves out the points of a block at which iterator i is past its last value."""
    parts, end = Parts.of(block), AffineExpr.constant(last.constant)
    if last.terms:
        assert block.parent is not None
        indices = IndexBuilder(body_of(block), block.location)
        value = indices.value(last.variable, block.parent, block)
        name = block.names[i]
        parts, point = parts.with_point(name, value, indices.number(0))
        i, end = parts.position(name), end + point
    expr = end + AffineExpr.dimension(i) * -1
    replace(parts, guards=(*parts.guards, expr)).put(block)
