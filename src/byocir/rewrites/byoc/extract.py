"""Moves ops of a block into a composite or region."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from byocir.dialects.byoc import CompositeOp, YieldOp
from byocir.dialects.graph import ForeignOp
from byocir.dialects.locations import fuse
from byocir.dialects.traits import is_constant
from byocir.dialects.uses import moved_into_body, set_operand
from byocir.patterns.composite import Attempt
from byocir.patterns.dataflow import ancestor_in
from byocir.rewrites.byoc.markers import HandPlacement
from byocir.rewrites.byoc.sort_ops import free_values

Build = Callable[[list[SSAValue], list[Attribute], Region], Operation]
"""Makes the enclosing op from its inputs, result types and body."""


def extract_composite(
    attempt: Attempt, position: Mapping[Operation, int], group: str = ""
) -> Operation:
    """Replaces a match by a composite of a group at the root's place. The match's ops are moved
    into it, in the order of their positions; its constants are copied, and erased where nothing
    else uses them.
    """
    match = attempt.match
    assert match is not None
    ops = sorted(match.ops, key=position.__getitem__)
    name, level = attempt.composite.name, attempt.composite.level
    stood_for = [each for op in ops for each in _with_graphs(op)]
    location = ops[0].location if len(stood_for) == 1 else fuse(*stood_for)

    def build(inputs: list[SSAValue], types: list[Attribute], body: Region) -> Operation:
        made = CompositeOp.of(name, level, inputs, types, body, location)
        made.group = StringAttr(group) if group else None
        return made

    constants = dict.fromkeys([*match.state.constants, *_captured_constants(ops)])
    made = enclose(ops, build, constants=list(constants))
    for constant in constants:
        if not any(result.uses for result in constant.results):
            constant.detach()
            constant.erase()
    return made


def _with_graphs(op: Operation) -> Iterable[Operation]:
    """Lists an op and, for an ONNX operator, the ops in its graphs."""
    return op.walk() if isinstance(op, ForeignOp) else (op,)


def _captured_constants(ops: Sequence[Operation]) -> list[Operation]:
    """Lists constants that bodies use from outside, such as the number of a scalar expression."""
    captured = (value for op in ops if op.regions for value in free_values(op))
    outside = [v.owner for v in captured if isinstance(v.owner, Operation) and v.owner not in ops]
    return [op for op in outside if is_constant(op) and op.name == "arith.constant"]


def enclose(
    ops: Sequence[Operation], build: Build, *, constants: Sequence[Operation] = ()
) -> Operation:
    """Moves ops of one block, in their order, into the body of a new op that stands where the last
    of them stood. Inputs and outputs of the new op are each listed once. Its outputs are the values
    that are used outside; if there are none, all results of the last op.
    """
    block, place = ops[-1].parent, ops[-1].next_op
    assert block is not None
    inside, copied = set(ops), {r for c in constants for r in c.results}
    free = dict.fromkeys(value for op in ops for value in free_values(op))
    inputs = [v for v in free if v.owner not in inside and v not in copied]
    results = [r for op in ops for r in op.results]
    outputs = [
        r for r in results if any(ancestor_in(block, use.operation) not in inside for use in r.uses)
    ] or list(ops[-1].results)
    for op in ops:
        HandPlacement.clear(op)  # the placement has been followed
    body = moved_into_body(ops, inputs, {c.results[0]: c.clone() for c in constants})
    body.add_op(YieldOp.create(operands=outputs))
    made = build(inputs, [v.type for v in outputs], Region(body))
    Rewriter.insert_op(made, InsertPoint(block, place))
    for value, result in zip(outputs, made.results, strict=True):
        result.name_hint = value.name_hint
        for use in list(value.uses):
            if ancestor_in(body, use.operation) is None:
                set_operand(use.operation, use.index, result)
    return made
