"""Edges of the program as patterns see them: who produced a value, who uses it.

For tensors these are SSA's own edges. For memrefs the producer is the one earlier op of the same
block that writes the whole buffer with no other write between; where there is none, the reason is
told. Nothing else in the matcher knows which form it looks at.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Block, Operation, SSAValue, Use

from byocir.dialects import tir
from byocir.dialects.tir.affine import linear
from byocir.dialects.types import shape_of


@dataclass(frozen=True)
class Producer:
    """The op that produced a value, or None and the reason why there is none to see."""

    op: Operation | None
    reason: str = ""


def producer(use: Use) -> Producer:
    """Who produced the value of this operand."""
    value = use.operation.operands[use.index]
    if isinstance(value.type, MemRefType):
        return _writer_before(value, use.operation)
    return producer_of(value)


def producer_of(value: SSAValue) -> Producer:
    """Who produced this tensor."""
    if isinstance(value.owner, Operation):
        return Producer(value.owner)
    return Producer(None, "an input of the function")


def uses(value: SSAValue) -> list[Operation]:
    """The ops that read this value, each once; for a memref without the ops that only write it."""
    users = dict.fromkeys(use.operation for use in value.uses)
    if not isinstance(value.type, MemRefType):
        return list(users)
    return [user for user in users if value not in written(user) or value in read(user)]


def written(op: Operation) -> list[SSAValue]:
    """The memrefs that an op itself writes."""
    if isinstance(op, tir.BlockOp):
        return [v for v in op.outs if isinstance(v.type, MemRefType)]
    if isinstance(op, tir.CopyOp):
        return [op.destination]
    if isinstance(op, tir.FillOp) and op.destination is not None:
        return [op.destination]
    return []


def read(op: Operation) -> list[SSAValue]:
    """The memrefs that an op itself reads. A block reads an out only if its body uses it."""
    if isinstance(op, tir.BlockOp):
        outs = op.body.block.args[len(op.ins) :]
        used = [v for v, arg in zip(op.outs, outs, strict=True) if arg.uses]
        return [v for v in [*op.ins, *used] if isinstance(v.type, MemRefType)]
    if isinstance(op, tir.CopyOp):
        return [op.source]
    return [] if isinstance(op, tir.FillOp) else list(op.operands)


def _writer_before(value: SSAValue, reader: Operation) -> Producer:
    block = reader.parent
    assert block is not None
    if isinstance(value.owner, tir.ConstantOp):
        return Producer(value.owner)
    last: Operation | None = None
    touching = {_ancestor_in(block, use.operation) for use in value.uses}
    for op in block.ops:
        if op is reader:
            break
        if op in touching and (value in written(op) or op.regions):
            last = op
    if last is None:
        return Producer(None, "a buffer that nothing in this block wrote before")
    if value not in written(last):
        return Producer(None, f"a buffer that may be written inside {last.name}")
    if not _writes_whole(last, value):
        return Producer(None, f"a buffer of which {last.name} wrote only a part")
    return Producer(last)


def _ancestor_in(block: Block, op: Operation) -> Operation | None:
    current: Operation | None = op
    while current is not None and current.parent is not block:
        current = current.parent_op()
    return current


def _writes_whole(op: Operation, value: SSAValue) -> bool:
    if isinstance(op, tir.CopyOp):
        return not op.destination_bases and op.box == shape_of(value.type)
    if not isinstance(op, tir.BlockOp):
        return True
    if op.bases or op.where is not None:
        return False
    map_ = op.out_maps[list(op.outs).index(value)]
    extents, seen = op.extents, set[int]()
    for size, expr in zip(shape_of(value.type), map_.results, strict=True):
        form = linear(expr)
        if form is None or form.constant or len(form.terms) > 1:
            return False
        if not form.terms:
            if size != 1:
                return False
            continue
        ((iterator, coefficient),) = form.terms
        if coefficient != 1 or extents[iterator] != size or iterator in seen:
            return False
        seen.add(iterator)
    return True
