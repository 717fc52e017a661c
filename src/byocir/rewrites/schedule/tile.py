"""tile: puts loops around a block, which then runs over one tile.

```
tir.block [m: 64, k: 32 reduction] …      tir.for %m = 0 to 4 serial {
                                     →      tir.block [m: 16, k: 32 reduction] at(%m * 16, 0) …
                                          }
```

Extents and bases change, maps stay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Literal, get_args

from xdsl.ir import Block, SSAValue

from byocir.dialects.tir import BlockOp, ForOp
from byocir.dialects.tir.linear import Linear
from byocir.dialects.tir.reductions import is_unordered
from byocir.rewrites.schedule.blocks import body_of, reads_old, retile
from byocir.rewrites.schedule.hoist_indices import hoist_indices
from byocir.rewrites.schedule.index import IndexBuilder, base_sums
from byocir.rewrites.schedule.requests import check_block, position_of, refused
from byocir.rewrites.schedule.split import guard_end

Remainder = Literal["refuse", "guard", "overlap"]
"""Ways to treat a size that does not divide: an error; a guard (`where`) leaves out the points past
the end; or the last tile begins earlier and computes some elements again."""


def tile(
    block: BlockOp, sizes: Mapping[str, int], *, remainder: Remainder = "refuse"
) -> list[ForOp]:
    """Puts loops over tiles of these iterators around a block, the first one outermost; gives the
    loops. Raises ByocirError B251 for no iterator of the block, B252 for a size that does not fit,
    and B253 where a reduction would run in another order that gives other floats.
    """
    check_block(block)
    known = get_args(Remainder)
    if remainder not in known:
        raise refused("B252", f"expected remainder {', '.join(known)}, found '{remainder}'", block)
    positions = [position_of(block, name) for name in sizes]
    for i, size in zip(positions, sizes.values(), strict=True):
        _check_size(block, i, size, remainder)
    _check_order(block, positions, list(sizes.values()))
    return _carve(block, dict(zip(positions, sizes.values(), strict=True)), remainder)


def _check_size(block: BlockOp, i: int, size: int, remainder: Remainder) -> None:
    name, extent = block.names[i], block.extents[i]
    if not 1 <= size <= extent:
        raise refused("B252", f"expected a size of {name} from 1 to {extent}, found {size}", block)
    if extent % size == 0 or remainder == "guard":
        return
    if remainder == "refuse":
        raise refused(
            "B252",
            f"expected a size that divides {name} ({extent}), found {size}",
            block,
            help='remainder="guard" leaves out what is past the end, "overlap" begins the last '
            "tile earlier",
        )
    again = set(block.ins) & set(block.outs)
    if i in block.reductions or reads_old(block) or again:
        raise refused(
            "B252",
            f"expected a size that divides {name} ({extent}), found {size}: tiles cannot overlap "
            "where a result depends on what it was before",
            block,
            help='remainder="guard" leaves out what is past the end',
        )


def _check_order(block: BlockOp, positions: Sequence[int], sizes: Sequence[int]) -> None:
    """Raises ByocirError B253 unless the reductions' points keep their order, or any order will
    do.
    """
    extents = list(block.extents)
    order: list[int] = []
    for i, size in zip(positions, sizes, strict=True):
        order += [i] if size < extents[i] else []
        extents[i] = size
    order += [i for i in block.reductions if extents[i] > 1]
    order = [i for i in order if i in block.reductions]
    if order == sorted(order) or is_unordered(block):
        return
    names = block.names
    late, early = next((a, b) for a, b in pairwise(order) if a > b)
    raise refused(
        "B253",
        f"expected loops over {names[early]} around those over {names[late]}, as the reductions of "
        f"the block are ordered, found {', '.join(names[i] for i in positions)} with sizes "
        f"{', '.join(map(str, sizes))}",
        block,
        help="sums of floats depend on their order; tile the reductions in order, outer ones to 1",
    )


def _carve(block: BlockOp, sizes: Mapping[int, int], remainder: Remainder) -> list[ForOp]:
    extents, bases = list(block.extents), base_sums(block.bases, len(block.extents))
    body, guarded = body_of(block), list[tuple[int, Linear[SSAValue]]]()
    loops = [ForOp.of(-(-extents[i] // n), location=block.location) for i, n in sizes.items()]
    inside = nest(block, loops)
    indices = IndexBuilder(body, block.location)
    for (i, size), loop in zip(sizes.items(), loops, strict=True):
        loop.index.name_hint = block.names[i]
        step, last = Linear(((loop.index, 1),)) * size, extents[i] - size
        if extents[i] % size and remainder == "guard":
            guarded.append((i, bases[i] + extents[i] - 1))
        elif extents[i] % size:
            step = Linear(((indices.minimum(step, last, inside, block), 1),))
        bases[i] += step
        extents[i] = size
    values = [indices.value(base, inside, block) for base in bases]
    retile(block, extents, values)
    for i, end in guarded:
        guard_end(block, i, end)
    hoist_indices(body)
    return loops


def nest(block: BlockOp, loops: Sequence[ForOp]) -> Block:
    """Puts a block into loops, the first one outermost; gives the innermost body."""
    inside = block.parent
    assert inside is not None
    for loop in loops:
        inside.insert_op_before(loop, block) if loop is loops[0] else inside.add_op(loop)
        inside = loop.body.block
    if loops:
        block.detach()
        inside.add_op(block)
    return inside
