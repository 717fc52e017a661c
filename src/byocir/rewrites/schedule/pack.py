"""pack: a buffer in tiles, with the block that brings it there.

```
tir.block [m: 8 | k: 32]               %p = tir.alloc : memref<2x32x4xi8>
    ins(%a[m, k] : memref<8x32xi8>)    tir.block [d0: 2, d1: 32, t0: 4]
    …                               →      ins(%a[d0 * 4 + t0, d1]) outs(%p[d0, d1, t0]) …
                                       tir.block [m: 2, mi: 4 | k: 32] ins(%p[m, k, mi]) …
```

A dimension of size n in tiles of t becomes one of ceil(n / t) tiles, and one of t at the end. An
iterator that is an index of it becomes two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from byocir.dialects.tir import AllocOp, BlockOp, IteratorAttr, IteratorKind, YieldOp, scope_of
from byocir.dialects.tir.affine import divided, linear, modulo
from byocir.dialects.tir.scalar import number_attr
from byocir.dialects.types import element_type_of, shape_of
from byocir.rewrites.schedule.access import accesses_of, is_whole
from byocir.rewrites.schedule.blocks import Parts, resized
from byocir.rewrites.schedule.requests import check_block, check_operand, refused
from byocir.rewrites.tiled_layout import TiledLayout


def pack(block: BlockOp, operand: int, tiles: Mapping[int, int]) -> SSAValue:
    """Lets a block access its operand (counted over ins, then outs) in tiles of these sizes by
    dimension; gives the packed buffer. What is written is unpacked after the block. Raises
    ByocirError B251 for no operand of the block, B252 for a size that does not fit, B258 for a
    block that is tiled already, or reads what it writes."""
    check_block(block)
    check_operand(block, operand)
    buffer = [*block.ins, *block.outs][operand]
    _check(block, operand, buffer, tiles)
    layout = TiledLayout(shape_of(buffer.type), dict(tiles))
    home = block.parent
    assert home is not None
    local = AllocOp.of(
        element_type_of(buffer.type), layout.packed, scope_of(buffer.type), block.location
    )
    local.result.name_hint = buffer.name_hint
    home.insert_op_before(local, block)
    writes = operand >= len(block.ins)
    mine = next(access for access in accesses_of(block) if access.operand == operand)
    if not writes or mine.reads or not is_whole(mine):
        pad = None if writes else block.pad_values[operand]
        home.insert_op_before(_packing(buffer, local.result, layout, pad, block), block)
    _repoint(block, operand, local.result, layout)
    if writes:
        unpacking = _unpacking(local.result, buffer, layout, block)
        home.insert_op_after(unpacking, block)
    return local.result


def _check(block: BlockOp, operand: int, buffer: SSAValue, tiles: Mapping[int, int]) -> None:
    if block.bases:
        raise refused("B258", "expected a whole block, found a tile", block, help="pack, then tile")
    values = [*block.ins, *block.outs]
    if values.count(buffer) > 1 and buffer in block.outs:
        raise refused(
            "B258",
            "expected a buffer that the block reads or writes, found one it does both",
            block,
        )
    shape = shape_of(buffer.type)
    for d, size in tiles.items():
        if not 0 <= d < len(shape):
            raise refused(
                "B251", f"expected a dimension from 0 to {len(shape) - 1}, found {d}", block
            )
        if not 1 <= size <= shape[d]:
            raise refused(
                "B252", f"expected tiles of dimension {d} from 1 to {shape[d]}, found {size}", block
            )


def _repoint(block: BlockOp, operand: int, local: SSAValue, layout: TiledLayout) -> None:
    """Lets a block access the packed buffer."""
    parts = Parts.of(block)
    for d, size in layout.tiles.items():
        i = _whole_iterator(parts, operand, d)
        if i is not None:
            parts = _split(parts, i, size)
    exprs = list(parts.maps[operand].results)
    inner: list[AffineExpr] = []
    for d, size in layout.tiles.items():
        exprs[d], lane = _divided(exprs[d], size, parts)
        inner.append(lane)
    parts.with_operand(operand, local).with_map(operand, [*exprs, *inner]).put(block)


def _whole_iterator(parts: Parts, operand: int, dim: int) -> int | None:
    """The iterator that is the index of a dimension, or None."""
    form = linear(parts.maps[operand].results[dim])
    plain = form is not None and not form.constant and [c for _, c in form.terms] == [1]
    return form.terms[0][0] if form is not None and plain else None


def _split(parts: Parts, i: int, size: int) -> Parts:
    """One iterator as two neighbours, the second over `size`; a guard leaves out what is past the
    end."""
    old, count = parts.iterators[i], len(parts.iterators)
    extent, names = old.extent.data, {it.iterator_name.data for it in parts.iterators}
    name = old.iterator_name.data + "i"
    while name in names:
        name += "i"
    iterators = list(parts.iterators)
    iterators[i : i + 1] = [
        resized(old, -(-extent // size)),
        IteratorAttr.of(name, old.kind.data, size),
    ]
    exprs = [AffineExpr.dimension(j + (j > i)) for j in range(count)]
    exprs[i] = exprs[i] * size + AffineExpr.dimension(i + 1)
    made = parts.substituted(iterators, exprs, ())
    if extent % size == 0:
        return made
    return replace(made, guards=(*made.guards, exprs[i] * -1 + (extent - 1)))


def _divided(expr: AffineExpr, size: int, parts: Parts) -> tuple[AffineExpr, AffineExpr]:
    """The quotient and the remainder of an index by a size."""
    form = linear(expr)
    if form is not None:
        whole = [(i, c) for i, c in form.terms if c % size]
        lanes = [i for i, c in whole if c == 1 and parts.iterators[i].extent.data <= size]
        if not form.constant and len(whole) == 1 and lanes:
            quotient: AffineExpr = AffineExpr.constant(0)
            for i, c in form.terms:
                quotient = quotient + AffineExpr.dimension(i) * (c // size)
            return quotient, AffineExpr.dimension(lanes[0])
    return divided(expr, size), modulo(expr, size)


def _moving(
    source: SSAValue,
    target: SSAValue,
    iterators: Sequence[tuple[str, int]],
    maps: Sequence[Sequence[AffineExpr]],
    pad: Attribute | None,
    origin: Operation,
) -> BlockOp:
    """A block that moves elements as they are."""
    element = element_type_of(source.type)
    body = Block(arg_types=[element, element])
    body.add_op(YieldOp.create(operands=[body.args[0]]))
    return BlockOp(
        [IteratorAttr.of(name, IteratorKind.PARALLEL, n) for name, n in iterators],
        [source],
        [target],
        [AffineMap(len(iterators), 0, tuple(exprs)) for exprs in maps],
        Region(body),
        pads=[pad],
        location=origin.location,
    )


def _packing(
    source: SSAValue,
    target: SSAValue,
    layout: TiledLayout,
    pad: Attribute | None,
    origin: Operation,
) -> BlockOp:
    rank = len(layout.shape)
    names = [f"d{d}" for d in range(rank)] + [f"t{d}" for d in layout.tiles]
    iterators = list(zip(names, layout.packed, strict=True))
    dims = [AffineExpr.dimension(i) for i in range(len(iterators))]
    read = layout.plain_index(dims)
    zero = number_attr(0, element_type_of(source.type))
    filled = None if layout.divides else pad or zero
    return _moving(source, target, iterators, [read, dims], filled, origin)


def _unpacking(
    source: SSAValue, target: SSAValue, layout: TiledLayout, origin: Operation
) -> BlockOp:
    iterators = [(f"d{d}", n) for d, n in enumerate(layout.shape)]
    dims = [AffineExpr.dimension(i) for i in range(len(iterators))]
    return _moving(source, target, iterators, [layout.packed_index(dims), dims], None, origin)
