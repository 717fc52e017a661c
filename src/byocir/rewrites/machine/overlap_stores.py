"""overlap-stores: does the last work of a program in parts, so that results leave beside it.

Does: what is stored last is computed in one buffer, by blocks one behind the other. These and the
store are parted along a dimension of the buffer that counts rows, and each part is stored while the
next is computed. There are as many parts as take the fewest cycles by what the machine declares;
blocks are parted, from the last on, until they take longer than the store. Nothing is parted where
the unit that stores also loads, has more to do than any other, and has tiles before the last: it
has loads and stores of these left beside the last work, and more calls take it longer.

Requires: functions without loops, as `write-out-loops` leaves them.

Guarantees: the same results, bit for bit. The function can be allocated if it could be before.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.passes import ModulePass

from byocir.dialects.tir import AllocOp, BlockOp, ConstantOp, scope_of
from byocir.dialects.tir.affine import linear
from byocir.dialects.types import shape_of
from byocir.dialects.uses import erase
from byocir.machine import InOrder, Machine, Unit
from byocir.machine.cut_plans import Plan, plans_of
from byocir.rewrites.machine import machines_in
from byocir.rewrites.machine.lifetimes import Use, full_memories, lives_of
from byocir.rewrites.schedule.write_out import PaddedBox

MOST_PARTS = 16
"""More parts are of no use: the last of so many is stored in hardly any time."""


@dataclass(frozen=True)
class OverlapStoresPass(ModulePass):
    """Stores the last results while the rest of them is computed."""

    name = "overlap-stores"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function, machine in machines_in(op):
            overlap_stores(machine, function.body.block)


def overlap_stores(machine: Machine, body: Block) -> None:
    """Parts the last store of a body and the work in front of it."""
    ops = list(body.ops)
    store = next((op for op in reversed(ops) if isinstance(op, BlockOp)), None)
    if store is None or scope_of(store.outs[0].type) or isinstance(machine.ordered, InOrder):
        return
    for operand, buffer in enumerate(store.ins):
        memory = machine.memory_of(scope_of(buffer.type))
        if memory is None or memory.is_main:
            continue
        for axis in range(len(shape_of(buffer.type)) - len(memory.row)):
            counted = _counted(store, store.in_maps[operand], axis)
            if counted is not None and counted.size > 1:
                end = _End(machine, buffer, axis, counted, ops[: ops.index(store)], store)
                end.part(ops)
                return


@dataclass(frozen=True)
class _Counted:
    """Names the iterator of a block that counts a dimension of an operand, from `first` on."""

    iterator: int
    first: int
    size: int


def _counted(op: BlockOp, map_: AffineMap, axis: int) -> _Counted | None:
    form = linear(map_.results[axis])
    if form is None or len(form.terms) != 1 or form.terms[0][1] != 1:
        return None
    iterator = form.terms[0][0]
    return _Counted(iterator, form.constant, op.extents[iterator])


class _End:
    """Parts the end of a program: a store, and the blocks that compute what it stores in its
    buffer, each with the iterator that counts a dimension of the buffer.
    """

    def __init__(
        self,
        machine: Machine,
        buffer: SSAValue,
        axis: int,
        counted: _Counted,
        before: Sequence[Operation],
        store: BlockOp,
    ) -> None:
        self._machine, self._buffer, self._axis = machine, buffer, axis
        self._counted, self._store = counted, store
        self._work = dict[BlockOp, int]()
        """The blocks that compute, the last one first."""
        stored = self._plan(store, counted.iterator, 1)
        if stored is not None:
            self._find_work(before, stored)

    def _find_work(self, before: Sequence[Operation], stored: Plan) -> None:
        left, written = stored.cycles, {*self._store.outs}
        for op in reversed(before):
            if isinstance(op, AllocOp | ConstantOp):
                continue
            if left < 0 or not isinstance(op, BlockOp):
                return
            if self._buffer not in op.operands:
                written.update(op.outs)
                continue
            iterator = self._iterator(op)
            plan = None if iterator is None else self._plan(op, iterator, 1)
            if iterator is None or plan is None or not written.isdisjoint(op.ins):
                return
            if plan.instruction.unit == stored.instruction.unit:
                return
            self._work[op] = iterator
            left -= plan.cycles

    def _iterator(self, op: BlockOp) -> int | None:
        """Gives the iterator of a block that counts the dimension of the buffer; None where the
        block reaches other indices, or another array leaves no room for reading it in parts.
        """
        values = zip([*op.ins, *op.outs], [*op.in_maps, *op.out_maps], strict=True)
        found = {_counted(op, map_, self._axis) for value, map_ in values if value == self._buffer}
        counted = next(iter(found))
        same = replace(self._counted, iterator=counted.iterator) if counted is not None else None
        if len(found) > 1 or counted is None or counted != same or op.outs[0] != self._buffer:
            return None
        memories = [self._machine.memory_of(scope_of(value.type)) for value in op.operands]
        is_plain = all(memory is not None and not memory.fifo for memory in memories)
        return counted.iterator if is_plain and counted.iterator in op.parallels else None

    def _plan(self, op: BlockOp, iterator: int, count: int) -> Plan | None:
        """Gives the plan by which one of so many parts of a block is done."""
        extents = list(op.extents)
        extents[iterator] //= count
        return next(iter(plans_of(self._machine, op, extents, "memories")), None)

    def _cycles(self, count: int) -> float:
        """Counts the cycles of so many parts, whose stores run beside the work on the next."""
        pairs = [*self._work.items(), (self._store, self._counted.iterator)]
        plans = [self._plan(*pair, count) for pair in pairs]
        *work, store = [inf if plan is None else plan.cycles for plan in plans]
        return sum(work) + store + (count - 1) * max(sum(work), store)

    def _is_behind(self, ops: Sequence[Operation]) -> bool:
        """Tells if the unit that stores has other loads and stores left beside the last work: if it
        does both, has the most to do of all, and has stored tiles before.
        """
        stored = self._plan(self._store, self._counted.iterator, 1)
        assert stored is not None
        unit, busy = stored.instruction.unit, defaultdict[Unit, float](float)
        own = [each for each in self._machine.instructions if each.unit == unit]
        blocks = [op for op in ops if isinstance(op, BlockOp)]
        stores = [op for op in blocks if not scope_of(op.outs[0].type)]
        if len(stores) == 1 or all(each.into.is_main for each in own):
            return False
        for op in blocks:
            for plan in plans_of(self._machine, op, op.extents, "memories")[:1]:
                busy[plan.instruction.unit] += plan.cycles
        return busy[unit] == max(busy.values())

    def part(self, ops: Sequence[Operation]) -> None:
        """Parts the blocks, if that takes fewer cycles and memories have room for all that they
        read at once.
        """
        size = self._counted.size
        counts = [n for n in range(1, min(size, MOST_PARTS) + 1) if size % n == 0]
        count = min(counts, key=self._cycles) if self._work else 1
        parted = [*reversed(self._work), self._store]
        kept = [op for op in ops if op not in parted]
        if count == 1 or self._is_behind(ops) or not _fit(self._machine, [*kept, *parted]):
            return
        home = self._store.parent
        assert home is not None
        iterators = self._work | {self._store: self._counted.iterator}
        for low in range(0, size, size // count):
            for op in parted:
                box = PaddedBox.of(op).over(iterators[op], (low, low + size // count))
                home.insert_op_before(box.made([*op.ins, *op.outs]), self._store)
        for op in parted:
            erase(op)


def _fit(machine: Machine, ops: Sequence[Operation]) -> bool:
    """Tells whether memories hold all buffers, each from the first op that uses it to the last."""
    used = ((at, value) for at, op in enumerate(ops) for value in op.operands)
    owners = ((at, value.owner, machine.memory_of(scope_of(value.type))) for at, value in used)
    uses = (
        Use(owner, memory, at, at)
        for at, owner, memory in owners
        if isinstance(owner, AllocOp) and memory is not None and not memory.is_main
    )
    return not full_memories(lives_of(uses))
