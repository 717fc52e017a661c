"""Makes the errors of requests that a schedule refuses, and the checks that all primitives
share.
"""

from __future__ import annotations

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Operation

from byocir.dialects.locations import names
from byocir.dialects.tir import BlockOp, ForOp, IntrinsicOp
from byocir.errors import ByocirError, did_you_mean


def refused(code: str, message: str, op: Operation | None = None, *, help: str = "") -> ByocirError:
    """Makes the error that a primitive cannot do what was asked of it at this op."""
    return ByocirError(code, message, where="" if op is None else _place(op), help=help)


def _place(op: Operation) -> str:
    nodes = names(op.location)
    return f"{op.name} of {', '.join(nodes)}" if nodes else f"a {op.name} without location"


def _kind(thing: object) -> str:
    return thing.name if isinstance(thing, Operation) else type(thing).__name__


def check_block(block: object) -> None:
    """Raises ByocirError B251 unless this is a block in buffer form that is part of a program."""
    if not isinstance(block, BlockOp):
        raise refused("B251", f"expected a block, found {_kind(block)}")
    if block.parent is None:
        raise refused("B251", "expected a block of the program, found one that is gone", block)
    if isinstance(block.parent_op(), IntrinsicOp):
        raise refused("B251", "expected a block, found one that is an instruction now", block)
    if block.in_value_form:
        raise refused(
            "B251",
            "expected a block in buffer form, found one on tensors",
            block,
            help="schedules begin after bufferisation",
        )


def check_loop(loop: object) -> None:
    """Raises ByocirError B251 unless this is a loop that is part of a program and carries no
    values.
    """
    if not isinstance(loop, ForOp):
        raise refused("B251", f"expected a loop, found {_kind(loop)}")
    if loop.parent is None:
        raise refused(
            "B251",
            "expected a loop of the program, found one that is gone",
            loop,
            help="fuse ends the inner of its two loops",
        )
    if loop.operands or loop.results:
        raise refused("B251", "expected a loop that carries no values", loop)


def check_operand(block: BlockOp, operand: int) -> None:
    """Raises ByocirError B251 unless the block has this operand, counted over ins and then outs."""
    count = len(block.ins) + len(block.outs)
    if not 0 <= operand < count:
        raise refused("B251", f"expected an operand from 0 to {count - 1}, found {operand}", block)
    assert isinstance([*block.ins, *block.outs][operand].type, MemRefType)


def position_of(block: BlockOp, iterator: str) -> int:
    """Finds the position of an iterator; raises ByocirError B251 for an unknown name."""
    if iterator not in block.names:
        raise refused(
            "B251",
            f"expected an iterator ({', '.join(block.names)}), found '{iterator}'",
            block,
            help=did_you_mean(iterator, block.names),
        )
    return block.names.index(iterator)
