"""Lists the calls of a program, for encoders, simulators and the passes that order calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod

from xdsl.ir import Attribute, Block, Operation, SSAValue

from byocir.dialects.intervals import Interval
from byocir.dialects.locations import place
from byocir.dialects.tir import AllocOp, BlockOp, ConstantOp, IntrinsicOp, scope_of
from byocir.dialects.tir.linear import Linear
from byocir.dialects.types import Shape
from byocir.errors import ByocirError
from byocir.machine.cut_plans import cost_of
from byocir.machine.description import Machine
from byocir.machine.find_instruction import kind_of
from byocir.machine.instructions import Call, Fit, Instruction, Kind
from byocir.machine.operand_places import Place, Span
from byocir.machine.parts import Memory, Unit


class Buffers:
    """Gives the places of the buffers of a program, each made once."""

    def __init__(self, body: Block) -> None:
        made = [op.results[0] for op in body.ops if isinstance(op, AllocOp | ConstantOp)]
        arrays: list[SSAValue] = [*body.args]
        arrays += [value for value in made if not scope_of(value.type)]
        self._numbers = {value: number for number, value in enumerate(arrays)}
        self._known: dict[tuple[SSAValue, Memory], Place] = {}

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

    def __post_init__(self) -> None:
        told, keys = self.op.properties, self.machine.keys
        self._key = keys.block(self.block)
        parts = [keys.value(each) for each in (told.get("cut"), told.get("order"), self.start)]
        question = ("calls", keys.value(told["callee"]), self._key, *parts)
        self._alike = self.machine.answer(question, self._found)
        self.instruction: Instruction = self._alike.kind.fit.instruction

    def _found(self) -> _Alike:
        _called(self.machine, self.op)
        cut, extents = self.op.cut_of(self.block), self.block.extents
        kind = self._kind(cut, self.start)
        moves = [self.machine.keys.index(attr).moves for attr in self.block.maps]
        return _Alike(kind, moves, cut, extents, _boxes(kind.fit, moves, extents, [0] * len(cut)))

    @property
    def unit(self) -> Unit:
        return self.instruction.unit

    @property
    def is_beside(self) -> bool:
        """Tells whether the calls take turns with those of the next op for which this is false."""
        return self.op.beside is not None

    @property
    def cycles(self) -> float:
        """Counts the cycles of all calls together."""
        return self._alike.cycles

    @property
    def count(self) -> int:
        """Counts the calls."""
        return self._alike.count

    @cached_property
    def places(self) -> dict[str, Place]:
        """Gives the boxes that all calls together reach, by the names of operands."""
        return {name: self._place(box) for name, box in self._alike.boxes}

    @cached_property
    def buffers(self) -> list[tuple[AllocOp, Memory]]:
        """Lists the buffers in the machine's memories that the calls use, with their memory."""
        owners = [(place.buffer.owner, place.memory) for place in self.places.values()]
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
        return self._alike.kind.reads_old

    def __iter__(self) -> Iterator[Call]:
        if self._alike.course is None:
            self._alike.course = self._course()
        course, last = self._alike.course, self.count - 1
        op, places = self.op, [self._place(box) for box in course.boxes]
        for number, (kind, own) in enumerate(course.calls):
            reached = {name: places[at] for name, at in own}
            yield Call(op, kind, reached, number == 0, number == last)

    def _course(self) -> _Course:
        """Follows the calls, once for all ops whose blocks are alike but for the constants in their
        indices.
        """
        course = _Course()
        for box in self.op.boxes_of(self.block):
            offsets, extents = [at for at, _ in box], tuple([end - at for at, end in box])
            begins = self.start is not None and not any(offsets[i] for i in self.block.reductions)
            kind = self._kind(extents, self.start if begins else None)
            course.add(kind, _boxes(kind.fit, self._alike.moves, extents, offsets))
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
        sides, whole, starts = box.sides, *self._arrays[box.operand]
        if any(starts):
            moved = zip(sides, starts, strict=True)
            sides = tuple([(low + start, high + start) for (low, high), start in moved])
        return whole.over(sides, box.steps)

    @cached_property
    def _arrays(self) -> list[tuple[Place, tuple[int, ...]]]:
        """Gives the places of whole operands, and the constants of the indices into each."""
        maps, index = self.block.maps.data, self.machine.keys.index
        triples = zip(self._alike.kind.fit.memories, self.block.operands, maps, strict=False)
        whole = self.program.whole
        return [(whole(each, value), index(map_).starts) for each, value, map_ in triples]


@dataclass(eq=False)
class _Alike:
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
    course: _Course | None = None

    @cached_property
    def cycles(self) -> float:
        return cost_of(self.kind.fit, self.cut, self.extents)

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


class _Course:
    """Describes the calls of an op, one after the other, which are the same for all ops with like
    blocks."""

    def __init__(self) -> None:
        self.boxes: list[_Box] = []
        """The boxes of operands, each once."""
        self.calls: list[tuple[Kind, tuple[tuple[str, int], ...]]] = []
        """The kind of each call, and its operands: names, and which of the boxes."""
        self._known: dict[tuple[Kind, _Box], int] = {}

    def add(self, kind: Kind, boxes: Sequence[tuple[str, _Box]]) -> None:
        """Adds a call."""
        own: list[tuple[str, int]] = []
        for name, box in boxes:
            at = self._known.setdefault((kind, box), len(self.boxes))
            if at == len(self.boxes):
                self.boxes.append(box)
            own.append((name, at))
        self.calls.append((kind, tuple(own)))


def _step(forms: Sequence[Linear[int]], positions: Sequence[int]) -> Shape:
    if not positions:
        return (0,) * len(forms)
    return tuple(form.coefficient(positions[-1]) for form in forms)


def _parts_of(op: IntrinsicOp) -> tuple[BlockOp, Attribute | None]:
    """Gives the block of an instruction, and the number that its result begins with, if there is
    one.
    """
    *before, work = op.body.block.ops
    assert isinstance(work, BlockOp)
    if not before or not isinstance(before[0], BlockOp):
        return work, None
    number = before[0].yielded[0].owner
    return work, number.properties["value"] if isinstance(number, Operation) else None


def ops_in(machine: Machine, body: Block) -> list[Calls]:
    """Lists the ops of a program, in order, each with its calls. Raises ByocirError B271 for an op
    that the machine has no instruction for.
    """
    program = Buffers(body)
    ops = [op for op in body.ops if isinstance(op, IntrinsicOp)]
    return [Calls(machine, op, *_parts_of(op), program) for op in ops]


def _called(machine: Machine, op: IntrinsicOp) -> Instruction:
    """Gives the instruction that an op names; raises ByocirError B271 where the machine has
    none."""
    for each in machine.instructions:
        if each.name == op.callee.data:
            return each
    told = f"expected an instruction of {machine.name}, found {op.callee.data}"
    raise ByocirError("B271", told, where=place(op.location))


def calls_in(machine: Machine, body: Block) -> list[Call]:
    """Yields the calls of a program one by one, as they are issued; raises as `ops_in`."""
    return list(_one_by_one(ops_in(machine, body)))


def _one_by_one(ops: Sequence[Calls]) -> Iterator[Call]:
    """Yields the calls of ops as they are issued, and marks those whose unit still keeps the
    operand that they need.
    """
    calls = [(iter(op), op.instruction, op.block.outs[0]) for op in ops]
    held: dict[Unit, tuple[Instruction, Place]] = {}
    for number in issued(ops):
        own, instruction, written = calls[number]
        call = next(own)
        for unit in [unit for unit, (_, kept) in held.items() if kept.buffer is written]:
            del held[unit]
        wanted = call.places.get(instruction.keeps)
        if wanted is None:
            yield call
            continue
        user, kept = held.get(instruction.unit, (None, wanted))
        same = kept is wanted or (kept.buffer is wanted.buffer and kept.box == wanted.box)
        yield call.with_kept_operand() if user is instruction and same else call
        held[instruction.unit] = instruction, wanted


def issued(ops: Sequence[Calls]) -> Iterator[int]:
    """Yields, for each call of a program as it is issued, the number of the op that it belongs
    to.
    """
    beside: list[int] = []
    for number, op in enumerate(ops):
        own = [number] * op.count
        if op.is_beside:
            beside += own
            continue
        yield from _by_turns(beside, own)
        beside = []
    yield from beside


def _by_turns(some: Sequence[int], others: Sequence[int]) -> Iterator[int]:
    """Merges two sequences: each keeps its order, and the first is spread evenly over the
    second.
    """
    taken = 0
    for number, other in enumerate(others):
        due = -(-len(some) * (number + 1) // len(others))
        yield from some[taken:due]
        yield other
        taken = due


def buffers_in(machine: Machine, body: Block) -> list[AllocOp]:
    """Lists the buffers of a program that lie in the machine's memories, in order."""
    scopes = {memory.scope for memory in machine.memories}
    return [op for op in body.ops if isinstance(op, AllocOp) and scope_of(op.result.type) in scopes]
