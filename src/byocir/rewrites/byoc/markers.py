"""Marks ops that are placed by hand: all between `byoc.begin` and `byoc.end` is a target's.

| code | what is wrong |
| --- | --- |
| B240 | markers that do not enclose: a way in or out without one, two targets, or two groups |
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, Block, Operation, OpResult, SSAValue

from byocir.dialects.byoc import GROUP, PLACE, BeginOp, EndOp
from byocir.dialects.traits import is_constant, is_constant_value
from byocir.dialects.uses import replace_uses, set_operand
from byocir.errors import ByocirError
from byocir.patterns.legality import describe


class HandPlacement(NamedTuple):
    """Places ops by hand: on a target or "host", and in a group whose regions have no other ops;
    the empty group is that of all ops without one.
    """

    target: str = ""
    group: str = ""

    def put_on(self, op: Operation) -> None:
        """Writes the place on an op."""
        op.attributes[PLACE] = StringAttr(self.target)
        if self.group:
            op.attributes[GROUP] = StringAttr(self.group)

    @staticmethod
    def of(op: Operation) -> HandPlacement:
        """Reads the place that is written on an op; it is empty if there is none."""
        if PLACE not in op.attributes:
            return HandPlacement()
        texts = (op.attributes.get(PLACE), op.attributes.get(GROUP))
        return HandPlacement(*(text.data if isinstance(text, StringAttr) else "" for text in texts))

    @staticmethod
    def clear(op: Operation) -> None:
        """Removes the place from an op."""
        op.attributes.pop(PLACE, None)
        op.attributes.pop(GROUP, None)

    def __str__(self) -> str:
        return f"{self.target}, group {self.group}" if self.group else self.target


def mark_ops(ops: Sequence[Operation], target: str, group: str = "") -> None:
    """Puts markers around ops of one block: they go to the target, and those of a group share
    regions with each other alone. Passes of a target at the point "before-match" partition by it.
    """
    inside = set(ops)
    properties: dict[str, Attribute] = {"target": StringAttr(target)}
    if group:
        properties["group"] = StringAttr(group)
    block = ops[0].parent if ops else None
    begun: dict[SSAValue, SSAValue] = {}
    for op in [op for op in block.ops if op in inside] if block is not None else ():
        for i, value in enumerate(op.operands):
            if value.owner not in inside and not is_constant_value(value):
                if value not in begun:
                    begun[value] = _begin(value, op, properties)
                set_operand(op, i, begun[value])
        for result in op.results:
            _mark_end(result, inside, properties)


def _begin(value: SSAValue, op: Operation, properties: Mapping[str, Attribute]) -> SSAValue:
    """Puts a marker between a value and the op that first uses it inside."""
    kind, block = [value.type], op.parent
    begin = BeginOp.create(operands=[value], result_types=kind, properties=dict(properties))
    assert block is not None
    block.insert_op_before(begin, op)
    return begin.output


def _mark_end(
    value: OpResult, inside: Collection[Operation], properties: Mapping[str, Attribute]
) -> None:
    """Puts a marker between a value and its uses outside, or behind it if nothing uses it."""
    uses = [use for use in value.uses if use.operation not in inside]
    if uses or not value.uses:
        end = EndOp.create(operands=[value], result_types=[value.type], properties=dict(properties))
        block = value.op.parent
        assert block is not None
        block.insert_op_after(end, value.op)
        for use in uses:
            set_operand(use.operation, use.index, end.output)


def marked_ops(block: Block) -> dict[Operation, HandPlacement]:
    """Gives each op between markers with its place; raises ByocirError B240."""
    marked: dict[Operation, HandPlacement] = {}
    for end in block.ops:
        if isinstance(end, EndOp):
            place = _place_of(end)
            for op in _enclosed(end):
                if marked.setdefault(op, place) != place:
                    raise _two_places(marked[op], place, op)
    _check_ways_out(block, marked)
    return marked


def erase_markers(block: Block) -> None:
    """Removes all markers."""
    for op in list(block.ops):
        if isinstance(op, BeginOp | EndOp):
            replace_uses(op.output, op.input)
            op.detach()
            op.erase()


def _place_of(marker: BeginOp | EndOp) -> HandPlacement:
    return HandPlacement(marker.target.data, marker.group.data if marker.group is not None else "")


def _enclosed(end: EndOp) -> Iterator[Operation]:
    """Lists the ops from which the value at an end is made, back to the begins. Constants need no
    begin.
    """
    place = _place_of(end)
    pending: list[tuple[SSAValue, Operation]] = [(end.input, end)]
    seen: set[Operation] = set()
    while pending:
        value, user = pending.pop()
        op = value.owner
        if not isinstance(op, Operation):
            raise _error(f"byoc.begin before {describe(user)}, found an input of the function", end)
        if isinstance(op, BeginOp):
            if _place_of(op) != place:
                raise _two_places(_place_of(op), place, end)
        elif isinstance(op, EndOp):
            raise _error("byoc.begin after byoc.end, found none", end)
        elif op not in seen:
            seen.add(op)
            if not is_constant(op):
                yield op
            pending += [(operand, op) for operand in op.operands]


def _check_ways_out(block: Block, marked: Mapping[Operation, HandPlacement]) -> None:
    for op in block.ops:
        if not isinstance(op, BeginOp) and op not in marked:
            continue
        place = _place_of(op) if isinstance(op, BeginOp) else marked[op]
        for use in (use for result in op.results for use in result.uses):
            user = use.operation
            ends = isinstance(user, EndOp) and _place_of(user) == place
            if not ends and marked.get(user) != place:
                raise _error(f"byoc.end before {describe(user)}, found none", op)


def _two_places(one: HandPlacement, other: HandPlacement, op: Operation) -> ByocirError:
    if one.target != other.target:
        return _error(f"one target, found {one.target} and {other.target}", op)
    return _error(f"one group, found {one.group or 'none'} and {other.group or 'none'}", op)


def _error(expected: str, op: Operation) -> ByocirError:
    return ByocirError(
        "B240",
        f"expected {expected}",
        where=describe(op),
        help="every value goes in by byoc.begin and out by byoc.end of the same target and group",
    )
