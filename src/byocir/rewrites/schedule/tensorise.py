"""tensorise: replaces a block that a pattern describes by an instruction of a target.

```
tir.block [m: 16, n: 16 | k: 16] …      tir.intrinsic "npu.gemm" {
                                     →    tir.block [m: 16, n: 16 | k: 16] …
                                        }
```

The pattern sees the block in local coordinates: its iterators run from 0, and its operands are the
boxes that it reaches, so `m["x"].type.shape` is the size of a tile. What the result starts from is
a value of the pattern, too: give `block(…, init=wildcard("acc"))` where an instruction accumulates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import UNKNOWN_LOC, LocationAttr
from xdsl.ir import Attribute, Block, Operation
from xdsl.ir.affine import AffineMap

from byocir.dialects.tir import BlockOp, IntrinsicOp, buffer, scope_of
from byocir.dialects.tir.affine import linear
from byocir.dialects.types import element_type_of
from byocir.dialects.uses import erase
from byocir.patterns import Attempt, Composite, Match
from byocir.rewrites.schedule.access import accesses_of, local_map
from byocir.rewrites.schedule.requests import check_block, refused

Emit = Callable[[Match, BlockOp], Sequence[Operation]]
"""Makes the ops that stand for a block that matched, from what the pattern's names are bound to
(values of the tile, not of the program) and the block itself."""


def tensorise(block: BlockOp, pattern: Composite, emit: Emit | None = None) -> Sequence[Operation]:
    """Replaces a block by the instruction with the pattern's name and the numbers that the pattern
    leaves open, or by what `emit` makes of it, without the block; gives the ops. Raises ByocirError
    B259 with the pattern's reason, and every rule that does not hold.
    """
    check_block(block)
    found = pattern.attempt(local_form(block))
    if not found.fits or found.match is None:
        raise _unlike(block, pattern, found)
    location, home, names = block.location, block.parent, found.match.state.names
    assert home is not None
    if emit is not None:
        made = list(emit(found.match, block))
        _place(made, block, location)
        erase(block)
        return made
    numbers = {name: n for name, n in names.items() if isinstance(n, int)}
    intrinsic = IntrinsicOp.of(pattern.name, numbers=numbers, location=location)
    home.insert_op_before(intrinsic, block)
    block.detach()
    intrinsic.body.block.add_op(block)
    return [intrinsic]


def local_form(block: BlockOp) -> BlockOp:
    """Makes the block over its tile alone, as a block of its own: it has no bases, and operands of
    the sizes of the boxes that it reaches. A block without bases keeps its operands' types, pads
    and guard. Raises ByocirError B259 for a tile with pads or guards, or with indices that divide.
    """
    if not block.bases:
        types = [value.type for value in [*block.ins, *block.outs]]
        maps = [*block.in_maps, *block.out_maps]
        return _copy(block, types, maps)
    if block.where is not None or block.is_padded:
        raise refused(
            "B259",
            "expected a tile without pads and guards, found some",
            block,
            help="stage its operands first",
        )
    types, maps = list[Attribute](), list[AffineMap]()
    for access, map_ in zip(accesses_of(block), [*block.in_maps, *block.out_maps], strict=False):
        shape = tuple(side.size for side in access.box)
        old = access.buffer.type
        types.append(buffer(element_type_of(old), shape, scope_of(old)))
        if any(linear(expr) is None for expr in map_.results):
            raise refused("B259", f"expected linear indices of a tile, found {map_}", block)
        maps.append(local_map(block, map_))
    return _copy(block, types, maps)


def _copy(block: BlockOp, types: Sequence[Attribute], maps: Sequence[AffineMap]) -> BlockOp:
    outside = Block(arg_types=types)
    count = len(block.ins)
    made = block.like(ins=outside.args[:count], outs=outside.args[count:], maps=maps, bases=())
    outside.add_op(made)
    return made


def _unlike(block: BlockOp, pattern: Composite, found: Attempt) -> Exception:
    broken = [f"{rule.sentence}, found {rule.seen}" for rule in found.rules if not rule.holds]
    return refused(
        "B259",
        f"expected a block that {pattern.name} describes: {found.reason}",
        block,
        help="; ".join(broken),
    )


def _place(made: Sequence[Operation], block: BlockOp, location: LocationAttr) -> None:
    assert block.parent is not None
    for op in made:
        op.location = location if op.location == UNKNOWN_LOC else op.location
        block.parent.insert_op_before(op, block)
