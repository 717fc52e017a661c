"""Ops that copy elements to other places: each a block, or a chain of blocks, with index maps."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr

from byocir.dialects import graph as g
from byocir.dialects.graph.base import int_tuple
from byocir.dialects.tir.affine import divided, modulo
from byocir.dialects.tir.bodies import first
from byocir.dialects.tir.emit import Emitter, Index, Read, Space, broadcast_index
from byocir.dialects.types import element_type_of, shape_of
from byocir.lowering.graph_to_tir.registry import lowers

Moved = g.ExpandOp | g.TileOp | g.SliceOp | g.DepthToSpaceOp | g.SpaceToDepthOp


def _moved(emit: Emitter, op: Moved, index: Callable[[list[AffineExpr]], Index]) -> SSAValue:
    """The result whose element at an index is the input's at `index(it)`."""
    shape, element = shape_of(op.result.type), element_type_of(op.result.type)
    read = Read(op.input, index(Space.over(shape).parallel))
    return emit.elementwise(shape, element, [read], lambda x: x)


@lowers(g.ExpandOp)
def _expand(emit: Emitter, op: g.ExpandOp) -> SSAValue:
    index = broadcast_index(shape_of(op.input.type), shape_of(op.result.type))
    return _moved(emit, op, lambda _: index)


@lowers(g.TileOp)
def _tile(emit: Emitter, op: g.TileOp) -> SSAValue:
    repeats, shape = int_tuple(op.repeats), shape_of(op.input.type)

    def index(at: list[AffineExpr]) -> Index:
        rows = zip(at, shape, repeats, strict=True)
        return [modulo(i, size) if count > 1 else i for i, size, count in rows]

    return _moved(emit, op, index)


@lowers(g.SliceOp)
def _slice(emit: Emitter, op: g.SliceOp) -> SSAValue:
    starts, steps = int_tuple(op.starts), int_tuple(op.steps)
    return _moved(
        emit, op, lambda at: [i * n + s for i, n, s in zip(at, steps, starts, strict=True)]
    )


@lowers(g.DepthToSpaceOp)
def _depth_to_space(emit: Emitter, op: g.DepthToSpaceOp) -> SSAValue:
    block, channels = op.blocksize.value.data, shape_of(op.result.type)[1]

    def index(at: list[AffineExpr]) -> Index:
        n, c, h, w = at
        place = modulo(h, block) * block + modulo(w, block)
        depth = place * channels + c if op.mode.data == "DCR" else c * block**2 + place
        return [n, depth, divided(h, block), divided(w, block)]

    return _moved(emit, op, index)


@lowers(g.SpaceToDepthOp)
def _space_to_depth(emit: Emitter, op: g.SpaceToDepthOp) -> SSAValue:
    block, channels = op.blocksize.value.data, shape_of(op.input.type)[1]

    def index(at: list[AffineExpr]) -> Index:
        n, c, h, w = at
        place = divided(c, channels)
        row, column = divided(place, block), modulo(place, block)
        return [n, modulo(c, channels), h * block + row, w * block + column]

    return _moved(emit, op, index)


@lowers(g.SplitOp)
def _split(emit: Emitter, op: g.SplitOp) -> Sequence[SSAValue]:
    axis, start = op.axis.value.data, 0
    pieces: list[SSAValue] = []
    for piece in op.pieces:
        shape, element = shape_of(piece.type), element_type_of(piece.type)
        index = list(Space.over(shape).parallel)
        index[axis] = index[axis] + start
        pieces.append(emit.elementwise(shape, element, [Read(op.input, index)], lambda x: x))
        start += shape[axis]
    return pieces


@lowers(g.TriluOp)
def _trilu(emit: Emitter, op: g.TriluOp) -> SSAValue:
    """The triangle is copied, where the guard holds, over zeros."""
    shape, element = shape_of(op.result.type), element_type_of(op.result.type)
    space, k = Space.over(shape), op.k.value.data
    row, column = space.parallel[-2:]
    kept = column + row * -1 - k if op.upper.value.data else row + column * -1 + k
    zeros = emit.fill(0, element, shape)
    return emit.block(space, [Read(op.input, space.parallel)], zeros, first, where=[kept])
