"""Lists the calls of a program, for encoders, simulators and the passes that order calls."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import ceil, prod
from typing import NamedTuple, overload

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Attribute, Block, Operation, SSAValue

from byocir.dialects.body_facts import parts_of
from byocir.dialects.intervals import Interval
from byocir.dialects.locations import place
from byocir.dialects.tir import AllocOp, BlockOp, ConstantOp, IntrinsicOp, scope_of
from byocir.dialects.tir.linear import Linear
from byocir.dialects.types import Shape
from byocir.errors import ByocirError
from byocir.machine.block_keys import pads_in_memory
from byocir.machine.call_cycles import cycles_of_block
from byocir.machine.description import Machine
from byocir.machine.find_instruction import kind_of
from byocir.machine.instructions import Call, Fit, Instruction, Kind, joined_places
from byocir.machine.operand_places import ROW, Place, Places, Span
from byocir.machine.parts import Memory, Transfer, Unit
from byocir.machine.two_blocks import calls_of_first

Index = NDArray[np.int64]


class Buffers:
    """Gives the places of the buffers of a program, each made once."""

    def __init__(self, body: Block) -> None:
        made = [op for op in body.ops if isinstance(op, AllocOp | ConstantOp)]
        arrays: list[SSAValue] = [*body.args]
        arrays += [op.results[0] for op in made if not scope_of(op.results[0].type)]
        self._numbers = {value: number for number, value in enumerate(arrays)}
        self._rows = {op: op.attributes.get(ROW) for op in made}
        self._known: dict[tuple[SSAValue, Memory], Place] = {}

    def keep_places(self, later: Buffers) -> bool:
        """Tells if buffers have the places that they have in a later listing of the program."""
        rows = self._rows.items()
        return self._numbers == later._numbers and all(
            later._rows.get(op, row) == row for op, row in rows
        )

    def whole(self, memory: Memory, buffer: SSAValue) -> Place:
        """Gives the place of a buffer in a memory, without a box."""
        key = buffer, memory
        found = self._known.get(key)
        if found is None:
            number = self._numbers.get(buffer, -1)
            found = self._known[key] = Place(memory, buffer, (), {}, number)
        return found


@dataclass(eq=False)
class Calls:
    """Describes the calls of one instruction that an op of a program stands for. They follow the
    block's iterators, the last one fastest, and each does as many points as the op's cut says, or
    those that are left. Raises ByocirError B271 for an op that the machine has no instruction for.
    """

    machine: Machine
    op: IntrinsicOp
    block: BlockOp
    start: Attribute | None
    """The number that the result begins with in place of what it was, if it does: sums, in the
    calls that have their first points."""
    program: Buffers
    """The buffers of the program that the op is part of."""
    first: Calls | None = None
    """The calls of the first block, if the instruction has two: each is part of one of these."""

    def __post_init__(self) -> None:
        told, keys = self.op.properties, self.machine.keys
        self._key = keys.block(self.block)
        parts = [keys.value(each) for each in (told.get("cut"), told.get("order"), self.start)]
        question = ("calls", keys.value(told["callee"]), self._key, *parts)
        self.alike: Alike = self.machine.answer(question, self._found)
        self.instruction: Instruction = self.alike.kind.fit.instruction

    def _found(self) -> Alike:
        _called(self.machine, self.op)
        cut, extents = self.op.cut_of(self.block), self.block.extents
        kind = self._kind(cut, self.start)
        moves = [self.machine.keys.index(attr).moves for attr in self.block.maps]
        return Alike(kind, moves, cut, extents, _boxes(kind.fit, moves, extents, [0] * len(cut)))

    @property
    def unit(self) -> Unit:
        return self.instruction.unit

    @property
    def is_beside(self) -> bool:
        """Tells whether the calls take turns with those of the next op for which this is false."""
        return "beside" in self.op.properties

    @property
    def cycles(self) -> float:
        """Counts the cycles of all calls together."""
        own = self.alike.cycles
        return own if self.first is None else own + self.first.cycles

    @property
    def count(self) -> int:
        """Counts the calls."""
        return self.alike.count

    @property
    def macs(self) -> int:
        """Counts the multiply-accumulates of all calls together."""
        return sum(part.course.macs for part in self.parts)

    @property
    def parts(self) -> list[Calls]:
        """Lists the calls of each block of the instruction."""
        return [self] if self.first is None else [self.first, self]

    @property
    def keeping(self) -> Calls | None:
        """Gives the part with the operand that stays in the unit, if there is one."""
        return next((part for part in self.parts if part.instruction.keeps), None)

    @property
    def transfer(self) -> Transfer | None:
        """Gives the channel that the calls share with others, if there is one."""
        return self.parts[0].instruction.transfer

    @cached_property
    def places(self) -> dict[str, Place]:
        """Gives the boxes that all calls together reach, by the names of operands."""
        own = {name: self._place(box) for name, box in self.alike.boxes}
        return own if self.first is None else joined_places(self.first.places, own)

    @cached_property
    def operands(self) -> list[tuple[SSAValue, Memory]]:
        """Lists what the calls use, the result last, each with the memory in which it lies. That
        takes less than to find their places in there."""
        values, memories = self.block.operands, self.alike.kind.fit.memories
        own = [(values[i], memories[i]) for i in self.alike.kind.fit.operands.values()]
        return own if self.first is None else [*self.first.operands, *own]

    @property
    def into(self) -> tuple[SSAValue, Memory]:
        """Gives what the calls write, and the memory in which it lies."""
        return self.operands[-1]

    @cached_property
    def buffers(self) -> list[tuple[AllocOp, Memory]]:
        """Lists the buffers in the machine's memories that the calls use, with their memory."""
        owners = [(value.owner, memory) for value, memory in self.operands]
        return [(op, m) for op, m in owners if isinstance(op, AllocOp) and not m.is_main]

    @property
    def result(self) -> Place:
        """Gives the box that all calls together write."""
        return next(reversed(self.places.values()))

    @property
    def read(self) -> list[Place]:
        """Gives the boxes that all calls together read: operands and, unless it begins anew, the
        result.
        """
        *inputs, result = self.places.values()
        return [*inputs, result] if self.reads_old else inputs

    @property
    def reads_old(self) -> bool:
        """Tells if a call reads what its result was before."""
        return self.alike.kind.reads_old

    def call(self, number: int, *, is_kept: bool = False) -> Call:
        """Gives one of the calls, the first of which is number 0."""
        course, boxes = self.course, self.boxes
        kind, own = course.kinds[number], course.own[number]
        reached = dict(zip(kind.fit.operands, [boxes[at] for at in own], strict=True))
        ends = number == 0, number == len(course.kinds) - 1
        first = None if self.first is None else self.first.call(number, is_kept=is_kept)
        return Call(self.op, kind, reached, *ends, is_kept, first)

    def calls(self, numbers: Sequence[int], *, is_kept: bool) -> Call:
        """Gives several calls of one kind, which are neither the first nor the last, as one whose
        operands have the places of all."""
        course, boxes = self.course, self.boxes
        kind, own = course.kinds[numbers[0]], [course.own[number] for number in numbers]
        reached = {
            name: Places.of([boxes[each[i]] for each in own])
            for i, name in enumerate(kind.fit.operands)
        }
        first = None if self.first is None else self.first.calls(numbers, is_kept=is_kept)
        return Call(self.op, kind, reached, False, False, is_kept, first)

    @property
    def course(self) -> Course:
        """Describes the calls one by one."""
        if self.alike.course is None:
            self.alike.course = self._course()
        return self.alike.course

    def _course(self) -> Course:
        """Follows the calls, once for all ops whose blocks are alike but for the constants in their
        indices.
        """
        course = Course()
        for box in self.op.boxes_of(self.block):
            offsets, extents = [at for at, _ in box], tuple([end - at for at, end in box])
            begins = self.start is not None and not any(offsets[i] for i in self.block.reductions)
            kind = self._kind(extents, self.start if begins else None)
            course.add(kind, _boxes(kind.fit, self.alike.moves, extents, offsets))
        return course

    def _kind(self, extents: Shape, start: Attribute | None) -> Kind:
        """Gives what a call is that does so many points. Raises ByocirError B271 where the
        instruction has no such call.
        """
        name = self.op.callee.data
        found = kind_of(self.machine, name, self.block, self._key, extents, start)
        if isinstance(found, str):
            told = f"expected what instruction {name} does, found another block: {found}"
            raise ByocirError("B271", told, where=place(self.op.location))
        return found

    def _place(self, box: _Box) -> Place:
        whole, starts = self.arrays[box.operand]
        sides, pads = box.moved(starts), pads_in_memory(self.block)
        if box.operand < len(pads) and pads[box.operand] is not None:
            pairs = zip(sides, whole.shape, strict=True)
            sides = tuple((max(low, 0), min(high, size)) for (low, high), size in pairs)
        return whole.over(sides, box.steps)

    @cached_property
    def boxes(self) -> list[Place]:
        """Gives the places that single calls reach, which the course numbers."""
        return [self._place(box) for box in self.course.boxes]

    @cached_property
    def arrays(self) -> list[tuple[Place, tuple[int, ...]]]:
        """Gives the places of whole operands, and the constants of the indices into each."""
        maps, index = self.block.maps.data, self.machine.keys.index
        triples = zip(self.alike.kind.fit.memories, self.block.operands, maps, strict=False)
        whole = self.program.whole
        return [(whole(each, value), index(map_).starts) for each, value, map_ in triples]


@dataclass(eq=False)
class Alike:
    """Holds what ops have in common whose blocks are alike but for the constants in their
    indices."""

    kind: Kind
    """Describes a call that does as many points as the cut says."""
    moves: Sequence[Sequence[Linear[int]]]
    """The indices into each operand, without their constants."""
    cut: Shape
    extents: Shape
    boxes: Sequence[tuple[str, _Box]]
    """The boxes that all calls reach together, by the names of operands."""
    course: Course | None = None

    @cached_property
    def cycles(self) -> float:
        return cycles_of_block(self.kind.fit, self.cut, self.extents)

    @cached_property
    def count(self) -> int:
        return prod(-(-size // n) for size, n in zip(self.extents, self.cut, strict=True))


@dataclass(frozen=True)
class _Box:
    """Describes a box of an operand whose indices have no constants; `steps` are as those of
    places."""

    operand: int
    sides: tuple[Span, ...]
    steps: Mapping[str, Shape] = field(compare=False)

    def moved(self, starts: Sequence[int]) -> tuple[Span, ...]:
        """Gives the sides of the box for indices with these constants."""
        if not any(starts):
            return self.sides
        pairs = zip(self.sides, starts, strict=True)
        return tuple([(low + start, high + start) for (low, high), start in pairs])


def _boxes(
    fit: Fit, moves: Sequence[Sequence[Linear[int]]], extents: Shape, offsets: Sequence[int]
) -> list[tuple[str, _Box]]:
    """Gives the boxes that operands reach, by name, when iterators run over these extents from
    these offsets.
    """
    reached = [Interval(at, at + n - 1) for at, n in zip(offsets, extents, strict=True)]
    found: list[tuple[str, _Box]] = []
    for name, operand in fit.operands.items():
        forms = moves[operand]
        ends = [form.interval(reached.__getitem__) for form in forms]
        steps = {each: _step(forms, at) for each, at in fit.iterators.items()}
        found.append((name, _Box(operand, tuple((low, high + 1) for low, high in ends), steps)))
    return found


class Course:
    """Describes the calls of an op, one after the other, which are the same for all ops with like
    blocks."""

    def __init__(self) -> None:
        self.boxes: list[_Box] = []
        """The boxes of operands, each once."""
        self.kinds: list[Kind] = []
        """The kind of each call."""
        self.own: list[tuple[int, ...]] = []
        """The numbers of the boxes that each call reaches, in the order of its kind's operands."""
        self._known: dict[tuple[Kind, _Box], int] = {}

    def add(self, kind: Kind, boxes: Sequence[tuple[str, _Box]]) -> None:
        """Adds a call."""
        own: list[int] = []
        for _, box in boxes:
            at = self._known.setdefault((kind, box), len(self.boxes))
            if at == len(self.boxes):
                self.boxes.append(box)
            own.append(at)
        self.kinds.append(kind)
        self.own.append(tuple(own))

    @cached_property
    def groups(self) -> list[tuple[Kind, Index, Index]]:
        """Groups the calls by their kinds: the numbers of those of a kind, and for each of them
        those of its boxes."""
        numbers: dict[Kind, list[int]] = {}
        for number, kind in enumerate(self.kinds):
            numbers.setdefault(kind, []).append(number)
        own = {kind: [self.own[number] for number in found] for kind, found in numbers.items()}
        return [(k, np.array(n, np.int64), np.array(own[k], np.int64)) for k, n in numbers.items()]

    @cached_property
    def cycles(self) -> tuple[Index, Index]:
        """Gives the cycles of each call, and those of one that finds in the unit what stays
        there."""
        found = np.zeros((2, len(self.kinds)), np.int64)
        for kind, numbers, _ in self.groups:
            found[:, numbers] = [[ceil(kind.cycles)], [ceil(kind.kept_cycles)]]
        return found[0], found[1]

    @cached_property
    def macs(self) -> int:
        """Counts the multiply-accumulates of all calls."""
        return sum(kind.macs * len(numbers) for kind, numbers, _ in self.groups)

    @cached_property
    def staying(self) -> Index:
        """Gives for each call the number of the box that is to stay in the unit; -1 if there is
        none."""
        found = np.full(len(self.kinds), -1)
        for kind, numbers, own in self.groups:
            names = [*kind.fit.operands]
            if kind.fit.instruction.keeps in names:
                found[numbers] = own[:, names.index(kind.fit.instruction.keeps)]
        return found


def _step(forms: Sequence[Linear[int]], positions: Sequence[int]) -> Shape:
    if not positions:
        return (0,) * len(forms)
    return tuple(form.coefficient(positions[-1]) for form in forms)


_Part = tuple[BlockOp, Attribute | None]
"""A block of an instruction, and the number that its result begins with, if there is one."""


def _parts_of(op: IntrinsicOp) -> list[_Part]:
    """Gives the one or two blocks of an instruction."""
    found: list[_Part] = []
    start: Attribute | None = None
    last = op.body.block.last_op
    for block in (each for each in op.body.block.ops if isinstance(each, BlockOp)):
        if block.ins or block is last:
            found.append((block, start))
            start = None
            continue
        number = block.yielded[0].owner
        start = number.properties["value"] if isinstance(number, Operation) else None
    return found


def _calls_of(machine: Machine, op: IntrinsicOp, parts: list[_Part], program: Buffers) -> Calls:
    (block, start), first = parts[-1], None
    if len(parts) > 1:
        made, begin = parts[0]
        first = Calls(machine, calls_of_first(op, made, block), made, begin, program)
    return Calls(machine, op, block, start, program, first)


def ops_in(machine: Machine, body: Block) -> list[Calls]:
    """Lists the ops of a program, in order, each with its calls. Raises ByocirError B271 for an op
    that the machine has no instruction for.

    Passes list a program one after the other: what changed since the last time is described anew.
    """
    program = Buffers(body)
    before: _Listed | None = vars(body).get(_LISTED)
    known, found = _Known(), _Known()
    if before is not None and before.program.keep_places(program):
        known = before.calls
    for op in body.ops:
        if not isinstance(op, IntrinsicOp):
            continue
        parts = _parts_of(op)
        stated = [_stated(machine, op, *part) for part in parts]
        listed = known.get(op)
        if listed is None or listed[0] != stated:
            listed = stated, _calls_of(machine, op, parts, program)
        found[op] = listed
    vars(body)[_LISTED] = _Listed(program, found)
    return [calls for _, calls in found.values()]


def forget_calls(body: Block) -> None:
    """Forgets the calls that were listed of a program, which take much memory: nobody changes it
    any more."""
    vars(body).pop(_LISTED, None)


_Known = dict[IntrinsicOp, tuple[Sequence[Sequence[object]], Calls]]
"""The calls of ops, each with all that the op stated of its blocks when they were listed."""


class _Listed(NamedTuple):
    """Holds the last listing of a program."""

    program: Buffers
    calls: _Known


_LISTED = "byocir.machine.calls"
"""The name under which the body of a program holds its last listing, which ends with it."""


def _stated(
    machine: Machine, op: IntrinsicOp, block: BlockOp, start: Attribute | None
) -> Sequence[object]:
    """Lists what decides which calls an op stands for, and where their operands lie. Most of it are
    objects that stay the same, which takes no time to compare."""
    told, own = op.properties, block.properties
    body = parts_of(block.body.block) or [object()]
    parts = (told["callee"], told.get("cut"), told.get("order"), start)
    return [machine, *parts, *block.operands, *own, *own.values(), *body]


def _called(machine: Machine, op: IntrinsicOp) -> Instruction:
    """Gives the instruction that an op names; raises ByocirError B271 where the machine has
    none."""
    for each in machine.instructions:
        if each.name == op.callee.data:
            return each
    told = f"expected an instruction of {machine.name}, found {op.callee.data}"
    raise ByocirError("B271", told, where=place(op.location))


def calls_in(machine: Machine, body: Block) -> IssuedCalls:
    """Lists the calls of a program one by one, as they are issued; raises as `ops_in`."""
    return IssuedCalls(ops_in(machine, body))


class IssuedCalls(Sequence[Call]):
    """Lists the calls of ops as they are issued. There are many: a call is made when it is asked
    for, and arrays tell what takes few numbers. `op` is by call the number of its op, `number`
    which of the op's calls it is.
    """

    def __init__(self, ops: Sequence[Calls]) -> None:
        self.ops, self.op = ops, issued(ops)
        counts = np.array([op.count for op in ops], np.int64)
        self.begins: Index = np.cumsum(counts) - counts
        """The number of the first call of each op, if one op comes after the other."""
        self.turns: Index = np.argsort(self.op, kind="stable")
        """When each call is issued, if one op comes after the other."""
        self.order: Index = np.empty_like(self.turns)
        """The number of each call, if one op comes after the other, as they are issued."""
        self.order[self.turns] = np.arange(len(self.op))
        self.number: Index = self.order - self.begins[self.op]

    def __len__(self) -> int:
        return len(self.op)

    @overload
    def __getitem__(self, index: int) -> Call: ...
    @overload
    def __getitem__(self, index: slice) -> list[Call]: ...
    def __getitem__(self, index: int | slice) -> Call | list[Call]:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        op, number = self.ops[int(self.op[index])], int(self.number[index])
        return op.call(number, is_kept=bool(self.is_kept[index]))

    def __iter__(self) -> Iterator[Call]:
        ops: list[int] = self.op.tolist()
        numbers: list[int] = self.number.tolist()
        for op, number, is_kept in zip(ops, numbers, self.is_kept.tolist(), strict=True):
            yield self.ops[op].call(number, is_kept=is_kept)

    def turns_of(self, op: int) -> Index:
        """Gives when each call of an op is issued."""
        return self.turns[self.begins[op] : self.begins[op] + self.ops[op].count]

    @cached_property
    def in_turn(self) -> list[int]:
        """Lists the numbers of the ops in the order in which their first calls are issued."""
        return np.argsort(self.turns[self.begins], kind="stable").tolist()

    @cached_property
    def is_kept(self) -> NDArray[np.bool_]:
        """Tells of each call whether its unit still holds the operand that stays there: it was that
        of the last call of the unit with one, and nothing was written to its buffer since.
        """
        found = np.zeros(len(self), np.bool_)
        wanted, buffers, units = self._wanted()
        numbers = {buffer: number for number, buffer in enumerate(dict.fromkeys(buffers))}
        lies = np.array([numbers[buffer] for buffer in buffers], np.int64)
        into = [numbers.get(op.block.outs[0], len(numbers)) for op in self.ops]
        position = np.arange(len(self))
        writes = np.sort(np.array(into, np.int64)[self.op] * len(self) + position)
        for unit in range(int(units.max(initial=-1)) + 1):
            rows = np.flatnonzero((units == unit) & (wanted >= 0))
            at = lies[wanted[rows]] * len(self) + rows
            written = np.searchsorted(writes, at, side="right")
            found[rows[1:]] = (np.diff(wanted[rows]) == 0) & (np.diff(written) == 0)
        return found

    def _wanted(self) -> tuple[Index, list[SSAValue], Index]:
        """Numbers the operands that are to stay in units: gives by call its number, or -1, by
        number the buffer, and by call the number of the unit."""
        known: dict[Hashable, int] = {}
        units: dict[Unit, int] = {}
        buffers: list[SSAValue] = []
        wanted: list[Index] = []
        for op in self.ops:
            units.setdefault(op.unit, len(units))
            part = op.keeping
            if part is None:
                wanted.append(np.full(op.count, -1))
                continue
            course, table = part.course, np.full(len(part.course.boxes) + 1, -1)
            staying: list[int] = np.unique(course.staying).tolist()
            for number in staying[staying[0] < 0 :]:
                box = course.boxes[number]
                whole, starts = part.arrays[box.operand]
                key = part.instruction, whole.buffer, box.moved(starts)
                table[number] = known.setdefault(key, len(buffers))
                if len(known) > len(buffers):
                    buffers.append(whole.buffer)
            wanted.append(table[course.staying])
        return self.of_each(wanted), buffers, np.array([units[op.unit] for op in self.ops])[self.op]

    def of_each(self, columns: Sequence[Index]) -> Index:
        """Gives what columns tell of the calls of each op as they are issued."""
        return np.concatenate([_NOTHING, *columns])[self.order]


_NOTHING: Index = np.empty(0, np.int64)


def issued(ops: Sequence[Calls]) -> Index:
    """Lists, for each call of a program as it is issued, the number of the op that it belongs
    to.
    """
    beside, found = [_NOTHING], [_NOTHING]
    for number, op in enumerate(ops):
        own = np.full(op.count, number)
        if op.is_beside:
            beside.append(own)
            continue
        found.append(_by_turns(np.concatenate(beside), own))
        beside = [_NOTHING]
    return np.concatenate([*found, *beside])


def _by_turns(some: Index, others: Index) -> Index:
    """Merges two sequences: each keeps its order, and the first is spread evenly over the
    second.
    """
    turns = np.arange(1, len(others) + 1)
    before = -(-len(some) * turns // max(len(others), 1))
    is_some = np.ones(len(some) + len(others), np.bool_)
    is_some[before + turns - 1] = False
    merged = np.empty(len(is_some), np.int64)
    merged[is_some], merged[~is_some] = some, others
    return merged


def buffers_in(machine: Machine, body: Block) -> list[AllocOp]:
    """Lists the buffers of a program that lie in the machine's memories, in order."""
    scopes = {memory.scope for memory in machine.memories}
    return [op for op in body.ops if isinstance(op, AllocOp) and scope_of(op.result.type) in scopes]
