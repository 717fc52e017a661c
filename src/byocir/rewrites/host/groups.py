"""group-foreign: foreign ops that can run one after the other become one call.

Does: moves ops so that as many foreign ones as possible follow each other, and each such group into
a private function marked `byoc.whole`, with the constants that it uses. What runs foreign ops then
has a model of all of them, and not one for each.

Requires: functions on tensors, at the end of the host's passes: what is foreign still stays so.

Guarantees: the same results. Names of nodes are kept; the call has the locations of all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import MemRefType, ModuleOp, UnitAttr
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.traits import IsTerminator

from byocir.dialects.byoc import TARGET, WHOLE
from byocir.dialects.graph import ConstantOp, ForeignOp, GraphOp, YieldOp
from byocir.dialects.graph.foreign import REFERENCE_FIRST
from byocir.dialects.locations import fuse
from byocir.dialects.open_values import read_by
from byocir.dialects.tir import ConstantOp as TirConstantOp


@dataclass(frozen=True)
class GroupForeignPass(ModulePass):
    """Makes one call of foreign ops that follow each other."""

    name = "group-foreign"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        taken = {f.sym_name.data for f in op.body.block.ops if isinstance(f, FuncOp)}
        names = (name for i in range(2**31) if (name := f"foreign_{i}") not in taken)
        for function in [f for f in op.body.block.ops if isinstance(f, FuncOp)]:
            if TARGET in function.attributes or WHOLE in function.attributes:
                continue
            for block in list(_blocks(function)):
                for group in _groups(block):
                    op.body.block.add_op(_outlined(group, next(names)))


def _blocks(function: FuncOp) -> Iterator[Block]:
    """The blocks of a function on tensors, and of its loops."""
    if any(isinstance(type_, MemRefType) for type_ in function.function_type.inputs):
        return
    for op in function.walk():
        around = op.parent_op()
        if isinstance(op, ForeignOp) and op.parent is not None and not _is_inside_foreign(op):
            assert around is not None
            yield op.parent


def _is_inside_foreign(op: Operation) -> bool:
    around = op.parent_op()
    while around is not None and not isinstance(around, ForeignOp):
        around = around.parent_op()
    return around is not None


def _can_join(op: Operation) -> bool:
    """Whether an op runs as well in one model with others: ONNX Runtime is asked for it, and has
    all that is in it."""
    if not isinstance(op, ForeignOp):
        return False
    inner = [each.op_type.data for each in op.walk() if isinstance(each, ForeignOp)]
    if not REFERENCE_FIRST.isdisjoint(inner):
        return False
    return all(isinstance(each, GraphOp | ForeignOp | YieldOp) for each in op.walk())


def _groups(block: Block) -> list[list[Operation]]:
    """The groups of two ops or more, in a block that is in their order."""
    if sum(map(_can_join, block.ops)) < 2:
        return []
    ordered, groups = _ordered(list(block.ops))
    groups = [group for group in groups if len(group) > 1]
    if groups:
        for op in ordered:
            op.detach()
        block.add_ops(ordered)
    return groups


def _ordered(ops: Sequence[Operation]) -> tuple[list[Operation], list[list[Operation]]]:
    """Ops in an order in which all that can run runs, of one kind and then of the other; and the
    groups of those that can join."""
    left, here = dict.fromkeys(ops), set(ops)
    waits = {op: {b for b in _before(op, here)} for op in ops}
    ordered: list[Operation] = []
    groups: list[list[Operation]] = []
    while left:
        for joins in (False, True):
            found = _ready(left, waits, lambda op, joins=joins: _can_join(op) is joins)
            ordered += found
            groups += [found] if joins else []
    return ordered, groups


def _ready(
    left: dict[Operation, None],
    waits: dict[Operation, set[Operation]],
    is_one: Callable[[Operation], bool],
) -> list[Operation]:
    """Takes the ops of one kind that wait for none that is left; the last one of all ends the
    block."""
    found: list[Operation] = []
    for op in list(left):
        ends = op.has_trait(IsTerminator) and len(left) > 1
        if is_one(op) and not ends and not any(other in left for other in waits[op]):
            del left[op]
            found.append(op)
    return found


def _before(op: Operation, here: set[Operation]) -> Iterator[Operation]:
    """The ops of the same block that make what an op uses, or what is in it."""
    for each in op.walk():
        for value in each.operands:
            owner = value.owner
            if isinstance(owner, Operation) and owner in here and owner is not op:
                yield owner


def _outlined(group: Sequence[Operation], name: str) -> FuncOp:
    """The function of a group, which a call replaces."""
    members = set(group)
    used = dict.fromkeys(value for op in group for value in read_by(op))
    outside = [v for v in used if not (isinstance(v.owner, Operation) and v.owner in members)]
    constants = [v for v in outside if isinstance(v.owner, ConstantOp | TirConstantOp)]
    given = [value for value in outside if value not in constants]
    made = [result for op in group for result in op.results]
    results = [r for r in made if any(not _is_in(use.operation, members) for use in r.uses)]
    body = Block(arg_types=[value.type for value in given])
    inside: dict[SSAValue, SSAValue] = dict(zip(given, body.args, strict=True))
    for value in constants:
        owner = value.owner
        assert isinstance(owner, ConstantOp | TirConstantOp)
        constant = ConstantOp.of(owner.value.data, owner.location)
        body.add_op(constant)
        inside[value] = constant.result
    location = fuse(*(op.location for op in group))
    call = CallOp(name, given, [result.type for result in results])
    call.location = location
    block = group[0].parent
    assert block is not None
    block.insert_op_before(call, group[0])
    for old, new in zip(results, call.results, strict=True):
        old.replace_uses_with_if(new, lambda use: not _is_in(use.operation, members))
    for op in group:
        op.detach()
        body.add_op(op)
        for each in op.walk():
            each.operands = [inside.get(value, value) for value in each.operands]
    for value in constants:
        if value.first_use is None and isinstance(value.owner, Operation):
            value.owner.detach()
            value.owner.erase()
    body.add_op(ReturnOp(*results))
    types = [value.type for value in given], [result.type for result in results]
    function = FuncOp(name, types, Region(body), visibility="private")
    function.attributes[WHOLE] = UnitAttr()
    function.location = location
    return function


def _is_in(op: Operation, members: set[Operation]) -> bool:
    """Whether an op is one of these, or in a graph of one."""
    around: Operation | None = op
    while around is not None and around not in members:
        around = around.parent_op()
    return around is not None
