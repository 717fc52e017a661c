"""Markers that a user set by hand: what lies between `byoc.begin` and `byoc.end` is a target's.

| code | what is wrong |
| --- | --- |
| B240 | markers that do not enclose: a way in or out without one, or two targets |
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Block, Operation, SSAValue

from byocir.dialects.byoc import BeginOp, EndOp
from byocir.dialects.traits import is_constant
from byocir.dialects.uses import replace_uses
from byocir.errors import ByocirError
from byocir.patterns.legality import describe


def marked_ops(block: Block) -> dict[Operation, str]:
    """The ops between markers and the target of each; raises ByocirError B240."""
    marked: dict[Operation, str] = {}
    for end in block.ops:
        if isinstance(end, EndOp):
            target = end.target.data
            for op in _enclosed(end):
                if marked.setdefault(op, target) != target:
                    raise _error(f"one target, found {marked[op]} and {target}", op)
    _check_ways_out(block, marked)
    return marked


def erase_markers(block: Block) -> None:
    """Removes all markers."""
    for op in list(block.ops):
        if isinstance(op, BeginOp | EndOp):
            replace_uses(op.output, op.input)
            op.detach()
            op.erase()


def _enclosed(end: EndOp) -> Iterator[Operation]:
    """The ops from which the end's value comes, back to the begins. Constants need none."""
    target = end.target.data
    pending: list[tuple[SSAValue, Operation]] = [(end.input, end)]
    seen: set[Operation] = set()
    while pending:
        value, user = pending.pop()
        op = value.owner
        if not isinstance(op, Operation):
            raise _error(f"byoc.begin before {describe(user)}, found an input of the function", end)
        if isinstance(op, BeginOp):
            if op.target.data != target:
                raise _error(f"one target, found {op.target.data} and {target}", end)
        elif isinstance(op, EndOp):
            raise _error("byoc.begin after byoc.end, found none", end)
        elif op not in seen:
            seen.add(op)
            if not is_constant(op):
                yield op
            pending += [(operand, op) for operand in op.operands]


def _check_ways_out(block: Block, marked: dict[Operation, str]) -> None:
    for op in block.ops:
        if not isinstance(op, BeginOp) and op not in marked:
            continue
        target = op.target.data if isinstance(op, BeginOp) else marked[op]
        for use in (use for result in op.results for use in result.uses):
            user = use.operation
            ends = isinstance(user, EndOp) and user.target.data == target
            if not ends and marked.get(user) != target:
                raise _error(f"byoc.end before {describe(user)}, found none", op)


def _error(expected: str, op: Operation) -> ByocirError:
    return ByocirError(
        "B240",
        f"expected {expected}",
        where=describe(op),
        help="every value goes in by byoc.begin and out by byoc.end of the same target",
    )
