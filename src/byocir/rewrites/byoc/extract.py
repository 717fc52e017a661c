"""Moving ops of a block into a composite or region, and back into order."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence

from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from byocir.dialects.byoc import CompositeOp, YieldOp, enclosing_body
from byocir.dialects.locations import fuse
from byocir.patterns.match import Attempt

Build = Callable[[list[SSAValue], list[Attribute], Region], Operation]
"""Makes the enclosing op from its inputs, result types and body."""


def extract_composite(attempt: Attempt) -> Operation:
    """Replaces a match by a composite at the root's place. The match's ops are moved into it, its
    constants copied."""
    match = attempt.match
    assert match is not None
    inside = set(match.ops)
    block = attempt.root.parent
    assert block is not None
    ops = [op for op in block.ops if op in inside]
    name, level = attempt.composite.name, attempt.composite.level

    def build(inputs: list[SSAValue], types: list[Attribute], body: Region) -> Operation:
        return CompositeOp.of(name, level, inputs, types, body, fuse(*ops))

    made = enclose(ops, build, constants=match.state.constants)
    if len(made.results) > 1:
        sort_block(block)
    return made


def enclose(
    ops: Sequence[Operation], build: Build, *, constants: Sequence[Operation] = ()
) -> Operation:
    """Moves ops of one block, in their order, into the body of a new op that stands where the last
    of them stood. Inputs and outputs of the new op are each listed once; an output is a value that
    is used outside, and everything of the last op if nothing is."""
    block, place = ops[-1].parent, ops[-1].next_op
    assert block is not None
    inside, copied = set(ops), {r for c in constants for r in c.results}
    inputs = list(
        dict.fromkeys(
            v for op in ops for v in op.operands if v.owner not in inside and v not in copied
        )
    )
    outputs = [r for op in ops for r in op.results if _used_outside(r, inside)]
    outputs = outputs or list(ops[-1].results)
    body = enclosing_body([v.type for v in inputs])
    replacements: dict[SSAValue, SSAValue] = dict(zip(inputs, body.args, strict=True))
    for constant in constants:
        clone = constant.clone()
        body.add_op(clone)
        replacements.update(zip(constant.results, clone.results, strict=True))
    for op in ops:
        op.detach()
        body.add_op(op)
        for i, value in enumerate(op.operands):
            if value in replacements:
                op.operands[i] = replacements[value]
    body.add_op(YieldOp.create(operands=outputs))
    made = build(inputs, [v.type for v in outputs], Region(body))
    if place is None:
        block.add_op(made)
    else:
        block.insert_op_before(made, place)
    for value, result in zip(outputs, made.results, strict=True):
        result.name_hint = value.name_hint
        for use in list(value.uses):
            if use.operation.parent is not body:
                use.operation.operands[use.index] = result
    return made


def _used_outside(value: SSAValue, inside: set[Operation]) -> bool:
    return any(use.operation not in inside for use in value.uses)


def sort_block(block: Block) -> None:
    """Puts every op after the ops it depends on, changing the order as little as possible. The
    block must be acyclic."""
    ops = list(block.ops)
    position = {op: i for i, op in enumerate(ops)}
    waiting: dict[Operation, int] = {}
    dependents: dict[Operation, list[Operation]] = {op: [] for op in ops}
    for op in ops:
        owners = {v.owner for inner in op.walk() for v in inner.operands}
        needed = [o for o in owners if isinstance(o, Operation) and o in position and o is not op]
        waiting[op] = len(needed)
        for owner in needed:
            dependents[owner].append(op)
    terminator = ops[-1]
    ready = [position[op] for op in ops if not waiting[op] and op is not terminator]
    heapq.heapify(ready)
    order: list[Operation] = []
    while ready:
        op = ops[heapq.heappop(ready)]
        order.append(op)
        for dependent in dependents[op]:
            waiting[dependent] -= 1
            if not waiting[dependent] and dependent is not terminator:
                heapq.heappush(ready, position[dependent])
    assert len(order) == len(ops) - 1, "expected an acyclic block"
    for op in [*order, terminator]:
        op.detach()
        block.add_op(op)
