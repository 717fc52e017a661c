"""compute_at: what a loop needs of a buffer, computed in the loop.

```
tir.block [i: 32] outs(%t[i]) …        tir.for %i = 0 to 4 serial {
tir.for %i = 0 to 4 serial {             tir.block [i: 8] at(%i * 8) outs(%t[i]) …
  tir.block [i: 8] at(%i * 8)        →   tir.block [i: 8] at(%i * 8) ins(%t[i]) …
      ins(%t[i]) …                     }
}
```

All ops that make the buffer move, each over the box that one iteration reads; where boxes of
iterations overlap, elements are computed again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineExpr

from byocir.dialects.tir import AllocOp, BlockOp, FillOp, ForOp
from byocir.dialects.tir.affine import linear
from byocir.dialects.types import shape_of
from byocir.errors import ByocirError
from byocir.rewrites.schedule.access import BoxAccess, Side, accesses_in, accesses_of, loops_of
from byocir.rewrites.schedule.blocks import Parts, block_of_fill, body_of, reads_old
from byocir.rewrites.schedule.dependence import described
from byocir.rewrites.schedule.hoist_indices import hoist_indices
from byocir.rewrites.schedule.index import IndexBuilder, base_sums, interval_of_sum
from byocir.rewrites.schedule.kinds import runs_in_order
from byocir.rewrites.schedule.requests import check_block, check_loop, refused
from byocir.rewrites.schedule.stage import top, united


def compute_at(block: BlockOp, loop: ForOp) -> None:
    """Moves a block, and the ops before it that make the same buffer, into a loop that reads it.
    Raises ByocirError B256 where that would break a dependence: something else reads or writes the
    buffer, an input changes on the way, or the ops do not make the whole buffer from scratch."""
    check_block(block)
    check_loop(loop)
    buffer = block.outs[0]
    home, target = block.parent, loop.body.block
    assert home is not None
    around = _op_around(loop, home)
    if around is None or not block.is_before_in_block(around):
        raise _breaks("a loop after the block, beside it", described(loop), block)
    at_once = next((each for each in [*loops_of(loop), loop] if not runs_in_order(each)), None)
    if at_once is not None:
        raise _breaks("loops in order; give them their kinds later", described(at_once), block)
    chain = _chain(block, buffer, home, around)
    reads = _reads(buffer, chain, target, block)
    _check_inputs(chain, buffer, around, block)
    box = united(reads, target)
    if box is None:
        raise _breaks("reads of one box in each iteration", "unrelated ones", block)
    hoist_indices(body_of(block))
    before = top(reads[0].op, target)
    for op in chain:
        _move(op, box, before, target)
    hoist_indices(body_of(loop))


def _breaks(expected: str, found: str, block: BlockOp) -> ByocirError:
    return refused("B256", f"expected {expected}, found {found}", block)


def _op_around(loop: ForOp, home: Block) -> Operation | None:
    """Gives the op of a block that is or encloses a loop."""
    op: Operation | None = loop
    while op is not None and op.parent is not home:
        op = op.parent_op()
    return op


def _chain(
    block: BlockOp, buffer: SSAValue, home: Block, around: Operation
) -> list[FillOp | BlockOp]:
    """Gives the ops that make a buffer: the first from scratch, each over all of it."""
    if not isinstance(buffer.owner, AllocOp) or len(block.outs) != 1:
        raise _breaks("a buffer that nothing outside the function sees", "another", block)
    chain: list[FillOp | BlockOp] = []
    for op in home.ops:
        if op is around:
            break
        if not any(access.buffer is buffer for access in accesses_of(op)):
            continue
        if not isinstance(op, FillOp | BlockOp) or not _makes_all(op, buffer):
            raise _breaks(
                "blocks that make the whole buffer, element by element", described(op), block
            )
        chain.append(op)
    first = chain[0]
    if isinstance(first, BlockOp) and (reads_old(first) or buffer in first.ins):
        raise _breaks("a buffer that is made from scratch", f"{described(first)} first", block)
    return chain


def _makes_all(op: FillOp | BlockOp, buffer: SSAValue) -> bool:
    """Tells if an op sets each element of a buffer from the same element of it, if from any."""
    if isinstance(op, FillOp):
        return True
    if len(op.outs) != 1 or op.outs[0] is not buffer or op.bases or op.where is not None:
        return False
    (out,) = op.out_maps
    sizes = [op.extents[i] for i in (_iterator(expr) for expr in out.results) if i is not None]
    plain = len({_iterator(expr) for expr in out.results} - {None}) == len(out.results)
    same = all(
        map_ == out for value, map_ in zip(op.ins, op.in_maps, strict=True) if value is buffer
    )
    return plain and same and tuple(sizes) == shape_of(buffer.type)


def _iterator(expr: AffineExpr) -> int | None:
    """Gives the iterator that an index is, or None."""
    form = linear(expr)
    if form is None or form.constant or len(form.terms) != 1 or form.terms[0][1] != 1:
        return None
    return form.terms[0][0]


def _reads(
    buffer: SSAValue, chain: Sequence[Operation], target: Block, block: BlockOp
) -> list[BoxAccess]:
    """Gives the accesses in the loop, which are all but those of the chain, and read."""
    found = [access for access in accesses_in(target) if access.buffer is buffer]
    inside = {access.op for access in found}
    for use in buffer.uses:
        if use.operation not in inside and use.operation not in chain:
            raise _breaks(
                "a buffer that only this loop reads", f"{described(use.operation)} too", block
            )
    writer = next((access.op for access in found if access.writes), None)
    if writer is not None or not found:
        what = "a loop that does not" if writer is None else f"{described(writer)}, which writes it"
        raise _breaks("a loop that reads the buffer", what, block)
    return found


def _check_inputs(
    chain: Sequence[FillOp | BlockOp], buffer: SSAValue, around: Operation, block: BlockOp
) -> None:
    """Raises unless the inputs of the chain are the same in the loop."""
    for op in chain:
        inputs = {a.buffer for a in accesses_of(op) if a.reads and a.buffer is not buffer}
        later = op.next_op
        while later is not None:
            for access in accesses_of(later):
                if access.writes and access.buffer in inputs:
                    raise _breaks(
                        f"inputs of {described(op)} that stay as they are",
                        f"{described(access.op)}, which writes one",
                        block,
                    )
            later = None if later is around else later.next_op


def _move(op: FillOp | BlockOp, box: Sequence[Side], before: Operation, target: Block) -> None:
    """Moves an op of the chain in front of another one, over the box only."""
    if isinstance(op, FillOp):
        moved = block_of_fill(op)
        op.detach()
        op.erase()
    else:
        moved = op
        op.detach()
    target.insert_op_before(moved, before)
    indices = IndexBuilder(body_of(moved), moved.location)
    sizes = shape_of(moved.outs[0].type)
    extents, bases = list(moved.extents), base_sums((), len(moved.extents))
    guards: list[AffineExpr] = []
    for expr, side, size in zip(moved.out_maps[0].results, box, sizes, strict=True):
        i = _iterator(expr)
        assert i is not None
        if side.size >= size:
            continue
        extents[i], bases[i] = side.size, side.start
        guards += _guards(i, side, size)
    values = [indices.value(base, target, moved) for base in bases]
    parts = Parts.of(moved).with_extents(extents)
    replace(parts, bases=tuple(values), guards=tuple(guards)).put(moved)


def _guards(i: int, side: Side, size: int) -> list[AffineExpr]:
    """Lists the guards that keep iterator i inside [0, size) where the box may leave it."""
    found, iterator = interval_of_sum(side.start), AffineExpr.dimension(i)
    low, high = found or (-1, size)
    guards = [iterator] if low < 0 else []
    if high + side.size > size:
        guards.append(iterator * -1 + (size - 1))
    return guards
