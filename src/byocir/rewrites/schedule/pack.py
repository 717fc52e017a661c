"""pack: puts a buffer into tiles, by a block that brings it there.

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

from collections.abc import Mapping
from dataclasses import replace

from xdsl.ir import SSAValue

from byocir.dialects.tir import AllocOp, BlockOp, scope_of
from byocir.dialects.tir.affine import linear
from byocir.dialects.tir.linear import spans
from byocir.dialects.tir.moves import axes, moving
from byocir.dialects.tir.scalar import number_attr
from byocir.dialects.types import element_type_of, shape_of
from byocir.rewrites.schedule.access import accesses_of, is_whole
from byocir.rewrites.schedule.blocks import Parts
from byocir.rewrites.schedule.requests import check_block, check_operand, refused
from byocir.rewrites.tiled_layout import TiledLayout, tiled_iterators


def pack(block: BlockOp, operand: int, tiles: Mapping[int, int]) -> SSAValue:
    """Makes a block access its operand (counted over ins, then outs) in tiles of these sizes by
    dimension; gives the packed buffer. What is written is unpacked after the block. Raises
    ByocirError B251 for no operand of the block, B252 for a size that does not fit, B258 for a
    block that is tiled already, or reads what it writes.
    """
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
        given = None if writes else block.pad_values[operand]
        pad = None if layout.divides else given or number_attr(0, element_type_of(buffer.type))
        read = layout.plain_index(axes(len(layout.packed)))
        names = [*(f"d{d}" for d in range(len(layout.shape))), *(f"t{d}" for d in layout.tiles)]
        packing = moving(buffer, local.result, read, block.location, names=names, pad=pad)
        home.insert_op_before(packing, block)
    _repoint(block, operand, local.result, layout)
    if writes:
        read = layout.packed_index(axes(len(layout.shape)))
        unpacking = moving(local.result, buffer, read, block.location)
        home.insert_op_after(unpacking, block)
    return local.result


def _check(block: BlockOp, operand: int, buffer: SSAValue, tiles: Mapping[int, int]) -> None:
    if block.bases:
        raise refused("B258", "expected a whole block, found a tile", block, help="pack, then tile")
    values = [*block.ins, *block.outs]
    if values.count(buffer) > 1 and buffer in block.outs:
        raise refused(
            "B258",
            "expected a buffer that the block reads or writes, found one that it reads and writes",
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
    """Makes a block access the packed buffer."""
    parts = Parts.of(block)
    for d, size in layout.tiles.items():
        i = _whole_iterator(parts, operand, d)
        if i is not None:
            parts = _split(parts, i, size)
    known = spans([iterator.extent.data for iterator in parts.iterators])
    index = layout.packed_index(parts.maps[operand].results, known)
    parts.with_operand(operand, local).with_map(operand, index).put(block)


def _whole_iterator(parts: Parts, operand: int, dim: int) -> int | None:
    """Gives the iterator that alone is the index of a dimension; None if there is none."""
    form = linear(parts.maps[operand].results[dim])
    plain = form is not None and not form.constant and [c for _, c in form.terms] == [1]
    return form.terms[0][0] if form is not None and plain else None


def _split(parts: Parts, i: int, size: int) -> Parts:
    """Splits one iterator into two neighbours, the second over `size`; a guard leaves out what is
    past the end.
    """
    old = parts.iterators[i]
    extent, names = old.extent.data, {it.iterator_name.data for it in parts.iterators}
    name = old.iterator_name.data + "i"
    while name in names:
        name += "i"
    tiles = {i: (old.iterator_name.data, name, size)}
    iterators, exprs = tiled_iterators(parts.iterators, tiles)
    made = parts.substituted(iterators, exprs, ())
    if extent % size == 0:
        return made
    return replace(made, guards=(*made.guards, exprs[i] * -1 + (extent - 1)))
