"""group-foreign: gathers foreign ops that can run one after the other into one call.

Does: moves ops so that as many foreign ones as possible follow each other, and each such group into
a private function marked `byoc.whole`, with the constants that it uses. What runs foreign ops then
has a model of all of them, and not one for each.

Requires: functions on tensors, at the end of the host's passes: what is foreign still stays so.
Each value is made before it is used.

Guarantees: the same results. Names of nodes are kept; the call has the locations of all. The time
it takes grows with the size of the module, and not faster.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from xdsl.context import Context
from xdsl.dialects.builtin import MemRefType, ModuleOp, UnitAttr
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass

from byocir.dialects.byoc import TARGET, WHOLE
from byocir.dialects.graph import ConstantOp, ForeignOp, GraphOp, YieldOp
from byocir.dialects.graph.foreign import REFERENCE_FIRST
from byocir.dialects.locations import fuse
from byocir.dialects.open_values import read_by
from byocir.dialects.tir import ConstantOp as TirConstantOp
from byocir.dialects.traits import is_terminator
from byocir.dialects.uses import erase, moved_into_body
from byocir.dialects.walk import enclosing

Constant = ConstantOp | TirConstantOp


@dataclass(frozen=True)
class GroupForeignPass(ModulePass):
    """Gathers foreign ops that follow each other into one call."""

    name = "group-foreign"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        taken = {f.sym_name.data for f in op.body.block.ops if isinstance(f, FuncOp)}
        names = (name for i in range(2**31) if (name := f"foreign_{i}") not in taken)
        for function in [f for f in op.body.block.ops if isinstance(f, FuncOp)]:
            if TARGET in function.attributes or WHOLE in function.attributes:
                continue
            for block in _blocks(function):
                for group in _groups(block):
                    op.body.block.add_op(_outlined(group, next(names)))


def _blocks(function: FuncOp) -> list[Block]:
    """Yields the blocks with foreign ops of a function on tensors, and of its loops, each once."""
    if any(isinstance(type_, MemRefType) for type_ in function.function_type.inputs):
        return []
    found = (op for op in function.walk() if isinstance(op, ForeignOp))
    blocks = (op.parent for op in found if not enclosing(op, ForeignOp))
    return list(dict.fromkeys(block for block in blocks if block is not None))


def _can_join(op: Operation) -> bool:
    """Tells if an op can run in one model with others: ONNX Runtime may be asked for it and for all
    ops inside it, which are ops of graphs, and not calls, say.
    """
    if not isinstance(op, ForeignOp):
        return False
    inner = [each.op_type.data for each in op.walk() if isinstance(each, ForeignOp)]
    if not REFERENCE_FIRST.isdisjoint(inner):
        return False
    return all(isinstance(each, GraphOp | ForeignOp | YieldOp) for each in op.walk())


def _groups(block: Block) -> list[list[Operation]]:
    """Yields groups of two ops or more, with the ops of the block put into that order."""
    joins = {op: _can_join(op) for op in block.ops}
    if sum(joins.values()) < 2:
        return []
    turns = _turns(joins)
    ordered = sorted(joins, key=turns.__getitem__)
    runs = ((turn, list(run)) for turn, run in groupby(ordered, key=turns.__getitem__))
    groups = [run for turn, run in runs if turn % 2 == 1 and len(run) > 1]
    if groups:
        for op in ordered:
            op.detach()
        block.add_ops(ordered)
    return groups


def _turns(joins: Mapping[Operation, bool]) -> dict[Operation, int]:
    """Numbers the turn in which each op of a block runs if all that can run runs, of one kind and
    then of the other. Ops that can join have odd turns, others even ones; the op that ends the
    block has the last.

    An op uses nothing that is made after it, so one pass over the block finds them all.
    """
    turns: dict[Operation, int] = {}
    last = 0
    for op, can_join in joins.items():
        first = max((turns[before] for before in _before(op, turns)), default=0)
        turn = last if is_terminator(op) else first
        turns[op] = turn if turn % 2 == can_join else turn + 1
        last = max(last, turns[op])
    return turns


def _before(op: Operation, here: Collection[Operation]) -> Iterator[Operation]:
    """Lists those of some ops that make values for an op, or for ops inside it."""
    for each in op.walk():
        for value in each.operands:
            if isinstance(value.owner, Operation) and value.owner in here:
                yield value.owner


def _outlined(group: Sequence[Operation], name: str) -> FuncOp:
    """Makes a function of a group, and a call that replaces it."""
    members = set(group)
    given, constants = _read_from_outside(group, members)
    made = [result for op in group for result in op.results]
    results = [r for r in made if any(not _is_in(use.operation, members) for use in r.uses)]
    call = _call(name, given, results, group)
    _replace_outside(results, call.results, members)
    copies: dict[SSAValue, Operation] = {
        c.result: ConstantOp.of(c.value.data, c.location) for c in constants
    }
    body = moved_into_body(group, given, copies)
    body.add_op(ReturnOp(*results))
    _erase_unused(constants)
    types = [value.type for value in given], [result.type for result in results]
    function = FuncOp(name, types, Region(body), visibility="private")
    function.attributes[WHOLE] = UnitAttr()
    function.location = call.location
    return function


def _read_from_outside(
    group: Sequence[Operation], members: set[Operation]
) -> tuple[list[SSAValue], list[Constant]]:
    """Lists the values that a group reads and does not make, each once in order: those to pass in,
    and constants.
    """
    given: list[SSAValue] = []
    constants: list[Constant] = []
    for value in dict.fromkeys(value for op in group for value in read_by(op)):
        owner = value.owner
        if isinstance(owner, Constant):
            constants.append(owner)
        elif not isinstance(owner, Operation) or owner not in members:
            given.append(value)
    return given, constants


def _call(
    name: str, given: Sequence[SSAValue], results: Sequence[SSAValue], group: Sequence[Operation]
) -> CallOp:
    """Makes a call at the place of a group's first op, with the locations of all."""
    call = CallOp(name, given, [result.type for result in results])
    call.location = fuse(*(op.location for op in group))
    block = group[0].parent
    assert block is not None
    block.insert_op_before(call, group[0])
    return call


def _replace_outside(
    results: Sequence[SSAValue], called: Sequence[SSAValue], members: set[Operation]
) -> None:
    """Makes ops outside of a group use the results of its call. The operands of each user are set
    once: it may use all of them.
    """
    new = dict(zip(results, called, strict=True))
    for result, value in new.items():
        value.name_hint = result.name_hint
    for user in dict.fromkeys(use.operation for result in results for use in result.uses):
        if not _is_in(user, members):
            user.operands = [new.get(value, value) for value in user.operands]


def _erase_unused(constants: Iterable[Constant]) -> None:
    for constant in constants:
        if constant.result.first_use is None:
            erase(constant)


def _is_in(op: Operation, members: set[Operation]) -> bool:
    """Tells if an op is one of these, or inside one."""
    around: Operation | None = op
    while around is not None and around not in members:
        around = around.parent_op()
    return around is not None
