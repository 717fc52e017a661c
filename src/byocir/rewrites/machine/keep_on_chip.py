"""keep-on-chip: keeps arrays that one composite hands to the next in a machine's memory.

Does: an array in main memory that is written by some blocks of a function, and read by nothing but
loads into one memory of the machine, becomes a buffer of that memory. It takes the place of the
tiles that were stored to it and of those that were loaded from it, with what is around them: the
pads of a convolution. The function tells the bytes that no longer move, as `byoc.kept_bytes`.

```
requantise → tile → store → array → load → tile → product      requantise → buffer → product
```

Requires: functions without loops, as `write-out-loops` leaves them.

Guarantees: the same results, bit for bit. What instructions cannot do on the buffer, what memories
have no room for, and what would keep the busiest unit longer stays as it is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from byocir.dialects.byoc import KEPT
from byocir.dialects.new_ops import clone_op
from byocir.dialects.tir import AllocOp, BlockOp, scope_of
from byocir.dialects.tir.affine import linear
from byocir.dialects.types import dtype_of, element_type_of, shape_of
from byocir.dialects.uses import erase
from byocir.errors import ByocirError
from byocir.machine import Machine, Memory
from byocir.machine.calls import ops_in
from byocir.machine.cut_plans import plans_of
from byocir.machine.operand_places import Box, meet
from byocir.rewrites.machine import machines_in
from byocir.rewrites.machine.lifetimes import Lives, full_memories
from byocir.rewrites.machine.select_instructions import select
from byocir.rewrites.schedule.access import BoxAccess, accesses_of
from byocir.rewrites.schedule.blocks import Parts, reads_old


@dataclass(frozen=True)
class KeepOnChipPass(ModulePass):
    """Keeps arrays that pass between composites in a machine's memories."""

    name = "keep-on-chip"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function, machine in machines_in(op):
            saved = keep(machine, function)
            if saved:
                function.attributes[KEPT] = IntegerAttr(saved, i64)


def keep(machine: Machine, function: FuncOp) -> int:
    """Keeps arrays of a function in memories of the machine; gives the bytes that are no longer
    moved.
    """
    saved, at, busy = 0, 0, None
    while at < len(arrays := list(_arrays(function))):
        at += 1
        kept = _Kept.of(machine, arrays[at - 1])
        if kept is None:
            continue
        busy = _busiest(machine, clone_op(function)) if busy is None else busy
        trial = clone_op(function)
        tried = _Kept.of(machine, list(_arrays(trial))[at - 1])
        assert tried is not None
        tried.put()
        now = _busiest(machine, trial)
        if now is not None and (busy is None or now <= busy):
            saved, at, busy = saved + kept.put(), at - 1, now
    return saved


def _arrays(function: FuncOp) -> Iterator[AllocOp]:
    """Lists the arrays in main memory that a function has for itself."""
    for op in function.body.block.ops:
        if isinstance(op, AllocOp) and not scope_of(op.result.type):
            yield op


def _busiest(machine: Machine, function: FuncOp) -> float | None:
    """Selects the instructions of a function, and counts the cycles of the unit that is busy
    longest; None where instructions do not do its blocks, or memories do not hold its buffers.
    """
    try:
        select(machine, function.body.block)
    except ByocirError:
        return None
    calls = ops_in(machine, function.body.block)
    if full_memories(Lives(calls).of):
        return None
    busy = defaultdict[str, float](float)
    for each in calls:
        busy[each.unit.name] += each.cycles
    return max(busy.values(), default=0)


Offset = tuple[int, ...]


@dataclass
class _Kept:
    """Names an array, and the buffers that hold parts of it, each with how much its indices are
    lower than the array's. `moves` are the blocks that only move elements between the array and the
    parts.
    """

    array: AllocOp
    memory: Memory
    parts: Mapping[SSAValue, Offset]
    moves: Sequence[BlockOp]

    @staticmethod
    def of(machine: Machine, array: AllocOp) -> _Kept | None:
        """Finds the parts of an array that can stay in a memory; None if it cannot."""
        users = [use.operation for use in array.result.uses]
        blocks = [op for op in users if isinstance(op, BlockOp) and not op.bases]
        readers = [op for op in blocks if array.result in op.ins]
        writers = [op for op in blocks if array.result in op.outs and not reads_old(op)]
        if len(readers) + len(writers) != len(users) or not readers or not writers:
            return None
        memories = {machine.memory_of(scope_of(op.outs[0].type)) for op in readers}
        memory = memories.pop()
        if (
            memories
            or memory is None
            or memory.is_main
            or memory.fifo
            or not _all_before(writers, readers)
        ):
            return None
        moves = [*readers, *(op for op in writers if _is_whole(op, memory))]
        parts = _parts_of(array, moves)
        rest = [op for op in writers if op not in moves]
        if parts is None or not all(_is_done(machine, op, memory) for op in rest):
            return None
        if not all(_adds_borders(op, array, parts) for op in readers):
            return None
        found = _Kept(array, memory, parts, moves)
        return found if found.begins_rows() and found.is_undisturbed() else None

    @property
    def low(self) -> Offset:
        """Gives the lowest index, as the array counts, that the buffer must hold along each
        dimension."""
        return tuple(map(min, zip(*self.parts.values(), *[[0] * self.rank], strict=True)))

    @property
    def rank(self) -> int:
        return len(shape_of(self.array.result.type))

    def begins_rows(self) -> bool:
        """Tells whether each part begins at the start of a row of the buffer."""
        lanes = self.memory.row
        return all(
            (at - low) % size == 0
            for offset in [*self.parts.values(), (0,) * self.rank]
            for at, low, size in zip(offset[::-1], self.low[::-1], lanes[::-1], strict=False)
        )

    def is_undisturbed(self) -> bool:
        """Tells whether blocks would find in one buffer what they find in separate parts: writes to
        one part do not fall into another part's way, and nothing is written to a part once it was
        stored.
        """
        touches = self._touches()
        for part in self.parts:
            own = touches[part]
            stores = [each.at for each in own if each.is_move and each.reads]
            if stores and any(each.at > stores[-1] for each in own if each.writes):
                return False
            others = (
                each for other, found in touches.items() if other is not part for each in found
            )
            if any(_is_in_the_way(each, own) for each in others):
                return False
        return True

    def _touches(self) -> dict[SSAValue, list[_Touch]]:
        """Lists what blocks do to the array and to each part, in order."""
        offsets = {self.array.result: (0,) * self.rank, **self.parts}
        found: dict[SSAValue, list[_Touch]] = {value: [] for value in offsets}
        assert self.array.parent is not None
        for at, op in enumerate(self.array.parent.ops):
            for access in accesses_of(op, offsets) if isinstance(op, BlockOp) else ():
                touch = _Touch.of(at, access, offsets[access.buffer], op in self.moves)
                found[access.buffer].append(touch)
        return found

    def put(self) -> int:
        """Replaces all parts by one buffer; gives the bytes that are no longer moved."""
        value, low = self.array.result, self.low
        ends = [shape_of(value.type)]
        for part, offset in self.parts.items():
            sizes = zip(offset, shape_of(part.type), strict=True)
            ends.append(tuple(at + size for at, size in sizes))
        shape = tuple(max(end) - at for end, at in zip(zip(*ends, strict=True), low, strict=True))
        element = element_type_of(value.type)
        made = AllocOp.of(element, shape, self.memory.scope, self.array.location)
        made.result.name_hint = value.name_hint
        home = self.array.parent
        assert home is not None
        assert home.first_op is not None
        home.insert_op_before(made, home.first_op)
        saved = sum(_elements(op, value) for op in dict.fromkeys([*self.moves, *users_of(value)]))
        for op in self.moves:
            erase(op)
        for part, offset in [*self.parts.items(), (value, (0,) * self.rank)]:
            by = tuple(at - least for at, least in zip(offset, low, strict=True))
            for op in users_of(part):
                redirect(op, part, made.result, by)
            owner = part.owner
            assert isinstance(owner, AllocOp)
            erase(owner)
        return saved * dtype_of(element).itemsize


class _Touch(NamedTuple):
    """Describes an access of a part: the number of the block, and the box in indices of the
    array."""

    at: int
    box: Box
    reads: bool
    writes: bool
    is_move: bool

    @staticmethod
    def of(at: int, access: BoxAccess, offset: Offset, is_move: bool) -> _Touch:
        starts = [side.start.constant + by for side, by in zip(access.box, offset, strict=True)]
        box = [(low, low + side.size) for low, side in zip(starts, access.box, strict=True)]
        return _Touch(at, tuple(box), access.reads, access.writes, is_move)


def _is_in_the_way(write: _Touch, own: Sequence[_Touch]) -> bool:
    """Tells whether a write elsewhere hits elements that a part has made before and that are read
    from it later. Moves write only what is there already.
    """
    if not write.writes or write.is_move or not own or not own[0].at < write.at < own[-1].at:
        return False
    met = [each for each in own if meet(each.box, write.box)]
    is_made = any(each.writes and each.at < write.at for each in met)
    return is_made and any(each.reads and each.at > write.at for each in met)


def users_of(value: SSAValue) -> list[BlockOp]:
    """Lists the blocks that read or write a buffer."""
    users = (use.operation for use in value.uses)
    return list(dict.fromkeys(op for op in users if isinstance(op, BlockOp)))


def redirect(op: BlockOp, old: SSAValue, new: SSAValue, by: Offset) -> None:
    """Makes a block access a buffer in place of another one, with indices shifted by this much."""
    parts = Parts.of(op)
    for operand, value in enumerate([*op.ins, *op.outs]):
        if value is old:
            sides = zip(parts.maps[operand].results, by, strict=True)
            exprs = [expr + at if at else expr for expr, at in sides]
            parts = parts.with_operand(operand, new).with_map(operand, exprs)
    parts.put(op)


def _elements(op: BlockOp, array: SSAValue) -> int:
    """Counts the elements of an array that a block reads or writes."""
    found = next(accesses_of(op, {array}))
    return prod(side.size for side in found.box)


def _all_before(first: Sequence[BlockOp], later: Sequence[BlockOp]) -> bool:
    """Tells whether ops stand before all others, of which there is one at least, in one block."""
    home, missing, others = later[0].parent, set(first), set(later)
    if home is None or any(op.parent is not home for op in others):
        return False
    for op in home.ops:
        if op in others:
            break
        missing.discard(op)
    return not missing


def _is_done(machine: Machine, op: BlockOp, memory: Memory) -> bool:
    """Tells whether some instruction that writes a memory has the pattern of a block."""
    plans = plans_of(machine, op, op.extents, "pattern", [])
    return any(plan.instruction.into == memory for plan in plans)


def moved_by(op: BlockOp) -> Offset | None:
    """Gives by how much the indices at which a block reads are above those at which it writes; None
    if it does more than moving elements.
    """
    if not op.moves or op.where is not None:
        return None
    sides = op.in_maps[0].results, op.out_maps[0].results
    if len(sides[0]) != len(sides[1]) or op.is_padded:
        return None
    forms = [(linear(one), linear(other)) for one, other in zip(*sides, strict=True)]
    found = [one - other for one, other in forms if one is not None and other is not None]
    if len(found) < len(forms) or any(form.terms for form in found):
        return None
    return tuple(form.constant for form in found)


def _is_whole(op: BlockOp, memory: Memory) -> bool:
    """Tells whether a block moves a whole buffer of a memory."""
    if moved_by(op) is None or scope_of(op.ins[0].type) != memory.scope:
        return False
    return _elements(op, op.ins[0]) == prod(shape_of(op.ins[0].type))


def _parts_of(array: AllocOp, moves: Sequence[BlockOp]) -> dict[SSAValue, Offset] | None:
    """Lists the buffers that moves fill from an array, or empty into it, each with its offset in
    the array.
    """
    found: dict[SSAValue, Offset] = {}
    for op in moves:
        by = moved_by(op)
        if by is None:
            return None
        is_load = op.ins[0] is array.result
        part = op.outs[0] if is_load else op.ins[0]
        offset = by if is_load else tuple(-at for at in by)
        if not isinstance(part.owner, AllocOp) or found.setdefault(part, offset) != offset:
            return None
        if not all(isinstance(use.operation, BlockOp) for use in part.uses):
            return None
    return found


def _adds_borders(load: BlockOp, array: AllocOp, parts: Mapping[SSAValue, Offset]) -> bool:
    """Tells whether all else that writes to a load's buffer sets numbers outside of the array."""
    part, sizes = load.outs[0], shape_of(array.result.type)
    for op in users_of(part):
        if part not in op.outs or op is load:
            continue
        box = next(accesses_of(op, {part})).box
        sides = zip(box, parts[part], sizes, strict=True)
        inside = all(
            s.start.constant + at < size and s.start.constant + s.size + at > 0
            for s, at, size in sides
        )
        is_load = op.ins[:1] == (array.result,)
        if not is_load and (op.ins or inside):
            return False
    return True
