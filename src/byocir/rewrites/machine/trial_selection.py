"""Tries what instructions a machine takes for a program, and how long its units are busy with
these. The program stays as it is: it can be asked about changes to it, one after the other, in a
time that grows with what changes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from xdsl.ir import Block, Operation, SSAValue

from byocir.dialects.new_ops import clone_op
from byocir.dialects.tir import AllocOp, BlockOp, ConstantOp, scope_of
from byocir.errors import ByocirError
from byocir.machine import Calls, Machine
from byocir.machine.calls import ops_in
from byocir.rewrites.machine.lifetimes import Lives, full_memories
from byocir.rewrites.machine.select_instructions import is_fill, select


class TrialSelection:
    """Selects instructions for copies of the ops of a program without loops. After a change to the
    program, of which `before` knows the instructions, that takes as long as the change is large.
    """

    def __init__(
        self, machine: Machine, ops: Iterable[Operation], before: TrialSelection | None = None
    ) -> None:
        self._machine = machine
        self._ops = [op for op in ops if not isinstance(op, AllocOp | ConstantOp)]
        self._copies: dict[SSAValue, SSAValue] = {} if before is None else before._copies
        self._calls: dict[Operation, list[Calls] | None] = {}
        """The calls of each op; None where no instruction does one of its group."""
        if before is not None:
            self._calls |= before._calls
        for group in _groups(machine, self._ops, before._calls if before is not None else {}):
            self._calls |= self._selected(group)

    @cached_property
    def busy(self) -> tuple[float, float] | None:
        """Counts the cycles of the unit that is busy longest, and those of all units; None where
        instructions do not do all blocks, or memories do not hold all buffers.
        """
        calls = list[Calls]()
        for op in self._ops:
            own = self._calls[op]
            if own is None:
                return None
            calls += own
        if full_memories(Lives(calls).of):
            return None
        busy = defaultdict[str, float](float)
        for each in calls:
            busy[each.unit.name] += each.cycles
        return max(busy.values(), default=0), sum(busy.values())

    def _selected(self, group: Sequence[Operation]) -> Mapping[Operation, list[Calls] | None]:
        """Selects instructions for the copies of ops."""
        copies = {op: self._copy(op) for op in group}
        body = Block(copies.values())
        try:
            made = select(self._machine, body)
        except ByocirError:
            return dict.fromkeys(group)
        calls = {each.op: each for each in ops_in(self._machine, body)}
        return {
            op: [calls[each] for each in made.get(copy, [copy]) if each in calls]
            for op, copy in copies.items()
        }

    def _copy(self, op: Operation) -> Operation:
        """Copies an op, with copies of what it uses: the program is not to have more users."""
        for value in op.operands:
            if value in self._copies:
                continue
            if isinstance(value.owner, Operation):
                clone_op(value.owner, self._copies)
            else:
                self._copies[value] = Block(arg_types=[value.type]).args[0]
        return clone_op(op, self._copies)


def _groups(
    machine: Machine, ops: Sequence[Operation], known: Mapping[Operation, object]
) -> Iterator[list[Operation]]:
    """Yields ops that are not known, in order, with all others whose instructions depend on theirs:
    which one sets elements to a number is decided among all that use a buffer, and both blocks of
    an instruction become one op.
    """
    hidden = {memory.scope for memory in machine.memories if memory.hidden}
    shared = {
        op.outs[0]
        for op in ops
        if isinstance(op, BlockOp) and (is_fill(op) or scope_of(op.outs[0].type) in hidden)
    }
    users = defaultdict[SSAValue, list[Operation]](list)
    for op in ops:
        for value in shared.intersection(op.operands):
            users[value].append(op)
    order, seen = {op: at for at, op in enumerate(ops)}, set[Operation]()
    for first in [op for op in ops if op not in known]:
        group = [] if first in seen else [first]
        seen.add(first)
        for op in group:
            near = {each for value in shared.intersection(op.operands) for each in users[value]}
            group += near - seen
            seen |= near
        if group:
            yield sorted(group, key=order.__getitem__)
