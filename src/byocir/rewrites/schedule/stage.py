"""stage: makes a block access an operand through a buffer in another memory.

```
tir.for %i = 0 to 4 serial {         tir.for %i = 0 to 4 serial {
  tir.block [m: 8] at(%i * 8)          %t = tir.alloc : memref<8xi8, "near">
      ins(%x[m] : memref<32xi8>) …  →  tir.copy %x[%i * 8] to %t sizes [8] …
}                                      tir.block [m: 8] ins(%t[m] : memref<8xi8, "near">) …
                                     }
```

The buffer holds the box that is accessed in one iteration of a loop, or in all. What is written is
copied back, and copied in before unless it is overwritten first. A buffer that is `strided` holds
only the elements of the box that a block reads, where an index takes steps of more than one:

```
tir.block [m: 8] at(%i * 8)          tir.block [d0: 8] at(%i * 8)
    ins(%x[2 * m] …) …            →      ins(%x[2 * d0] …) outs(%t[d0] …) …
                                     tir.block [m: 8] ins(%t[m] : memref<8xi8, "near">) …
```
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

from xdsl.dialects import arith
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from byocir.dialects.tir import AllocOp, BlockOp, CopyOp, FillOp, ForOp
from byocir.dialects.tir.affine import expression, linear
from byocir.dialects.tir.linear import Linear
from byocir.dialects.tir.scalar import number_attr
from byocir.dialects.types import element_type_of, shape_of
from byocir.dialects.uses import erase, replace_op, set_operand
from byocir.patterns.dataflow import ancestor_in
from byocir.rewrites.schedule.access import (
    BoxAccess,
    Side,
    accesses_in,
    accesses_of,
    folded,
    is_inside,
    is_whole,
    loops_of,
    reach,
)
from byocir.rewrites.schedule.blocks import Parts, body_of, put_block_of_copy
from byocir.rewrites.schedule.hoist_indices import hoist_indices
from byocir.rewrites.schedule.index import IndexBuilder, base_sums, interval_of_sum, loops_behind
from byocir.rewrites.schedule.kinds import runs_in_order
from byocir.rewrites.schedule.rebase import localise
from byocir.rewrites.schedule.requests import check_block, check_loop, check_operand, refused


def stage(
    block: BlockOp, operand: int, scope: str, *, at: ForOp | None = None, strided: bool = False
) -> SSAValue:
    """Makes a block access its operand (counted over ins, then outs) in a buffer in `scope`, which
    is filled and written back in each iteration of the loop `at` or, without one, once; gives the
    buffer. A buffer that is written there is staged for all ops in the loop together; a block that
    sets all of it to a number becomes a fill. With `strided` the buffer of an input has only the
    elements that the block reads, where an index takes steps of more than one. Raises ByocirError
    B251 for no operand or loop of the block, B257 for what cannot be staged.
    """
    check_block(block)
    check_operand(block, operand)
    inside = region_of(block, at)
    plan = _plan(block, operand, inside)
    steps = _steps(block, operand, plan) if strided else [1] * len(plan.box)
    sizes = tuple([-(-size // step) for size, step in zip(plan.sizes, steps, strict=True)])
    body = body_of(block)
    hoist_indices(body)
    local = AllocOp.of(element_type_of(plan.buffer.type), sizes, scope, block.location)
    local.result.name_hint = plan.buffer.name_hint
    indices = IndexBuilder(body, block.location)
    after = plan.ops[-1].next_op
    inside.insert_op_before(local, plan.ops[0])
    starts = [indices.value(side.start, inside, local) for side in plan.box]
    if plan.comes_in:
        copy = CopyOp.of(plan.buffer, local.result, sizes, source_bases=starts, pad=plan.pad)
        copy.location = block.location
        inside.insert_op_before(copy, plan.ops[0])
        if max(steps, default=1) > 1:
            put_block_of_copy(copy, steps)
    _let_access(plan, local.result, _read_at_steps(block, operand, steps, plan.box), indices)
    if plan.goes_out:
        copy = CopyOp.of(local.result, plan.buffer, plan.sizes, destination_bases=starts)
        copy.location = block.location
        Rewriter.insert_op(copy, InsertPoint(inside, after))
    elif plan.is_temporary and isinstance(plan.buffer.owner, Operation):
        erase(plan.buffer.owner)
    hoist_indices(body)
    return local.result


def _let_access(
    plan: _Plan, local: SSAValue, origins: Sequence[Linear[SSAValue]], indices: IndexBuilder
) -> None:
    """Makes the ops of a plan access the buffer that holds the box from these indices on."""
    for access in plan.accesses:
        _redirect(access, local, origins, indices)
    for op in [access.op for access in plan.accesses if access.op.parent is not None]:
        _fill_again(op)


def region_of(block: BlockOp, at: ForOp | None) -> Block:
    """Gives the body of a loop around a block or, without a loop, the body that all loops are in;
    raises ByocirError B251.
    """
    if at is None:
        return body_of(block)
    check_loop(at)
    if at not in loops_of(block):
        raise refused("B251", "expected a loop around the block, found another one", block)
    return at.body.block


def united(accesses: Sequence[BoxAccess], inside: Block) -> list[Side] | None:
    """Makes the box that all these accesses reach in one run of a block; None where they begin at
    unrelated indices.
    """
    boxes = [[folded(side, inside) for side in access.box] for access in accesses]
    result: list[Side] = []
    for sides in zip(*boxes, strict=True):
        start = sides[0].start.variable
        moved = any(loops_behind(atom, below=inside) for atom, _ in start.terms)
        if moved or any(side.start.variable != start for side in sides):
            return None
        low = min(side.start.constant for side in sides)
        high = max(side.start.constant + side.size for side in sides)
        result.append(Side(start + low, high - low))
    return result


def stays_inside(box: Sequence[Side], buffer: SSAValue) -> bool:
    """Tells if a box is inside its buffer wherever it begins."""
    for side, size in zip(box, shape_of(buffer.type), strict=True):
        found = interval_of_sum(side.start)
        if found is None or found.low < 0 or found.high + side.size > size:
            return False
    return True


def top(op: Operation, inside: Block) -> Operation:
    """Gives the op of a block that is `op`, or has it inside."""
    found = ancestor_in(inside, op)
    assert found is not None
    return found


@dataclass(frozen=True)
class _Plan:
    """Holds the plan for staging a buffer: the accesses, and the ops of the block that they are in;
    it `is_temporary` when nothing else uses the buffer.
    """

    buffer: SSAValue
    accesses: tuple[BoxAccess, ...]
    ops: tuple[Operation, ...]
    box: tuple[Side, ...]
    pad: Attribute | None
    comes_in: bool
    goes_out: bool
    is_temporary: bool

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(side.size for side in self.box)


def _plan(block: BlockOp, operand: int, inside: Block) -> _Plan:
    buffer = [*block.ins, *block.outs][operand]
    home = buffer.owner if isinstance(buffer.owner, Block) else buffer.owner.parent
    if is_inside(buffer, inside) and home is not inside:
        raise refused(
            "B257",
            "expected a buffer that lives as long as the loop it is staged at, found one of an "
            "inner loop",
            block,
            help="name an inner loop: at=…",
        )
    found = accesses_in(inside, {buffer})
    written = any(access.writes for access in found)
    if not written:
        found = [access for access in found if (access.op, access.operand) == (block, operand)]
    box = united(found, inside)
    other = next((access for access in found if not _can_move(access.op)), None)
    if box is None or other is not None:
        what = (
            "unrelated parts of it" if other is None else f"{other.op.name}, which takes it whole"
        )
        raise refused("B257", f"expected a buffer accessed in one box, found {what}", block)
    pad = None if stays_inside(box, buffer) else _pad(block, operand, buffer)
    ops = list(dict.fromkeys(top(access.op, inside) for access in found))
    is_temporary = isinstance(buffer.owner, AllocOp) and len(found) == len(list(buffer.uses))
    has_pads = pad is not None and any(map(_is_padded, found))
    comes_in = not written or has_pads or not _overwritten(found, box, inside)
    goes_out = written and (comes_in or not is_temporary)
    if goes_out and pad is not None:
        raise _leaves(block, box, buffer)
    if goes_out and comes_in and not all(map(runs_in_order, _loops_around(inside))):
        raise refused(
            "B257",
            "expected all of a box to be written where iterations run at once, found a part",
            block,
            help="stage first, then make the loop parallel",
        )
    return _Plan(
        buffer, tuple(found), tuple(ops), tuple(box), pad, comes_in, goes_out, is_temporary
    )


def _steps(block: BlockOp, operand: int, plan: _Plan) -> list[int]:
    """Gives, for each dimension of an input, the step between the elements that a block reads of
    its box. Raises ByocirError B257 where others read them, too, or iterations of loops between.
    """
    (own,) = (each for each in accesses_of(block) if each.operand == operand)
    steps = [gcd(*[c for _, c in terms]) or 1 for terms in _moving(block, operand)]
    pairs = zip(steps, own.box, plan.box, strict=True)
    grows = any(step > 1 and side.size != whole.size for step, side, whole in pairs)
    if operand >= len(block.ins) or len(plan.accesses) > 1 or grows:
        raise refused(
            "B257",
            "expected an input that one block reads at the same steps in each iteration, to stage "
            "it strided, found another operand, or a loop in between",
            block,
            help="name the innermost loop that moves the input: at=…",
        )
    return steps


def _moving(block: BlockOp, operand: int) -> list[list[tuple[int, int]]]:
    """Lists, for each dimension of an operand, the iterators with several points that its index
    has, with their steps."""
    forms = [linear(expr) for expr in block.maps.data[operand].data.results]
    found = [[] if form is None else form.terms for form in forms]
    return [[(i, c) for i, c in terms if block.extents[i] > 1] for terms in found]


def _read_at_steps(
    block: BlockOp, operand: int, steps: Sequence[int], box: Sequence[Side]
) -> list[Linear[SSAValue]]:
    """Makes a block read an input at indices whose steps are these times smaller, 2 * h + r → h,
    and gives where the box of those begins.
    """
    starts = [side.start for side in box]
    if max(steps, default=1) == 1:
        return starts
    bases, parts = base_sums(block.bases, len(block.extents)), Parts.of(block)
    exprs = [*parts.maps[operand].results]
    for d, (terms, step) in enumerate(zip(_moving(block, operand), steps, strict=True)):
        if step > 1:
            form = Linear(tuple((i, c // step) for i, c in terms))
            exprs[d] = expression(form)
            starts[d] = reach(form, bases, block.extents)[0]
    parts.with_map(operand, exprs).put(block)
    return starts


def _clipped(side: Side, size: int) -> Side:
    """Cuts a side to its buffer, where the program knows where it begins."""
    if side.start.terms:
        return side
    low, high = max(side.start.constant, 0), min(side.start.constant + side.size, size)
    return Side(Linear((), low), high - low, side.dense)


def _can_move(op: Operation) -> bool:
    """Tells if an access may be moved to another buffer."""
    return isinstance(op, BlockOp | FillOp) or (
        isinstance(op, CopyOp) and op.source is not op.destination
    )


def _is_padded(access: BoxAccess) -> bool:
    """Tells whether a block reads pads around a buffer, which no other op writes."""
    op, number = access.op, access.operand
    return isinstance(op, BlockOp) and number < len(op.ins) and op.pad_values[number] is not None


def _pad(block: BlockOp, operand: int, buffer: SSAValue) -> Attribute:
    """Gives the number for the part of a box that is outside of its buffer: the block's pad, or
    any.
    """
    pad = block.pad_values[operand] if operand < len(block.ins) else None
    return number_attr(0, element_type_of(buffer.type)) if pad is None else pad


def _leaves(block: BlockOp, box: Sequence[Side], buffer: SSAValue) -> Exception:
    return refused(
        "B257",
        f"expected boxes inside the buffer of shape {list(shape_of(buffer.type))} that is written, "
        f"found boxes of {[side.size for side in box]} that leave it",
        block,
        help="choose sizes that divide, or remainder='overlap', and stage whole tiles",
    )


def _overwritten(found: Sequence[BoxAccess], box: Sequence[Side], inside: Block) -> bool:
    """Tells if the first op that accesses a box writes all of it and reads nothing of it."""
    first = found[0]
    here = [access for access in found if top(access.op, inside) is top(first.op, inside)]
    if len(here) > 1 or first.reads or not first.writes:
        return False
    atoms = [
        atom
        for side in first.box
        for atom, _ in side.start.terms
        if loops_behind(atom, below=inside)
    ]
    if len(set(atoms)) < len(atoms):
        return False
    # What guards leave out is outside of the buffer, or the side would not be dense.
    sides = zip(first.box, box, shape_of(first.buffer.type), strict=True)
    return all(
        _covers(_clipped(folded(side, inside), n), _clipped(whole, n)) for side, whole, n in sides
    )


def _covers(side: Side, whole: Side) -> bool:
    return side.dense and (side.start, side.size) == (whole.start, whole.size)


def _loops_around(inside: Block) -> list[ForOp]:
    loop = inside.parent_op()
    return [*loops_of(loop), loop] if isinstance(loop, ForOp) else []


def _fill_again(op: Operation) -> None:
    """Turns a block that sets all of its buffer to a number back into a fill."""
    if not isinstance(op, BlockOp) or op.ins or op.bases or len(op.outs) != 1:
        return
    number = op.yielded[0].owner
    (access,) = accesses_of(op)
    if not isinstance(number, arith.ConstantOp) or access.reads or not is_whole(access):
        return
    replace_op(op, FillOp.of(number.value, op.outs[0], op.location))


def _redirect(
    access: BoxAccess, local: SSAValue, starts: Sequence[Linear[SSAValue]], indices: IndexBuilder
) -> None:
    """Makes an op access the buffer that holds a box, in the box's coordinates."""
    op = access.op
    if isinstance(op, BlockOp):
        localise(op, access.operand, local, starts, indices)
    elif isinstance(op, CopyOp):
        _redirect_copy(op, access.operand, local, starts, indices)
    else:
        set_operand(op, access.operand, local)


def _redirect_copy(
    op: CopyOp,
    operand: int,
    local: SSAValue,
    starts: Sequence[Linear[SSAValue]],
    indices: IndexBuilder,
) -> None:
    assert op.parent is not None
    values: list[Sequence[SSAValue]] = [op.source_bases, op.destination_bases]
    sums = base_sums(values[operand], len(starts))
    moved = [base - start for base, start in zip(sums, starts, strict=True)]
    values[operand] = [indices.value(each, op.parent, op) for each in moved]
    buffers = [op.source, op.destination]
    buffers[operand] = local
    made = CopyOp.of(
        buffers[0],
        buffers[1],
        op.box,
        source_bases=values[0],
        destination_bases=values[1],
        pad=op.pad,
        location=op.location,
    )
    replace_op(op, made)
