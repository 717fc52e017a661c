"""vta-stage: brings operands into VTA's memories.

Does: gives every tile its own buffers and moves data with `tir.copy`. Inputs of contractions go to
"vta.inp", weights to "vta.wgt", everything else to "vta.acc" in i32 (copies of i8 widen); results
leave "vta.acc" with a copy that keeps the low 8 bits. A copy takes the box that a block's index map
reaches over a tile; what lies outside the array reads 0. It stands in the innermost loop that its
box depends on, together with its buffer, so that what does not change is loaded once; what the
compute module loads stands in front of a tile's product. Maxima over windows are taken dimension by
dimension where that takes fewer cycles (`stage_windows`).

Requires: `vta-tile`. Error B328 for blocks that are not in its form.

Guarantees: the same results. Blocks work on buffers in "vta.inp", "vta.wgt" and "vta.acc" only, in
their own coordinates: no bases, no pads, and `where` only with constants. Their bodies are
`acc + x.to(i32) * w.to(i32)`, `acc + x` and `acc.max(x)` over a window, or one ALU operation of
`acc` with `x` or a constant; fills are `tir.fill` again. Only copies have bases, made of loop
indices with muli, addi, subi and minsi. A buffer lives in the body where its `tir.alloc` stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.passes import ModulePass

from byocir.dialects.byoc import CompositeOp, composites_in
from byocir.dialects.tir import (
    AllocOp,
    BlockOp,
    ConstantOp,
    CopyOp,
    FillOp,
    ForOp,
    LoopKind,
    buffer,
    scope_of,
)
from byocir.dialects.tir.affine import canonical_map, expression, iterators_in, linear
from byocir.dialects.tir.linear import Linear, spans
from byocir.dialects.types import Shape, i8, i32
from byocir.dialects.uses import erase, put_before
from byocir.lowering.tir_to_vta import forms
from byocir.lowering.tir_to_vta.composites import unsupported, vta_functions
from byocir.lowering.tir_to_vta.stage_windows import split_windows
from byocir.lowering.tir_to_vta.tile_nest import (
    SCOPES,
    is_narrowing,
    is_widening,
    memory_of,
)
from byocir.patterns.dataflow import ancestor_in
from byocir.patterns.scalars import number
from byocir.rewrites.schedule.access import local_map, loops_of, reach
from byocir.rewrites.schedule.index import (
    IndexBuilder,
    innermost,
    is_index_arithmetic,
    loops_behind,
    sum_of,
)
from byocir.vta_sim import Memory

ACC = SCOPES[Memory.ACC]

_WIDENED = (
    (forms.WINDOW_SUM, forms.alu("add")),
    (forms.WINDOW_MAXIMUM, forms.alu("max")),
)
"""The operation of the ALU that does what a body does with bytes, once they are widened."""


@dataclass(frozen=True)
class VtaStagePass(ModulePass):
    """Moves the operands of VTA's composites through its memories."""

    name = "vta-stage"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in vta_functions(op):
            for composite in composites_in(function):
                _Stager(composite).stage()


@dataclass(frozen=True)
class _Box:
    """Describes the box of an array that a tile of a block reaches: its start, its sizes, and the
    index map in coordinates of the box.
    """

    starts: tuple[Linear[SSAValue], ...]
    sizes: Shape
    map: AffineMap

    @staticmethod
    def of(op: BlockOp, map_: AffineMap) -> _Box:
        forms = [linear(expr) for expr in map_.results]
        assert None not in forms, "the tiler admits linear maps only"
        bases = [_base(value) for value in op.bases]
        sides = [reach(form, bases, op.extents) for form in forms if form is not None]
        starts, sizes = tuple(start for start, _ in sides), tuple(size for _, size in sides)
        return _Box(starts, sizes, local_map(op, map_))

    def map_in(self, held: _Box) -> AffineMap:
        """Restates the index map in the coordinates of a buffer that holds another box: at the
        border of an array it holds less than windows reach.
        """
        pairs = zip(self.starts, held.starts, strict=True)
        offsets = [start.substituted(sum_of) - other.substituted(sum_of) for start, other in pairs]
        assert not any(offset.terms for offset in offsets), "boxes move together"
        moved = zip(self.map.results, offsets, strict=True)
        exprs = tuple(expr + offset.constant for expr, offset in moved)
        return canonical_map(AffineMap(self.map.num_dims, 0, exprs))


def _base(value: SSAValue) -> Linear[SSAValue]:
    """Reads a base as one value, not as the sum that it is made of: the value is there already."""
    known = sum_of(value)
    return known if not known.terms else Linear(((value, 1),))


class _Stager:
    """Rewrites the body of one composite."""

    def __init__(self, composite: CompositeOp) -> None:
        self.body = composite.body.block
        self.indices = IndexBuilder(self.body, composite.location)
        self.local: dict[SSAValue, tuple[SSAValue, _Box]] = {}
        """The buffer of the current tile for each intermediate buffer, and the box it holds."""
        self.staged: dict[
            tuple[Block, SSAValue, tuple[Linear[SSAValue], ...], Shape], SSAValue
        ] = {}
        self.moving: set[SSAValue] = set()
        """The arrays of which unrolled tiles read different boxes."""

    def stage(self) -> None:
        """Rewrites all blocks, then drops the buffers in main memory between them."""
        blocks = [op for op in self.body.walk() if isinstance(op, BlockOp)]
        for op in blocks:
            if len(op.bases) != len(op.extents) or len(op.outs) != 1:
                raise unsupported("B328", "expected a tile of a block, found a whole block", op)
        self.moving = _moving([op for op in blocks if _unrolled_around(op)])
        for op in blocks:
            self._stage_block(op)
            erase(op)
        for op in list(self.body.ops):
            if isinstance(op, AllocOp) and op.result.first_use is None:
                erase(op)
        split_windows(self.body)
        _load_accumulators_first(self.body)

    def _stage_block(self, op: BlockOp) -> None:
        if (found := forms.fill(number("number")).numbers(op)) is not None:
            self._fill(op, IntegerAttr(int(found["number"]), i32))
        elif is_widening(op):
            self._widen(op)
        elif is_narrowing(op):
            self._store(op)
        elif not op.reductions and forms.WIDENING.fits(op):
            self._fill(op, IntegerAttr(0, i32))
            self._compute(op, forms.alu("add").region())
        else:
            staged = next((alu for form, alu in _WIDENED if form.fits(op)), None)
            self._compute(op, op.body.clone() if staged is None else staged.region())

    def _values(self, box: _Box, before: Operation) -> list[SSAValue]:
        """Emits the start of a box as values in front of an op."""
        block = before.parent
        assert block is not None
        return [self.indices.value(start, block, before) for start in box.starts]

    def _tile_buffer(self, op: BlockOp) -> SSAValue:
        """Makes a buffer for the tile that a block writes in whole."""
        box = _Box.of(op, op.out_maps[0])
        alloc = AllocOp.of(i32, box.sizes, ACC)
        put_before(op, alloc)
        self.local[op.outs[0]] = alloc.result, box
        return alloc.result

    def _fill(self, op: BlockOp, number: IntegerAttr) -> None:
        put_before(op, FillOp.of(number, self._tile_buffer(op)))

    def _widen(self, op: BlockOp) -> None:
        box = _Box.of(op, op.in_maps[0])
        starts = self._values(box, op)
        target = self._tile_buffer(op)
        put_before(op, CopyOp.of(op.ins[0], target, box.sizes, source_bases=starts))

    def _store(self, op: BlockOp) -> None:
        box = _Box.of(op, op.out_maps[0])
        starts = self._values(box, op)
        source, _ = self.local[op.ins[0]]
        put_before(op, CopyOp.of(source, op.outs[0], box.sizes, destination_bases=starts))

    def _compute(self, op: BlockOp, body: Region) -> None:
        ins: list[SSAValue] = []
        maps: list[AffineMap] = []
        for i, (value, map_) in enumerate(zip(op.ins, op.in_maps, strict=True)):
            box = _Box.of(op, map_)
            if value in self.local:
                buffer, held = self.local[value]
                ins.append(buffer)
                maps.append(box.map_in(held))
            else:
                ins.append(self._load(op, i, box))
                maps.append(box.map)
        maps.append(_Box.of(op, op.out_maps[0]).map)
        made = BlockOp(
            list(op.iterators),
            ins,
            [self.local[op.outs[0]][0]],
            maps,
            body,
            where=_local_guard(op),
        )
        put_before(op, made)

    def _load(self, op: BlockOp, operand: int, box: _Box) -> SSAValue:
        """Gives the buffer with the box of an input, loaded outside of all loops in which the box
        stays the same.
        """
        source = op.ins[operand]
        before = self._anchor(op, box, is_one=source not in self.moving)
        block = before.parent
        assert block is not None
        key = (block, source, box.starts, box.sizes)
        if key in self.staged:
            return self.staged[key]
        memory = memory_of(op, operand)
        element = i32 if memory is Memory.ACC else i8
        alloc = AllocOp.create(result_types=[buffer(element, box.sizes, SCOPES[memory])])
        outside = op.pad_values[operand] is not None or op.where is not None
        starts, pad = self._values(box, before), IntegerAttr(0, i8) if outside else None
        copy = CopyOp.of(source, alloc.result, box.sizes, source_bases=starts, pad=pad)
        for new in (alloc, copy):
            new.location = op.location
            block.insert_op_before(new, before)
        self.staged[key] = alloc.result
        return alloc.result

    def _anchor(self, op: BlockOp, box: _Box, *, is_one: bool) -> Operation:
        """Finds the op in front of which a box is loaded: the block, or the outermost loop around
        it on which the box does not depend. Unrolled tiles have boxes of their own, unless it
        `is_one` for all.
        """
        values = [value for start in box.starts for value, _ in start.terms]
        loops = [loop for value in values for loop in loops_behind(value)]
        loop = innermost(loops if is_one else [*_unrolled_around(op), *loops])
        inside = loop.body.block if loop is not None else self.body
        anchor = ancestor_in(inside, op)
        assert anchor is not None
        return anchor


def _load_accumulators_first(block: Block) -> None:
    """Moves loads of accumulators in front of the product of a tile. The compute module makes them:
    behind the product, which gives buffers back, they would wait for what is prefetched there."""
    copies = [op for op in block.walk() if isinstance(op, CopyOp)]
    factors = (SCOPES[Memory.INP], SCOPES[Memory.WGT])
    if not any(scope_of(op.destination.type) in factors for op in copies):
        return
    stored = {op.destination for op in copies}
    moved: list[Operation] = []
    for op in copies:
        into, target = scope_of(op.destination.type), op.destination.owner
        if op.parent is block and into == ACC and op.source not in stored:
            assert isinstance(target, AllocOp)
            moved += [target, op]
    if moved:
        pure = [op for op in block.ops if is_index_arithmetic(op) or isinstance(op, ConstantOp)]
        early = {*pure, *moved}
        for op in [*pure, *moved, *(op for op in block.ops if op not in early)]:
            op.detach()
            block.add_op(op)
    for op in block.ops:
        if isinstance(op, ForOp):
            _load_accumulators_first(op.body.block)


def _moving(tiles: Sequence[BlockOp]) -> set[SSAValue]:
    """Finds the arrays of which blocks in unrolled tiles read different boxes."""
    seen: dict[tuple[SSAValue, int], tuple[SSAValue, ...]] = {}
    found: set[SSAValue] = set()
    for op in tiles:
        for value, map_ in zip(op.ins, op.in_maps, strict=True):
            used = sorted(iterators_in(map_.results))
            bases = tuple(op.bases[i] for i in used)
            if seen.setdefault((value, len(op.bases)), bases) != bases:
                found.add(value)
    return found


def _unrolled_around(op: Operation) -> list[ForOp]:
    """Finds the nearest loop around an op that stands for one unrolled tile; None if there is
    none.
    """
    return [loop for loop in loops_of(op) if loop.kind.data is LoopKind.UNROLL][-1:]


def _local_guard(op: BlockOp) -> AffineMap | None:
    """Restates the guard of a tile in coordinates of the tile, without what always holds."""
    if op.where is None:
        return None
    kept: list[AffineExpr] = []
    for expr in op.where.data.results:
        form = linear(expr)
        assert form is not None
        start = form.substituted(lambda i: sum_of(op.bases[i]))
        if start.terms:
            raise unsupported("B328", "expected constant bases below a guard", op)
        local = replace(form, constant=start.constant)
        if local.interval(spans(op.extents).__getitem__).low < 0:
            kept.append(expression(local))
    return AffineMap(len(op.extents), 0, tuple(kept)) if kept else None
