"""Makes contractions register tiles: vectors along one iterator, rows along another.

A tile is a small function that keeps some rows of accumulators in variables of a vector type while
it walks through the reduction: vectors of the operands that follow the lane, numbers of those that
do not. Around it are loops over the tiles, and after it the epilogue. Each element is summed in the
order of the block, product by product; floats are fused (`a * b + c` rounded once) where the body
has the flag `contract`. Integers wrap around. Where compilers have no vector types plain loops
stand.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from byocir.dialects.tir.affine import IndexForm, divided_iterators, iterators_of
from byocir.lowering.tir_to_c.block_parts import Kernel, KernelLoop
from byocir.lowering.tir_to_c.channel_tiles import ChannelTile, channel_shape
from byocir.lowering.tir_to_c.dots import Dot, dot_of
from byocir.lowering.tir_to_c.loops import BlockWriter
from byocir.lowering.tir_to_c.openmp import WORTH_SHARING, alone, shared_loops
from byocir.lowering.tir_to_c.tile_nest import TileNest
from byocir.lowering.tir_to_c.tiles import Tile, TileFactor
from byocir.lowering.tir_to_c.unwritten import writes_apart
from byocir.rewrites.host.c_host import CHost
from byocir.rewrites.host.contraction import is_computable, is_contraction, may_fuse
from byocir.rewrites.host.tile_shape import TileShape, tile_shape


def kernel_of(writer: BlockWriter, host: CHost) -> Kernel:
    """Writes a block's function, in tiles if it is a contraction that can be tiled. Raises NoC for
    a body without a form in C.
    """
    kernel = writer.kernel()
    nest = tiling_of(writer, host)
    work = prod(writer.op.extents) // (1 if nest is None else nest.shape.lanes)
    if host.threads == 1 or work < WORTH_SHARING or not _may_share(writer, kernel):
        work = 0
    # The outermost loops are over parallel iterators: those of reductions are inside the
    # accumulators' scope.
    plain = shared_loops(kernel.body, host.threads) if work else None
    if nest is None:
        return kernel if plain is None else replace(kernel, body=plain, shared=work)
    if not nest.is_divided:
        work, plain = 0, None
    tiles = nest.body(host.threads if work else 1)
    otherwise = plain or (alone(kernel.body) if work else kernel.body)
    needed = f"#if {nest.tile.needs(nest.shape.lanes)}"
    return Kernel(
        kernel.parameters,
        [needed, *tiles, "#else", *otherwise, "#endif"],
        {**kernel.helpers, **nest.helpers},
        shared=work,
    )


def _may_share(writer: BlockWriter, kernel: Kernel) -> bool:
    """Tells if threads can share the parallel iterators: no two write one element, and none returns
    early."""
    op = writer.op if writer.epilogue is None else writer.epilogue.op
    return not kernel.can_fail and all(writes_apart(op, i) for i in range(len(op.outs)))


@dataclass(frozen=True)
class _Roles:
    """Says which iterators of a contraction become lanes and rows of tiles."""

    lane: KernelLoop
    rows: tuple[KernelLoop, ...]
    """The loops over rows of tiles: at most two, the innermost last."""
    dot: Dot | None
    """The products that each step of the reduction adds up, if it is more than one."""


def tiling_of(writer: BlockWriter, host: CHost) -> TileNest | None:
    """Chooses the tiles of a contraction that starts from a number; None if there are none."""
    op = writer.op
    if not is_contraction(op) or 0 not in writer.initial or not writer.reduction:
        return None
    if not is_computable(op):
        return None
    if set(writer.based) & set(op.reductions):
        return None
    fused = may_fuse(op) and host.description.fuses
    found = [r for loop in writer.parallel if (r := _roles(writer, loop, host)) is not None]
    shapes = [(r, _shape(r, host, fused)) for r in found]
    fitting = [(r, shape) for r, shape in shapes if shape is not None]
    if not fitting:
        return None
    roles, shape = max(fitting, key=lambda pair: _preference(writer, *pair))
    split = [_split(access.offset, writer) for access in writer.ins]
    if None in split:
        return None
    lane, dot = roles.lane.position, roles.dot
    reduction = writer.reduction if dot is None else writer.reduction[:-1]
    factors = [
        TileFactor(
            access,
            outer,
            inner if dot is None else inner.without(writer.reduction[-1].position),
            follows=outer.coefficient(lane) > 0,
            steps=[outer.coefficient(row.position) for row in roles.rows],
        )
        for access, (outer, inner) in zip(writer.ins, [s for s in split if s], strict=True)
    ]
    number = writer.initial[0]
    parts = (factors, reduction, writer.indices, op.outs[0].type, number, fused, dot)
    tile = Tile(*parts)
    channels = channel_shape(tile, roles.lane.extent, host.description)
    if channels is not None:
        tile, shape = ChannelTile(*parts), channels
    return TileNest(writer, host, tile, shape, roles.lane, roles.rows)


def _roles(writer: BlockWriter, lane: KernelLoop, host: CHost) -> _Roles | None:
    """Chooses the rows for tiles whose lanes are an iterator, if vectors, or vectors of neighbours
    along the reduction, can be read along it; None if not.
    """
    i, target = lane.position, writer.outs[0].offset
    fixed = {p for access in writer.ins for p in access.fixed}
    steps = [access.offset.coefficient(i) for access in writer.ins]
    dot = dot_of(writer.ins, writer.reduction, i, host.description)
    unit = 1 if dot is None else dot.count
    if i in fixed or set(steps) - {0, unit} or unit not in steps:
        return None
    if dot is None and any(access.checks for access in writer.ins):
        return None
    if writer.epilogue is None and (target.coefficient(i) != 1 or divided_iterators(target)):
        return None
    rows = [
        loop
        for loop in writer.parallel
        if loop is not lane and loop.position not in fixed and _shares(writer, loop, i)
    ]
    if not rows:
        return _Roles(lane, (), dot)
    inner = next((loop for loop in reversed(rows) if loop.extent >= 4), rows[-1])
    outer = [loop for loop in rows if loop is not inner]
    return _Roles(lane, (*outer[-1:], inner), dot)


def _shares(writer: BlockWriter, loop: KernelLoop, lane: int) -> bool:
    """Tells if the rows along an iterator share the vector of one operand, and have each a number
    or vector of the other.
    """
    steps = [access.offset.coefficient(loop.position) for access in writer.ins]
    vectors = [access.offset.coefficient(lane) > 0 for access in writer.ins]
    return any(v and not s for v, s in zip(vectors, steps, strict=True)) and any(steps)


def _shape(roles: _Roles, host: CHost, fused: bool) -> TileShape | None:
    rows, dot = [loop.extent for loop in roles.rows], roles.dot
    fused = fused or (dot is not None and dot.count == 4)
    reserved = int(dot is not None and dot.shifts)
    return tile_shape(host.description, roles.lane.extent, rows, fused=fused, reserved=reserved)


def _preference(
    writer: BlockWriter, roles: _Roles, shape: TileShape
) -> tuple[bool, ...] | tuple[int, ...]:
    along = writer.written[0].offset.coefficient(roles.lane.position) == 1
    return bool(roles.rows), along, shape.lanes, roles.lane.extent


def _split(offset: IndexForm, writer: BlockWriter) -> tuple[IndexForm, IndexForm] | None:
    """Splits an offset into the part that stays through the reduction and the part that follows
    it.
    """
    inside = set(writer.op.reductions)
    moving, staying = offset.split(lambda atom: bool(iterators_of(atom) & inside))
    if any(not iterators_of(atom) <= inside for atom in moving.atoms):
        return None
    return staying, moving
