"""Replaces values in the ops that use them, in a time that does not depend on how many operands
those ops have.

xDSL keeps operands as a tuple and copies all of it for each one that is set, so that a graph of
20 000 outputs whose values are replaced one by one copies 20 000 operands 20 000 times. Here a wide
op keeps them as a list from the first time that one is set; xDSL reads both alike. Those of other
ops are copied once, not part by part as xDSL does it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.core import SSAValues

from byocir.dialects.new_ops import new_block

WIDE = 32
"""The number of operands from which a list of them is worth its making."""


class _ListOfOperands(list[SSAValue]):
    """Holds operands so that one can be set in place; its slices are tuples, as those of xDSL's
    operands are.
    """

    def __getitem__(self, index: Any) -> Any:
        found = cast("Any", super().__getitem__(index))
        return SSAValues[SSAValue](found) if isinstance(index, slice) else found

    def __eq__(self, other: object) -> bool:
        mine = SSAValues(self)
        return mine == (SSAValues(other) if isinstance(other, _ListOfOperands) else other)


def set_operand(op: Operation, index: int, value: SSAValue) -> None:
    """Replaces one operand of an op by another value."""
    operands: Any = op._operands  # pyrefly: ignore[protected-access]
    use = op._operand_uses[index]  # pyrefly: ignore[protected-access]
    is_wide = len(operands) >= WIDE
    if not is_wide:
        operands = list(operands)
    elif not isinstance(operands, _ListOfOperands):
        operands = _ListOfOperands(operands)
    operands[index].remove_use(use)
    value.add_use(use)
    operands[index] = value
    made: Any = operands if is_wide else SSAValues(operands)
    op._operands = made


def replace_uses(old: SSAValue, new: SSAValue) -> None:
    """Replaces a value by another one in all ops that use it; the other one takes its name hint if
    it has none."""
    if old is new:
        return
    for use in tuple(old.uses):
        set_operand(use.operation, use.index, new)
    if new.name_hint is None:
        new.name_hint = old.name_hint


def reorder_arguments(block: Block, order: Sequence[int]) -> None:
    """Puts the arguments of a block into this order."""
    old = list(block.args)
    for i in order:
        moved = block.insert_arg(old[i].type, len(block.args))
        moved.name_hint, moved.location = old[i].name_hint, old[i].location
        replace_uses(old[i], moved)
    for arg in old:
        block.erase_arg(arg)


def replace_block(old: Block, new: Block) -> None:
    """Puts a block in the place of another one, which is erased."""
    region = old.parent
    assert region is not None, "expected a block in a region"
    region.detach_block(old)
    region.add_block(new)
    old.erase(safe_erase=False)


def moved_into_body(
    ops: Sequence[Operation], inputs: Sequence[SSAValue], copies: Mapping[SSAValue, Operation]
) -> Block:
    """Makes a body of ops, which leave their block. It takes the inputs as arguments, and begins
    with copies of the ops that make the values of `copies`.
    """
    body = new_block(value.type for value in inputs)
    inside = dict[SSAValue, SSAValue](zip(inputs, body.args, strict=True))
    for value, copy in copies.items():
        body.add_op(copy)
        inside[value] = copy.results[0]
    for op in ops:
        op.detach()
        body.add_op(op)
        for each in op.walk():
            for i, value in enumerate(each.operands):
                if value in inside:
                    set_operand(each, i, inside[value])
    return body


def erase(op: Operation) -> None:
    """Removes an op, which nothing uses, from its block for good."""
    op.detach()
    op.erase()


def put_before(op: Operation, made: Operation) -> Operation:
    """Puts a new op in front of another one, at its location."""
    assert op.parent is not None, "expected an op in a block"
    made.location = op.location
    op.parent.insert_op_before(made, op)
    return made


def erase_unused(body: Block) -> None:
    """Erases the ops of a body whose results nothing uses, and what only they used."""
    for op in reversed(list(body.ops)):
        if op.results and not any(result.uses for result in op.results):
            erase(op)


def replace_op(
    op: Operation, made: Operation | Sequence[Operation], results: Sequence[SSAValue] | None = None
) -> None:
    """Replaces an op by others and its results by these values, or by the results of the last.
    Results of the others without a name take that of the op's first result."""
    ops = [made] if isinstance(made, Operation) else list(made)
    if results is None:
        results = ops[-1].results if ops else ()
    for old, new in zip(op.results, results, strict=True):
        replace_uses(old, new)
    block = op.parent
    assert block is not None, "expected an op in a block"
    block.insert_ops_before(ops, op)
    hint = op.results[0].name_hint if op.results else None
    for result in (result for each in ops for result in each.results) if hint else ():
        if result.name_hint is None:
            result.name_hint = hint
    erase(op)
