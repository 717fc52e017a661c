"""Parts long loads of a machine's program, so that others can come between."""

from __future__ import annotations

from math import ceil

from byocir.dialects.tir import IntrinsicOp
from byocir.dialects.uses import erase
from byocir.machine import Calls
from byocir.rewrites.machine.cut_blocks import Part
from byocir.rewrites.machine.select_instructions import cut_out
from byocir.rewrites.schedule.write_out import PaddedBox


def part(load: Calls, count: int) -> bool:
    """Parts an op of several calls into at most so many ops, along the iterator over which it has
    most calls; tells if it could be parted.
    """
    op, block = load.op, load.block
    cut, extents = op.cut_of(block), block.extents
    calls = [ceil(extent / size) for extent, size in zip(extents, cut, strict=True)]
    i = calls.index(max(calls))
    size = ceil(calls[i] / count) * cut[i]
    is_queued = any(memory.fifo for _, memory in load.buffers)
    if size >= extents[i] or len([*op.body.block.ops]) > 1 or is_queued:
        return False
    order = [*range(len(cut))] if op.order is None else [*op.order.get_values()]
    home = op.parent
    assert home is not None
    for low in range(0, extents[i], size):
        sides = PaddedBox.of(block).over(i, (low, min(low + size, extents[i]))).sides
        own = tuple(min(n, high - at) for n, (at, high) in zip(cut, sides, strict=True))
        name = op.callee.data
        part = Part(sides, name, own, order, op.fields, begins=False, cycles=0)
        work, *how = cut_out(block, part)
        home.insert_op_before(IntrinsicOp.of(name, [work], op.fields, op.location, *how), op)
    erase(op)
    return True
