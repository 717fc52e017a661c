"""cache_write: computes a result in a buffer of its own, from which a block stores it.

```
tir.fill 0 into %y                      tir.fill 0 into %t
tir.block … outs(%y[m, n]) …       →    tir.block … outs(%t[m, n]) …
                                        tir.block [d0, d1] ins(%t[d0, d1]) outs(%y[d0, d1]) …
```

The block that stores can be tiled, and what makes the buffer computed in its loops.
"""

from __future__ import annotations

from xdsl.ir import Block, Operation

from byocir.dialects.tir import AllocOp, BlockOp
from byocir.dialects.tir.moves import axes, moving
from byocir.dialects.types import element_type_of, shape_of
from byocir.dialects.uses import set_operand
from byocir.rewrites.schedule.access import accesses_of, is_whole
from byocir.rewrites.schedule.requests import check_block, refused
from byocir.rewrites.schedule.stage import top


def cache_write(block: BlockOp) -> BlockOp:
    """Makes a block, and the ops before it that access its result, compute it in a buffer of its
    own; gives the block that stores it. Raises ByocirError B263 unless they make the whole result
    from scratch.
    """
    check_block(block)
    home, result = block.parent, block.outs[0]
    assert home is not None
    found = [a for op in _up_to(home, block) for a in accesses_of(op, {result})]
    if len(block.outs) != 1 or found[0].reads or not is_whole(found[0]):
        raise refused(
            "B263", "expected a result written as a whole before it is read, found another", block
        )
    local = AllocOp.of(element_type_of(result.type), shape_of(result.type), "", block.location)
    local.result.name_hint = result.name_hint
    home.insert_op_before(local, top(found[0].op, home))
    for access in found:
        set_operand(access.op, access.operand, local.result)
    rank = len(shape_of(result.type))
    store = moving(local.result, result, axes(rank), block.location)
    home.insert_op_after(store, block)
    return store


def _up_to(home: Block, block: BlockOp) -> list[Operation]:
    ops = list(home.ops)
    return ops[: ops.index(block) + 1]
