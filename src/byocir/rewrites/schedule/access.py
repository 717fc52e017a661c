"""Finds which elements of buffers the ops of a program read and write, as boxes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from byocir.dialects.intervals import Interval
from byocir.dialects.tir import AllocOp, BlockOp, CopyOp, FillOp, ForOp, IntrinsicOp
from byocir.dialects.tir.affine import bounds, expression, linear
from byocir.dialects.tir.linear import Linear, finest_first, spans
from byocir.dialects.types import Shape, shape_of
from byocir.rewrites.schedule.blocks import reads_old
from byocir.rewrites.schedule.index import (
    base_sums,
    interval_of,
    loop_around,
    loops_behind,
)


@dataclass(frozen=True)
class Side:
    """Describes a dimension of a box, which begins at `start` and has `size` elements. It is
    `dense` if each of these elements that is in the buffer is reached once, by iterators that no
    other dimension uses.
    """

    start: Linear[SSAValue]
    size: int
    dense: bool = True


@dataclass(frozen=True)
class BoxAccess:
    """Describes an operand of an op and the box of elements that the op may reach of it. The box
    may be larger than what is reached, and outside the buffer where a pad or a guard covers it."""

    op: Operation
    operand: int
    buffer: SSAValue
    box: tuple[Side, ...]
    reads: bool
    writes: bool


def accesses_in(block: Block, buffers: Collection[SSAValue] | None = None) -> list[BoxAccess]:
    """Lists the accesses of all ops in a block and in the loops inside it, in program order; to
    these buffers alone if some are given.
    """
    return [access for op in block.ops for access in accesses_of(op, buffers)]


def accesses_of(op: Operation, buffers: Collection[SSAValue] | None = None) -> Iterator[BoxAccess]:
    """Yields the accesses of an op and of the ops inside it, to these buffers alone if some are
    given.
    """
    if isinstance(op, BlockOp):
        yield from accesses_to(op, buffers)
    elif isinstance(op, CopyOp):
        yield from (
            _of_copy(op, i, bases, writes=i > 0)
            for i, bases in enumerate((op.source_bases, op.destination_bases))
            if buffers is None or op.operands[i] in buffers
        )
    elif isinstance(op, FillOp):
        if op.destination is not None and (buffers is None or op.destination in buffers):
            yield _whole(op, 0, reads=False)
    elif not isinstance(op, AllocOp):
        yield from _of_other(op, buffers)


def _of_other(op: Operation, buffers: Collection[SSAValue] | None) -> Iterator[BoxAccess]:
    for i, value in enumerate(op.operands):
        if isinstance(value.type, MemRefType) and (buffers is None or value in buffers):
            yield _whole(op, i)
    for region in op.regions:
        for block in region.blocks:
            yield from accesses_in(block, buffers)


def _whole(op: Operation, operand: int, *, reads: bool = True, writes: bool = True) -> BoxAccess:
    """Makes an access that may be to any element of an operand."""
    value = op.operands[operand]
    box = tuple(Side(Linear(), size) for size in shape_of(value.type))
    return BoxAccess(op, operand, value, box, reads, writes)


def _of_copy(op: CopyOp, operand: int, bases: Sequence[SSAValue], *, writes: bool) -> BoxAccess:
    starts = base_sums(bases, len(op.box))
    box = tuple(Side(start, size) for start, size in zip(starts, op.box, strict=True))
    return BoxAccess(op, operand, op.operands[operand], box, not writes, writes)


def accesses_to(op: BlockOp, buffers: Collection[SSAValue] | None = None) -> Iterator[BoxAccess]:
    """Yields the accesses of a block, to these buffers alone if some are given."""
    ins, outs = op.ins, op.outs
    if buffers is not None and not any(value in buffers for value in (*ins, *outs)):
        return
    points = _Points.of(op)
    old, whole = reads_old(op) or not points.all_reached, op.whole
    for i, value in enumerate([*ins, *outs]):
        if buffers is not None and value not in buffers:
            continue
        if i in whole:  # the body reads this array at computed indices
            yield _whole(op, i, writes=False)
            continue
        writes = i >= len(ins)
        box = _box_of(points, value, op.maps.data[i].data.results)
        yield BoxAccess(op, i, value, box, not writes or old, writes)


@dataclass(frozen=True)
class _Points:
    """Holds the points that a block runs over, which all its sides are made from: where its
    iterators begin, their extents, and whether guards leave out only points at which it would write
    outside.
    """

    bases: Sequence[Linear[SSAValue]]
    extents: Shape
    all_reached: bool

    @staticmethod
    def of(op: BlockOp) -> _Points:
        extents = op.extents
        return _Points(base_sums(op.bases, len(extents)), extents, _reaches_all(op))


def _reaches_all(op: BlockOp) -> bool:
    """Tells if the guards of a block leave out only points at which it would write outside."""
    if op.where is None:
        return True
    inside: list[Linear[int] | None] = []
    for value, map_ in zip(op.outs, op.out_maps, strict=True):
        for expr, size in zip(map_.results, shape_of(value.type), strict=True):
            form = linear(expr)
            inside += [form, linear(expr * -1 + (size - 1))]
    return all(linear(guard) in inside for guard in op.where.data.results)


def _box_of(points: _Points, value: SSAValue, exprs: Sequence[AffineExpr]) -> tuple[Side, ...]:
    used = [i for expr in exprs for i in _used(expr)]
    own = {i for i in used if used.count(i) == 1}
    sizes = shape_of(value.type)
    return tuple(_side(points, expr, n, own) for expr, n in zip(exprs, sizes, strict=True))


def _used(expr: AffineExpr) -> Collection[int]:
    form = linear(expr)
    return expr.used_dims() if form is None else form.atoms


def reach(
    form: Linear[int], bases: Sequence[Linear[SSAValue]], extents: Sequence[int]
) -> tuple[Linear[SSAValue], int]:
    """Gives the first element that a linear index reaches over a tile, and the number of elements
    from the first to the last.
    """
    offsets = form.variable.interval(spans(extents).__getitem__)
    return form.substituted(bases.__getitem__) + offsets.low, offsets.size


def _side(points: _Points, expr: AffineExpr, size: int, own: set[int]) -> Side:
    """Makes the side that an index reaches. For an index that divides it is the interval of its
    values or, where the bases are not known, the whole dimension.
    """
    bases, extents, form = points.bases, points.extents, linear(expr)
    if form is not None:
        digits = [(abs(c), extents[i]) for i, c in form.terms]
        dense = all(step == width for step, width in finest_first(digits))
        alone = points.all_reached and all(i in own for i, _ in form.terms)
        return Side(*reach(form, bases, extents), dense and alone)
    if any(bases[i].terms for i in expr.used_dims()):
        return Side(Linear(), size, dense=False)
    found = bounds(
        expr,
        [
            Interval(base.constant, base.constant + extent - 1)
            for base, extent in zip(bases, extents, strict=True)
        ],
    )
    return Side(Linear((), found.low), found.size, dense=False)


def local_map(op: BlockOp, map_: AffineMap) -> AffineMap:
    """Restates a linear index map in the coordinates of the box that it reaches, with iterators
    from 0.
    """
    offsets = spans(op.extents)
    exprs: list[AffineExpr] = []
    for expr in map_.results:
        form = linear(expr)
        assert form is not None
        exprs.append(expression(form + -form.interval(offsets.__getitem__).low))
    return AffineMap(map_.num_dims, 0, tuple(exprs))


def folded(side: Side, inside: Block) -> Side:
    """Extends a side to all iterations of the loops inside a block."""
    moving, start = side.start.split(lambda atom: bool(loops_behind(atom, below=inside)))
    size, digits = side.size, list[tuple[int, int]]()
    for atom, coefficient in moving.terms:
        found = interval_of(atom)
        if found is None:
            return Side(side.start, side.size, dense=False)
        reached = found.scaled(coefficient)
        start, size = start + reached.low, size + reached.size - 1
        is_index = loop_around(atom) is not None
        digits.append((abs(coefficient) if is_index else 0, found.size))
    dense = all(0 < step <= width for step, width in finest_first(digits, side.size))
    return Side(start, size, side.dense and dense)


def is_inside(value: SSAValue, block: Block) -> bool:
    """Tells if a value is defined in a block or in one inside it."""
    owner = value.owner if isinstance(value.owner, Block) else value.owner.parent
    while owner is not None and owner is not block:
        owner = owner.parent_block()
    return owner is block


def is_whole(access: BoxAccess) -> bool:
    """Tells if a block, copy or fill surely writes all of its buffer, in whatever order."""
    if not access.writes:
        return False
    sizes = shape_of(access.buffer.type)
    return all(
        side.dense and side.start == Linear() and side.size == size
        for side, size in zip(access.box, sizes, strict=True)
    )


def loops_of(op: Operation) -> list[ForOp]:
    """Lists the loops around an op, outermost first."""
    found: list[ForOp] = []
    parent = op.parent_op()
    while isinstance(parent, ForOp | IntrinsicOp):
        found += [parent] if isinstance(parent, ForOp) else []
        parent = parent.parent_op()
    return found[::-1]
