"""Gives the edges of a program as patterns see them: who produced a value, and who uses it.

For tensors these are SSA's own edges. For memrefs the producer is the one earlier op of the same
block that writes the whole buffer with no other write between; where there is none, the reason is
told. Nothing else in the matcher knows which form it looks at.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Block, Operation, SSAValue, Use

from byocir.dialects import tir
from byocir.dialects.tir.affine import whole_axes
from byocir.dialects.types import shape_of


@dataclass(frozen=True)
class Producer:
    """Names the op that produced a value; where no op is to be seen, has None and the reason."""

    op: Operation | None
    reason: str = ""

    def __str__(self) -> str:
        return self.reason if self.op is None else self.op.name

    def node(self, value: SSAValue) -> Operation | SSAValue:
        """Identifies the value that is read: a tensor by itself, a buffer by the op that wrote it
        last, as each write makes another value of it.
        """
        in_buffer = isinstance(value.type, MemRefType) and self.op is not None
        return self.op if in_buffer and self.op is not None else value


def producer(use: Use) -> Producer:
    """Finds the op that produced the value of this operand."""
    value = use.operation.operands[use.index]
    if isinstance(value.type, MemRefType):
        return _writer_before(value, use.operation)
    return producer_of(value)


def producer_of(value: SSAValue) -> Producer:
    """Finds the op that produced this tensor."""
    if isinstance(value.owner, Operation):
        return Producer(value.owner)
    return Producer(None, "an input of the function")


def produced(op: Operation) -> list[SSAValue]:
    """Lists the values that an op makes: its results or, in buffer form, the memrefs that it
    writes.
    """
    return list(op.results) or written(op)


def uses(value: SSAValue, writer: Operation | None = None) -> list[Operation]:
    """Gives the ops that read this value, each once; for a memref those that may read what `writer`
    wrote, in the writer's block."""
    if not isinstance(value.type, MemRefType) or writer is None:
        return list(dict.fromkeys(use.operation for use in value.uses))
    return list(_readers_after(value, writer))


def escapes(value: SSAValue, writer: Operation) -> bool:
    """Tells if something outside the block may read what `writer` wrote: the memref outlives the
    block and no later op of it overwrites the whole."""
    if not isinstance(value.type, MemRefType):
        return False
    owner = value.owner
    if isinstance(owner, tir.AllocOp) and owner.parent is writer.parent:
        return False
    return not any(_overwrites(op, value) for op in _touching_after(value, writer))


def written(op: Operation) -> list[SSAValue]:
    """Lists the memrefs that an op, or one inside it, may write."""
    return [v for inner in tir.ops_around(op) for v in _written(inner)]


def read(op: Operation) -> list[SSAValue]:
    """Lists the memrefs that an op, or one inside it, may read. A block reads an out only if its
    body uses it.
    """
    return [v for inner in tir.ops_around(op) for v in _read(inner)]


def _written(op: Operation) -> list[SSAValue]:
    if isinstance(op, tir.BlockOp):
        return _memrefs(op.outs)
    if isinstance(op, tir.CopyOp):
        return [op.destination]
    return _memrefs(op.operands)


def _read(op: Operation) -> list[SSAValue]:
    if isinstance(op, tir.BlockOp):
        outs = op.body.block.args[len(op.ins) :]
        return _memrefs([*op.ins, *(v for v, a in zip(op.outs, outs, strict=True) if a.uses)])
    if isinstance(op, tir.CopyOp):
        return [op.source]
    return [] if isinstance(op, tir.FillOp) else _memrefs(op.operands)


def _memrefs(values: Sequence[SSAValue]) -> list[SSAValue]:
    return [v for v in values if isinstance(v.type, MemRefType)]


def _writer_before(value: SSAValue, reader: Operation) -> Producer:
    block = reader.parent
    assert block is not None
    if isinstance(value.owner, tir.ConstantOp):
        return Producer(value.owner)
    touching = {ancestor_in(block, use.operation) for use in value.uses}
    last = reader.prev_op
    while last is not None and not (last in touching and value in written(last)):
        last = last.prev_op
    if last is None:
        return Producer(None, "a buffer that nothing in this block wrote before")
    if not isinstance(last, tir.BlockOp | tir.CopyOp | tir.FillOp):
        return Producer(None, f"a buffer that {last.name} may have written")
    if not _leaves_nothing(last, value):
        return Producer(None, f"a buffer of which {last.name} wrote only a part")
    return Producer(last)


def _touching_after(value: SSAValue, writer: Operation) -> Iterator[Operation]:
    assert writer.parent is not None
    touching = {ancestor_in(writer.parent, use.operation) for use in value.uses}
    op = writer.next_op
    while op is not None:
        if op in touching:
            yield op
        op = op.next_op


def _readers_after(value: SSAValue, writer: Operation) -> Iterator[Operation]:
    for op in _touching_after(value, writer):
        if value in read(op):
            yield op
        if _overwrites(op, value):
            return


def _overwrites(op: Operation, value: SSAValue) -> bool:
    whole = isinstance(op, tir.BlockOp | tir.CopyOp | tir.FillOp)
    return whole and value in written(op) and _leaves_nothing(op, value)


def ancestor_in(block: Block | None, op: Operation) -> Operation | None:
    """Gives the op of `block` that is `op` or encloses it."""
    current: Operation | None = op
    while current is not None and current.parent is not block:
        current = current.parent_op()
    return current


def _leaves_nothing(op: Operation, value: SSAValue) -> bool:
    if isinstance(op, tir.CopyOp):
        return not op.destination_bases and op.box == shape_of(value.type)
    if not isinstance(op, tir.BlockOp):
        return True
    return writes_whole(op, list(op.outs).index(value))


def writes_whole(op: tir.BlockOp, position: int) -> bool:
    """Tells if a block writes each element of a result, which is decided for simple indices only:
    iterators over its dimensions.
    """
    if op.bases or op.where is not None:
        return False
    shape = shape_of(op.outs[position].type)
    return whole_axes(op.out_maps[position], shape, op.extents) is not None
