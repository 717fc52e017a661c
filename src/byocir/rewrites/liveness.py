"""Finds the last uses of values, after which their memory may be written over.

Two passes put tensors into memory and decide by this: `bufferize`, of which `vta-bufferize` is one
with rules of its own for updates and copies, and the C code generator. Where a value lies they each
know themselves: in a memref, or at an offset of an arena of bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from xdsl.ir import Block, Operation, SSAValue, Use

from byocir.dialects.tir import AllocOp, BlockOp
from byocir.patterns.dataflow import ancestor_in

_B = TypeVar("_B")


class Liveness:
    """Knows which values are still needed, in blocks and in those inside them, as long as their ops
    stay as they are. `postponed` ops run where others stand.
    """

    def __init__(
        self, *blocks: Block, postponed: Mapping[Operation, Operation] | None = None
    ) -> None:
        ops = (op for block in blocks for op in block.walk())
        self._order = {op: i for i, op in enumerate(ops)}
        late = {op: self._order[at] for op, at in (postponed or {}).items()}
        self._order.update(late)

    def needed_after(self, value: SSAValue, op: Operation) -> bool:
        """Tells if a value is used once an op is done. An op in a loop that uses a value from
        outside of it does so again in the next iteration.
        """
        home = value.owner if isinstance(value.owner, Block) else value.owner.parent
        if home is not op.parent:
            return True
        return any(self._order[use.operation] > self._order[op] for use in value.uses)

    def may_overwrite(
        self, op: Operation, value: SSAValue, reads: Sequence[SSAValue] | None = None
    ) -> bool:
        """Tells if an op may write its result over a value that it starts from: the value is not
        needed afterwards, and the op reads it only once, by `reads` or else its operands.
        """
        used = op.operands if reads is None else reads
        return list(used).count(value) == 1 and not self.needed_after(value, op)


def starts_block(use: Use) -> bool:
    """Tells if this use is a block's initial value, which it needs as an array of its own
    anyway."""
    op = use.operation
    return isinstance(op, BlockOp) and use.index >= len(op.ins)


def last_uses(block: Block) -> dict[Operation, list[AllocOp]]:
    """Lists, for each op of a block, the buffers allocated in the block that it, or an op inside
    it, uses last.
    """
    order = {op: i for i, op in enumerate(block.ops)}
    ends: dict[Operation, list[AllocOp]] = {}
    for op in block.ops:
        if not isinstance(op, AllocOp):
            continue
        users = [ancestor_in(block, use.operation) for use in op.result.uses]
        last = max([op, *(user for user in users if user is not None)], key=order.__getitem__)
        ends.setdefault(last, []).append(op)
    return ends


def hand_on(
    sources: Sequence[_B],
    targets: Sequence[_B],
    save: Callable[[_B], _B],
    move: Callable[[_B, _B], object],
) -> None:
    """Moves what an iteration yields to where the next one finds it, as if all at once: `save`
    copies a source that another move overwrites.
    """
    moves = [(s, t) for s, t in zip(sources, targets, strict=True) if s is not t]
    written = [target for _, target in moves]
    kept = [save(source) if source in written else source for source, _ in moves]
    for source, (_, target) in zip(kept, moves, strict=True):
        move(source, target)
