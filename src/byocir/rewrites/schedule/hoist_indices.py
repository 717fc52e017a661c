"""Moves index arithmetic as far out as it can be, with each value once and nothing unused.

So what one primitive computes is there for the next one, wherever that puts its ops.
"""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.ir import Attribute, Block, Operation, OpResult, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from byocir.dialects.tir import BlockOp
from byocir.dialects.traits import is_isolated
from byocir.dialects.uses import erase, replace_uses
from byocir.rewrites.schedule.index import innermost, is_index_arithmetic, loops_behind

_Key = tuple[Block, type[Operation], tuple[SSAValue, ...], Attribute | None]


def hoist_indices(body: Block) -> None:
    """Moves index arithmetic of loops to the front of the innermost loop that it depends on, and
    constants to the front of `body`; joins equal values; drops unused ones."""
    known: dict[_Key, SSAValue] = {}
    last: dict[Block, Operation] = {}
    settled: set[SSAValue] = set()
    for op in _index_ops(body):
        if any(isinstance(v, OpResult) and v not in settled for v in op.operands):
            continue  # an operand is computed by an op that stays
        loop = innermost(loops_behind(op.results[0]))
        home = body if loop is None else loop.body.block
        number = op.value if isinstance(op, arith.ConstantOp) else None
        key = (home, type(op), tuple(op.operands), number)
        if key in known:
            replace_uses(op.results[0], known[key])
            erase(op)
            continue
        known[key] = op.results[0]
        settled.add(op.results[0])
        _to_front(op, home, last.get(home))
        last[home] = op
    for op in reversed(_index_ops(body)):
        if op.results[0].first_use is None:
            erase(op)


def _to_front(op: Operation, home: Block, after: Operation | None) -> None:
    following = home.first_op if after is None else after.next_op
    if following is op:
        return
    op.detach()
    Rewriter.insert_op(op, InsertPoint(home, following))


def _index_ops(block: Block) -> list[Operation]:
    """Lists the index arithmetic of a block and of the ops that have others inside, in order; not
    that of bodies.
    """
    found: list[Operation] = []
    for op in block.ops:
        if is_index_arithmetic(op):
            found.append(op)
        elif not isinstance(op, BlockOp) and not is_isolated(op):
            found += [
                inner for region in op.regions for b in region.blocks for inner in _index_ops(b)
            ]
    return found
