"""keep-on-chip: keeps arrays that one composite hands to the next in a machine's memory.

Does: an array in main memory that is written by some blocks of a function, and read by nothing but
loads into one memory of the machine, becomes a buffer of that memory. It takes the place of the
tiles that were stored to it and of those that were loaded from it. The pads of a convolution are
read outside of it, by an instruction that pads what it reads, or are set around it. The function
tells the bytes that no longer move, as `byoc.kept_bytes`.

```
requantise → tile → store → array → load → tile → product      requantise → buffer → product
```

Requires: functions without loops, as `write-out-loops` leaves them.

Guarantees: the same results, bit for bit. What instructions cannot do on the buffer, what memories
have no room for, and what would keep the busiest unit longer, or all units together, stays as it
is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import NamedTuple

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass

from byocir.dialects.byoc import KEPT
from byocir.dialects.new_ops import clone_op
from byocir.dialects.tir import AllocOp, BlockOp, scope_of
from byocir.dialects.tir.affine import linear
from byocir.dialects.types import Shape, dtype_of, element_type_of, shape_of
from byocir.dialects.uses import erase
from byocir.machine import Machine, Memory
from byocir.machine.block_keys import reads_pads
from byocir.machine.cut_plans import plans_of
from byocir.machine.operand_places import Box, meet
from byocir.rewrites.machine import machines_in
from byocir.rewrites.machine.select_instructions import number_of
from byocir.rewrites.machine.trial_selection import TrialSelection
from byocir.rewrites.schedule.access import BoxAccess, accesses_of
from byocir.rewrites.schedule.blocks import Parts, reads_old
from byocir.rewrites.schedule.write_out import PaddedBox


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
    saved, at, now = 0, 0, None
    while at < len(arrays := list(_arrays(function))):
        at += 1
        for way in _ways(machine, arrays[at - 1]):
            now = TrialSelection(machine, function.body.block.ops) if now is None else now
            kept = way(machine, arrays[at - 1])
            if kept is None:
                continue
            change = _Change.of(kept)
            trial = TrialSelection(machine, change.applied(function.body.block.ops), now)
            if trial.busy is not None and (now.busy is None or trial.busy <= now.busy):
                saved, at, now = saved + change.put(), at - 1, trial
                break
            change.forget()
    return saved


def _ways(machine: Machine, array: AllocOp) -> Iterator[Callable[[Machine, AllocOp], _Kept | None]]:
    """Yields the ways to keep an array that may lead to something, the best first."""
    ends = _Ends.of(machine, array)
    if ends is None:
        return
    if machine.pads_read and _Kept.with_pads(machine, array) is not None:
        yield _Kept.with_pads
    if any(load.is_padded for load in ends.readers) or _Kept.of(ends) is not None:
        yield _Kept.with_borders


def _arrays(function: FuncOp) -> Iterator[AllocOp]:
    """Lists the arrays in main memory that a function has for itself."""
    for op in function.body.block.ops:
        if isinstance(op, AllocOp) and not scope_of(op.result.type):
            yield op


Offset = tuple[int, ...]


class _Ends(NamedTuple):
    """Names an array that blocks load into one memory, all after it was written by blocks that can
    write to that memory. `stores` are those that only move what lies there already."""

    array: AllocOp
    memory: Memory
    readers: Sequence[BlockOp]
    stores: Sequence[BlockOp]

    @staticmethod
    def of(machine: Machine, array: AllocOp) -> _Ends | None:
        """Finds what loads and writes an array; None if it must be in main memory."""
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
        stores = [op for op in writers if _is_whole(op, memory)]
        rest = [op for op in writers if op not in stores]
        is_done = all(_is_done(machine, op, memory) for op in rest)
        return _Ends(array, memory, readers, stores) if is_done else None


class _CutLoads:
    """Cuts those loads of an array that have pads: each becomes blocks that move its elements or
    set pads.
    """

    def __init__(self, array: AllocOp) -> None:
        self._cut: list[tuple[BlockOp, Sequence[SSAValue], Sequence[BlockOp]]] = []
        for load in users_of(array.result):
            if load.is_padded and load.parent is not None:
                boxes = PaddedBox.of(load).unpadded()
                made = [box.made([*load.ins, *load.outs]) for box in boxes]
                load.parent.insert_ops_before(made, load)
                self._cut.append((load, tuple(load.operands), made))
                load.detach()
                load.operands = ()

    def put_back(self) -> None:
        """Puts the loads back in the place of these blocks."""
        for load, operands, made in self._cut:
            assert made[0].parent is not None
            made[0].parent.insert_op_before(load, made[0])
            load.operands = operands
            for op in made:
                erase(op)


@dataclass
class _Kept:
    """Names an array, and the buffers that hold parts of it, each with how much its indices are
    lower than the array's. `moves` are the blocks that go: they move elements between the array and
    the parts, or set what is around it. `pads` has the parts around which that is read as a pad.
    """

    array: AllocOp
    memory: Memory
    parts: Mapping[SSAValue, Offset]
    moves: Sequence[BlockOp]
    pads: Mapping[SSAValue, Attribute]
    cut: _CutLoads | None = None

    @staticmethod
    def with_pads(machine: Machine, array: AllocOp) -> _Kept | None:
        """Finds the parts of an array that can stay in a memory, where blocks read what is around
        it as pads; None if it cannot, or if there are no pads."""
        ends = _Ends.of(machine, array)
        found = None if ends is None else _Kept.of(ends, reads_pads=True)
        return found if found is not None and found.pads else None

    @staticmethod
    def with_borders(machine: Machine, array: AllocOp) -> _Kept | None:
        """Finds the parts of an array that can stay in a memory, where blocks set what is around
        it, as those do from now on that stand for loads with pads; None if it cannot."""
        cut = _CutLoads(array)
        ends = _Ends.of(machine, array)
        found = None if ends is None else _Kept.of(ends)
        if found is None:
            cut.put_back()
            return None
        return replace(found, cut=cut)

    @staticmethod
    def of(ends: _Ends, *, reads_pads: bool = False) -> _Kept | None:
        """Finds the parts of an array that can stay in a memory; None if it cannot."""
        array, moves = ends.array, [*ends.readers, *ends.stores]
        parts = _parts_of(array, moves)
        borders = None if parts is None else _borders_of(ends.readers, array, parts)
        if parts is None or borders is None:
            return None
        pads = dict[SSAValue, Attribute]()
        for op, number in borders if reads_pads else ():
            if number is None or pads.setdefault(op.outs[0], number) != number:
                return None
        if not reads_pads and any(load.is_padded for load in ends.readers):
            return None
        moves += [op for op, _ in borders if reads_pads and op not in moves]
        found = _Kept(array, ends.memory, parts, moves, pads)
        if pads and (found.shape != shape_of(array.result.type) or not found.reads_plainly()):
            return None
        return found if found.begins_rows() and found.is_undisturbed() else None

    def reads_plainly(self) -> bool:
        """Tells whether blocks read no pads around the parts that have pads inside."""
        return all(
            operand not in op.whole and (operand >= len(op.ins) or op.pad_values[operand] is None)
            for part in self.pads
            for op in users_of(part)
            if op not in self.moves
            for operand, value in enumerate([*op.ins, *op.outs])
            if value is part
        )

    @property
    def low(self) -> Offset:
        """Gives the lowest index, as the array counts, that the buffer must hold along each
        dimension."""
        return tuple(map(min, zip(*self.inside.values(), strict=True)))

    @property
    def inside(self) -> dict[SSAValue, Offset]:
        """Gives the array, and the parts that are in the buffer with all that is around them."""
        parts = {part: at for part, at in self.parts.items() if part not in self.pads}
        return {self.array.result: (0,) * self.rank, **parts}

    @property
    def rank(self) -> int:
        return len(shape_of(self.array.result.type))

    def begins_rows(self) -> bool:
        """Tells whether each part begins at the start of a row of the buffer."""
        lanes = self.memory.row
        return all(
            (at - low) % size == 0
            for offset in self.inside.values()
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

    @property
    def shape(self) -> Shape:
        """Gives the shape of the buffer."""
        ends = [
            [at + size for at, size in zip(offset, shape_of(part.type), strict=True)]
            for part, offset in self.inside.items()
        ]
        return tuple(max(end) - at for *end, at in zip(*ends, self.low, strict=True))


@dataclass
class _Change:
    """Describes how one buffer replaces an array and its parts: blocks that use it in place of
    those that use them. Moves have none.
    """

    kept: _Kept
    made: AllocOp
    instead: Mapping[Operation, BlockOp]

    @staticmethod
    def of(kept: _Kept) -> _Change:
        value, low = kept.array.result, kept.low
        element = element_type_of(value.type)
        made = AllocOp.of(element, kept.shape, kept.memory.scope, kept.array.location)
        made.result.name_hint = value.name_hint
        offsets = {**kept.parts, value: (0,) * kept.rank}
        users = {part: users_of(part) for part in offsets}
        others = dict.fromkeys(op for own in users.values() for op in own if op not in kept.moves)
        instead: dict[Operation, BlockOp] = {op: clone_op(op) for op in others}
        for part, offset in offsets.items():
            by = tuple(at - least for at, least in zip(offset, low, strict=True))
            for op in users[part]:
                if op in instead:
                    redirect(instead[op], part, made.result, by, kept.pads.get(part))
        return _Change(kept, made, instead)

    def applied(self, ops: Iterable[Operation]) -> Iterator[Operation]:
        """Yields the ops of a program as they are after the change."""
        return (self.instead.get(op, op) for op in ops if op not in self.kept.moves)

    def put(self) -> int:
        """Changes the program; gives the bytes that are no longer moved."""
        value, home = self.kept.array.result, self.kept.array.parent
        assert home is not None
        assert home.first_op is not None
        saved = sum(_elements(op, value) for op in users_of(value))
        home.insert_op_before(self.made, home.first_op)
        for op in self.kept.moves:
            erase(op)
        for op, made in self.instead.items():
            home.insert_op_before(made, op)
            erase(op)
        for part in [*self.kept.parts, value]:
            owner = part.owner
            assert isinstance(owner, AllocOp)
            erase(owner)
        return saved * dtype_of(element_type_of(value.type)).itemsize

    def forget(self) -> None:
        """Leaves the program as it was before the array was looked at."""
        for op in [*self.instead.values(), self.made]:
            op.erase()
        if self.kept.cut is not None:
            self.kept.cut.put_back()


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


def redirect(
    op: BlockOp, old: SSAValue, new: SSAValue, by: Offset, pad: Attribute | None = None
) -> None:
    """Makes a block access a buffer in place of another one, with indices shifted by this much.
    What it reads outside of the new one is `pad`.
    """
    parts = Parts.of(op)
    for operand, value in enumerate([*op.ins, *op.outs]):
        if value is old:
            sides = zip(parts.maps[operand].results, by, strict=True)
            exprs = [expr + at if at else expr for expr, at in sides]
            parts = parts.with_operand(operand, new).with_map(operand, exprs)
            parts = parts if pad is None else parts.with_pad(operand, pad)
    parts.put(op)
    if pad is not None and not reads_pads(op):
        replace(parts, pads=(None,) * len(parts.pads)).put(op)


def _elements(op: BlockOp, array: SSAValue) -> int:
    """Counts the elements of an array that a block reads or writes."""
    box = next(accesses_of(op, {array})).box
    starts = (side.start.constant for side in box)
    ends = zip(starts, (side.size for side in box), shape_of(array.type), strict=True)
    return prod(min(at + size, most) - max(at, 0) for at, size, most in ends)


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
    return None if op.is_padded else _shift_of(op)


def _shift_of(op: BlockOp) -> Offset | None:
    """Gives the same of a block that may set pads around what it moves."""
    if not op.moves or op.where is not None:
        return None
    sides = op.in_maps[0].results, op.out_maps[0].results
    if len(sides[0]) != len(sides[1]):
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
        by = _shift_of(op)
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


def _borders_of(
    loads: Sequence[BlockOp], array: AllocOp, parts: Mapping[SSAValue, Offset]
) -> list[tuple[BlockOp, Attribute | None]] | None:
    """Lists the loads that set pads around the array, and all else that writes to the buffers of
    loads; None if that changes the array's own elements there. Each comes with the number that it
    sets, if it is one.
    """
    found = [(op, op.pad_values[0]) for op in loads if op.is_padded]
    for part in dict.fromkeys(op.outs[0] for op in loads):
        fills = [op for op in users_of(part) if part in op.outs and array.result not in op.ins]
        if not all(_is_outside(op, parts[part], shape_of(array.result.type)) for op in fills):
            return None
        found += [(op, None if reads_old(op) else number_of(op)) for op in fills]
    return found


def _is_outside(op: BlockOp, offset: Offset, sizes: Shape) -> bool:
    """Tells whether a block reads nothing, and sets no elements of an array in a part of it."""
    sides = zip(next(accesses_of(op, {op.outs[0]})).box, offset, sizes, strict=True)
    return not op.ins and any(
        s.start.constant + at >= size or s.start.constant + s.size + at <= 0
        for s, at, size in sides
    )
