"""compute_at: computes in a loop what the loop needs of a buffer.

```
tir.block [i: 32] outs(%t[i]) …        tir.for %i = 0 to 4 serial {
tir.for %i = 0 to 4 serial {             tir.block [i: 8] at(%i * 8) outs(%t[i]) …
  tir.block [i: 8] at(%i * 8)        →   tir.block [i: 8] at(%i * 8) ins(%t[i]) …
      ins(%t[i]) …                     }
}
```

All ops that make the buffer move, each over the box that one iteration reads; where boxes of
iterations overlap, elements are computed again. Buffers that need each other in turn move together:
sums, and a copy of them from which something is computed that is added to the sums. So do two of
which one is made of the other, which then changes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr

from byocir.dialects.tir import AllocOp, BlockOp, FillOp, ForOp
from byocir.dialects.tir.affine import whole_axes
from byocir.dialects.types import shape_of
from byocir.dialects.uses import erase
from byocir.errors import ByocirError
from byocir.patterns.dataflow import ancestor_in
from byocir.rewrites.schedule.access import BoxAccess, Side, accesses_in, accesses_of, loops_of
from byocir.rewrites.schedule.blocks import Parts, block_of_fill, body_of, reads_old
from byocir.rewrites.schedule.dependence import described
from byocir.rewrites.schedule.hoist_indices import hoist_indices
from byocir.rewrites.schedule.index import IndexBuilder, base_sums, interval_of_sum
from byocir.rewrites.schedule.kinds import runs_in_order
from byocir.rewrites.schedule.requests import check_block, check_loop, refused
from byocir.rewrites.schedule.stage import top, united


def compute_at(block: BlockOp, loop: ForOp) -> None:
    """Moves a block into a loop that reads its buffer, with the ops before it that make the same
    buffer, or a buffer that is made of it while it is made of that in turn. Raises ByocirError B256
    where that would break a dependence: something else reads or writes the buffer, an input changes
    on the way, or the ops do not make the whole buffer from scratch.
    """
    check_block(block)
    check_loop(loop)
    buffer = block.outs[0]
    home, target = block.parent, loop.body.block
    assert home is not None
    around = ancestor_in(home, loop)
    if around is None or not block.is_before_in_block(around):
        raise _breaks("a loop after the block, beside it", described(loop), block)
    at_once = next((each for each in [*loops_of(loop), loop] if not runs_in_order(each)), None)
    if at_once is not None:
        raise _breaks("loops in order; give them their kinds later", described(at_once), block)
    before = list(home.ops)[: list(home.ops).index(around)]
    buffers = _in_turn(buffer, before)
    chain = _chain(block, buffers, before)
    reads = _reads(buffers, chain, target, block)
    _check_inputs(chain, buffers, around, block)
    box = united(reads, target)
    if box is None:
        raise _breaks("reads of one box in each iteration", "unrelated ones", block)
    hoist_indices(body_of(block))
    reader = top(reads[0].op, target)
    for op in chain:
        _move(op, box, reader, target)
    hoist_indices(body_of(loop))


def _breaks(expected: str, found: str, block: BlockOp) -> ByocirError:
    return refused("B256", f"expected {expected}, found {found}", block)


def _in_turn(buffer: SSAValue, ops: Sequence[Operation]) -> list[SSAValue]:
    """Lists a buffer, and those that are made of it while it is made of them in turn. What changes
    when another buffer was made of it counts as made of that: neither can move without the other.
    """
    sources: dict[SSAValue, set[SSAValue]] = {}
    made: dict[SSAValue, set[SSAValue]] = {}
    for op in ops:
        accesses = list(accesses_of(op))
        read = {access.buffer for access in accesses if access.reads}
        for written in (access.buffer for access in accesses if access.writes):
            sources.setdefault(written, set()).update(read, made.pop(written, ()))
            for each in read - {written}:
                if isinstance(each.owner, AllocOp) and isinstance(written.owner, AllocOp):
                    made.setdefault(each, set()).add(written)
    return [buffer, *(b for b in sources if b is not buffer and _leads(buffer, b, sources))]


def _leads(buffer: SSAValue, other: SSAValue, sources: Mapping[SSAValue, set[SSAValue]]) -> bool:
    """Tells if each of two buffers is made of the other."""
    return buffer in _behind(other, sources) and other in _behind(buffer, sources)


def _behind(buffer: SSAValue, sources: Mapping[SSAValue, set[SSAValue]]) -> set[SSAValue]:
    """Lists the buffers that one is made of, and all that those are made of."""
    found: set[SSAValue] = set()
    pending = [buffer]
    while pending:
        new = sources.get(pending.pop(), set()) - found
        found |= new
        pending += new
    return found


def _chain(
    block: BlockOp, buffers: Sequence[SSAValue], ops: Sequence[Operation]
) -> list[FillOp | BlockOp]:
    """Lists the ops that make buffers: the first of each from scratch, each over all of it."""
    if not all(isinstance(each.owner, AllocOp) for each in buffers) or len(block.outs) != 1:
        raise _breaks("a buffer that nothing outside the function sees", "another", block)
    chain: list[FillOp | BlockOp] = []
    made: set[SSAValue] = set()
    for op in ops:
        if not any(True for _ in accesses_of(op, buffers)):
            continue
        if not isinstance(op, FillOp | BlockOp) or not _makes_all(op, buffers, made):
            raise _breaks(
                "blocks that make the whole buffer, element by element", described(op), block
            )
        if isinstance(op, BlockOp) and op.outs[0] not in made and _reads_result(op):
            raise _breaks("a buffer that is made from scratch", f"{described(op)} first", block)
        made.update(a.buffer for a in accesses_of(op) if a.writes)
        chain.append(op)
    return chain


def _reads_result(op: BlockOp) -> bool:
    """Tells if a block needs what its buffer held before."""
    return reads_old(op) or op.outs[0] in op.ins


def _makes_all(op: FillOp | BlockOp, buffers: Sequence[SSAValue], made: set[SSAValue]) -> bool:
    """Tells if an op sets each element of a buffer, at most from the same element of it and of the
    buffers that go with it. Where it leaves elements out, the buffer must be `made` before.
    """
    if isinstance(op, FillOp):
        return True
    if len(op.outs) != 1 or op.outs[0] not in buffers or op.bases:
        return False
    (out,), shape = op.out_maps, shape_of(op.outs[0].type)
    same = all(
        map_ == out and shape_of(value.type) == shape
        for value, map_ in zip(op.ins, op.in_maps, strict=True)
        if value in buffers
    )
    whole = op.where is None or op.outs[0] in made
    return same and whole and whole_axes(out, shape, op.extents) is not None


def _reads(
    buffers: Sequence[SSAValue], chain: Sequence[Operation], target: Block, block: BlockOp
) -> list[BoxAccess]:
    """Lists the accesses in the loop that read what the chain makes; raises ByocirError B256 for
    other accesses.
    """
    found = accesses_in(target, buffers)
    known = {*chain, *(access.op for access in found)}
    users = [use.operation for buffer in buffers for use in buffer.uses]
    other = next((op for op in users if op not in known), None)
    if other is not None:
        raise _breaks("a buffer that only this loop reads", f"{described(other)} too", block)
    writer = next((access.op for access in found if access.writes), None)
    if writer is not None or not found:
        what = "a loop that does not" if writer is None else f"{described(writer)}, which writes it"
        raise _breaks("a loop that reads the buffer", what, block)
    return found


def _check_inputs(
    chain: Sequence[FillOp | BlockOp],
    buffers: Collection[SSAValue],
    around: Operation,
    block: BlockOp,
) -> None:
    """Raises ByocirError B256 unless the inputs of the chain are the same in the loop."""
    for op in chain:
        inputs = {a.buffer for a in accesses_of(op) if a.reads}.difference(buffers)
        later = op.next_op
        while later is not None:
            for access in accesses_of(later, inputs):
                if access.writes:
                    raise _breaks(
                        f"inputs of {described(op)} that stay as they are",
                        f"{described(access.op)}, which writes one",
                        block,
                    )
            later = None if later is around else later.next_op


def _move(op: FillOp | BlockOp, box: Sequence[Side], before: Operation, target: Block) -> None:
    """Moves an op of the chain in front of another one, restricted to the box."""
    if isinstance(op, FillOp):
        moved = block_of_fill(op)
        erase(op)
    else:
        moved = op
        op.detach()
    target.insert_op_before(moved, before)
    indices = IndexBuilder(body_of(moved), moved.location)
    sizes = shape_of(moved.outs[0].type)
    extents, bases = list(moved.extents), base_sums((), len(moved.extents))
    parts = Parts.of(moved)
    guards = list(parts.guards)
    for expr, side, size in zip(moved.out_maps[0].results, box, sizes, strict=True):
        if not isinstance(expr, AffineDimExpr) or (side.size >= size and not side.start.terms):
            continue  # all of the dimension, or its only element
        i = expr.position
        extents[i], bases[i] = side.size, side.start
        guards += _guards(i, side, size)
    values = [indices.value(base, target, moved) for base in bases]
    replace(parts.with_extents(extents), bases=tuple(values), guards=tuple(guards)).put(moved)


def _guards(i: int, side: Side, size: int) -> list[AffineExpr]:
    """Lists the guards that keep iterator i inside [0, size) where the box may leave it."""
    found, iterator = interval_of_sum(side.start), AffineExpr.dimension(i)
    low, high = found or (-1, size)
    guards = [iterator] if low < 0 else []
    if high + side.size > size:
        guards.append(iterator * -1 + (size - 1))
    return guards
