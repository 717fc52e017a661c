"""assign-layouts: puts channels last in convolutions and all that is around them.

Does: a convolution of [N, C, spatial…] becomes one of [N, spatial…, C], in which channels follow
each other: vectors run along them, and whatever their number is. The blocks after it that keep
its dimensions (elementwise, pools, concatenations) follow, so that values change their layout only
at the edges of such a region; blocks that reshape, and all others, read through the permutation.
What convolutions read outside of an array is stored around it: the block that computes the array
writes it into a larger one, and no window has to look where it is; with `frames=copied` a copy does
that, so that targets may take the block without what is around its result, and with `frames=read`
windows read outside of arrays that have channels last already, for targets that load numbers there:
also what copies put around arrays, as zero points. With `frames=zeros` these numbers are zeros.
Sums that may be taken in any order run along the channels innermost. With `height` a convolution of
[N, C, W] becomes one of images of height 1, [N, 1, W, C], and so do the blocks after it; a window
gets an iterator of one point for its height. With `pools` pools that follow no convolution get
channels last, too.

Requires: blocks in value form. Looks at functions without `byoc.target`.

Guarantees: the same results, bit for bit but for sums with the flag `reassoc`; every new op has the
location of the block it stands for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from byocir.dialects.tir import (
    BlockOp,
    ConstantOp,
    EmptyOp,
    FillOp,
    IteratorAttr,
    IteratorKind,
)
from byocir.dialects.tir.affine import beyond, iterators_in, linear
from byocir.dialects.tir.emit import ZERO, Emitter, Read, Space
from byocir.dialects.tir.linear import spans
from byocir.dialects.tir.scalar import Number
from byocir.dialects.types import Shape, element_type_of, shape_of
from byocir.dialects.uses import erase, replace_op, replace_uses
from byocir.evaluate.scalar import number
from byocir.rewrites.byoc.host_blocks import host_functions
from byocir.rewrites.host.contraction import is_contraction, may_reorder
from byocir.rewrites.read_through_pads import read_through_pads
from byocir.rewrites.schedule.blocks import Parts, unused_name

LEAST_CHANNELS = 4
"""The least number of channels for which vectors along them are worth it."""


@dataclass(frozen=True)
class AssignLayoutsPass(ModulePass):
    """Puts channels last around convolutions."""

    name = "assign-layouts"

    frames: Literal["written", "copied", "zeros", "read"] = "written"
    least: int = LEAST_CHANNELS
    """Convolutions to fewer channels stay as they are."""

    height: bool = False
    """Arrays of one spatial dimension become images of height 1."""

    pools: bool = False
    """Pools get channels last even if what they read has them first."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in host_functions(op):
            _Layouts(function, self).assign()


@dataclass(frozen=True)
class Frame:
    """Describes a border of elements stored before and after an array in each spatial dimension."""

    before: tuple[int, ...]
    after: tuple[int, ...]
    number: Number = 0
    """The value of these elements."""

    @staticmethod
    def none(rank: int) -> Frame:
        return Frame((0,) * rank, (0,) * rank)

    @property
    def is_empty(self) -> bool:
        return not any((*self.before, *self.after))


@dataclass(frozen=True)
class PlacedImage:
    """Says where a value of [N, C, spatial…] is: in `value`, with channels last and a frame, and
    with a height of 1 where it has one more dimension.
    """

    value: SSAValue
    frame: Frame

    def index(self, exprs: Sequence[AffineExpr], height: AffineExpr = ZERO) -> list[AffineExpr]:
        """Turns an index of the value into one of its place: [n, c, h, w] → [n, h + b, w + b, c].
        A height of 1 is read at `height`.
        """
        spatial = [e + b for e, b in zip(exprs[2:], self.frame.before, strict=True)]
        heights = [height] * (len(shape_of(self.value.type)) - len(exprs))
        return [exprs[0], *heights, *spatial, exprs[1]]


class _Layouts:
    """Walks once through a function, from its start to its end, and assigns layouts."""

    def __init__(self, function: FuncOp, asked: AssignLayoutsPass) -> None:
        self.block = function.body.block
        self._asked = asked
        self.placed: dict[SSAValue, PlacedImage] = {}
        self._copied: set[SSAValue] = set()
        """Values that are in their own layout, too."""

    def assign(self) -> None:
        for op in list(self.block.ops):
            if isinstance(op, BlockOp) and self._asked.frames == "read" and self._begins(op):
                _read_past_frame(op)
            if not isinstance(op, BlockOp) or op.whole:
                self._restore(op)
            elif self._begins(op) or self._follows(op):
                self._convert(op)
            else:
                self._reread(op)
        for op in reversed(list(self.block.ops)):
            unused = op.results and not any(list(result.uses) for result in op.results)
            if isinstance(op, BlockOp | ConstantOp | EmptyOp | FillOp) and unused:
                erase(op)

    def _follows(self, op: BlockOp) -> bool:
        """Tells if a block keeps the dimensions of an input that has channels last, so that its
        result can have them last, too.
        """
        if not _is_plain(op) or not self._starts(op):
            return False
        out = op.out_maps[0].results
        channels = {i for i in out[1].used_dims() if op.extents[i] > 1}
        return any(
            value in self.placed
            and len(map_.results) == len(out)
            and channels <= set(map_.results[1].used_dims())
            for value, map_ in zip(op.ins, op.in_maps, strict=True)
        )

    def _starts(self, op: BlockOp) -> bool:
        """Tells if the array that a block updates can have channels last."""
        start = op.outs[0]
        placed = self.placed.get(start)
        return isinstance(start.owner, EmptyOp | FillOp) or (
            placed is not None and placed.frame.is_empty
        )

    def _is_convolution(self, op: BlockOp) -> bool:
        """Tells if a block is a convolution that gets channels last."""
        return _is_convolution(op) and shape_of(op.outs[0].type)[1] >= self._asked.least

    def _begins(self, op: BlockOp) -> bool:
        """Tells if a block gets channels last whatever layout its image has."""
        return self._is_convolution(op) or (self._asked.pools and _is_pool(op))

    # -- blocks

    def _convert(self, op: BlockOp) -> None:
        """Rewrites a block with channels last, in its result and its inputs of as many
        dimensions.
        """
        emit = Emitter(op.location)
        heights = self._with_heights(op) if self._has_height(op.results[0]) else (ZERO, ZERO)
        reads = [self._read(emit, op, i, heights) for i in range(len(op.ins))]
        frame = self._frame(op.results[0])
        frame = frame if self._asked.frames == "written" and _can_write_frame(op, frame) else None
        start, placed = self._start(emit, op, frame)
        target = PlacedImage(start, placed)
        maps = [*(map_ for _, map_, _ in reads), target.index(op.out_maps[0].results, heights[0])]
        order = _order(op, maps, self._is_convolution(op))
        count = len(order)
        made = BlockOp(
            [op.iterators.data[i] for i in order],
            [value for value, _, _ in reads],
            [start],
            [_renamed_map(AffineMap(count, 0, tuple(exprs)), order) for exprs in maps],
            op.body.clone(),
            pads=[pad for _, _, pad in reads],
            where=_renamed_map(op.where.data, order) if op.where is not None else None,
            location=op.location,
        )
        self.placed[op.results[0]] = PlacedImage(emit.add(made).results[0], placed)
        Rewriter.insert_op(emit.ops, InsertPoint.before(op))

    def _has_height(self, value: SSAValue) -> bool:
        """Tells if a value of [N, C, W] gets a height of 1 with channels last."""
        return self._asked.height and len(shape_of(value.type)) == 3

    def _with_heights(self, op: BlockOp) -> tuple[AffineExpr, AffineExpr]:
        """Gives a block an iterator of one point over the height of its result, and one over the
        height of its windows, if it has any; gives both as indices.
        """
        iterators = op.iterators.data
        read = [m.results[2:3] for m in op.in_maps if len(m.results) == 3]
        slides = {*op.reductions} & {i for exprs in read for i in iterators_in(exprs)}
        at = min(slides, default=len(iterators))
        kinds = [("h", IteratorKind.PARALLEL), ("r", IteratorKind.REDUCTION)][: 1 + bool(slides)]
        added = [IteratorAttr.of(unused_name(name, iterators), kind, 1) for name, kind in kinds]
        old = [AffineExpr.dimension(i + len(added) * (i >= at)) for i in range(len(iterators))]
        Parts.of(op).substituted([*iterators[:at], *added, *iterators[at:]], old, ()).put(op)
        return AffineExpr.dimension(at), AffineExpr.dimension(at + 1) if slides else ZERO

    def _read(
        self, emit: Emitter, op: BlockOp, position: int, heights: tuple[AffineExpr, AffineExpr]
    ) -> tuple[SSAValue, list[AffineExpr], Attribute | None]:
        """Gives an input with channels last where it has such a place, the index at which the block
        reads it, and what it reads outside.
        """
        value, pad = op.ins[position], op.pad_values[position]
        exprs = list(op.in_maps[position].results)
        wanted = self._is_convolution(op) and position == _image(op)
        if value not in self.placed and self._begins(op) and position == _image(op):
            self.placed[value] = self._copy(emit, value, self._frame(value))
            self._copied.add(value)
        placed = self.placed.get(value)
        if placed is None:
            weights = value.owner if self._has_height(value) and self._is_convolution(op) else None
            if not isinstance(weights, ConstantOp):
                return value, exprs, pad
            kernel = np.expand_dims(weights.value.data.values(), 2)
            return emit.constant(kernel), [*exprs[:2], heights[1], exprs[2]], pad
        outside = _outside(op, position)
        asked = self._asked.frames
        is_read = asked == "read" or (asked == "zeros" and _is_zero(pad))
        is_read = is_read and placed.frame.is_empty
        if wanted and not is_read and not _holds(placed.frame, outside, pad):
            placed = self._copy(emit, value, _as_frame(outside, pad))
        index = placed.index(exprs, heights[0] + heights[1])
        return placed.value, index, None if _holds(placed.frame, outside, pad) else pad

    def _start(self, emit: Emitter, op: BlockOp, frame: Frame | None) -> tuple[SSAValue, Frame]:
        start = op.outs[0]
        element, empty = element_type_of(start.type), Frame.none(len(shape_of(start.type)) - 2)
        shape = self._place(start, empty)
        if start in self.placed:
            return self.placed[start].value, empty
        if frame is not None and not frame.is_empty:
            return emit.fill(frame.number, element, self._place(start, frame)), frame
        if isinstance(start.owner, FillOp):
            return emit.fill(number(start.owner.value).item(), element, shape), empty
        return emit.empty(element, shape), empty

    def _copy(self, emit: Emitter, value: SSAValue, frame: Frame) -> PlacedImage:
        """Copies a value, wherever it is, into a new array with channels last and this frame."""
        shape, element = shape_of(value.type), element_type_of(value.type)
        space = Space.over((shape[0], *shape[2:], shape[1]))
        at = space.parallel
        exprs = [at[0], at[-1], *at[1:-1]]
        held = self.placed.get(value)
        read = Read(value, exprs) if held is None else Read(held.value, held.index(exprs))
        whole = self._place(value, frame)
        empty = emit.empty(element, whole) if frame.is_empty else None
        start = empty or emit.fill(frame.number, element, whole)
        target = PlacedImage(start, frame)
        made = emit.block(space, [read], start, lambda x, _: x, target.index(exprs))
        return PlacedImage(made, frame)

    def _reread(self, op: BlockOp) -> None:
        """Makes a block that keeps its layout read values which have channels last; what it updates
        gets its own layout back.
        """
        for value in op.outs:
            self._restored(op, value)
        ins, maps, pads = list(op.ins), [m.results for m in op.in_maps], op.pad_values
        if not any(value in self.placed for value in ins):
            return
        for i, value in enumerate(ins):
            placed = self.placed.get(value)
            if placed is None:
                continue
            if pads[i] is not None and not placed.frame.is_empty:
                self._restored(op, value)
                ins[i] = op.ins[i]
                continue
            ins[i], maps[i] = placed.value, tuple(placed.index(maps[i]))
        count = len(op.iterators)
        read = (AffineMap(count, 0, exprs) for exprs in maps)
        replace_op(op, op.like(ins=ins, maps=[*read, *op.out_maps], pads=pads))

    def _restore(self, op: Operation) -> None:
        for inner in op.walk():
            for value in inner.operands:
                self._restored(op, value)

    def _restored(self, op: Operation, value: SSAValue) -> None:
        """Gives an op a value back in the value's own layout."""
        placed = self.placed.get(value)
        if placed is None or value in self._copied:
            return
        owner = value.owner
        assert isinstance(owner, BlockOp)
        emit = Emitter(owner.location)
        shape, element = shape_of(value.type), element_type_of(value.type)
        space = Space.over(shape)
        read = Read(placed.value, placed.index(space.parallel))
        made = emit.elementwise(shape, element, [read], lambda x: x)
        Rewriter.insert_op(emit.ops, InsertPoint.before(op))
        del self.placed[value]
        replace_uses(value, made)

    # -- frames

    def _place(self, value: SSAValue, frame: Frame) -> Shape:
        """Gives the shape of a value with channels last and a frame."""
        batch, channels, *sizes = shape_of(value.type)
        rows = zip(sizes, frame.before, frame.after, strict=True)
        heights = [1] * self._has_height(value)
        return (batch, *heights, *(b + size + a for size, b, a in rows), channels)

    def _frame(self, value: SSAValue) -> Frame:
        """Finds the frame that convolutions read around a value, if nothing reads another number
        there.
        """
        frame = Frame.none(len(shape_of(value.type)) - 2)
        numbers: set[Number] = set()
        for use in value.uses:
            op = use.operation
            if not isinstance(op, BlockOp) or use.index >= len(op.ins):
                continue
            pad = op.pad_values[use.index]
            if pad is None:
                continue
            outside = _outside(op, use.index)
            numbers.add(number(pad).item())
            if len(numbers) > 1 or outside[:2] != NOWHERE:
                return Frame.none(len(frame.before))
            if self._is_convolution(op) and use.index == _image(op):
                frame = _larger(frame, _as_frame(outside, pad))
        return frame


Outside = tuple[tuple[int, int], tuple[int, int], tuple[tuple[int, int], ...]]
"""The elements that reads go beyond start and end: of N, of C, of the spatial dimensions."""


def _outside(op: BlockOp, position: int) -> Outside:
    exprs, shape = op.in_maps[position].results, shape_of(op.ins[position].type)
    reach = beyond(exprs, shape, spans(op.extents))
    return reach[0], reach[1], tuple(reach[2:])


def _as_frame(outside: Outside, pad: Attribute | None) -> Frame:
    value = 0 if pad is None else number(pad).item()
    return Frame(tuple(b for b, _ in outside[2]), tuple(a for _, a in outside[2]), value)


def _larger(one: Frame, other: Frame) -> Frame:
    """Makes a frame, with the second's number, that has room for both."""
    before, after = map(max, one.before, other.before), map(max, one.after, other.after)
    return Frame(tuple(before), tuple(after), other.number)


def _holds(frame: Frame, outside: Outside, pad: Attribute | None) -> bool:
    needed = _as_frame(outside, pad)
    fits = needed.is_empty or _larger(frame, needed) == frame
    return fits and outside[:2] == NOWHERE


def _is_zero(pad: Attribute | None) -> bool:
    return pad is None or number(pad).item() == 0


def _read_past_frame(op: BlockOp) -> None:
    """Makes windows that read a copy of an image with a number around it read the image itself."""
    image = op.ins[_image(op)]
    copy = image.owner
    if isinstance(copy, BlockOp) and len(copy.ins) == 1:
        source = copy.ins[0]
        if shape_of(source.type)[:2] == shape_of(image.type)[:2]:
            read_through_pads(op)


def _is_plain(op: BlockOp) -> bool:
    rank = len(shape_of(op.outs[0].type))
    return op.in_value_form and not op.bases and len(op.outs) == 1 and rank >= 3


def _can_write_frame(op: BlockOp, frame: Frame) -> bool:
    """Tells if a block still computes the same if its result has a frame around it."""
    owner = op.outs[0].owner
    return isinstance(owner, EmptyOp) or (
        isinstance(owner, FillOp) and number(owner.value).item() == frame.number
    )


def _image(op: BlockOp) -> int:
    """Finds the operand of a convolution, or of a pool, that has its windows."""
    spatial = iterators_in(op.out_maps[0].results[2:])
    return 0 if len(op.ins) == 1 or spatial & iterators_in(op.in_maps[0].results) else 1


def _is_convolution(op: BlockOp) -> bool:
    """Tells if a block sums products of windows over an image [N, C, spatial…] and of weights that
    are the same for all of them."""
    if not _is_plain(op) or not is_contraction(op) or not isinstance(op.outs[0].owner, FillOp):
        return False
    out = op.out_maps[0].results
    position = _image(op)
    image, weights = op.in_maps[position].results, op.in_maps[1 - position].results
    if len(image) != len(out) or not isinstance(op.ins[1 - position].owner, ConstantOp):
        return False
    spatial = [e.position for e in out[2:] if isinstance(e, AffineDimExpr)]
    here = iterators_in((out[0], *out[2:]))
    if len(spatial) != len(out) - 2 or here & iterators_in(weights):
        return False
    if _outside(op, position)[:2] != NOWHERE or any(linear(e) is None for e in image):
        return False
    return all(e.used_dims() for e in out[1:2])


def _is_pool(op: BlockOp) -> bool:
    """Tells if a block reduces windows of one image [N, C, spatial…], each channel by itself."""
    if not _is_plain(op) or len(op.ins) != 1 or not isinstance(op.outs[0].owner, FillOp):
        return False
    out, image = op.out_maps[0].results, op.in_maps[0].results
    if len(image) != len(out) or any(linear(e) is None for e in image):
        return False
    slides = bool(op.reductions) and {*op.reductions} <= iterators_in(image[2:])
    return slides and image[:2] == out[:2] and _outside(op, 0)[:2] == NOWHERE


NOWHERE = ((0, 0), (0, 0))


def _order(op: BlockOp, maps: Sequence[Sequence[AffineExpr]], is_convolution: bool) -> list[int]:
    """Orders the iterators as the dimensions of the result, then the others. Sums that may be taken
    in any order have those along the last dimension of an input innermost.
    """
    parallels: list[int] = []
    for expr in maps[-1]:
        form = linear(expr)
        terms = sorted(form.terms, key=lambda term: -abs(term[1])) if form is not None else []
        parallels += [i for i, _ in terms if i not in parallels]
    parallels += [i for i in op.parallels if i not in parallels]
    reductions = op.reductions
    if is_contraction(op) and may_reorder(op):
        inner = {i for i in maps[_image(op)][-1].used_dims()} if is_convolution else set[int]()
        reductions = [i for i in reductions if i not in inner] + [
            i for i in reductions if i in inner
        ]
    return [*parallels, *reductions]


def _renamed_map(map_: AffineMap, order: Sequence[int]) -> AffineMap:
    """Restates a map for iterators in another order."""
    count = len(order)
    dims = [AffineExpr.dimension(order.index(i)) for i in range(count)]
    return map_.replace_dims_and_symbols(dims, [], count, 0)
