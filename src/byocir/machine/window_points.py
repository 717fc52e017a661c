"""Describes tiles that have one point of each window.

Where a row of a memory has several pixels of an image, as a tile in a register has, calls at the
points of a window would begin inside of rows. So a tile has one point of each window, and only the
pixels that this point reads: these are neighbours in the tile, whatever the step between them.
"""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.ir.affine import AffineExpr, AffineMap

from byocir.dialects.tir import BlockOp
from byocir.dialects.tir.affine import expression, iterators_in, linear
from byocir.dialects.tir.linear import Linear
from byocir.machine.local_blocks import on_its_own


def windows_of(block: BlockOp) -> set[int]:
    """Lists the sums that run over windows: in some index they stand beside another iterator."""
    found = set[int]()
    for expr in (expr for attr in block.maps for expr in attr.data.results):
        used = iterators_in([expr])
        found |= {i for i in used if len(used) > 1 and i in block.reductions}
    return found


def at_points(block: BlockOp) -> BlockOp | None:
    """Makes the block that a tile with one point of each window is, as a program of its own. Its
    inputs are read at [2*h + r, 2*w + s, c] → [h, w, c]. None for a block that is so already, or
    has an index that divides.
    """
    windows, maps = windows_of(block), [*block.in_maps, *block.out_maps]
    forms = [[linear(expr) for expr in map_.results] for map_ in block.in_maps]
    if None in (form for own in forms for form in own):
        return None
    points = [
        AffineMap(map_.num_dims, 0, tuple(_at_points(own, windows)))
        for map_, own in zip(block.in_maps, forms, strict=True)
    ]
    if points == block.in_maps:
        return None
    types = [value.type for value in [*block.ins, *block.outs]]
    return on_its_own(block, [*block.iterators], types, [*points, *maps[len(points) :]])


def _at_points(forms: Iterable[Linear[int] | None], windows: set[int]) -> Iterable[AffineExpr]:
    for form in forms:
        assert form is not None
        inner = [(i, step) for i, step in form.terms if i not in windows]
        if len(inner) == 1 and inner[0][1] > 0:
            yield AffineExpr.dimension(inner[0][0])
        else:
            yield expression(Linear(tuple(inner or form.terms), form.constant))
